/**
 * The context of a container's machine, the pure rules by which it decides, and its reports to its pod. See
 * `container.ts`.
 */
import { outputOf } from '../../../../kernel/xstate.ts';
import type { ContainerStatus } from '../../../model/api/cri.ts';
import type { ObjectReference } from '../../../model/api/pod.ts';
import type { ImageFacts } from '../../../model/pods/image-messages.ts';
import type {
  ContainerRequest,
  ContainerView,
  ContainerWanted,
  RememberedContainer,
} from '../../../model/pods/pod-messages.ts';
import {
  containerFieldPath,
  killMessages,
  terminatedReasons,
  UNKNOWN_EXIT_CODE,
  waitingMessages,
  waitingReasons,
} from '../../../model/reasons/reasons.ts';
import { type Decider, hasBehavior } from '../../../model/settings/behaviors.ts';
import type { ContainerKind } from '../../../model/spec/container.ts';
import {
  nextBackoff,
  RECOVERED_AFTER_MS,
  RESET_AFTER_MAX_DELAYS,
  restartsAll,
  shouldRestart,
} from '../../../model/spec/restart.ts';
import type { ContainerFacts } from '../../../model/status/runtime-facts.ts';
import { type BackOff, goDuration, pauseMs, SYNC_BACK_OFF } from '../../../model/values/time.ts';

/** True from the order to restart until the end of the next instance, unless that instance fails to start. */
function restartExpected({ stop, reason, isReplacing }: ContainerContext, phase: ContainerView['phase']): boolean {
  if (phase === 'stopping') return willRestart(stop);
  return isReplacing && reason === '' && phase !== 'ended';
}

/** An instance that is stopped because its postStart hook failed was never shown as running. */
const shownPhase = ({ stop }: ContainerContext, phase: ContainerView['phase']): ContainerView['phase'] =>
  phase === 'stopping' && stop?.message === killMessages.failedPostStartHook ? 'starting' : phase;

export const viewOf = (context: ContainerContext, phase: ContainerView['phase']): ContainerView => ({
  phase: shownPhase(context, phase),
  reason: phase === 'waiting' ? context.reason : '',
  message: phase === 'waiting' ? context.message : '',
  restartCount: context.restartCount,
  ended: context.ended,
  ...(restartExpected(context, phase) ? { comesAgain: true } : {}),
});

/** The pod's view of a new container until it has reported. */
export const SPAWNED: ContainerView = { phase: 'waiting', reason: '', message: '', restartCount: 0, ended: null };

export const requestOf = ({ restartCount, image }: ContainerContext): ContainerRequest => ({ restartCount, image });

export interface Report {
  readonly phase: ContainerView['phase'];
  readonly inspect?: boolean;
  readonly seen?: ContainerStatus;
}

/** The instance in the answer to a call; `null` where the answer has none. */
export const shownIn = (event: unknown): ContainerStatus | null =>
  outputOf<{ readonly status?: ContainerStatus | null } | undefined>(event)?.status ?? null;

/** Whether the pod has to inspect the runtime after a call: not when the answer showed the instance. */
export function afterCall({ event }: { readonly event: unknown }): Pick<Report, 'inspect' | 'seen'> {
  const instance = shownIn(event);
  return instance === null ? { inspect: true } : { seen: instance };
}

export interface ContainerInput extends Decider {
  readonly uid: string;
  readonly namespace: string;
  readonly podName: string;
  /** The version of its pod, where that is an object of the API server. */
  readonly resourceVersion?: string;
  readonly name: string;
  readonly kind: ContainerKind;
  readonly wanted: ContainerWanted;
  /** The newest instance in the runtime; `null` if there is none. */
  readonly facts: ContainerFacts | null;
  readonly remembered: RememberedContainer | null;
  /** The number of the newest instance that was started, from the soft state; `null` if none was. */
  readonly begun: number | null;
  readonly maxBackoffMs: number;
  /** Absent: upstream's default. */
  readonly initialBackoffMs?: number;
  /** The address for its hooks; empty while the sandbox has none. */
  readonly podIP: string;
  /**
   * The container is not started any more: an init container of an initialised pod, or a container of an ending pod.
   */
  readonly dormant: boolean;
}

