/**
 * Virtual time of one kernel: every timer has an absolute deadline on the kernel's clock and a number.
 *
 * Owns: the table of pending timers. XState's `after` and delayed sends land here through its public `Clock`.
 * Invariants:
 *   C1 time never goes back, and is one value during a turn.
 *   C2 a timer fires as an input of its own, in order of deadline, then of number.
 *   C3 a timer can be described by addresses alone, so a checkpoint can arm it again with its original deadline.
 */
import type { Address } from './address.ts';
import type { JsonEvent } from './json.ts';

/** The source of time: the machine's monotonic clock, a replayed log, or a simulation. */
export interface TimeSource {
  /** Milliseconds since the epoch; must not go back. */
  now(): number;
  /** Calls `fire` once, not before `dueMs`. Returns a function that cancels it. */
  arm(dueMs: number, fire: () => void): () => void;
}

/** A timer's effect, in terms that survive a restart. */
export interface TimerDescription {
  readonly source: Address;
  readonly target: Address;
  readonly event: JsonEvent;
  readonly sendId: string;
}

export interface PendingTimer extends TimerDescription {
  readonly id: number;
  /** Milliseconds since the epoch. */
  readonly due: number;
}

interface Timer {
  readonly id: number;
  readonly due: number;
  readonly run: () => void;
  readonly description: TimerDescription;
  disarm: (() => void) | undefined;
}

/** Longest delay that a host timer takes (2^31 - 1 ms); longer ones are armed in stages. */
const HOST_TIMER_MAX_MS = 2_147_483_647;

const BASE_MS = Date.now() - performance.now();

/**
 * Milliseconds since the epoch: the wall clock at the start of the process, advanced by the monotonic clock. Jumps of
 * the wall clock never reach the machines, provided that ports use this clock for times that machines compare.
 */
export const steadyNow = (): number => Math.floor(BASE_MS + performance.now());

export function hostTime(): TimeSource {
  const now = steadyNow;
  const arm = (dueMs: number, fire: () => void): (() => void) => {
    let handle: NodeJS.Timeout;
    const stage = () => {
      const rest = dueMs - now();
      if (rest <= 0) fire();
      else handle = setTimeout(stage, Math.min(rest, HOST_TIMER_MAX_MS));
    };
    handle = setTimeout(stage, Math.min(Math.max(0, dueMs - now()), HOST_TIMER_MAX_MS));
    return () => clearTimeout(handle);
  };
  return { now, arm };
}

/**
 * @param what has the delay
 * @throws RangeError for a delay that is no time: its timer would be due never, and would look for that without pause
 */
export function enforceTime(delayMs: number, what: string): void {
  if (Number.isFinite(delayMs)) return;
  throw new RangeError(`${what}: a delay of ${delayMs} milliseconds is no time; it is computed from a wrong number`);
}

export class Timers {
  nextId = 1;
  now = 0;
  /** Set while XState schedules: describes the timer about to be created. */
  describing: TimerDescription | undefined;
  /** Set while a checkpoint is restored: the timer's previous number and deadline. */
  restoring: { id: number; due: number } | undefined;
  private readonly pending = new Map<number, Timer>();
  private readonly bySource = new Map<Address, Set<Timer>>();
  /** Timers set since {@link takeArmed} was last called. */
  private armed: number[] = [];
  private readonly source: TimeSource | undefined;
  private readonly due: (id: number) => void;

  /** Without a time source (replay) timers are only recorded; the log decides when they fire. */
  constructor(source: TimeSource | undefined, due: (id: number) => void) {
    this.source = source;
    this.due = due;
  }

  readonly xstateClock = {
    setTimeout: (run: () => void, delayMs: number): number => this.schedule(run, delayMs),
    clearTimeout: (id: number): void => this.clear(id),
  };

  private schedule(run: () => void, delayMs: number): number {
    if (!this.describing) throw new Error('a timer was set outside the scheduler of the actor system');
    enforceTime(delayMs, `${this.describing.source}, ${this.describing.event.type}`);
    const id = this.restoring?.id ?? this.nextId++;
    const due = this.restoring?.due ?? this.now + Math.max(0, Math.ceil(delayMs));
    const timer: Timer = { id, due, run, description: this.describing, disarm: undefined };
    this.pending.set(id, timer);
    const { source } = timer.description;
    this.bySource.set(source, (this.bySource.get(source) ?? new Set()).add(timer));
    if (!this.restoring) this.armed.push(id);
    timer.disarm = this.source?.arm(due, () => this.due(id));
    return id;
  }

  private clear(id: number): void {
    const timer = this.pending.get(id);
    if (!timer) return;
    timer.disarm?.();
    this.pending.delete(id);
    const { source } = timer.description;
    const others = this.bySource.get(source);
    others?.delete(timer);
    if (others?.size === 0) this.bySource.delete(source);
  }

  /** XState's ids of the timers that an actor still has pending. */
  sendIdsOf(source: Address): string[] {
    return [...(this.bySource.get(source) ?? [])].map(({ description }) => description.sendId);
  }

  /** The timers that this turn set and that are still pending, as milliseconds from now; `undefined` for none. */
  takeArmed(): Readonly<Record<string, number>> | undefined {
    const delays = this.armed.flatMap((id): [number, number][] => {
      const timer = this.pending.get(id);
      return timer ? [[id, timer.due - this.now]] : [];
    });
    this.armed = [];
    return delays.length === 0 ? undefined : Object.fromEntries(delays);
  }

  /** Removes a timer from the table to run it; `undefined` if it was cancelled in the meantime. */
  take(id: number): PendingTimer | undefined {
    const timer = this.pending.get(id);
    return timer && { id, due: timer.due, ...timer.description };
  }

  run(id: number): boolean {
    const timer = this.pending.get(id);
    if (!timer) return false;
    this.clear(id);
    timer.run();
    return true;
  }

  /** Ordered by number, so that equal kernels produce equal bytes. */
  list(): PendingTimer[] {
    return [...this.pending.values()]
      .map((timer) => ({ id: timer.id, due: timer.due, ...timer.description }))
      .sort((a, b) => a.id - b.id);
  }

  disarmAll(): void {
    for (const timer of this.pending.values()) timer.disarm?.();
    this.pending.clear();
    this.bySource.clear();
  }
}
