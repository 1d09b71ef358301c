/**
 * What the machine of a container knows and the pure rules by which it decides. See `container.ts`.
 */

import type { OutputOf } from '../../../../kernel/xstate.ts';
import type { ContainerStatus } from '../../../model/api/cri.ts';
import type { ObjectReference } from '../../../model/api/pod.ts';
import type { Operations } from '../../../model/operations/index.ts';
import type {
  ContainerKind,
  ContainerRequest,
  ContainerView,
  ContainerWanted,
  Hook,
  ImageFacts,
  RememberedContainer,
} from '../../../model/pods/messages.ts';
import {
  containerFieldPath,
  hookMessages,
  killMessages,
  UNKNOWN_EXIT_CODE,
  waitingMessages,
  waitingReasons,
} from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { goDuration, nextBackoff, restartsAll, shouldRestart } from '../../../model/status/index.ts';
import type { ContainerFacts } from '../../../model/status/runtime-facts.ts';
import { type BackOff, pauseMs } from '../../../model/values/back-off.ts';

export interface ContainerInput {
  readonly uid: string;
  readonly namespace: string;
  readonly podName: string;
  /** Of its pod, where that is an object of the API server. */
  readonly resourceVersion?: string;
  readonly name: string;
  readonly kind: ContainerKind;
  readonly wanted: ContainerWanted;
  /** The newest instance in the runtime; `null` when there is none. */
  readonly facts: ContainerFacts | null;
  readonly remembered: RememberedContainer | null;
  /** The number of the newest instance that was started, as it is remembered; `null`: of none. */
  readonly begun: number | null;
  readonly maxBackoffMs: number;
  /** How many changed decisions this node takes: `behaviors.ts`. */
  readonly behavior: number;
  /** Absent: upstream's default. */
  readonly initialBackoffMs?: number;
  /** Where its hooks find it; empty while its sandbox has no address. */
  readonly podIP: string;
  /** It had its turn before: an init container of a pod that is initialised, a container of a pod that only ends. */
  readonly dormant: boolean;
}

export interface ContainerContext extends Omit<ContainerInput, 'remembered' | 'begun'> {
  /** The instance it works on; empty before it has one. */
  readonly id: string;
  /** Number of that instance, or of the next one. */
  readonly restartCount: number;
  readonly image: ImageFacts | null;
  /** Why it waits; empty when nothing went wrong. */
  readonly reason: string;
  readonly message: string;
  /** Until when it waits. */
  readonly untilMs: number;
  /** Failed tries to make the next instance. */
  readonly failures: number;
  /** What lay between the end of the last instance and the start of this one; `null` before the first restart. */
  readonly backoffMs: number | null;
  /** When the instance before this one ended; `null` before the first restart, and when this agent did not see it. */
  readonly endedBeforeMs: number | null;
  readonly ended: ContainerView['ended'];
  readonly stop: ContainerStop | null;
  /** The instance before was stopped so that the next one comes. */
  readonly isReplacing: boolean;
  /** Of the hook of its end, or the wait for its turn; 0 where neither is under way. */
  readonly hookBeganAtMs: number;
  /** When this agent asked for the start of its instance, or found it; 0 before that. */
  readonly knownAtMs: number;
}

export interface ContainerStop {
  readonly graceSeconds: number;
  readonly message: string;
  /**
   * What follows: nothing (`end`); what would follow had it ended by itself (`exit`); another instance whatever the
   * restart policy, and no back-off (`restart`), or one that counts from the end of the instance before (`again`); or
   * another instance after whatever else came to pass, because all containers of the pod begin anew (`reset`).
   */
  readonly after: 'end' | 'exit' | 'restart' | 'again' | 'reset';
  /** Others stop first: its hook runs at once, and then it waits for `container.turn`. */
  readonly awaitsTurn?: boolean;
}

