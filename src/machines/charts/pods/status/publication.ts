/**
 * What of a pod's status is written to the API server, as a patch of what is there.
 *
 * Invariants: conditions and fields of others stay as they are; what is as it was keeps its time, so that a restart of
 * the agent is no change; a pod is not published as ended while one of its containers may still run.
 */
import type { JsonObject } from '../../../../kernel/xstate.ts';
import type { ContainerState, PodCondition, PodStatus } from '../../../model/api/pod.ts';
import { strategicPatch } from '../../../model/api/strategic-patch.ts';
import type { SeenPod } from '../../../model/pods/api-messages.ts';
import { conditionReasons, waitingReasons } from '../../../model/reasons/reasons.ts';
import { isForeignCondition } from '../../../model/status/conditions.ts';
import { isTerminalPhase } from '../../../model/status/phase.ts';
import type { PodStage } from '../../../model/status/pod-status.ts';
import { publishedStatus } from '../../../model/status/pod-status.ts';

/** Fields that the node agent writes: where it says nothing, nothing is meant. */
const OWNED = [
  'phase',
  'reason',
  'message',
  'conditions',
  'hostIP',
  'hostIPs',
  'podIP',
  'podIPs',
  'startTime',
  'initContainerStatuses',
  'containerStatuses',
  'ephemeralContainerStatuses',
  'resources',
  'allocatedResources',
] as const satisfies readonly (keyof PodStatus)[];

/** Also set by others (the API server's eviction): the agent touches it only in ending the pod. */
const SHARED_CONDITION = 'DisruptionTarget';

const MERGE_KEYS = { 'status.conditions': 'type', 'status.podIPs': 'ip', 'status.hostIPs': 'ip' } as const;

/** What the API server should hold. */
function mergedStatus(own: PodStatus, seen: PodStatus, stage: PodStage): PodStatus {
  const published = publishedStatus(own, seen, stage === 'sync');
  const others: Record<string, unknown> = { ...seen };
  for (const field of OWNED) delete others[field];
  const isEnding = isTerminalPhase(published.phase) && !isTerminalPhase(seen.phase);
  const startTime = seen.startTime ?? published.startTime;
  const conditions = mergedConditions(published.conditions ?? [], seen.conditions ?? [], isEnding);
  return {
    ...others,
    ...published,
    ...(startTime === undefined ? {} : { startTime }),
    ...(conditions.length === 0 ? {} : { conditions }),
  };
}

function mergedConditions(own: readonly PodCondition[], seen: readonly PodCondition[], isEnding: boolean) {
  const isOthers = (condition: PodCondition): boolean =>
    isForeignCondition(condition) || (condition.type === SHARED_CONDITION && !isEnding);
  const others = seen.filter((each) => isOthers(each) || isSharedAndAbsent(each, own));
  const dated = own
    .filter((each) => !isOthers(each))
    .map((condition) => {
      const before = seen.find(({ type }) => type === condition.type);
      const isSame = before?.status === condition.status && before.lastTransitionTime !== undefined;
      return isSame ? { ...condition, lastTransitionTime: before.lastTransitionTime } : condition;
    });
  return [...others, ...dated];
}

const isSharedAndAbsent = ({ type }: PodCondition, own: readonly PodCondition[]): boolean =>
  type === SHARED_CONDITION && !own.some((each) => each.type === type);

/** The body of the PATCH of `pods/status`; `null` when there is nothing to say. The uid guards against a namesake. */
export function statusPatch(own: PodStatus, seen: SeenPod, stage: PodStage): JsonObject | null {
  const before = withoutNulls(seen.status) as PodStatus;
  const after = mergedStatus(own, before, stage);
  const patch = strategicPatch(fieldsOf(before), fieldsOf(after), MERGE_KEYS);
  return patch === null ? null : { metadata: { uid: seen.uid }, ...patch };
}

/** A status is JSON; its generated type does not say so. */
const fieldsOf = (status: unknown): JsonObject => ({ status }) as JsonObject;

/** Where Go writes `null` there is nothing. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, each]) => each !== null);
  return Object.fromEntries(entries.map(([key, each]) => [key, withoutNulls(each)]));
}

/** How long a change may wait for the next one. */
export type Urgency =
  /** What controllers and users wait for: phase, readiness, the end. */
  | 'now'
  /** What users watch: containers, what became of a resize or another change, that the node knows the pod at all. */
  | 'soon'
  /** Everything else. */
  | 'later';

const readiness = (status: PodStatus): string | undefined =>
  status.conditions?.find(({ type }) => type === 'Ready')?.status;

export function urgencyOf(own: PodStatus, seen: SeenPod, stage: PodStage): Urgency {
  const after = mergedStatus(own, seen.status, stage);
  const isReadyNow = readiness(after) === 'True' || readiness(seen.status) === 'True';
  const changesReadiness = isReadyNow && readiness(after) !== readiness(seen.status);
  if (seen.isDeleting || after.phase !== seen.status.phase || changesReadiness) return 'now';
  if (seen.status.startTime === undefined) return 'soon';
  return visibleStates(withoutNulls(seen.status) as PodStatus) === visibleStates(after) ? 'later' : 'soon';
}

/**
 * What users watch of it. A starting container is no news until it runs, or does not; nor is an address while all of
 * them start.
 */
const visibleStates = (status: PodStatus): string => {
  const { containerStatuses = [], initContainerStatuses = [], ephemeralContainerStatuses = [] } = status;
  const all = [...initContainerStatuses, ...containerStatuses, ...ephemeralContainerStatuses];
  const containers = all.map(({ name, state, lastState, ready, restartCount, started, resources }) => [
    name,
    isOnItsWay(state) ? null : ordered(state),
    ordered(lastState),
    ready,
    restartCount,
    started,
    state?.running === undefined ? null : ordered(resources),
  ]);
  const address = all.every(({ state }) => isOnItsWay(state)) ? '' : status.podIP;
  return JSON.stringify([containers, resizesOf(status), address, status.observedGeneration, gatesOf(status)]);
};

/** What it lacks to be ready, where that is the word of others. */
const gatesOf = ({ conditions = [] }: PodStatus) =>
  conditions.find(({ reason }) => reason === conditionReasons.readinessGatesNotReady)?.message;

const resizesOf = ({ conditions = [] }: PodStatus) =>
  conditions.flatMap(({ type, reason, message }) => (type.startsWith('PodResize') ? [[type, reason, message]] : []));

const ON_ITS_WAY: ReadonlySet<string> = new Set([waitingReasons.containerCreating, waitingReasons.podInitializing, '']);

const isOnItsWay = (state: ContainerState | undefined): boolean =>
  state?.running === undefined && state?.terminated === undefined && ON_ITS_WAY.has(state?.waiting?.reason ?? '');

/** The API server has its own order of fields. */
function ordered(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.entries(value)
    .map(([key, each]): [string, unknown] => [key, ordered(each)])
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
}
