/**
 * Detects shortages of the node's resources: thresholds, observations, and the resulting conditions.
 *
 * Pure. Upstream: pkg/kubelet/eviction/helpers.go. Invariant: a threshold is met when less than its amount is
 * available; once met it stays met until its minimum is reclaimed as well.
 */
import { parseEvictionThresholds } from '../configuration/eviction-thresholds.ts';
import type { KubeletConfiguration } from '../configuration/fields.ts';
import type {
  DiskLayout,
  EvictionSignal,
  EvictionThreshold,
  Observations,
  SignalObservation,
  ThresholdValue,
} from '../operations/stats.ts';
import { formatBinary, formatDecimal, fromWhole, nanoOf, wholeUnits } from '../values/quantity.ts';
import { millisecondsOf } from '../values/time.ts';

export type PressureCondition = 'MemoryPressure' | 'DiskPressure' | 'PIDPressure';
/** The resource that is reclaimed; `inodes` and `pids` are no API resources. */
export type StarvedResource = 'memory' | 'ephemeral-storage' | 'inodes' | 'pids';

const RESOURCES: Readonly<Record<EvictionSignal, StarvedResource>> = {
  'memory.available': 'memory',
  'allocatableMemory.available': 'memory',
  'nodefs.available': 'ephemeral-storage',
  'imagefs.available': 'ephemeral-storage',
  'containerfs.available': 'ephemeral-storage',
  'nodefs.inodesFree': 'inodes',
  'imagefs.inodesFree': 'inodes',
  'containerfs.inodesFree': 'inodes',
  'pid.available': 'pids',
};

const CONDITIONS: Readonly<Record<StarvedResource, PressureCondition>> = {
  memory: 'MemoryPressure',
  'ephemeral-storage': 'DiskPressure',
  inodes: 'DiskPressure',
  pids: 'PIDPressure',
};

export const resourceOf = (signal: EvictionSignal): StarvedResource => RESOURCES[signal];
const conditionOf = (signal: EvictionSignal): PressureCondition => CONDITIONS[RESOURCES[signal]];
export const isHard = ({ graceMs }: EvictionThreshold): boolean => graceMs === 0;

type Settings = Pick<
  KubeletConfiguration,
  'evictionHard' | 'evictionSoft' | 'evictionSoftGracePeriod' | 'evictionMinimumReclaim' | 'enforceNodeAllocatable'
>;

/**
 * The configured thresholds. If the limit of all pods is enforced, their cgroup has the node's memory threshold as
 * well.
 */
export function configuredThresholds(settings: Settings): readonly EvictionThreshold[] {
  const parsed = parseEvictionThresholds(settings);
  if (parsed.error !== undefined) return [];
  const thresholds = parsed.value.map(
    ({ signal, value, gracePeriod, minReclaim }): EvictionThreshold => ({
      signal,
      value,
      graceMs: millisecondsOf(gracePeriod),
      minReclaim,
    }),
  );
  if (!(settings.enforceNodeAllocatable ?? []).includes('pods')) return thresholds;
  const ofPods = thresholds.filter((each) => each.signal === 'memory.available' && isHard(each));
  return [...thresholds, ...ofPods.map((each) => ({ ...each, signal: 'allocatableMemory.available' as const }))];
}

/** containerfs has no thresholds of its own: it uses the thresholds of the file system with the writable layers. */
export function withContainerFs(
  thresholds: readonly EvictionThreshold[],
  { dedicatedImageFs, splitContainerFs }: DiskLayout,
): readonly EvictionThreshold[] {
  const source = dedicatedImageFs && !splitContainerFs ? 'imagefs' : 'nodefs';
  const others = thresholds.filter(({ signal }) => !signal.startsWith('containerfs.'));
  const derived = others.flatMap((each): readonly EvictionThreshold[] => {
    if (each.signal === `${source}.available`) return [{ ...each, signal: 'containerfs.available' }];
    return each.signal === `${source}.inodesFree` ? [{ ...each, signal: 'containerfs.inodesFree' }] : [];
  });
  return [...others, ...derived];
}

/** Signals measured in bytes; the others are counts. */
const isBytes = (signal: EvictionSignal): boolean =>
  resourceOf(signal) === 'memory' || resourceOf(signal) === 'ephemeral-storage';

/** The amount of a threshold on this machine, in whole units. A share is a float of 32 bits, as upstream. */
export function thresholdAmount(value: ThresholdValue, capacity: bigint): bigint {
  if ('quantity' in value) return wholeUnits(nanoOf(value.quantity));
  return BigInt(Math.trunc(Number(capacity) * Math.fround(value.share)));
}

