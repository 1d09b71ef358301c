/**
 * The status of a pod, derived from the runtime's state, results of probes and facts of the agent.
 *
 * Merges new facts with the previously published status. Invariants: a terminal phase never reverts; a time changes
 * only with its subject; the result is plain JSON that can be compared and patched.
 */

import type { DeviceHealth } from '../allocation/device-state.ts';
import { type ContainerStatus, isStaticPod, type Pod, type PodCondition, type PodStatus } from '../api/pod.ts';
import type { PodRuntimeStatus } from '../operations/cri.ts';
import {
  conditionReasons,
  lostContainerMessages,
  podMessages,
  podReasons,
  terminatedReasons,
  UNKNOWN_EXIT_CODE,
} from '../reasons/reasons.ts';
import { hasBehavior } from '../settings/behaviors.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { hostIPs } from '../spec/host-ips.ts';
import { podQOS } from '../spec/qos.ts';
import { isSidecar } from '../spec/resources.ts';
import { mayRestartAll } from '../spec/restart.ts';
import { canonicalIp } from '../values/ip.ts';
import { valueIn } from '../values/tables.ts';
import { rfc3339 } from '../values/time.ts';
import {
  type ConditionFacts,
  instancesToRemove,
  isForeignCondition,
  isRestartingAll,
  podConditions,
  withKeptReasons,
  withTransitionTimes,
} from './conditions.ts';
import {
  type ContainerFacts,
  containerStatuses,
  ephemeralContainerStatuses,
  initContainerStatuses,
  type Waiting,
} from './containers.ts';
import { isTerminalPhase, podPhase } from './phase.ts';
import { podResourceStatus } from './resources.ts';
import { hasBegunInSandbox } from './runtime-facts.ts';
import { withinBudget } from './termination-messages.ts';

export type PodStage =
  /** It runs, or should run. */
  | 'sync'
  /** Its containers have stopped for good. */
  | 'stopped'
  /** Nothing of it is left on the node: states that are still unknown stay unknown. */
  | 'terminated';

export interface PodStatusFacts {
  /** The runtime handler of the pod; absent: the default. */
  readonly handler?: string;
  readonly pod: Pod;
  readonly runtime: PodRuntimeStatus | null;
  readonly node: NodeSettings;
  readonly nowMs: number;
  /** When an earlier agent started the pod, by the runtime's state; the start time if there is no other. */
  readonly begunMs?: number | null;
  /** The last result of this function for the same pod (not what was published). */
  readonly previous: PodStatus | null;
  readonly stage?: PodStage;
  readonly deviceHealth?: DeviceHealth;
  readonly waiting?: Readonly<Record<string, Waiting>>;
  /** Containers that are being restarted, however they end. */
  readonly comingAgain?: readonly string[];
  /** Containers that the agent stops in order to start another instance. */
  readonly replacing?: readonly string[];
  readonly started?: Readonly<Record<string, boolean>>;
  readonly ready?: Readonly<Record<string, boolean>>;
  readonly restartCounts?: Readonly<Record<string, number>>;
  /** The pod has failed whatever its containers do: its deadline is exceeded. Its conditions change at once. */
  readonly failure?: { readonly reason: string; readonly message: string };
  /** Its resize is not granted yet. */
  readonly resizePending?: { readonly reason: string; readonly message: string };
  /** The current resources of its containers during a resize; absent: all requested ones. */
  readonly actuated?: ContainerFacts['actuated'];
  /** The pod with its current resources during a resize, while it runs; absent: it has the requested resources. */
  readonly resized?: Pod;
  /** A resize is in progress; `error` is its last failure. */
  readonly resizing?: { readonly error: string };
  /** Its init containers had succeeded before its end was ordered; absent: their states decide. */
  readonly wasInitialised?: boolean;
  /** Why the pod is killed (eviction, preemption, shutdown): published once, with the order to kill. */
  readonly kill?: { readonly reason: string; readonly message: string; readonly disruptionTarget?: boolean };
}

const withHealth = (status: ContainerStatus, health: DeviceHealth[string] = []): ContainerStatus =>
  health.length === 0 ? status : { ...status, allocatedResourcesStatus: health };

