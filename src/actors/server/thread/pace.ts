/** Decides how soon a part that was lost is started again. Pure, but for the clock that it is given. */

/** One that worked for so long was not lost by its start: it is started again at once. */
const SETTLED_MS = 10_000;
const FIRST_MS = 50;
/** A client that can end it at will costs the node one start each half second, and its ports are away no longer. */
const LONGEST_MS = 500;

export class Pace {
  readonly #now: () => number;
  #startedAt = 0;
  #nextMs = 0;

  /** @param now milliseconds of a clock that never goes back */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  started(): void {
    this.#startedAt = this.#now();
  }

  /** Milliseconds until it may be started: none for the first loss in a while, then ever more. */
  lost(): number {
    const isSettled = this.#now() - this.#startedAt >= SETTLED_MS;
    const pauseMs = isSettled ? 0 : this.#nextMs;
    this.#nextMs = pauseMs === 0 ? FIRST_MS : Math.min(pauseMs * 2, LONGEST_MS);
    return pauseMs;
  }
}
