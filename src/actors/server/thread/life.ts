/**
 * Whether the thread that decides is alive, for health checks that are answered in another one.
 *
 * Invariants: L1 a check is answered within {@link WAIT_MS}, whatever the other thread does. L2 a thread that decides
 * may be busy for as long as {@link STALLED_MS} before it counts as stuck: what it said last holds until then.
 */
const WAIT_MS = 200;
/** Longer than any turn or start takes on a loaded machine; a prober that gives up earlier has its own limit. */
const STALLED_MS = 10_000;

type Said = Readonly<Record<string, string | null>>;

export class Life {
  readonly #ask: () => Promise<Said>;
  readonly #now: () => number;
  #said: Said = {};
  #asking: { readonly sinceMs: number; readonly answer: Promise<unknown> } | undefined;

  /** @param now milliseconds of a clock that never goes back */
  constructor(ask: () => Promise<Said>, now: () => number = () => performance.now()) {
    this.#ask = ask;
    this.#now = now;
  }

  /** Why the check of this name fails, or `null`. */
  async problem(name: string): Promise<string | null> {
    const asking = (this.#asking ??= this.#begin());
    await within(asking.answer);
    const silentMs = this.#asking === asking ? this.#now() - asking.sinceMs : 0;
    if (silentMs < STALLED_MS) return this.#said[name] ?? null;
    return `the kernel has not answered for ${Math.floor(silentMs / 1_000)} s`;
  }

  #begin() {
    return { sinceMs: this.#now(), answer: this.#hear() };
  }

  async #hear(): Promise<void> {
    try {
      this.#said = await this.#ask();
      this.#asking = undefined;
    } catch {
      // Only the end of the channel fails: this thread ends with it.
    }
  }
}

/** Resolves with the answer, or when it was waited for long enough. */
const within = (answer: Promise<unknown>): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, WAIT_MS);
    void answer.finally(() => {
      clearTimeout(timer);
      resolve();
    });
  });
