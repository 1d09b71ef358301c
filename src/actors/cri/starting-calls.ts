/**
 * The calls that start something. The CPU is the limit of a batch: more of them at once only make each slower, so a
 * sandbox waits in here, where the queue is fair, until few are under way.
 *
 * Invariants: only new sandboxes wait, in the order of their calls; a call that takes longer than
 * {@link BUSY_MS} waits for something else than the CPU (a network plug-in, say) and no longer holds up others.
 */

/** Longer than a start takes on a machine that is busy with some of them, in milliseconds. */
const BUSY_MS = 500;

export class StartingCalls {
  readonly #places: number;
  readonly #busyMs: number;
  readonly #waiting: (() => void)[] = [];
  #busy = 0;

  /** @param places how many calls may be under way when a sandbox begins */
  constructor(places: number, busyMs = BUSY_MS) {
    this.#places = places;
    this.#busyMs = busyMs;
  }

  /** A new sandbox waits in the queue. */
  async queued<T>(work: () => Promise<T>): Promise<T> {
    if (this.#busy < this.#places) return this.counted(work);
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return this.#done(work);
  }

  /** Calls for a pod that has its sandbox begin at once. */
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
    const lapse = setTimeout(rest, this.#busyMs);
    try {
      return await work();
    } finally {
      clearTimeout(lapse);
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