export interface ContainerContext extends Omit<ContainerInput, 'remembered' | 'begun'> {
  /** The id of the current instance; empty before there is one. */
  readonly id: string;
  /** Number of the current instance, or of the next one. */
  readonly restartCount: number;
  readonly image: ImageFacts | null;
  /** Why the container waits, if something failed; otherwise empty. */
  readonly reason: string;
  readonly message: string;
  /** When the wait ends, in milliseconds of the clock. */
  readonly untilMs: number;
  /** Failed attempts to create and start the next instance. */
  readonly failures: number;
  /** The back-off between the end of the last instance and the start of this one; `null` before the first restart. */
  readonly backoffMs: number | null;
  /** When the previous instance ended; `null` before the first restart, and if this agent did not observe it. */
  readonly endedBeforeMs: number | null;
  readonly ended: ContainerView['ended'];
  readonly stop: ContainerStop | null;
  /** The previous instance was stopped to be replaced. */
  readonly isReplacing: boolean;
  /** When its preStop hook, or the wait for its turn to stop, began; 0 if neither is in progress. */
  readonly hookBeganAtMs: number;
  /** When this agent requested the start of the instance, or first observed it; 0 before that. */
  readonly knownAtMs: number;
}

export interface ContainerStop {
  readonly graceSeconds: number;
  readonly message: string;
  /**
   * What follows the stop. `end`: nothing. `exit`: the same as after an exit. `restart`: another instance whatever the
   * restart policy, without back-off; `again`: the same with a back-off from the end of the previous instance. `reset`:
   * another instance in any case, because all containers of the pod restart.
   */
  readonly after: 'end' | 'exit' | 'restart' | 'again' | 'reset';
  /** Other containers stop first: the preStop hook runs at once, then the container waits for `container.turn`. */
  readonly awaitsTurn?: boolean;
}

export function initialContext(input: ContainerInput): ContainerContext {
  const { remembered, begun, ...rest } = input;
  const known = input.facts?.restartCount ?? 0;
  const isBehind = (remembered?.restartCount ?? 0) > known;
  return {
    ...rest,
    ...backOffMessage(isBehind ? (remembered?.backoffMs ?? 0) : 0, input),
    id: isBehind ? '' : (input.facts?.id ?? ''),
    restartCount: Math.max(
      known,
      remembered?.restartCount ?? 0,
      input.facts === null && begun !== null ? begun + 1 : 0,
    ),
    image: null,
    untilMs: remembered?.backoffUntilMs ?? 0,
    failures: 0,
    backoffMs: remembered?.backoffMs ?? null,
    endedBeforeMs: null,
    ended: null,
    stop: null,
    isReplacing: false,
    hookBeganAtMs: 0,
    knownAtMs: 0,
  };
}

export const isAliveInstance = ({ facts }: Pick<ContainerContext, 'facts'>): boolean =>
  facts !== null && (facts.state === 'running' || facts.state === 'unknown');

/**
 * True for an instance of the wanted definition. An instance without hash was not created by a kubelet, or the
 * container is no longer wanted. An init container is never replaced.
 */
export const isAsWanted = ({ kind, facts, wanted }: Pick<ContainerContext, 'kind' | 'facts' | 'wanted'>): boolean =>
  facts?.state === 'running' &&
  (kind === 'init' || wanted.hash === '' || facts.hash === '' || facts.hash === wanted.hash);

/** The newest instance has ended, and another one was decided. */
export const isBetweenInstances = ({
  facts,
  restartCount,
}: Pick<ContainerContext, 'facts' | 'restartCount'>): boolean =>
  facts?.state === 'exited' && restartCount > facts.restartCount;

/** This agent has not read the termination message of the newest instance yet. */
export const hasUnreadMessage = ({ facts, ended }: Pick<ContainerContext, 'facts' | 'ended'>): boolean =>
  facts !== null && facts.id !== ended?.id && (facts.messageFile !== '' || facts.messageLog !== '');

/** The runtime has created the next instance; one in a replaced sandbox does not count. */
export const isCreated = ({ facts, restartCount }: Pick<ContainerContext, 'facts' | 'restartCount'>): boolean =>
  facts?.state === 'created' && facts.restartCount >= restartCount;

/** The runtime shows the end of the instance. */
export const hasExited = ({ facts, id }: Pick<ContainerContext, 'facts' | 'id'>): boolean =>
  facts?.state === 'exited' && facts.id === id;

/** The instance was stopped in order to restart, but never ran. */
export const isStillCreated = ({ facts, id, stop }: ContainerContext): boolean =>
  stop !== null && stop.after !== 'end' && facts?.state === 'created' && facts.id === id;

/** A later observation no longer shows the instance. */
export const isLost = ({ id }: Pick<ContainerContext, 'id'>, seen: ContainerFacts | null): boolean => seen?.id !== id;

/** Init containers and sidecars start in order. */
export const runsInOrder = ({ kind }: Pick<ContainerContext, 'kind'>): boolean => kind === 'init' || kind === 'sidecar';