export function podStatus(facts: PodStatusFacts): PodStatus {
  const { pod, runtime, previous, nowMs } = facts;
  const restartingAll = isRestartingAll(pod, runtime, previous);
  const containers = containerFacts(facts, restartingAll);
  const inits = initContainerStatuses(containers);
  const regulars = containerStatuses(containers).map((status) =>
    withHealth(status, valueIn(facts.deviceHealth, status.name)),
  );
  const ephemerals = ephemeralContainerStatuses(containers);
  const stopped = facts.stage === 'stopped' || facts.stage === 'terminated';
  const statuses = { initContainerStatuses: inits, containerStatuses: regulars };
  const isToRemove = restartingAll && instancesToRemove(pod, runtime).length > 0;
  const comingAgain = isToRemove ? [...inits, ...regulars].map(({ name }) => name) : (facts.comingAgain ?? []);
  const verdict = phaseAndReason(facts, podPhase({ pod, stopped, ...statuses, comingAgain, ...begun(facts) }));
  const foreign = (pod.status?.conditions ?? []).filter(isForeignCondition);
  const conditions: ConditionFacts = {
    pod,
    phase: verdict.phase,
    runtime,
    foreign,
    previous: previous?.conditions ?? [],
    hidesReadyToStart: facts.node.hidesReadyToStart,
    restartingAll: mayRestartAll(pod) ? isToRemove : null,
    ...statuses,
  };
  const { generation } = pod.metadata;
  const current = podConditions(conditions);
  const verdicts = facts.stage === 'terminated' ? withKeptReasons(current, previous?.conditions ?? []) : current;
  const status: PodStatus = {
    ...(generation === undefined ? {} : { observedGeneration: generation }),
    ...killedPhase(facts, verdict),
    conditions: [
      ...foreign,
      ...disruptionConditions(facts),
      ...resizeConditions(facts, verdict.phase),
      ...withTransitionTimes(verdicts, previous?.conditions ?? [], nowMs, generation),
    ],
    ...addresses(facts),
    startTime: previous?.startTime ?? pod.status?.startTime ?? rfc3339(Math.min(facts.begunMs ?? nowMs, nowMs)),
    ...(inits.length === 0 ? {} : { initContainerStatuses: inits }),
    ...(regulars.length === 0 ? {} : { containerStatuses: regulars }),
    ...(ephemerals.length === 0 ? {} : { ephemeralContainerStatuses: ephemerals }),
    qosClass: podQOS(pod),
    ...podResourceStatus(facts.node, pod, verdict.phase === 'Running' ? facts.resized : undefined),
  };
  return withinBudget(facts.node, pod, facts.stage === 'terminated' ? finalStatus(facts, status) : status);
}

const begun = ({ pod, runtime, node }: PodStatusFacts): { readonly hasBegun?: boolean } =>
  hasBehavior(node, 'podLifeAsKubelet')
    ? { hasBegun: pod.spec.containers.some(({ name }) => hasBegunInSandbox(runtime, name)) }
    : {};

const containerFacts = (facts: PodStatusFacts, restartingAll: boolean): ContainerFacts => ({
  restartingAll,
  pod: facts.pod,
  runtime: facts.runtime,
  runtimeName: facts.node.runtimeName,
  showsClaims: hasBehavior(facts.node, 'dynamicResources'),
  imageAsNamed: hasBehavior(facts.node, 'imagesAsKubelet'),
  canRecurse: facts.node.runtimeHandlers?.[facts.handler ?? '']?.recursiveReadOnlyMounts === true,
  waiting: facts.waiting ?? {},
  replacing: facts.replacing ?? [],
  started: facts.started ?? {},
  ready: facts.ready ?? {},
  restartCounts: facts.restartCounts ?? {},
  actuated: facts.actuated ?? {},
  previous: [
    ...(facts.previous?.initContainerStatuses ?? []),
    ...(facts.previous?.containerStatuses ?? []),
    ...(facts.previous?.ephemeralContainerStatuses ?? []),
  ],
});

type Phase = Pick<PodStatus, 'reason' | 'message'> & { readonly phase: string };

/** A phase that is final in the API server stays. Reason and message stay as long as their phase. */
function phaseAndReason({ pod, previous, failure }: PodStatusFacts, observed: string): Phase {
  if (failure !== undefined) return { phase: 'Failed', reason: failure.reason, message: failure.message };
  const before = previous?.phase ?? '';
  const given = pod.status?.phase ?? '';
  const phase = [given, observed, before].find(isTerminalPhase) ?? observed;
  const reason = phase === before ? previous?.reason || pod.status?.reason : undefined;
  const message = phase === before ? previous?.message || pod.status?.message : undefined;
  return { phase, ...(reason ? { reason } : {}), ...(message ? { message } : {}) };
}

const killedPhase = ({ kill }: PodStatusFacts, phase: Phase): Phase =>
  kill === undefined ? phase : { phase: 'Failed', reason: kill.reason, message: kill.message };

