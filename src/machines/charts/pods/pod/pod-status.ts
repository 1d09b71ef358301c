/** The status of a pod, from the context of its machine. */

import type { DeviceHealth } from '../../../model/allocation/device-state.ts';
import { type Rejection, withAllocation } from '../../../model/allocation/request.ts';
import { isStaticPod, type PodStatus } from '../../../model/api/pod.ts';
import { claimHealthOf } from '../../../model/dra/claims.ts';
import type { PodRuntimeStatus } from '../../../model/operations/cri.ts';
import type { ContainerView } from '../../../model/pods/pod-messages.ts';
import { podMessages, waitingReasons } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { isTerminalPhase } from '../../../model/status/phase.ts';
import { type PodStatusFacts, podStatus, rejectedStatus } from '../../../model/status/pod-status.ts';
import { type ContainerFacts, factsOf } from '../../../model/status/runtime-facts.ts';
import { mapValues, valueIn } from '../../../model/values/tables.ts';
import type { PodContext } from './pod-context.ts';
import { probeResults, runtimeHandler } from './pod-members.ts';
import { hasClaims } from './pod-start-order.ts';

function healthOf(context: PodContext): DeviceHealth {
  const { pod, claims, node, deviceHealth } = context;
  if (pod === null || claims === null || node.reportsDeviceHealth !== true || !hasClaims(context)) return deviceHealth;
  const all = pod.spec.containers.map((container) => {
    const { prepared, health } = claims;
    const ofClaims = claimHealthOf(pod, container, prepared, health, node.hidesHealthMessages !== true);
    return [container.name, [...(valueIn(deviceHealth, container.name) ?? []), ...ofClaims]] as const;
  });
  return Object.fromEntries(all);
}

export const isOver = ({ status }: PodContext): boolean => isTerminalPhase(status?.phase);

/** The API server shows the pod as ended, even if nothing is left of it here. */
export const isOverInApi = ({ pod }: PodContext): boolean =>
  pod !== null && !isStaticPod(pod) && isTerminalPhase(pod.status?.phase);

export function statusOf(context: PodContext, nowMs: number): PodStatus | null {
  const { pod, node, containers, rememberedContainers, stage, rejection, kill, runtime } = context;
  if (pod === null) return null;
  const neverRan = runtime === null || runtime.containers.length === 0;
  if (rejection !== null && (kill === null || neverRan) && !isSynced(context))
    return { ...rejectedStatus(pod, rejection, nowMs), ...startTimeOf(context) };
  // Without a report of the runtime the last status stays.
  if (runtime === null) return context.status;
  const entries = Object.entries(containers);
  const waiting = entries
    .filter(([, { view }]) => view.phase === 'waiting' && view.reason !== '' && isShownReason(context, view))
    .map(([name, { view }]) => [name, { reason: view.reason, message: view.message }] as const);
  return podStatus({
    handler: runtimeHandler(context) ?? '',
    pod,
    node,
    nowMs,
    runtime: shownRuntime(runtime, context),
    begunMs: isStaticPod(pod) ? context.begunMs : null,
    previous: context.status ?? statusInApi(context),
    stage,
    waiting: { ...waitedFor(context), ...Object.fromEntries(waiting) },
    comingAgain: entries.flatMap(([name, { view }]) => (restartExpected(view, factsOf(runtime, name)) ? [name] : [])),
    replacing: entries.flatMap(([name, { view }]) => (isReplaced(view, factsOf(runtime, name)) ? [name] : [])),
    ...probeResults(context),
    restartCounts: mapValues(rememberedContainers, ({ restartCount }) => restartCount),
    deviceHealth: healthOf(context),
    ...verdictOf(context),
    ...(kill === null ? {} : { wasInitialised: kill.wasInitialised }),
    ...resizeOf(context),
  });
}

/** The waiting reasons of a container whose image is not there. */
const IMAGE_REASONS: ReadonlySet<string> = new Set([
  waitingReasons.invalidImageName,
  waitingReasons.imageInspectError,
  waitingReasons.errImageNeverPull,
  waitingReasons.errImagePull,
  waitingReasons.imagePullBackOff,
  waitingReasons.registryUnavailable,
  waitingReasons.signatureValidationFailed,
]);

/** Images are requested before the kubelet would request them: without a sandbox it knows of no failure. */
const isShownReason = ({ runtime, node }: PodContext, { reason }: ContainerView): boolean =>
  (runtime?.sandboxes.length ?? 0) > 0 || !IMAGE_REASONS.has(reason) || !hasBehavior(node, 'podDetailsAsKubelet');

/**
 * An ending pod that stays wanted keeps the waiting reasons of its containers; the end of an earlier instance is the
 * last state.
 */
function waitedFor({ kill, containers, status }: PodContext): PodStatusFacts['waiting'] {
  if (kill === null || kill.remove) return {};
  const all = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  return Object.fromEntries(
    all.flatMap(({ name, state }) => {
      const { reason = '', message = '' } = state?.waiting ?? {};
      const isKept =
        reason !== '' && !REASONS_BEFORE_FIRST_TRY.has(reason) && valueIn(containers, name)?.view.phase === 'ended';
      return isKept ? [[name, { reason, message }] as const] : [];
    }),
  );
}

/** The waiting reasons of a container that has not tried to start. */
const REASONS_BEFORE_FIRST_TRY: ReadonlySet<string> = new Set([
  waitingReasons.containerCreating,
  waitingReasons.podInitializing,
]);