export function initialContext(input: ContainerInput): ContainerContext {
  const { remembered, begun, ...rest } = input;
  const known = input.facts?.restartCount ?? 0;
  const isBehind = (remembered?.restartCount ?? 0) > known;
  return {
    ...rest,
    ...backOffWords(isBehind ? (remembered?.backoffMs ?? 0) : 0, input),
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

/** An empty hash was made by no kubelet, or the container is no longer wanted. An init container goes on. */
export const isAsWanted = ({ kind, facts, wanted }: Pick<ContainerContext, 'kind' | 'facts' | 'wanted'>): boolean =>
  facts?.state === 'running' &&
  (kind === 'init' || wanted.hash === '' || facts.hash === '' || facts.hash === wanted.hash);

/** The newest instance has ended, and it was already decided that there will be a next one. */
export const isBetween = ({ facts, restartCount }: Pick<ContainerContext, 'facts' | 'restartCount'>): boolean =>
  facts?.state === 'exited' && restartCount > facts.restartCount;

/** What the newest instance may have left behind was not read yet by this agent. */
export const hasLastWords = ({ facts, ended }: Pick<ContainerContext, 'facts' | 'ended'>): boolean =>
  facts !== null && facts.id !== ended?.id && (facts.messageFile !== '' || facts.messageLog !== '');

/** The runtime has made the instance that is to come next; one of a sandbox that was replaced is not that. */
export const isCreated = ({ facts, restartCount }: Pick<ContainerContext, 'facts' | 'restartCount'>): boolean =>
  facts?.state === 'created' && facts.restartCount >= restartCount;

/** The runtime shows the end of the instance that it worked on. */
export const hasExited = ({ facts, id }: Pick<ContainerContext, 'facts' | 'id'>): boolean =>
  facts?.state === 'exited' && facts.id === id;

/** It was stopped to run again, but never ran. */
export const isStillCreated = ({ facts, id, stop }: ContainerContext): boolean =>
  stop !== null && stop.after !== 'end' && facts?.state === 'created' && facts.id === id;

/** A later observation does not show the instance any more. */
export const isLost = ({ id }: Pick<ContainerContext, 'id'>, seen: ContainerFacts | null): boolean => seen?.id !== id;

/** A container that ran for this many longest back-offs has earned a fresh start. */
const GOOD_RUN_BACKOFFS = 2;

/** An init container or a sidecar, which have a place in an order. */
export const runsInOrder = ({ kind }: Pick<ContainerContext, 'kind'>): boolean => kind === 'init' || kind === 'sidecar';

/** After the end of an instance: whether there will be a next one. */
export function mayRestart({ kind, facts, wanted, stop, name, podName, namespace, uid }: ContainerContext): boolean {
  if (kind === 'ephemeral') return false;
  if (stop && stop.after !== 'exit') return stop.after !== 'end';
  if (kind === 'init' && facts?.exitCode === 0) return false;
  const { restartPolicy, restartPolicyRules } = wanted;
  return shouldRestart({
    pod: { metadata: { name: podName, namespace, uid }, spec: { containers: [] } },
    container: { name, restartPolicy, restartPolicyRules },
    exitCode: facts?.exitCode ?? UNKNOWN_EXIT_CODE,
  });
}

/** Its own end asks that all containers of its pod begin anew: that is for the pod to see. */
export const asksForAll = ({ kind, facts, wanted, stop, name }: ContainerContext): boolean =>
  kind !== 'ephemeral' &&
  facts?.state === 'exited' &&
  (stop === null || stop.after === 'exit') &&
  restartsAll({ name, restartPolicyRules: wanted.restartPolicyRules }, facts.exitCode);

/** An instance whose start failed has ended, but it never ran. */
const hasRun = ({ startedAtMs }: ContainerFacts): boolean => startedAtMs > 0;

/**
 * When its instance ended. The runtime dates it by the clock of the machine, which may be set: an end that lies
 * ahead, or before its start was asked for, is one of just now.
 */
function endedAt({ facts, knownAtMs }: ContainerContext, nowMs: number): number {
  const finishedAtMs = facts?.finishedAtMs ?? nowMs;
  return finishedAtMs >= knownAtMs && finishedAtMs <= nowMs ? finishedAtMs : nowMs;
}

/** How long its instance ran: what the runtime says, and no longer than this agent can know. */
function ranMs({ facts, knownAtMs }: ContainerContext, nowMs: number): number {
  if (facts === null || !hasRun(facts)) return 0;
  const reportedMs = facts.finishedAtMs - facts.startedAtMs;
  return knownAtMs === 0 ? reportedMs : Math.min(reportedMs, nowMs - Math.min(knownAtMs, facts.startedAtMs));
}

/** The next instance after one that never began through no fault of its own: at once, and its back-off stays. */
export const anotherStart = (context: ContainerContext, nowMs: number): Partial<ContainerContext> => ({
  ...nextInstance(context, nowMs),
  ...backOffWords(0, context),
  backoffMs: context.backoffMs,
  untilMs: nowMs,
});

/** After the one it works on, and after every one that the runtime has: also after one that it never heard it made. */
const numberOfNext = ({ id, restartCount, facts }: ContainerContext): number =>
  Math.max(id === '' ? restartCount : restartCount + 1, (facts?.restartCount ?? -1) + 1);

/** The next instance: its number, and when it may come. */
export function nextInstance(context: ContainerContext, nowMs: number): Partial<ContainerContext> {
  const { stop } = context;
  const quietMs = ranMs(context, nowMs);
  const isGoodRun = quietMs > GOOD_RUN_BACKOFFS * context.maxBackoffMs;
  const counts = stop === null || stop.after === 'exit' || stop.after === 'again';
  const previousMs = counts && !isGoodRun ? context.backoffMs : null;
  const { maxBackoffMs: maxMs, initialBackoffMs: initialMs } = context;
  const backoffMs = previousMs === null ? 0 : nextBackoff({ previousMs, quietMs, maxMs, initialMs });
  const endedMs = endedAt(context, nowMs);
  const isAtOnce = stop?.after === 'again' && endedMs >= (context.endedBeforeMs ?? 0) + backoffMs;
  return {
    untilMs: isAtOnce ? AT_ONCE : endedMs + backoffMs,
    // Who never ended but for a probe is in no crash loop yet.
    backoffMs: stop?.after === 'again' && context.endedBeforeMs === null ? context.backoffMs : backoffMs,
    endedBeforeMs: endedMs,
    knownAtMs: 0,
    restartCount: numberOfNext(context),
    id: '',
    image: null,
    stop: null,
    isReplacing: isToComeAgain(stop),
    dormant: false,
    failures: 0,
    ...(stop?.message === killMessages.failedPostStartHook
      ? { reason: waitingReasons.postStartHookError, message: context.message }
      : backOffWords(isAtOnce ? 0 : backoffMs, context)),
  };
}

/** All containers of the pod begin anew while this one waits: as if nothing had gone wrong before. */
export const anew = ({ id, restartCount }: ContainerContext): Partial<ContainerContext> => ({
  id: '',
  restartCount: id === '' ? restartCount : restartCount + 1,
  image: null,
  untilMs: AT_ONCE,
  failures: 0,
  stop: null,
  reason: '',
  message: '',
});

/** Another definition starts with a clean slate: what went wrong was the fault of the one before. */
export const forgiven = ({ restartCount }: ContainerContext): Partial<ContainerContext> => ({
  image: null,
  backoffMs: restartCount === 0 ? null : 0,
  untilMs: AT_ONCE,
  failures: 0,
  reason: '',
  message: '',
});

/** No time is before this one. */
const AT_ONCE = 0;

/** The next instance does not wait: a first restart, or one whose back-off is over. */
export const startsAtOnce = ({ backoffMs, untilMs }: Pick<ContainerContext, 'backoffMs' | 'untilMs'>): boolean =>
  backoffMs === 0 || untilMs === AT_ONCE;

/** A first restart does not wait, so it is no back-off: the end of the instance before is what shows. */
const backOffWords = (backoffMs: number, container: ContainerInput | ContainerContext) =>
  backoffMs === 0
    ? { reason: '', message: '' }
    : {
        reason: waitingReasons.crashLoopBackOff,
        message: waitingMessages.crashLoopBackOff(goDuration(backoffMs), container.name, podOf(container)),
      };

/** Why the hook of its start failed, from how the call ended; `null`: it cannot be run at all. */
export function hookMessage(context: ContainerContext, end: HookEnd | null): string {
  const { name, wanted } = context;
  const { postStart } = wanted;
  const pod = podOf(context);
  const isAsKubelet = hasBehavior(context, 'hooksAsKubelet');
  if (postStart?.kind === 'unsupported' && isAsKubelet) return refusalOf(postStart, name, pod);
  if (end === null || postStart === null) return hookMessages.unsupported(name, pod);
  if (postStart.kind === 'httpGet')
    return hookMessages.http(postStart.path, name, pod, 'error' in end ? end.error : '');
  const command = postStart.kind === 'exec' ? postStart.command : [];
  if ('error' in end) return hookMessages.exec(command, name, pod, end.error, '');
  const output = end.stdout + end.stderr;
  const error = hookMessages.exited(command, end.exitCode, isAsKubelet ? end.stderr : output);
  return hookMessages.exec(command, name, pod, error, output);
}

const refusalOf = ({ path, error }: Hook & { readonly kind: 'unsupported' }, name: string, pod: string): string =>
  path === null ? hookMessages.cannotRun(error) : hookMessages.http(path, name, pod, error);

type HookEnd = { readonly error: string } | OutputOf<Operations['cri.execSync']>;

/** `name_namespace(uid)`: how upstream's messages name a pod. */
export const podOf = ({ podName, namespace, uid }: Pick<ContainerContext, 'podName' | 'namespace' | 'uid'>): string =>
  `${podName}_${namespace}(${uid})`;

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

const isToComeAgain = (stop: ContainerStop | null): boolean => stop?.after === 'restart' || stop?.after === 'again';

/** From the order to stop to the end of the next instance, unless something is in its way. */
function comesAgain({ stop, reason, isReplacing }: ContainerContext, phase: ContainerView['phase']): boolean {
  if (phase === 'stopping') return isToComeAgain(stop);
  return isReplacing && reason === '' && phase !== 'ended';
}

/** An instance that goes because the hook of its start failed has never run for others. */
const shownPhase = ({ stop }: ContainerContext, phase: ContainerView['phase']): ContainerView['phase'] =>
  phase === 'stopping' && stop?.message === killMessages.failedPostStartHook ? 'starting' : phase;

export const viewOf = (context: ContainerContext, phase: ContainerView['phase']): ContainerView => ({
  phase: shownPhase(context, phase),
  reason: phase === 'waiting' ? context.reason : '',
  message: phase === 'waiting' ? context.message : '',
  restartCount: context.restartCount,
  ended: context.ended,
  ...(comesAgain(context, phase) ? { comesAgain: true } : {}),
});

/** What its pod takes it for until it has reported. */
export const SPAWNED: ContainerView = { phase: 'waiting', reason: '', message: '', restartCount: 0, ended: null };

export const requestOf = ({ restartCount, image }: ContainerContext): ContainerRequest => ({ restartCount, image });

/** The kubelet waits 10 to 15 s after a failed sync; the first tries may come sooner. */
const RETRY: BackOff = { baseMs: 1_000, maxMs: 10_000, jitter: 0.5 };

export const retryDelay = (failures: number, chance: number): number => Math.round(pauseMs(RETRY, failures, chance));

/** A kill always leaves the container this much time, however short its grace and however long its hook took. */
const MIN_STOP_SECONDS = 2;

/** How long the runtime waits between the stop signal and the kill. */
export const stopSeconds = ({ stop }: Pick<ContainerContext, 'stop'>): number =>
  Math.max(MIN_STOP_SECONDS, stop?.graceSeconds ?? 0);

/** The grace that a hook leaves. */
export const remainingGrace = (graceSeconds: number, hookMs: number): number =>
  Math.max(0, graceSeconds - Math.floor(hookMs / 1_000));

// ---- answers to calls -----------------------------------------------------------------------------------------------

/** What a container reports to its pod, but its view. */
export interface Report {
  readonly phase: ContainerView['phase'];
  readonly inspect?: boolean;
  readonly seen?: ContainerStatus;
}

/** What the answer to a call shows of the instance; `null` where it shows nothing. */
export const shownIn = (event: unknown): ContainerStatus | null =>
  (event as { readonly output?: { readonly status?: ContainerStatus | null } }).output?.status ?? null;

/** How its pod learns what the runtime shows after a call: by the answer, or by an observation. */
export function afterCall({ event }: { readonly event: unknown }): Pick<Report, 'inspect' | 'seen'> {
  const seen = shownIn(event);
  return seen === null ? { inspect: true } : { seen };
}
