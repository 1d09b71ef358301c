/** Rates of CPU use from its counters. */

/** The shortest window that gives a rate. */
const MIN_WINDOW_MS = 1_000;
/** The longest window that gives a rate: `usageNanoCores` is no average over a longer time. */
const MAX_WINDOW_MS = 300_000;
const NANOS_PER_MILLI = 1_000_000n;
const NANOS_PER_SECOND = 1_000_000_000n;

interface Reading {
  readonly atMs: number;
  readonly usage: bigint;
  readonly rate: bigint | null;
}

/** Whether the earlier reading is too old, or in the future because the clock was set back. */
const isStale = (windowMs: number): boolean => windowMs < 0 || windowMs > MAX_WINDOW_MS;

/**
 * Converts CPU time counters to rates since the last request.
 *
 * Invariants: a counter that decreased (a new cgroup of the same name) has no rate; two requests in quick succession
 * give the same rate, because a short window is imprecise; an unused counter is forgotten; a clock that was set back
 * loses one rate.
 */
export class Rates {
  #last = new Map<string, Reading>();

  /** Nanoseconds of CPU time a second; `null` when this is the first reading. */
  note(key: string, atMs: number, usage: bigint): bigint | null {
    const before = this.#last.get(key);
    const windowMs = before === undefined ? 0 : atMs - before.atMs;
    if (before?.rate != null && windowMs >= 0 && windowMs < MIN_WINDOW_MS) return before.rate;
    const isComparable = before !== undefined && windowMs > 0 && !isStale(windowMs) && usage >= before.usage;
    const nanos = BigInt(Math.round(windowMs)) * NANOS_PER_MILLI;
    const rate = isComparable ? ((usage - before.usage) * NANOS_PER_SECOND) / nanos : null;
    this.#last.set(key, { atMs, usage, rate });
    return rate;
  }

  /** Whether another reading of this key now would have no rate: a short sample gives one first. */
  needsReading(key: string, nowMs: number): boolean {
    const before = this.#last.get(key);
    return before?.rate == null || isStale(nowMs - before.atMs);
  }

  /** Forgets readings that are too old to be compared with a later reading. */
  prune(nowMs: number): void {
    for (const [key, { atMs }] of this.#last) if (isStale(nowMs - atMs)) this.#last.delete(key);
  }
}
