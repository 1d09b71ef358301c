/** Keeps a turn pure: impure functions throw, and random numbers come from a seed. */

/**
 * During a turn, the ambient sources of time and randomness throw: a machine knows only its inputs.
 *
 * XState's own scheduler reads the wall clock for its bookkeeping; `lift` allows exactly that.
 */
const forbidden = (name: string, instead: string) => (): never => {
  throw new Error(`${name} was called inside a turn; a machine must be replayable: ${instead}`);
};

const guards = {
  dateNow: forbidden('Date.now()', 'use the time of the turn, now()'),
  random: forbidden('Math.random()', "use the kernel's seeded random()"),
  setTimeout: forbidden('setTimeout()', 'use `after` or a delayed send'),
  setInterval: forbidden('setInterval()', 'use `after` or a delayed send'),
  setImmediate: forbidden('setImmediate()', 'use raise or a message'),
  fetch: forbidden('fetch()', 'invoke an operation'),
};

const real = {
  dateNow: Date.now,
  random: Math.random,
  setTimeout: globalThis.setTimeout,
  setInterval: globalThis.setInterval,
  setImmediate: globalThis.setImmediate,
  fetch: globalThis.fetch,
};

function install(functions: typeof real): void {
  Date.now = functions.dateNow;
  Math.random = functions.random;
  globalThis.setTimeout = functions.setTimeout;
  globalThis.setInterval = functions.setInterval;
  globalThis.setImmediate = functions.setImmediate;
  globalThis.fetch = functions.fetch;
}

let guarded = false;

function withGuards<T>(on: boolean, body: () => T): T {
  const before = guarded;
  const set = (value: boolean) => {
    if (guarded !== value) install(value ? (guards as unknown as typeof real) : real);
    guarded = value;
  };
  set(on);
  try {
    return body();
  } finally {
    set(before);
  }
}

/** Runs `body` with time and randomness blocked. */
export const purely = <T>(body: () => T): T => withGuards(true, body);

/** Runs `body` with time and randomness available again, inside {@link purely}. */
export const lift = <T>(body: () => T): T => withGuards(false, body);

/** A seeded generator (xorshift32), the only source of randomness in machines. Its state is part of a checkpoint. */
export class SeededRandom {
  state: number;
  constructor(seed: number) {
    this.state = seed >>> 0 || 1;
  }

  /** A number in [0, 1). */
  next(): number {
    let x = this.state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.state = x >>> 0;
    return this.state / 2 ** 32;
  }
}
