/**
 * Limits the calls that start something. The CPU bounds a batch: more at once only make each slower, so new sandboxes
 * wait here in a fair queue.
 *
 * Invariants: only new sandboxes wait, in the order of their calls; a call that takes longer than {@link BUSY_MS} waits
 * for something other than the CPU (a network plug-in, say) and no longer delays others.
 */

/** Milliseconds; longer than a start takes on a machine busy with several. */
const BUSY_MS = 500;

export class StartingCalls {
  readonly #places: number;
  readonly #busyMs: number;
  readonly #waiting: (() => void)[] = [];
  #busy = 0;

  /** @param places the number of calls that may be in progress when a sandbox starts */
  constructor(places: number, busyMs = BUSY_MS) {
    this.#places = places;
    this.#busyMs = busyMs;
  }

  /** Runs a new sandbox, which waits in the queue. */
  async queued<T>(work: () => Promise<T>): Promise<T> {
    if (this.#busy < this.#places) return this.counted(work);
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return this.#done(work);
  }

  /** Runs a call for a pod that has its sandbox, without waiting. */
  counted<T>(work: () => Promise<T>): Promise<T> {
    this.#busy += 1;
    return this.#done(work);
  }

  async #done<T>(work: () => Promise<T>): Promise<T> {
    let isBusy = true;
    const rest = () => {
      if (isBusy) this.#release();
      isBusy = false;
    };
    const busyTimeout = setTimeout(rest, this.#busyMs);
    try {
      return await work();
    } finally {
      clearTimeout(busyTimeout);
      rest();
    }
  }

  /** The next call in the queue takes the place over. */
  #release(): void {
    const next = this.#busy <= this.#places ? this.#waiting.shift() : undefined;
    if (next) next();
    else this.#busy -= 1;
  }
}
