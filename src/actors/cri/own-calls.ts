/**
 * The calls of our own that begin or remove something, and what the runtime's events say of it meanwhile.
 *
 * An event about what such a call does says no more than the answer to the call, but it may carry a status (containerd
 * 2), and then nothing has to be asked for. Invariants: an event is kept only while a call waits for it;
 * a call that waits for its event waits {@link EVENT_WAIT_MS} at most, and only while events with statuses come.
 */
import type { Instance } from './relist.ts';

/**
 * How long the answer to a call waits for the event on the other stream, which the runtime sent before; milliseconds.
 */
const EVENT_WAIT_MS = 5;

export class OwnCalls {
  /** Containers that are being started. */
  readonly #starting = new Set<string>();
  /** By pod, the number of calls under way that create a sandbox or container. */
  readonly #making = new Map<string, number>();
  /** Pods of which a sandbox is being removed, with how many. */
  readonly #removing = new Map<string, number>();
  /** By id, the state in the newest event. */
  readonly #observed = new Map<string, Instance>();
  /** By id, the call that waits. */
  readonly #waiting = new Map<string, (instance: Instance) => void>();
  /** The events that come have statuses. */
  carriesStatuses = false;

  /** A call that starts this container. */
  async starting<T>(id: string, call: () => Promise<T>): Promise<T> {
    this.#starting.add(id);
    try {
      return await call();
    } finally {
      this.#starting.delete(id);
      this.#observed.delete(id);
    }
  }

  /** A call that makes a sandbox or a container of this pod. */
  async making<T>(uid: string, call: () => Promise<T>): Promise<T> {
    try {
      return await counted(this.#making, uid, call);
    } finally {
      for (const [id, { kind, uid: of }] of this.#observed)
        if (kind === 'sandbox' && of === uid) this.#observed.delete(id);
    }
  }

  /** A call that removes a sandbox of this pod with its containers. */
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

  /** An event about what one of these calls begins. */
  observed(instance: Instance): void {
    const { id } = instance.status;
    const waits = this.#waiting.get(id);
    if (waits) waits(instance);
    else this.#observed.set(id, instance);
  }

  /** After the answer to the call: the state in its event, or `undefined` if no event comes. */
  async of(id: string): Promise<Instance | undefined> {
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

/** Counts the call in the table while it is under way. */
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
