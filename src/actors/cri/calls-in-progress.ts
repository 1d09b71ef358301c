/**
 * The agent's own calls that create, start or remove sandboxes and containers, the runtime's events about these calls,
 * and the queue of calls that start a sandbox.
 *
 * An event about such a call adds nothing to its answer, except a status (containerd 2), which saves an inspection.
 * Invariants: an event is kept only while a call waits for it; a call waits for its event at most {@link
 * EVENT_WAIT_MS}, and only if events carry statuses.
 */
import type { Instance } from './relist.ts';

/** How long a call waits, after its answer, for the event that the runtime sent earlier on the other stream. */
const EVENT_WAIT_MS = 5;

export class CallsInProgress {
  /** Containers that are being started. */
  readonly #starting = new Set<string>();
  /** By pod, the number of create calls in progress. */
  readonly #making = new Map<string, number>();
  /** By pod, the number of sandbox removals in progress. */
  readonly #removing = new Map<string, number>();
  /** By id, the state in the newest event. */
  readonly #observed = new Map<string, Instance>();
  /** By id, the waiting call. */
  readonly #waiting = new Map<string, (instance: Instance) => void>();
  /** Whether events carry statuses. */
  carriesStatuses = false;

  /** Runs a call that starts this container. */
  async starting<T>(id: string, call: () => Promise<T>): Promise<T> {
    this.#starting.add(id);
    try {
      return await call();
    } finally {
      this.#starting.delete(id);
      this.#observed.delete(id);
    }
  }

  /** Runs a call that creates a sandbox or container of this pod. */
  async making<T>(uid: string, call: () => Promise<T>): Promise<T> {
    try {
      return await counted(this.#making, uid, call);
    } finally {
      for (const [id, { kind, uid: stateAfterCall }] of this.#observed)
        if (kind === 'sandbox' && stateAfterCall === uid) this.#observed.delete(id);
    }
  }

  /** Runs a call that removes a sandbox of this pod with its containers. */
  removing<T>(uid: string, call: () => Promise<T>): Promise<T> {
    return counted(this.#removing, uid, call);
  }

  isRemoving(uid: string): boolean {
    return this.#removing.has(uid);
  }

  isStarting(id: string): boolean {
    return this.#starting.has(id);
  }

  isMaking(uid: string): boolean {
    return this.#making.has(uid);
  }

  /** Takes an event about the subject of one of these calls. */
  observed(instance: Instance): void {
    const { id } = instance.status;
    const waits = this.#waiting.get(id);
    if (waits) waits(instance);
    else this.#observed.set(id, instance);
  }

  /** After the answer to the call: the state in its event, or `undefined` if no event arrives. */
  async stateAfterCall(id: string): Promise<Instance | undefined> {
    const observed = this.#observed.get(id);
    if (observed !== undefined || !this.carriesStatuses) return observed;
    const { promise, resolve } = Promise.withResolvers<Instance | undefined>();
    const timer = setTimeout(resolve, EVENT_WAIT_MS, undefined);
    this.#waiting.set(id, resolve);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(id);
    }
  }
}

/** Counts the call in the table while it is in progress. */
async function counted<T>(table: Map<string, number>, uid: string, call: () => Promise<T>): Promise<T> {
  table.set(uid, (table.get(uid) ?? 0) + 1);
  try {
    return await call();
  } finally {
    const others = (table.get(uid) ?? 1) - 1;
    if (others > 0) table.set(uid, others);
    else table.delete(uid);
  }
}

/** Longer than a start takes on a machine that is busy with several starts. */
const BUSY_MS = 500;

/**
 * Limits the calls that start sandboxes and containers. The CPU limits their rate: more calls at once only slow each
 * other down, so new sandboxes wait here in a fair queue.
 *
 * Invariants: only new sandboxes wait, in the order of their calls; a call that takes longer than {@link BUSY_MS} waits
 * for something other than the CPU (a network plug-in, say) and no longer delays others.
 */
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
