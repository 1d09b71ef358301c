/**
 * Parses the eviction settings: signals with a threshold, a grace period and a minimum to reclaim.
 *
 * Invariants: a threshold of 0% or 100% is ignored; every soft threshold has a grace period; signals are sorted by
 * name, so that equal settings give equal lists.
 */
import type { ThresholdValue } from '../operations/stats.ts';
import { byBytes, type Parsed, parseFloat32, trimRight } from '../values/go-text.ts';
import { parseQuantity, quantityText } from '../values/quantity.ts';
import { parseDuration } from '../values/time.ts';
import type { StringMap } from './field-types.ts';
import type { KubeletConfiguration } from './fields.ts';

const EVICTION_SIGNALS = [
  'allocatableMemory.available',
  'containerfs.available',
  'containerfs.inodesFree',
  'imagefs.available',
  'imagefs.inodesFree',
  'memory.available',
  'nodefs.available',
  'nodefs.inodesFree',
  'pid.available',
] as const;

type EvictionSignal = (typeof EVICTION_SIGNALS)[number];

const WHOLE = 100;

interface EvictionThreshold {
  readonly signal: EvictionSignal;
  readonly value: ThresholdValue;
  /** Canonical duration; `0s` for a hard threshold. */
  readonly gracePeriod: string;
  readonly isHard: boolean;
  readonly minReclaim: ThresholdValue | null;
}

type EvictionSettings = Pick<
  KubeletConfiguration,
  'evictionHard' | 'evictionSoft' | 'evictionSoftGracePeriod' | 'evictionMinimumReclaim'
>;

export function parseEvictionThresholds(settings: EvictionSettings): Parsed<readonly EvictionThreshold[]> {
  const hard = parseStatements(settings.evictionHard, thresholdRefusal);
  if (hard.error !== undefined) return hard;
  const soft = parseStatements(settings.evictionSoft, thresholdRefusal);
  if (soft.error !== undefined) return soft;
  const grace = parseGracePeriods(settings.evictionSoftGracePeriod);
  if (grace.error !== undefined) return grace;
  const reclaim = parseStatements(settings.evictionMinimumReclaim, reclaimRefusal);
  if (reclaim.error !== undefined) return reclaim;
  const ungraced = [...soft.value.keys()].find((signal) => !grace.value.has(signal));
  if (ungraced !== undefined) {
    return { error: `grace period must be specified for the soft eviction threshold ${ungraced}` };
  }
  const complete = (found: Statements, isHard: boolean): EvictionThreshold[] =>
    [...found].map(([signal, value]) => ({
      signal,
      value,
      isHard,
      gracePeriod: isHard ? '0s' : (grace.value.get(signal) ?? '0s'),
      minReclaim: reclaim.value.get(signal) ?? null,
    }));
  return { value: [...complete(hard.value, true), ...complete(soft.value, false)] };
}

type Statements = ReadonlyMap<EvictionSignal, ThresholdValue>;
type Refusal = (signal: EvictionSignal, value: ThresholdValue, text: string) => string | null;

function signalNamed(name: string): EvictionSignal | undefined {
  return EVICTION_SIGNALS.find((known) => known === name);
}

function parseStatements(settings: StringMap, refusal: Refusal): Parsed<Statements> {
  const found = new Map<EvictionSignal, ThresholdValue>();
  for (const [name, text] of Object.entries(settings).toSorted(([left], [right]) => byBytes(left, right))) {
    const signal = signalNamed(name);
    if (signal === undefined) return { error: `unsupported eviction signal ${name}` };
    if (refusal === thresholdRefusal && (text === '0%' || text === '100%')) continue;
    const value = parseValue(text);
    if (value.error !== undefined) return value;
    const error = refusal(signal, value.value, text);
    if (error !== null) return { error };
    found.set(signal, reachable(value.value));
  }
  return { value: found };
}

/** Go accepts `NaN%`, which no amount is less than; so does this parser. */
const reachable = (value: ThresholdValue): ThresholdValue =>
  'share' in value && !Number.isFinite(value.share) ? { share: 0 } : value;

function parseValue(text: string): Parsed<ThresholdValue> {
  if (text.endsWith('%')) {
    const percent = parseFloat32(trimRight(text, '%'));
    return percent.error === undefined ? { value: { share: percent.value / WHOLE } } : percent;
  }
  const parsed = parseQuantity(text);
  return parsed.error === undefined ? { value: { quantity: text } } : parsed;
}

function thresholdRefusal(signal: EvictionSignal, value: ThresholdValue, text: string): string | null {
  if ('quantity' in value) {
    const [parsed, shown] = [parseQuantity(text), quantityText(text)];
    if (parsed.error !== undefined || shown.error !== undefined || parsed.value.nano > 0n) return null;
    return `eviction threshold ${signal} must be positive: ${shown.value}`;
  }
  const share = Math.fround(value.share);
  if (share < 0) return `eviction percentage threshold ${signal} must be >= 0%: ${text}`;
  return share > 1 ? `eviction percentage threshold ${signal} must be <= 100%: ${text}` : null;
}

function reclaimRefusal(signal: EvictionSignal, value: ThresholdValue, text: string): string | null {
  if ('share' in value) {
    const isPositive = !(Math.fround(value.share) <= 0);
    return isPositive ? null : `eviction percentage minimum reclaim ${signal} must be positive: ${text}`;
  }
  const parsed = parseQuantity(text);
  const isNegative = parsed.error === undefined && parsed.value.nano < 0n;
  return isNegative ? `negative eviction minimum reclaim specified for ${signal}` : null;
}

function parseGracePeriods(settings: StringMap): Parsed<ReadonlyMap<EvictionSignal, string>> {
  const found = new Map<EvictionSignal, string>();
  for (const [name, text] of Object.entries(settings).toSorted(([left], [right]) => byBytes(left, right))) {
    const signal = signalNamed(name);
    if (signal === undefined) return { error: `unsupported eviction signal ${name}` };
    const parsed = parseDuration(text);
    if (parsed.error !== undefined) return parsed;
    if (parsed.value < 0n) {
      return { error: `invalid eviction grace period specified: ${text}, must be a positive value` };
    }
    found.set(signal, text);
  }
  return { value: found };
}
