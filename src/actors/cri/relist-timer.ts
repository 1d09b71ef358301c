/** When the next relist is due: by how the events have proved themselves, and sooner where one is requested. */
import { type Cadence, initialCadence, nextCadence, type RelistOutcome } from './cadence.ts';

export interface RelistPeriods {
  /** While the event stream has proved itself. Default 10 s. */
  readonly settledMs: number;
  /** While it has, and nothing happens. Default 60 s. */
  readonly quietMs: number;
}
export const DEFAULT_RELIST_PERIODS: RelistPeriods = { settledMs: 10_000, quietMs: 60_000 };

interface TimerOptions {
  /** While the event stream has not proved itself, and the least time between two relists. */
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

  /** What the last relist says of the events. */
  judge(outcome: RelistOutcome): void {
    this.#cadence = nextCadence(this.#cadence, outcome);
  }

  /** Ends the pause before the next relist: at once, or when the fast period is over. */
  end(when: 'now' | 'soon'): void {
    this.#end(when);
  }

  /** Waits for the next relist: its period, or less when one is requested, but never under the fast period. */
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