/** The container is being restarted: it stops, or its next instance is not running yet. */
function restartExpected(view: ContainerView, seen: ContainerFacts | null): boolean {
  const { phase } = view;
  return isReplaced(view, seen) || (isNotShownYet(view, seen) && phase !== 'stopping' && phase !== 'ended');
}

/** The reported instance does not show as running yet. */
const isNotShownYet = ({ restartCount }: ContainerView, seen: ContainerFacts | null): boolean =>
  seen !== null && (seen.state === 'created' || seen.restartCount < restartCount);

/** The container is being replaced, and its next instance is not running yet. */
const isReplaced = (view: ContainerView, seen: ContainerFacts | null): boolean =>
  view.comesAgain === true && (view.phase !== 'running' || isNotShownYet(view, seen));

/** The instance was created and does not run yet; one whose start failed is shown. */
function isStarting({ phase, reason }: ContainerView, { state }: ContainerFacts): boolean {
  if (phase === 'starting') return true;
  const isUnderWay = reason === '' || reason === waitingReasons.crashLoopBackOff;
  return state === 'created' && (phase === 'running' || (phase === 'waiting' && isUnderWay));
}

/** The node has not admitted the pod, and only its deadline changes its status. */
export const isRejected = ({ pod, rejection, node }: PodContext): boolean =>
  pod !== null && rejection !== null && !isStaticPod(pod) && hasBehavior(node, 'syncsAsKubelet');

/**
 * The kubelet synchronizes a rejected pod once more: a static one when its mirror pod exists, another one when its
 * deadline is exceeded.
 */
const isSynced = ({ pod, kill, stage, node }: PodContext): boolean =>
  hasBehavior(node, 'syncsAsKubelet') &&
  stage === 'terminated' &&
  (kill?.verdict != null || (pod !== null && isStaticPod(pod) && node.apiServer !== undefined));

function resizeOf({
  refusal,
  resize,
  actuated,
  allocation,
  pod,
  node,
}: PodContext): Pick<PodStatusFacts, 'resizePending' | 'resizing' | 'actuated' | 'resized'> {
  const isResizePending = pod !== null && actuated !== null && JSON.stringify(actuated) !== JSON.stringify(allocation);
  return {
    ...(isResizePending && hasBehavior(node, 'podsAsKubelet') ? { resized: withAllocation(pod, actuated) } : {}),
    ...(actuated === null ? {} : { actuated }),
    ...(refusal === null ? {} : { resizePending: refusal }),
    ...(resize === null ? {} : { resizing: { error: resize.error } }),
  };
}

/** The start time: when the agent first observed the pod. */
const startTimeOf = ({ status }: PodContext): Pick<PodStatus, 'startTime'> =>
  status?.startTime === undefined ? {} : { startTime: status.startTime };

/** The verdict of the order to end, unless the pod succeeds in the meantime. */
function verdictOf(context: PodContext): Pick<PodStatusFacts, 'failure' | 'kill'> {
  const { kill, status, rejection } = context;
  if (!kill?.verdict) return rejection !== null && isSynced(context) ? { failure: failureOf(rejection) } : {};
  const { published, ...verdict } = kill.verdict;
  if (published === 'always') return { failure: verdict };
  return isTerminalPhase(status?.phase) ? {} : { kill: verdict };
}

const failureOf = ({ reason, message }: Rejection) => ({ reason, message: podMessages.rejected(message) });

/** After a restart of the agent the API server still has the published status. */
const statusInApi = ({ pod }: PodContext): PodStatus | null =>
  pod === null || isStaticPod(pod) ? null : (pod.status ?? null);

/**
 * The runtime's state with termination messages, which the runtime does not know, and without an instance whose start
 * has not succeeded yet.
 */
function shownRuntime(runtime: PodRuntimeStatus, { containers }: PodContext): PodRuntimeStatus {
  const starting = Object.entries(containers).flatMap(([name, { view }]) => {
    const facts = factsOf(runtime, name);
    return facts !== null && isStarting(view, facts) ? [facts.id] : [];
  });
  const ended = Object.values(containers).flatMap(({ view }) => (view.ended ? [view.ended] : []));
  if (ended.length === 0 && starting.length === 0) return runtime;
  const isHidden = new Set(starting);
  const messages = new Map(ended.map(({ id, message }) => [id, message]));
  return {
    ...runtime,
    containers: runtime.containers
      .filter(({ id }) => !isHidden.has(id))
      .map((container) => {
        const message = messages.get(container.id);
        if (!message) return container;
        return { ...container, message: container.message === '' ? message : `${container.message}: ${message}` };
      }),
  };
}

/**
 * When the pod exceeds its deadline, counted from its start: by the API server's status, or by the sandbox that an
 * earlier agent left of a static pod. Sandboxes created by this agent do not count, because the clock may be changed.
 */
export function deadlineOf({ pod, begunMs, status }: PodContext): number | null {
  const seconds = pod?.spec.activeDeadlineSeconds;
  if (pod === null || seconds === undefined || status?.startTime === undefined) return null;
  const startMs = Date.parse(status.startTime);
  return (isStaticPod(pod) ? Math.min(startMs, begunMs ?? startMs) : startMs) + seconds * 1_000;
}

/** The change of `isOverdue` that follows from the clock. */
export function overdueAt(context: PodContext, nowMs: number): Partial<PodContext> {
  const isOverdue = (deadlineOf(context) ?? Number.POSITIVE_INFINITY) <= nowMs;
  return isOverdue === context.isOverdue ? {} : { isOverdue };
}
