/** Times, durations and exponential back-off, in the API's formats. Pure: nothing here reads a clock. */
import { type Parsed, quoteBytes, trimRight } from './go-text.ts';

const NANOSECONDS_PER_MILLISECOND = 1_000_000n;

/** RFC 3339 in UTC, whole seconds, as `metav1.Time`. */
export const rfc3339 = (ms: number): string => `${new Date(ms).toISOString().slice(0, -'.000Z'.length)}Z`;

/** CRI counts nanoseconds since 1970, as decimal text. */
export const milliseconds = (nanoseconds: string): number => Number(BigInt(nanoseconds) / NANOSECONDS_PER_MILLISECOND);

const SECONDS_PER_MINUTE = 60;
const MINUTES_PER_HOUR = 60;
const MILLISECONDS_PER_SECOND = 1000;

/** Go's notation, which the messages of the kubelet use: `1m20s`, `10s`, `500ms`. */
export function goDuration(ms: number): string {
  if (ms === 0) return '0s';
  if (ms < MILLISECONDS_PER_SECOND) return `${ms}ms`;
  const totalSeconds = Math.floor(ms / MILLISECONDS_PER_SECOND);
  const rest = ms % MILLISECONDS_PER_SECOND;
  const fraction = rest === 0 ? '' : `.${trimRight(String(rest).padStart(3, '0'), '0')}`;
  const seconds = `${totalSeconds % SECONDS_PER_MINUTE}${fraction}s`;
  const totalMinutes = Math.floor(totalSeconds / SECONDS_PER_MINUTE);
  if (totalMinutes === 0) return seconds;
  const hours = Math.floor(totalMinutes / MINUTES_PER_HOUR);
  const minutes = `${totalMinutes % MINUTES_PER_HOUR}m${seconds}`;
  return hours === 0 ? minutes : `${hours}h${minutes}`;
}

/**
 * Go's durations: their meaning and their text.
 *
 * Every duration of the configuration is in the canonical form (`1m0s`): exact, readable, JSON. Timers use
 * milliseconds. Invariant: `formatDuration(parseDuration(x))` is a fixed point.
 */
const NANOSECONDS: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  µs: 1_000n,
  μs: 1_000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
};

const LARGEST = 2n ** 63n - 1n;
/** The smallest duration has no positive counterpart. */
const LARGEST_MAGNITUDE = 2n ** 63n;
const SECOND = 1_000_000_000n;
const MILLISECOND = 1_000_000n;
const MICROSECOND = 1_000n;

/** `time.ParseDuration`, in nanoseconds. */
export function parseDuration(text: string): Parsed<bigint> {
  const invalid = { error: `time: invalid duration ${quoteBytes(text)}` };
  const unsigned = text.replace(/^[+-]/, '');
  if (unsigned === '0') return { value: 0n };
  if (unsigned === '') return invalid;
  let total = 0n;
  let rest = unsigned;
  while (rest !== '') {
    const [, whole = '', fraction = '', unit = ''] = /^([0-9]*)(?:\.([0-9]*))?([^0-9.]*)/.exec(rest) ?? [];
    if (whole === '' && fraction === '') return invalid;
    if (BigInt(whole || '0') > LARGEST_MAGNITUDE) return invalid;
    if (unit === '') return { error: `time: missing unit in duration ${quoteBytes(text)}` };
    const scale = NANOSECONDS[unit];
    if (scale === undefined) return { error: `time: unknown unit ${quoteBytes(unit)} in duration ${quoteBytes(text)}` };
    total += BigInt(whole || '0') * scale + (BigInt(fraction || '0') * scale) / 10n ** BigInt(fraction.length);
    if (total > LARGEST_MAGNITUDE) return invalid;
    rest = rest.slice(/^[0-9]*\.?[0-9]*/.exec(rest)?.[0].length ?? 0).slice(unit.length);
  }
  if (text.startsWith('-')) return { value: -total };
  return total > LARGEST ? invalid : { value: total };
}

