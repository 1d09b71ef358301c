/**
 * The agent's own calls that create, start or remove sandboxes and containers, the runtime's events about these calls,
 * and the queue of calls that start a sandbox.
 *
 * An event about such a call is dropped, because the call's answer has the same information; except an event with a
 * status (containerd 2), which saves an inspection. Invariants: an event is kept only while a call waits for it; a call
 * waits for its event at most {@link EVENT_WAIT_MS}, and only if events have statuses.
 *
 * An expectation is an outcome that an event announced and that the runtime's statuses do not show yet: containerd
 * publishes an event before its CRI plugin has processed it. Each expectation is checked again after growing delays, a
 * limited number of times; after that the relist decides. Pure: the caller owns the clock.
 */
import type { PodRuntimeStatus } from '../../machines/model/operations/cri.ts';
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

/** The state that a sandbox or container should have reached; `changed` announces nothing that can be checked. */
export type Outcome = 'running' | 'exited' | 'gone' | 'changed';

/** First delay before an unmet expectation is checked again: CRI follows its events within a few milliseconds. */
const FIRST_WAIT_MS = 10;
/** The longest delay, the same as the relist period of a polling kubelet: on a busy machine CRI lags by seconds. */
const LONGEST_WAIT_MS = 1_000;
/** Checks of one expectation, half a minute in all; then the relist, at most a minute away, takes over. */
const MAX_CHECKS = 38;

export interface Expectation {
  readonly outcome: Outcome;
  readonly checks: number;
}
/** By id of the sandbox or container. */
export type Expectations = ReadonlyMap<string, Expectation>;

/**
 * The statuses that an expectation is checked against: of a pod, or of its sandboxes and containers that were
 * inspected.
 */
type Statuses = Pick<PodRuntimeStatus, 'sandboxes' | 'containers'>;

export function isMet(outcome: Outcome, id: string, status: Statuses): boolean {
  if (outcome === 'changed') return true;
  const sandbox = status.sandboxes.find((candidate) => candidate.id === id);
  const container = status.containers.find((candidate) => candidate.id === id);
  switch (outcome) {
    case 'gone':
      return !sandbox && !container;
    case 'exited':
      return sandbox?.state !== 'SANDBOX_READY' && !isAlive(container?.state);
    default:
      return sandbox !== undefined || (container !== undefined && container.state !== 'CONTAINER_CREATED');
  }
}

const isAlive = (state: string | undefined) => state === 'CONTAINER_RUNNING' || state === 'CONTAINER_CREATED';

/** The limit of expectations of one pod, which may have as many containers; further changes are left to the relist. */
const EXPECTED_MAX = 2_000;

/** A new expectation replaces an older one for the same id. */
export function expecting(known: Expectations, id: string, outcome: Outcome): Expectations {
  if (outcome === 'changed' || (known.size >= EXPECTED_MAX && !known.has(id))) return known;
  return new Map(known).set(id, { outcome, checks: 0 });
}

/** The expectations that a status does not meet, and when to inspect again (`null`: never). */
export function unmetExpectations(
  expectations: Expectations,
  status: Statuses,
): { readonly open: Expectations; readonly waitMs: number | null } {
  const open = new Map<string, Expectation>();
  for (const [id, { outcome, checks }] of expectations) {
    if (!isMet(outcome, id, status) && checks + 1 < MAX_CHECKS) open.set(id, { outcome, checks: checks + 1 });
  }
  const fewest = Math.min(...[...open.values()].map(({ checks }) => checks));
  const waitMs = Math.min(FIRST_WAIT_MS * 2 ** (fewest - 1), LONGEST_WAIT_MS);
  return { open, waitMs: open.size === 0 ? null : waitMs };
}
