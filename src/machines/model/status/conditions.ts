/**
 * The conditions of a pod that are owned by its node agent.
 *
 * Invariants: upstream's order; conditions of other clients are never changed; `lastTransitionTime` changes only with
 * `status`.
 */
import type { Container, ContainerStatus, Pod, PodCondition, PodStatus } from '../api/pod.ts';
import type { PodRuntimeStatus } from '../operations/cri.ts';
import { conditionMessages, conditionReasons } from '../reasons/reasons.ts';
import { isSidecar } from '../spec/resources.ts';
import { mayRestartAll, restartsAll } from '../spec/restart.ts';
import { byName } from '../values/same.ts';
import { rfc3339 } from '../values/time.ts';
import { hasAnyContainerStarted } from './phase.ts';
import { instancesOf } from './runtime-facts.ts';

/**
 * The condition of a pod whose containers are all being restarted by a restart rule. Pure.
 *
 * Invariants: once started, the restart continues until the runtime has no instance of these containers, whatever else
 * ends in the meantime; a pod that is being deleted restarts no container.
 */
const ALL_RESTARTING = 'AllContainersRestarting';

/** Ephemeral containers are not restarted. */
const restartable = ({ spec: { initContainers = [], containers } }: Pod): readonly Container[] => [
  ...initContainers,
  ...containers,
];

export function isRestartingAll(pod: Pod, runtime: PodRuntimeStatus | null, previous: PodStatus | null): boolean {
  if (pod.metadata.deletionTimestamp !== undefined || !mayRestartAll(pod)) return false;
  const hasBegun = previous?.conditions?.some(({ type, status }) => type === ALL_RESTARTING && status === 'True');
  return hasBegun === true || restartable(pod).some((container) => requestsRestart(container, runtime));
}

function requestsRestart(container: Container, runtime: PodRuntimeStatus | null): boolean {
  const [newest] = instancesOf(runtime, container.name);
  return newest?.state === 'CONTAINER_EXITED' && restartsAll(container, newest.exit_code);
}

/**
 * Ids of the instances to remove. Instances of the container whose rule requested the restart come last, because they
 * hold the reason.
 */
export function instancesToRemove(pod: Pod, runtime: PodRuntimeStatus | null): readonly string[] {
  const { initContainers = [], containers } = pod.spec;
  const found = [...containers, ...initContainers].map((container) => ({
    isRequester: requestsRestart(container, runtime),
    ids: instancesOf(runtime, container.name).map(({ id }) => id),
  }));
  return [...found.filter((each) => !each.isRequester), ...found.filter((each) => each.isRequester)].flatMap(
    ({ ids }) => ids,
  );
}

export interface ConditionFacts {
  readonly pod: Pod;
  readonly phase: string;
  readonly runtime: PodRuntimeStatus | null;
  readonly initContainerStatuses: readonly ContainerStatus[];
  readonly containerStatuses: readonly ContainerStatus[];
  /** Conditions that other clients have set: readiness gates read them. */
  readonly foreign: readonly PodCondition[];
  /** The last published conditions. */
  readonly previous: readonly PodCondition[];
  /**
   * All containers are being restarted, and the runtime still has instances of them. `null`: the pod has no such rule.
   */
  readonly restartingAll: boolean | null;
  /** The condition `PodReadyToStartContainers` is left out. */
  readonly hidesReadyToStart?: boolean | undefined;
}

/** A condition without times. */
type Verdict = Pick<PodCondition, 'type' | 'status' | 'reason' | 'message'>;
type TimedCondition = PodCondition & { readonly lastTransitionTime: string };

const OWNED = new Set([
  'PodScheduled',
  'PodReadyToStartContainers',
  'Initialized',
  'ContainersReady',
  'Ready',
  'PodResizePending',
  'PodResizeInProgress',
  'DisruptionTarget',
  ALL_RESTARTING,
]);

export const isForeignCondition = ({ type }: PodCondition): boolean => !OWNED.has(type);

export function podConditions(facts: ConditionFacts): readonly Verdict[] {
  const containersReady = containersReadyCondition(facts);
  const readyToStart = {
    type: 'PodReadyToStartContainers',
    status: needsSandbox(facts.pod, facts.runtime) ? 'False' : 'True',
  } as const;
  return [
    ...(facts.hidesReadyToStart === true ? [] : [readyToStart]),
    initializedCondition(facts),
    readyCondition(facts, containersReady),
    containersReady,
    { type: 'PodScheduled', status: 'True' },
    ...(facts.restartingAll === null ? [] : [restartingCondition(facts.phase, facts.restartingAll)]),
  ];
}

function restartingCondition(phase: string, isRestarting: boolean): Verdict {
  const type = ALL_RESTARTING;
  if (phase === 'Succeeded') return { type, status: 'False', reason: conditionReasons.podCompleted };
  if (phase === 'Failed') return { type, status: 'False', reason: conditionReasons.podFailed };
  if (!isRestarting) return { type, status: 'False' };
  return {
    type,
    status: 'True',
    reason: conditionReasons.restartAllContainersStarted,
    message: conditionMessages.restartAllContainersStarted,
  };
}

/**
 * Whether a pod needs a new sandbox: the newest is not ready, several are ready, or the ready one has another network
 * mode or no address.
 */
