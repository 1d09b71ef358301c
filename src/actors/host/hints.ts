/**
 * Hints that something may have changed, and the wait between two inspections. It ends with a hint, a second after the
 * last hint (an event may have been dropped), after the caller's period, or with the watch.
 */

/** The delay of one more inspection after the last hint, in case an event was dropped. */
const QUIET_MS = 1_000;
/** Node turns a longer delay into 1 ms. */
const MAX_TIMER_MS = 2_147_483_647;

export class Hints {
  readonly #signal: AbortSignal;
  readonly #onAbort = (): void => this.#wake();
  #hasNew = false;
  #lastAtMs = Number.NEGATIVE_INFINITY;
  #wake: () => void = () => {};

  /** `signal`: of the operation that waits for hints; aborting it ends the wait. */
  constructor(signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  close(): void {
    this.#signal.removeEventListener('abort', this.#onAbort);
  }

  give(): void {
    this.#lastAtMs = performance.now();
    this.#hasNew = true;
    this.#wake();
  }

  /** There were hints since the last inspection. */
  get hasNew(): boolean {
    return this.#hasNew;
  }

  /** An inspection begins, which covers all hints so far. */
  take(): void {
    this.#hasNew = false;
  }

  /** Waits at most `ms`, and not at all when there are new hints. */
  wait(ms: number): Promise<void> {
    if (this.#signal.aborted || this.#hasNew) return Promise.resolve();
    const quietMs = this.#lastAtMs + QUIET_MS - performance.now();
    const limitMs = Math.min(ms, quietMs > 0 ? quietMs : MAX_TIMER_MS, MAX_TIMER_MS);
    return new Promise((done) => {
      const timer = setTimeout(() => this.#wake(), limitMs);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = () => {};
        done();
      };
    });
  }
}