/** Whether the end of an instance is followed by another one. */
export function mayRestart(context: ContainerContext): boolean {
  const { kind, facts, wanted, stop, name, podName, namespace, uid } = context;
  if (kind === 'ephemeral') return false;
  if (stop && stop.after !== 'exit') return stop.after !== 'end';
  if (kind === 'init' && facts?.exitCode === 0) return wanted.restartPolicy !== 'Never' && wasCutShort(context);
  const { restartPolicy, restartPolicyRules } = wanted;
  return shouldRestart({
    pod: { metadata: { name: podName, namespace, uid }, spec: { containers: [] } },
    container: { name, restartPolicy, restartPolicyRules },
    exitCode: facts?.exitCode ?? UNKNOWN_EXIT_CODE,
  });
}

/** Some of its processes were killed for lack of memory: whatever its exit code, it has not done its work. */
const wasCutShort = (context: ContainerContext): boolean =>
  context.facts?.reason === terminatedReasons.oomKilled && hasBehavior(context, 'containersAsKubelet');

/** Whether the restart rules of the container request a restart of all containers of the pod. */
export const requestsRestartAll = ({ kind, facts, wanted, stop, name }: ContainerContext): boolean =>
  kind !== 'ephemeral' &&
  facts?.state === 'exited' &&
  (stop === null || stop.after === 'exit') &&
  restartsAll({ name, restartPolicyRules: wanted.restartPolicyRules }, facts.exitCode);

/** An instance whose start failed has ended, but has never run. */
const hasRun = ({ startedAtMs }: ContainerFacts): boolean => startedAtMs > 0;

/**
 * When the instance ended. The runtime's timestamp comes from the machine's clock, which may be changed: an end in the
 * future, or before the start was requested, counts as now.
 */
function endedAt({ facts, knownAtMs }: ContainerContext, nowMs: number): number {
  const finishedAtMs = facts?.finishedAtMs ?? nowMs;
  return finishedAtMs >= knownAtMs && finishedAtMs <= nowMs ? finishedAtMs : nowMs;
}

/** How long the instance ran: by the runtime's timestamps, limited by the time since this agent knows it. */
function ranMs({ facts, knownAtMs }: ContainerContext, nowMs: number): number {
  if (facts === null || !hasRun(facts)) return 0;
  const reportedMs = facts.finishedAtMs - facts.startedAtMs;
  return knownAtMs === 0 ? reportedMs : Math.min(reportedMs, nowMs - Math.min(knownAtMs, facts.startedAtMs));
}

/** The next instance after one whose start failed through no fault of its own: at once, with the same back-off. */
export const retryStart = (context: ContainerContext, nowMs: number): Partial<ContainerContext> => ({
  ...nextInstance(context, nowMs),
  ...backOffMessage(0, context),
  backoffMs: context.backoffMs,
  untilMs: nowMs,
});

/**
 * The next number is above that of its instance and of every instance in the runtime: the reply to a create may have
 * been lost.
 */
const nextRestartCount = ({ id, restartCount, facts }: ContainerContext): number =>
  Math.max(id === '' ? restartCount : restartCount + 1, (facts?.restartCount ?? -1) + 1);

/** The next instance: its number, and when it may be started. */
export function nextInstance(context: ContainerContext, nowMs: number): Partial<ContainerContext> {
  const { stop } = context;
  const quietMs = ranMs(context, nowMs);
  const isGoodRun = quietMs > recoveryMs(context);
  const counts = stop === null || stop.after === 'exit' || stop.after === 'again';
  const previousMs = counts && !isGoodRun ? context.backoffMs : null;
  const { maxBackoffMs: maxMs, initialBackoffMs: initialMs } = context;
  const backoffMs = previousMs === null ? 0 : nextBackoff({ previousMs, quietMs: 0, maxMs, initialMs });
  const endedMs = endedAt(context, nowMs);
  const isAtOnce = stop?.after === 'again' && endedMs >= (context.endedBeforeMs ?? 0) + backoffMs;
  return {
    untilMs: isAtOnce ? AT_ONCE : endedMs + backoffMs,
    // A container whose instances were only ended by probes is not in a crash loop yet.
    backoffMs: stop?.after === 'again' && context.endedBeforeMs === null ? context.backoffMs : backoffMs,
    endedBeforeMs: endedMs,
    knownAtMs: 0,
    restartCount: nextRestartCount(context),
    id: '',
    image: null,
    stop: null,
    isReplacing: willRestart(stop),
    dormant: false,
    failures: 0,
    ...(stop?.message === killMessages.failedPostStartHook
      ? { reason: waitingReasons.postStartHookError, message: context.message }
      : backOffMessage(isAtOnce ? 0 : backoffMs, context)),
  };
}