/** The threshold as messages print it. */
export function thresholdText({ signal, value }: EvictionThreshold, { capacity }: SignalObservation): string {
  if ('quantity' in value) return value.quantity;
  return amountText(signal, thresholdAmount(value, BigInt(capacity)), true);
}

export const amountText = (signal: EvictionSignal, amount: bigint, asBytes = isBytes(signal)): string =>
  asBytes ? formatBinary(fromWhole(amount)) : formatDecimal(fromWhole(amount));

/** Whether less than the threshold is available; `withReclaim` adds its minimum to reclaim. */
function isMet(threshold: EvictionThreshold, observed: SignalObservation, withReclaim: boolean): boolean {
  const capacity = BigInt(observed.capacity);
  const amount = thresholdAmount(threshold.value, capacity);
  const back = withReclaim && threshold.minReclaim ? thresholdAmount(threshold.minReclaim, capacity) : 0n;
  return amount + back > BigInt(observed.available);
}

export function metThresholds(
  thresholds: readonly EvictionThreshold[],
  observations: Observations,
  withReclaim: boolean,
): readonly number[] {
  return thresholds.flatMap((threshold, index) => {
    const observed = observations[threshold.signal];
    return observed !== undefined && isMet(threshold, observed, withReclaim) ? [index] : [];
  });
}

export const thresholdsAt = (
  thresholds: readonly EvictionThreshold[],
  indices: readonly number[],
): readonly EvictionThreshold[] => indices.flatMap((index) => thresholds[index] ?? []);

/** By index of a threshold, since when it is met. */
type MetSince = Readonly<Record<string, number>>;

export interface Shortage {
  /** Thresholds that are met, within or after their grace period. */
  readonly metSince: MetSince;
  /** Thresholds whose grace period is over: the node has to act. */
  readonly due: readonly number[];
}

/** The current shortage, from the previous one and an observation. */
export function shortageOf(
  thresholds: readonly EvictionThreshold[],
  observations: Observations,
  before: Shortage,
  nowMs: number,
): Shortage {
  const crossed = metThresholds(thresholds, observations, false);
  const unreclaimed = metThresholds(thresholds, observations, true).filter((index) => before.due.includes(index));
  const met = [...new Set([...crossed, ...unreclaimed])];
  const since = met.map((index) => [index, before.metSince[index] ?? nowMs] as const);
  const isOver = ([index, sinceMs]: (typeof since)[number]): boolean =>
    thresholdsAt(thresholds, [index]).some(({ graceMs }) => nowMs - sinceMs >= graceMs);
  return { metSince: Object.fromEntries(since), due: since.filter(isOver).map(([index]) => index) };
}

/** When the next grace period ends; `null` when none is running. */
export function nextGraceAtMs(thresholds: readonly EvictionThreshold[], { metSince, due }: Shortage): number | null {
  const ends = Object.entries(metSince).flatMap(([index, sinceMs]) =>
    due.includes(Number(index))
      ? []
      : thresholdsAt(thresholds, [Number(index)]).map(({ graceMs }) => sinceMs + graceMs),
  );
  return ends.length === 0 ? null : Math.min(...ends);
}

/** The most urgent threshold: memory first, because otherwise the OOM killer soon acts. */
export function mostUrgent(thresholds: readonly EvictionThreshold[], due: readonly number[]): EvictionThreshold | null {
  const short = thresholdsAt(thresholds, due);
  return short.find(({ signal }) => resourceOf(signal) === 'memory') ?? short[0] ?? null;
}

/** By condition, when it was observed last. */
export type ObservedAt = Readonly<Partial<Record<PressureCondition, number>>>;

const conditionsOf = (thresholds: readonly EvictionThreshold[], metSince: MetSince): readonly PressureCondition[] =>
  thresholdsAt(thresholds, Object.keys(metSince).map(Number)).map(({ signal }) => conditionOf(signal));

export function conditionsObserved(
  thresholds: readonly EvictionThreshold[],
  { metSince }: Shortage,
  before: ObservedAt,
  nowMs: number,
): ObservedAt {
  const observed = conditionsOf(thresholds, metSince);
  return { ...before, ...Object.fromEntries(observed.map((condition) => [condition, nowMs])) };
}

/** A condition is reported for as long as it lasts and for the transition period after it. */
export function reportedConditions(
  thresholds: readonly EvictionThreshold[],
  { metSince }: Shortage,
  observedAt: ObservedAt,
  transitionMs: number,
  nowMs: number,
): readonly PressureCondition[] {
  const lasting = new Set(conditionsOf(thresholds, metSince));
  const all: readonly PressureCondition[] = ['MemoryPressure', 'DiskPressure', 'PIDPressure'];
  return all.filter((condition) => {
    const atMs = observedAt[condition];
    return lasting.has(condition) || (atMs !== undefined && nowMs - atMs < transitionMs);
  });
}