function disruptionConditions({ kill, pod, previous, nowMs }: PodStatusFacts): readonly PodCondition[] {
  const before = previous?.conditions?.find(({ type }) => type === 'DisruptionTarget');
  if (kill?.disruptionTarget !== true) return before === undefined ? [] : [before];
  const verdict = {
    type: 'DisruptionTarget',
    status: 'True',
    reason: conditionReasons.terminationByKubelet,
    message: kill.reason === podReasons.preempting ? podMessages.preemptedFor : kill.message,
  };
  return withTransitionTimes([verdict], before === undefined ? [] : [before], nowMs, pod.metadata.generation);
}

/** The conditions of a resize, removed at its end; only these have an observed generation. */
function resizeConditions(facts: PodStatusFacts, phase: string): readonly PodCondition[] {
  const { resizePending, resizing, pod, previous, nowMs } = facts;
  const ends = hasBehavior(facts.node, 'resizeConditionsEnd');
  if (ends && isTerminalPhase(phase)) return [];
  const pending = resizePending && {
    type: 'PodResizePending',
    status: 'True',
    reason: resizePending.reason,
    message: resizePending.message,
  };
  const error = resizing?.error ? { reason: conditionReasons.resizeError, message: resizing.error } : {};
  const inProgress = resizing && { type: 'PodResizeInProgress', status: 'True', ...error };
  const verdicts = [...(pending ? [pending] : []), ...(inProgress ? [inProgress] : [])];
  // An ending pod is not re-evaluated.
  const isEnding = ends && (facts.kill !== undefined || pod.metadata.deletionTimestamp !== undefined);
  const before = previous?.conditions ?? [];
  return withTransitionTimes(verdicts, before, nowMs, pod.metadata.generation).map((condition) => ({
    ...condition,
    ...(isEnding ? observedBefore(condition, before) : {}),
    ...(hasBehavior(facts.node, 'resizesPendingAsKubelet')
      ? resizeTimes(condition, before, nowMs)
      : { lastProbeTime: condition.lastTransitionTime }),
  }));
}

/** The transition of a condition of a resize is a changed reason; its probe also a changed message. */
function resizeTimes(
  { type, reason, message, lastTransitionTime }: PodCondition & { readonly lastTransitionTime: string },
  before: readonly PodCondition[],
  nowMs: number,
): Pick<PodCondition, 'lastProbeTime' | 'lastTransitionTime'> {
  const now = rfc3339(nowMs);
  const known = before.find((each) => each.type === type);
  if (known?.reason !== reason) return { lastProbeTime: now, lastTransitionTime: now };
  return { lastTransitionTime, lastProbeTime: known?.message === message ? (known?.lastProbeTime ?? now) : now };
}

const observedBefore = ({ type }: PodCondition, before: readonly PodCondition[]): Partial<PodCondition> => {
  const observedGeneration = before.find((each) => each.type === type)?.observedGeneration;
  return observedGeneration === undefined ? {} : { observedGeneration };
};

type Addresses = Pick<PodStatus, 'hostIP' | 'hostIPs' | 'podIP' | 'podIPs'>;

/** When the sandbox is gone, or the addresses of the host are not known yet, the pod keeps its addresses. */
function addresses({ pod, node, runtime, previous }: PodStatusFacts): Addresses {
  const host = hostIPs(node);
  const { hostIPs: ofHost = [], podIPs: before = [] } =
    (host.length === 0 && node.hostAddresses !== undefined ? (previous ?? pod.status) : previous) ?? {};
  const observed = pod.spec.hostNetwork === true ? host : podIPs(runtime, node);
  const ips = observed.length > 0 ? observed : before.map(({ ip }) => ip);
  const hosts = host.length > 0 || node.hostAddresses === undefined ? host : ofHost.map(({ ip }) => ip);
  const [hostIP] = hosts;
  const [podIP] = ips;
  return {
    ...(hostIP === undefined ? {} : { hostIP, hostIPs: hosts.map((ip) => ({ ip })) }),
    ...(podIP === undefined ? {} : { podIP, podIPs: ips.map((ip) => ({ ip })) }),
  };
}

const isIPv6 = (ip: string): boolean => ip.includes(':');

/**
 * Addresses of the newest ready sandbox, the family of the node's first address first: one of each family, because the
 * API server rejects a status with more.
 */
export function podIPs(
  runtime: PodRuntimeStatus | null,
  node: Pick<NodeSettings, 'nodeIPs' | 'behavior'>,
): readonly string[] {
  const network = runtime?.sandboxes.find(({ state }) => state === 'SANDBOX_READY')?.network;
  const ips = [network?.ip ?? '', ...(network?.additional_ips ?? []).map(({ ip }) => ip)].filter((ip) => ip !== '');
  const [primary] = node.nodeIPs;
  if (hasBehavior(node, 'podLifeAsKubelet')) return oneOfEachFamily(ips, primary !== undefined && isIPv6(primary));
  if (primary === undefined) return ips;
  return ips.toSorted((a, b) => Number(isIPv6(a) !== isIPv6(primary)) - Number(isIPv6(b) !== isIPv6(primary)));
}

