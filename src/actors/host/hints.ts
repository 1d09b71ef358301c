/**
 * Hints that something may have changed, and the wait between two inspections: until a hint, until it has been
 * quiet for a second after the last one (for the event that was dropped), until the caller's period is over, or until
 * the watch ends.
 */

/** The delay of one more inspection after the last hint, for an event that was dropped. */
const QUIET_MS = 1_000;
/** Node turns a longer delay into 1 ms. */
const MAX_TIMER_MS = 2_147_483_647;

export class Hints {
  readonly #signal: AbortSignal;
  readonly #onAbort = (): void => this.#wake();
  #areNew = false;
  #lastAtMs = Number.NEGATIVE_INFINITY;
  #wake: () => void = () => {};

  /** `signal`: of the operation that waits for hints; its end ends a wait. */
  constructor(signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  close(): void {
    this.#signal.removeEventListener('abort', this.#onAbort);
  }

  give(): void {
    this.#lastAtMs = performance.now();
    this.#areNew = true;
    this.#wake();
  }

  /** There were some since the last inspection. */
  get areNew(): boolean {
    return this.#areNew;
  }

  /** An inspection begins: hints up to here are answered by it. */
  take(): void {
    this.#areNew = false;
  }

  /** Waits at most `ms`, and not at all when there are new hints. */
  wait(ms: number): Promise<void> {
    if (this.#signal.aborted || this.#areNew) return Promise.resolve();
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
