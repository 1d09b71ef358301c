/**
 * Schedules the next relist: frequent until the event stream has proved reliable, then rare, and sooner on request.
 *
 * A relist that finds only announced changes is clean. Each relist that finds a change without an event doubles the
 * number of clean relists that are required.
 */

/** Clean relists before the fast phase ends. */
const FIRST_PROOF = 5;
/** The most clean relists ever required; at one per second, about five minutes. */
const MAX_PROOF = 320;
/** Clean and idle relists at the settled period before the quiet period. */
const QUIET_AFTER = 6;

export interface Cadence {
  readonly phase: 'fast' | 'settled' | 'quiet';
  readonly clean: number;
  /** Clean relists that end the fast phase. */
  readonly proof: number;
}

export interface RelistOutcome {
  /** An event stream was open the whole time since the last relist. */
  readonly listening: boolean;
  /** The relist found a change that no event had announced. */
  readonly missed: boolean;
  /** A pod could not be inspected, or the relist itself failed. */
  readonly troubled: boolean;
  /** Events arrived since the last relist. */
  readonly active: boolean;
}

export const initialCadence: Cadence = { phase: 'fast', clean: 0, proof: FIRST_PROOF };

/** The next cadence after the outcome of a relist. Pure. */
export function nextCadence({ phase, clean, proof }: Cadence, outcome: RelistOutcome): Cadence {
  if (outcome.missed) return { phase: 'fast', clean: 0, proof: Math.min(proof * 2, MAX_PROOF) };
  if (!outcome.listening || outcome.troubled) return { phase: 'fast', clean: 0, proof };
  if (phase === 'fast') {
    return clean + 1 < proof ? { phase, clean: clean + 1, proof } : { phase: 'settled', clean: 0, proof };
  }
  if (outcome.active) return { phase: 'settled', clean: 0, proof };
  return clean + 1 < QUIET_AFTER ? { phase, clean: clean + 1, proof } : { phase: 'quiet', clean, proof };
}

export interface RelistPeriods {
  /** Period once the event stream has proved reliable. Default 10 s. */
  readonly settledMs: number;
  /** Period once the stream has proved reliable and nothing happens. Default 60 s. */
  readonly quietMs: number;
}
export const DEFAULT_RELIST_PERIODS: RelistPeriods = { settledMs: 10_000, quietMs: 60_000 };

interface TimerOptions {
  /** Period until the event stream has proved reliable, and the least time between two relists. */
  readonly relistPeriodMs: number;
  readonly periods: RelistPeriods;
  readonly now: () => number;
  readonly signal: AbortSignal;
}

export class RelistTimer {
  readonly #options: TimerOptions;
  #cadence: Cadence = initialCadence;
  #end: (when: 'now' | 'soon') => void = () => {};

  constructor(options: TimerOptions) {
    this.#options = options;
  }

  /** Chooses the next period by the outcome of the last relist. */
  schedule(outcome: RelistOutcome): void {
    this.#cadence = nextCadence(this.#cadence, outcome);
  }

  /** Ends the wait for the next relist: at once, or after the fast period. */
  end(when: 'now' | 'soon'): void {
    this.#end(when);
  }

  /** Waits for the next relist: its period, or less on request, but never less than the fast period. */
  async pause(startedAtMs: number, isWanted: boolean): Promise<void> {
    const { signal, now, relistPeriodMs, periods } = this.#options;
    const periodMs = { fast: relistPeriodMs, settled: periods.settledMs, quiet: periods.quietMs }[this.#cadence.phase];
    const dueIn = (ms: number) => Math.max(0, startedAtMs + ms - now());
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const waitMs = isWanted ? relistPeriodMs : Math.max(periodMs, relistPeriodMs);
      let timer = setTimeout(resolve, dueIn(waitMs));
      this.#end = (when) => {
        clearTimeout(timer);
        if (when === 'now') resolve();
        else timer = setTimeout(resolve, dueIn(relistPeriodMs));
      };
    });
    this.#end = () => {};
  }
}