export function needsSandbox(pod: Pod, runtime: PodRuntimeStatus | null): boolean {
  const sandboxes = runtime?.sandboxes ?? [];
  const [newest] = sandboxes;
  if (newest?.state !== 'SANDBOX_READY') return true;
  if (sandboxes.filter(({ state }) => state === 'SANDBOX_READY').length > 1) return true;
  const isHostNetwork = pod.spec.hostNetwork === true;
  const isHostSandbox = newest.linux?.namespaces?.options?.network === 'NODE';
  if (isHostNetwork !== isHostSandbox) return true;
  return !isHostNetwork && newest.network?.ip === '';
}

/** Once true the condition stays true: init containers that run again in a new sandbox have run before. */
function initializedCondition(facts: ConditionFacts): Verdict {
  const type = 'Initialized';
  const { pod, phase, initContainerStatuses, containerStatuses, previous } = facts;
  const { unknown, unmet } = unmetContainers(
    pod.spec.initContainers ?? [],
    initContainerStatuses,
    (container, status) => (isSidecar(container) ? status.started === true : status.ready),
  );
  if (phase === 'Succeeded' && unknown.length === 0) {
    return { type, status: 'True', reason: conditionReasons.podCompleted };
  }
  const wasInitialized = previous.some((each) => each.type === type && each.status === 'True');
  if (wasInitialized || hasAnyContainerStarted(containerStatuses)) return { type, status: 'True' };
  const message = messageOf(unknown, unmet, conditionMessages.incompleteStatus);
  if (message === '') return { type, status: 'True' };
  return { type, status: 'False', reason: conditionReasons.containersNotInitialized, message };
}

function unmetContainers(
  containers: readonly Container[],
  statuses: readonly ContainerStatus[],
  isMet: (container: Container, status: ContainerStatus) => boolean,
): { unknown: readonly string[]; unmet: readonly string[] } {
  const unknown: string[] = [];
  const unmet: string[] = [];
  for (const container of containers) {
    const status = byName(statuses, container.name);
    if (status === undefined) unknown.push(container.name);
    else if (!isMet(container, status)) unmet.push(container.name);
  }
  return { unknown, unmet };
}

function messageOf(unknown: readonly string[], unmet: readonly string[], textOf: (unmet: readonly string[]) => string) {
  const texts = [unknown.length > 0 && conditionMessages.unknownStatus(unknown), unmet.length > 0 && textOf(unmet)];
  return texts.filter((text) => text !== false).join(', ');
}

function containersReadyCondition(facts: ConditionFacts): Verdict {
  const type = 'ContainersReady';
  const { pod, phase } = facts;
  const containers = [...(pod.spec.initContainers ?? []).filter(isSidecar), ...pod.spec.containers];
  const statuses = [...facts.initContainerStatuses, ...facts.containerStatuses];
  const { unknown, unmet } = unmetContainers(containers, statuses, (_, status) => status.ready);
  if (phase === 'Succeeded' && unknown.length === 0) {
    return { type, status: 'False', reason: conditionReasons.podCompleted };
  }
  if (phase === 'Failed') return { type, status: 'False', reason: conditionReasons.podFailed };
  const message = messageOf(unknown, unmet, conditionMessages.unreadyStatus);
  if (message === '') return { type, status: 'True' };
  return { type, status: 'False', reason: conditionReasons.containersNotReady, message };
}

function readyCondition({ pod, foreign }: ConditionFacts, containersReady: Verdict): Verdict {
  const type = 'Ready';
  if (containersReady.status !== 'True') return { ...containersReady, type };
  const unmet = (pod.spec.readinessGates ?? []).flatMap(({ conditionType }) => {
    const condition = foreign.find(({ type: each }) => each === conditionType);
    if (condition === undefined) return [conditionMessages.gateMissing(conditionType)];
    return condition.status === 'True' ? [] : [conditionMessages.gateNotTrue(conditionType, condition.status)];
  });
  if (unmet.length === 0) return { type, status: 'True' };
  return { type, status: 'False', reason: conditionReasons.readinessGatesNotReady, message: unmet.join(', ') };
}

/** Conditions of a pod that has ended: an unchanged one keeps its reason. */
export const withKeptReasons = (verdicts: readonly Verdict[], previous: readonly PodCondition[]): readonly Verdict[] =>
  verdicts.map((verdict) => {
    const before = previous.find(({ type }) => type === verdict.type);
    if (before?.status !== verdict.status) return verdict;
    const { type, status, reason, message } = before;
    return { type, status, ...(reason === undefined ? {} : { reason }), ...(message === undefined ? {} : { message }) };
  });

/**
 * Adds time and generation to each condition: the old time if the status is unchanged. `AllContainersRestarting` has no
 * generation.
 */
export function withTransitionTimes(
  verdicts: readonly Verdict[],
  previous: readonly PodCondition[],
  nowMs: number,
  generation: number | undefined,
): readonly TimedCondition[] {
  return verdicts.map((verdict) => {
    const before = previous.find(({ type }) => type === verdict.type);
    const isUnchanged = before?.status === verdict.status && before.lastTransitionTime !== undefined;
    return {
      ...verdict,
      ...(generation === undefined || verdict.type === ALL_RESTARTING ? {} : { observedGeneration: generation }),
      lastTransitionTime: isUnchanged ? before.lastTransitionTime : rfc3339(nowMs),
    };
  });
}
