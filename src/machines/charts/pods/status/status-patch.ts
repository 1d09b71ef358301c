/**
 * The part of a pod's status that is written to the API server, as a patch of the status there.
 *
 * Invariants: conditions and fields of other clients stay; unchanged conditions keep their times, so that a restart of
 * the agent changes nothing; a pod is not published as ended while one of its containers may still run.
 */
import type { JsonObject } from '../../../../kernel/xstate.ts';
import type { ContainerState, PodCondition, PodStatus } from '../../../model/api/pod.ts';
import { strategicPatch } from '../../../model/api/strategic-patch.ts';
import type { SeenPod } from '../../../model/pods/source-messages.ts';
import { conditionReasons, waitingReasons } from '../../../model/reasons/reasons.ts';
import { isForeignCondition } from '../../../model/status/conditions.ts';
import { isTerminalPhase } from '../../../model/status/phase.ts';
import { type PodStage, publishedStatus } from '../../../model/status/pod-status.ts';

/** Fields that the node agent writes: one that its status lacks is removed. */
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

/** Fields of the time before a pod is bound, and of kubelets before 1.33: no status of this node has them. */
const OUTDATED = ['nominatedNodeName', 'resize'] as const;

/** How a status is written. */
export interface Writing {
  /** Outdated fields are removed: behavior `sourcesAsKubelet`. */
  readonly clears?: boolean;
}

/** Also set by other clients (the API server's eviction): the agent writes this condition only when it ends the pod. */
const SHARED_CONDITION = 'DisruptionTarget';

const MERGE_KEYS = { 'status.conditions': 'type', 'status.podIPs': 'ip', 'status.hostIPs': 'ip' } as const;

/** The status that the API server should have. */
function mergedStatus(own: PodStatus, seen: PodStatus, stage: PodStage, { clears = false }: Writing): PodStatus {
  const published = publishedStatus(own, seen, stage === 'sync');
  const others: Record<string, unknown> = { ...seen };
  for (const field of [...OWNED, ...(clears ? OUTDATED : [])]) delete others[field];
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

interface Patched {
  readonly seen: SeenPod;
  readonly stage: PodStage;
  readonly patch: JsonObject | null;
}

/** The last patch of each status: its publisher needs it to decide, to wait and to write. */
const lastPatches = new WeakMap<PodStatus, Patched>();

/**
 * The body of the PATCH of `pods/status`; `null` if nothing differs. The uid guards against another pod of the same
 * name.
 */
export function statusPatch(own: PodStatus, seen: SeenPod, stage: PodStage, writing: Writing = {}): JsonObject | null {
  const last = lastPatches.get(own);
  if (last?.seen === seen && last.stage === stage) return last.patch;
  const before = withoutNulls(seen.status) as PodStatus;
  const difference = strategicPatch(fieldsOf(before), fieldsOf(mergedStatus(own, before, stage, writing)), MERGE_KEYS);
  const patch = difference === null ? null : { metadata: { uid: seen.uid }, ...difference };
  lastPatches.set(own, { seen, stage, patch });
  return patch;
}

/** A status is JSON, although its generated type does not express it. */
const fieldsOf = (status: unknown): JsonObject => ({ status }) as JsonObject;

/** A field that Go writes as `null` is absent. The value itself if it has none, as almost every one. */
const withoutNulls = (value: unknown): unknown => (hasNulls(value) ? copyWithoutNulls(value) : value);

function hasNulls(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return value === null;
  for (const each of Object.values(value)) if (hasNulls(each)) return true;
  return false;
}

function copyWithoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copyWithoutNulls);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, each]) => each !== null);
  return Object.fromEntries(entries.map(([key, each]) => [key, copyWithoutNulls(each)]));
}

/** How long a change may wait for others. */
export type Urgency =
  /** A change of phase or readiness, or the end: controllers and users wait for it. */
  | 'now'
  /** A change that users watch: states of containers, a resize, the first status of a pod. */
  | 'soon'
  /** Any other change. */
  | 'later';

const readiness = (status: PodStatus): string | undefined =>
  status.conditions?.find(({ type }) => type === 'Ready')?.status;

export function urgencyOf(own: PodStatus, seen: SeenPod, stage: PodStage): Urgency {
  const after = mergedStatus(own, seen.status, stage, {});
  const isReadyNow = readiness(after) === 'True' || readiness(seen.status) === 'True';
  const changesReadiness = isReadyNow && readiness(after) !== readiness(seen.status);
  if (seen.isDeleting || after.phase !== seen.status.phase || changesReadiness) return 'now';
  if (seen.status.startTime === undefined) return 'soon';
  return visibleStates(withoutNulls(seen.status) as PodStatus) === visibleStates(after) ? 'later' : 'soon';
}

/**
 * The states that users watch. A starting container is not shown until it runs or fails, nor is an address while all
 * containers start.
 */
const visibleStates = (status: PodStatus): string => {
  const { containerStatuses = [], initContainerStatuses = [], ephemeralContainerStatuses = [] } = status;
  const all = [...initContainerStatuses, ...containerStatuses, ...ephemeralContainerStatuses];
  const containers = all.map(({ name, state, lastState, ready, restartCount, started, resources }) => [
    name,
    isStarting(state) ? null : ordered(state),
    ordered(lastState),
    ready,
    restartCount,
    started,
    state?.running === undefined ? null : ordered(resources),
  ]);
  const address = all.every(({ state }) => isStarting(state)) ? '' : status.podIP;
  return JSON.stringify([containers, resizesOf(status), address, status.observedGeneration, gatesOf(status)]);
};

/** Readiness gates that are not met: other clients set them. */
const gatesOf = ({ conditions = [] }: PodStatus) =>
  conditions.find(({ reason }) => reason === conditionReasons.readinessGatesNotReady)?.message;

const resizesOf = ({ conditions = [] }: PodStatus) =>
  conditions.flatMap(({ type, reason, message }) => (type.startsWith('PodResize') ? [[type, reason, message]] : []));

const STARTING_REASONS: ReadonlySet<string> = new Set([
  waitingReasons.containerCreating,
  waitingReasons.podInitializing,
  '',
]);

const isStarting = (state: ContainerState | undefined): boolean =>
  state?.running === undefined && state?.terminated === undefined && STARTING_REASONS.has(state?.waiting?.reason ?? '');

/** Sorts fields by name: the API server has its own order. */
function ordered(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.entries(value)
    .map(([key, each]): [string, unknown] => [key, ordered(each)])
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
}