/** `time.Duration.String`. */
export function formatDuration(nanoseconds: bigint): string {
  if (nanoseconds === 0n) return '0s';
  const sign = nanoseconds < 0n ? '-' : '';
  const size = nanoseconds < 0n ? -nanoseconds : nanoseconds;
  if (size < MICROSECOND) return `${sign}${size}ns`;
  if (size < MILLISECOND) return `${sign}${decimal(size, MICROSECOND)}µs`;
  if (size < SECOND) return `${sign}${decimal(size, MILLISECOND)}ms`;
  const minutes = size / (60n * SECOND);
  const seconds = `${decimal(size % (60n * SECOND), SECOND)}s`;
  if (minutes === 0n) return `${sign}${seconds}`;
  if (minutes < 60n) return `${sign}${minutes}m${seconds}`;
  return `${sign}${minutes / 60n}h${minutes % 60n}m${seconds}`;
}

function decimal(value: bigint, unit: bigint): string {
  const fraction = trimRight((value % unit).toString().padStart(unit.toString().length - 1, '0'), '0');
  return fraction === '' ? `${value / unit}` : `${value / unit}.${fraction}`;
}

/** The nanoseconds of a canonical duration; zero for any other text. */
export function nanosecondsOf(duration: string): bigint {
  const parsed = parseDuration(duration);
  return parsed.error === undefined ? parsed.value : 0n;
}

/** The milliseconds of a canonical duration, for a timer. */
export function millisecondsOf(duration: string): number {
  return Number(nanosecondsOf(duration)) / Number(MILLISECOND);
}

/** Seconds with fractions, as Go's `Duration.Seconds` prints them. */
export function secondsOf(duration: string): number {
  return Number(nanosecondsOf(duration)) / Number(SECOND);
}

/**
 * Exponential back-off: the pause doubles with each failure up to a limit, with jitter where many retries would
 * coincide. Pure.
 */
export interface BackOff {
  /** The pause after the first failure. */
  readonly baseMs: number;
  readonly maxMs: number;
  /** The largest relative jitter of a pause. */
  readonly jitter?: number;
}

/** Operations on one volume or one plugin. Upstream's limits: pkg/util/goroutinemap/exponentialbackoff. */
export const OPERATION_BACK_OFF: BackOff = { baseMs: 500, maxMs: 122_000 };
/** The Node and its Lease. Upstream's limits. */
export const NODE_BACK_OFF: BackOff = { baseMs: 100, maxMs: 7_000 };
/** Reads of objects that pods use. */
export const READ_BACK_OFF: BackOff = { baseMs: 1_000, maxMs: 30_000, jitter: 1 };
/** Statuses and mirror pods: a failing server is asked rarely, and a recovered one is found soon. */
export const WRITE_BACK_OFF: BackOff = { baseMs: 500, maxMs: 30_000, jitter: 0.5 };
/** A status write without an answer: never longer than upstream's period of syncing all statuses. */
export const STATUS_BACK_OFF: BackOff = { baseMs: 500, maxMs: 8_000, jitter: 0.25 };
/** A pod whose sync failed. Upstream's pause: pkg/kubelet/pod_workers.go. */
export const SYNC_BACK_OFF: BackOff = { baseMs: 10_000, maxMs: 10_000, jitter: 0.5 };
/** Crashed actors: at the limit a crash loop is slow enough to be read and fast enough to recover by itself. */
export const RESPAWN_BACK_OFF: BackOff = { baseMs: 1_000, maxMs: 60_000 };

/**
 * @param before the number of earlier failures
 * @param chance from 0 to 1, for `jitter`
 */
export const pauseMs = ({ baseMs, maxMs, jitter = 0 }: BackOff, before: number, chance = 0): number =>
  Math.min(maxMs, baseMs * 2 ** before) * (1 + jitter * chance);

/** The pause after one of `beforeMs`, for callers that store the pause instead of the number of failures. */
export const doubledMs = ({ maxMs }: BackOff, beforeMs: number): number => Math.min(beforeMs * 2, maxMs);