function oneOfEachFamily(ips: readonly string[], startsWithIPv6: boolean): readonly string[] {
  const canonical = ips.map(canonicalIp);
  return [startsWithIPv6, !startsWithIPv6].flatMap(
    (wantsIPv6) => canonical.find((ip) => isIPv6(ip) === wantsIPv6) ?? [],
  );
}

/** The status of a removed pod: a container that never reported its end has ended, and the phase is final. */
function finalStatus(facts: PodStatusFacts, status: PodStatus): PodStatus {
  const { pod } = facts;
  const wasInitialised = facts.wasInitialised ?? hasInitialized(pod, status);
  const inits = status.initContainerStatuses ?? [];
  const regulars = status.containerStatuses ?? [];
  const begun = inits.findLastIndex(
    ({ state, lastState }) => state?.waiting === undefined || lastState?.terminated !== undefined,
  );
  const lastBegun = Math.max(begun, 0);
  return {
    ...status,
    ...(isTerminalPhase(status.phase) || isStaticPod(pod) ? {} : { phase: 'Failed' }),
    ...(inits.length === 0
      ? {}
      : { initContainerStatuses: inits.map((each, index) => (index <= lastBegun ? withTermination(each) : each)) }),
    ...(regulars.length === 0 ? {} : { containerStatuses: wasInitialised ? regulars.map(withTermination) : regulars }),
  };
}

const withTermination = (status: ContainerStatus): ContainerStatus =>
  status.state?.terminated === undefined
    ? {
        ...status,
        state: {
          terminated: {
            exitCode: UNKNOWN_EXIT_CODE,
            reason: terminatedReasons.containerStatusUnknown,
            message: lostContainerMessages.terminated,
          },
        },
      }
    : status;

/** Whether a container other than the init containers has run, or could have. */
export function hasInitialized(pod: Pod, status: PodStatus | null): boolean {
  const { initContainerStatuses: inits = [], containerStatuses: regulars = [] } = status ?? {};
  if ((pod.spec.initContainers ?? []).length === 0) return true;
  if (regulars.some(({ state, lastState }) => state?.waiting === undefined || lastState?.terminated !== undefined))
    return true;
  const last = pod.spec.initContainers?.at(-1);
  const lastStatus = inits.at(-1);
  if (last === undefined || lastStatus === undefined) return false;
  if (isSidecar(last)) return lastStatus.state?.running !== undefined && lastStatus.started === true;
  return [lastStatus.state, lastStatus.lastState].some((state) => state?.terminated?.exitCode === 0);
}

/** The status of a rejected pod: it never gets containers. */
export function rejectedStatus(
  pod: Pod,
  rejection: { readonly reason: string; readonly message: string },
  nowMs: number,
): PodStatus {
  const { generation } = pod.metadata;
  return {
    ...(generation === undefined ? {} : { observedGeneration: generation }),
    phase: 'Failed',
    reason: rejection.reason,
    message: podMessages.rejected(rejection.message),
    startTime: pod.status?.startTime ?? rfc3339(nowMs),
    qosClass: podQOS(pod),
  };
}

/**
 * The status that may be published; `published` is the last one, `null` at first.
 *
 * Invariant: a pod is not published as ended while one of its containers may still run, because its resources would be
 * reused.
 */
export function publishedStatus(
  status: PodStatus,
  published: PodStatus | null,
  couldHaveRunningContainers: boolean,
): PodStatus {
  const isEnding = isTerminalPhase(status.phase) && !isTerminalPhase(published?.phase);
  if (!isEnding || !couldHaveRunningContainers) return isTerminalPhase(status.phase) ? asNotReady(status) : status;
  const { reason: _reason, message: _message, ...rest } = status;
  return {
    ...rest,
    phase: published?.phase ?? 'Pending',
    ...(published?.reason === undefined ? {} : { reason: published.reason }),
    ...(published?.message === undefined ? {} : { message: published.message }),
  };
}

/** A pod that has ended is not ready, even if its containers were when its end was ordered. */
function asNotReady(status: PodStatus): PodStatus {
  const reason = status.phase === 'Failed' ? conditionReasons.podFailed : conditionReasons.podCompleted;
  const conditions = status.conditions?.map((condition) => {
    const isReadiness = condition.type === 'Ready' || condition.type === 'ContainersReady';
    return isReadiness && condition.status === 'True' ? { ...condition, status: 'False', reason } : condition;
  });
  return conditions === undefined ? status : { ...status, conditions };
}