/** How long an instance has to run to reset the back-off. */
const recoveryMs = (context: ContainerContext): number =>
  hasBehavior(context, 'containersAsKubelet') ? RECOVERED_AFTER_MS : RESET_AFTER_MAX_DELAYS * context.maxBackoffMs;

/** Other resources reset the back-off: `startsNow`, the next start uses up the first one, which has no pause. */
export const withOtherResources = ({ restartCount }: ContainerContext, startsNow: boolean) => ({
  backoffMs: startsNow && restartCount > 0 ? 0 : null,
});

/** Forgets the failures of a waiting container, because all containers of the pod restart. */
export const resetForRestartAll = ({ id, restartCount }: ContainerContext): Partial<ContainerContext> => ({
  id: '',
  restartCount: id === '' ? restartCount : restartCount + 1,
  image: null,
  untilMs: AT_ONCE,
  failures: 0,
  stop: null,
  reason: '',
  message: '',
});

/** Another definition resets the back-off: failures were due to the previous definition. */
export const withoutBackoff = ({ restartCount }: ContainerContext): Partial<ContainerContext> => ({
  image: null,
  backoffMs: restartCount === 0 ? null : 0,
  untilMs: AT_ONCE,
  failures: 0,
  reason: '',
  message: '',
});

/** A deadline in the past. */
const AT_ONCE = 0;

/** The next instance need not wait: it is the first restart, or its back-off is over. */
export const startsAtOnce = ({ backoffMs, untilMs }: Pick<ContainerContext, 'backoffMs' | 'untilMs'>): boolean =>
  backoffMs === 0 || untilMs === AT_ONCE;

/** A first restart does not wait and is no back-off: the status shows the end of the previous instance. */
const backOffMessage = (backoffMs: number, container: ContainerInput | ContainerContext) =>
  backoffMs === 0
    ? { reason: '', message: '' }
    : {
        reason: waitingReasons.crashLoopBackOff,
        message: waitingMessages.crashLoopBackOff(goDuration(backoffMs), container.name, formatPod(container)),
      };

/** `name_namespace(uid)`: how upstream's messages name a pod. */
export const formatPod = ({
  podName,
  namespace,
  uid,
}: Pick<ContainerContext, 'podName' | 'namespace' | 'uid'>): string => `${podName}_${namespace}(${uid})`;

export const refOf = (
  context: Pick<ContainerContext, 'podName' | 'namespace' | 'uid' | 'resourceVersion' | 'kind' | 'name'>,
): ObjectReference => ({
  kind: 'Pod',
  namespace: context.namespace,
  name: context.podName,
  uid: context.uid,
  ...(context.resourceVersion === undefined ? {} : { resourceVersion: context.resourceVersion }),
  fieldPath: containerFieldPath(context.kind, context.name),
});

/** The pod alone, without the container. */
export function podRefOf(context: Parameters<typeof refOf>[0]): ObjectReference {
  const { fieldPath: _, ...ref } = refOf(context);
  return ref;
}

const willRestart = (stop: ContainerStop | null): boolean => stop?.after === 'restart' || stop?.after === 'again';

/** The kubelet waits 10 to 15 s after a failed sync; the first retries here may come sooner. */
const RETRY: BackOff = { baseMs: 1_000, maxMs: 10_000, jitter: 0.5 };

export const retryDelay = (failures: number, chance: number): number => Math.round(pauseMs(RETRY, failures, chance));

/** Its configuration was impossible: a change of an object that its pod uses may help. */
export const wasRefused = (context: ContainerContext): boolean =>
  context.reason === waitingReasons.createContainerConfigError && hasBehavior(context, 'syncsAsKubelet');

/** The pause before a container whose configuration is impossible is tried again. */
export const refusalDelay = (context: ContainerContext, chance: number): number =>
  hasBehavior(context, 'syncsAsKubelet')
    ? Math.round(pauseMs(SYNC_BACK_OFF, 0, chance))
    : retryDelay(context.failures, chance);

/** The shortest time to stop, however short the grace period and however long the hook took. */
const MIN_STOP_SECONDS = 2;

/** How long the runtime waits between the stop signal and the kill, in seconds. */
export const stopSeconds = ({ stop }: Pick<ContainerContext, 'stop'>): number =>
  Math.max(MIN_STOP_SECONDS, stop?.graceSeconds ?? 0);

export const remainingGrace = (graceSeconds: number, hookMs: number): number =>
  Math.max(0, graceSeconds - Math.floor(hookMs / 1_000));
