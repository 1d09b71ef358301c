/**
 * The records of a journal: one incarnation of a node as a gap-free list. `docs/journal.md` describes them for readers.
 * Also checkpoints: the whole state of the kernel between two turns, as plain JSON, every table ordered by number;
 * and faults of the program itself: an uncaught error on the deciding thread, and a turn that threw.
 *
 * Replay feeds the inputs (`header`, `in`, `timer`, `result`); all other records are derived, and compared.
 */
import type { AnyActorRef } from 'xstate';
import type { Address } from './address.ts';
import type { PendingTimer, Timers } from './clock.ts';
import type { EffectRequest } from './effects.ts';
import type { JsonEvent, PlainError } from './json.ts';
import type { OperationClass } from './operation.ts';

/** Sent by the process to the root machine, which then ends the node. */
export type AgentFault = {
  readonly type: 'agent.faulted';
  readonly error: PlainError;
  /** The first frames of the stack trace. */
  readonly stack: readonly string[];
};

/** The log line of a turn that threw; its field `err` has the error. */
export const TURN_FAILED = 'a turn failed';

/** The phase that reports name for such faults; failures of the start name one of its own phases. */
export const AGENT_PHASE = 'agent';

/** Raised when the meaning of a record changes; old versions stay replayable. */
export const FORMAT_VERSION = 5;

interface Envelope {
  /** Number of the record, without gaps, from 0. */
  readonly n: number;
}

/** The facts that make a log self-contained. */
export interface HeaderRecord extends Envelope {
  readonly k: 'header';
  /** Milliseconds since the epoch at the start of the incarnation: the base of the kernel's clock. */
  readonly t: number;
  readonly version: typeof FORMAT_VERSION;
  readonly incarnation: string;
  readonly seed: number;
  readonly node: string;
  readonly bootId: string;
  readonly build: BuildInfo;
  /** Input of the root machine: arguments, environment that matters, defaults. */
  readonly input: unknown;
}

export interface BuildInfo {
  readonly statelet: string;
  readonly node: string;
  readonly xstate: string;
  /** sha256 of each machine's configuration and functions, by machine id. */
  readonly machines: Readonly<Record<string, string>>;
}

/** INPUT: an event from outside (a stream item, a signal, a request). `via` names the port. */
export interface InRecord extends Envelope {
  readonly k: 'in';
  readonly t: number;
  readonly to: Address;
  readonly event: JsonEvent;
  readonly via: string;
}

/** INPUT: a timer was due. */
export interface TimerRecord extends Envelope {
  readonly k: 'timer';
  readonly t: number;
  readonly id: number;
  readonly at: Address;
  readonly event: string;
}

/** INPUT: an operation ended. `at` and `name` repeat the request so that the line can be read on its own. */
export interface ResultRecord extends Envelope {
  readonly k: 'result';
  readonly t: number;
  readonly id: number;
  readonly at: Address;
  readonly name: string;
  readonly output?: unknown;
  readonly error?: PlainError;
}

/** Derived: a message between actors. Spawning is a `spawned` message. `cause` is the record that caused it. */
export interface MessageRecord extends Envelope {
  readonly k: 'message';
  readonly from: Address;
  readonly to: Address;
  readonly event: JsonEvent;
  readonly cause?: number;
}

/**
 * Derived: an actor requested an operation. `at` is the address of the request itself, a child of the requesting actor.
 */
export interface EffectRecord extends Envelope {
  readonly k: 'effect';
  readonly id: number;
  readonly at: Address;
  readonly name: string;
  readonly class: OperationClass;
  readonly input: unknown;
  readonly cause?: number;
}

/** Derived: the actor left the invoking state. */
export interface CancelRecord extends Envelope {
  readonly k: 'cancel';
  readonly id: number;
}

/** Derived: an actor wrote a log line. */
export interface LogRecord extends Envelope {
  readonly k: 'log';
  readonly at: Address;
  readonly level: LogLevel;
  readonly text: string;
  readonly fields?: Readonly<Record<string, unknown>>;
}
export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'fatal';

/** Derived: an actor changed its state value. Kept for readers; the digest covers it too. */
export interface StateRecord extends Envelope {
  readonly k: 'state';
  readonly at: Address;
  readonly value: unknown;
  readonly status?: 'done' | 'error' | 'stopped';
  readonly error?: PlainError;
}

/**
 * Derived: the turn is complete. `digest` covers changes of status, value, context and output: a few characters for
 * each actor, in order. `armed` has the timers that the turn set and that are still pending, by number, as milliseconds
 * from the turn's time.
 */
export interface EndRecord extends Envelope {
  readonly k: 'end';
  readonly turn: number;
  readonly digest: string;
  readonly armed?: Readonly<Record<string, number>>;
}

/** Written by the journal on a nearly full disk: the derived records `n` to `upto` were left out. */
export interface DroppedRecord extends Envelope {
  readonly k: 'dropped';
  readonly upto: number;
  readonly why: string;
}

/**
 * Written by the journal: journaling was suspended, records `n` to `upto` were not kept, and replay cannot cross the
 * gap. Without `upto` it is the last record before the suspension; with it, the next segment continues after `upto`.
 */
export interface GapRecord extends Envelope {
  readonly k: 'gap';
  readonly upto?: number;
  readonly why: string;
}

/** Unnumbered line of the journal's storage: this segment continues from the state after record `after`. */
export interface CheckpointRecord {
  readonly k: 'checkpoint';
  readonly after: number;
  /** Relative to the journal's directory. */
  readonly file: string;
  readonly sha256: string;
  /** The last chain link of the previous segment; absent if that segment has none. */
  readonly previous?: string;
}

/** Unnumbered line of the journal's storage: the batch since the last link is complete. */
export interface ChainRecord {
  readonly k: 'chain';
  readonly upto: number;
  readonly sha256: string;
}

export type InputRecord = InRecord | TimerRecord | ResultRecord;
export const isInput = (record: JournalRecord): record is InputRecord =>
  record.k === 'in' || record.k === 'timer' || record.k === 'result';
export type DerivedRecord = MessageRecord | EffectRecord | CancelRecord | LogRecord | StateRecord | EndRecord;
/** The records that the kernel numbers and appends. */
export type KernelRecord = HeaderRecord | InputRecord | DerivedRecord;
/** The records that a reader returns: the kernel's, and marks where some are missing by design. */
export type JournalRecord = KernelRecord | DroppedRecord | GapRecord;
/** Everything that a line of a segment can hold. */
export type JournalLine = JournalRecord | CheckpointRecord | ChainRecord;

export interface Checkpoint {
  /** Number of the next record. */
  readonly n: number;
  readonly turn: number;
  /** Time of the last turn, milliseconds since the epoch. */
  readonly t: number;
  readonly nextEffect: number;
  readonly nextTimer: number;
  /** State of the seeded generator. */
  readonly random: number;
  readonly timers: readonly PendingTimer[];
  readonly effects: readonly EffectRequest[];
  readonly root: PersistedSnapshot;
}

/** XState's persisted snapshot of an actor and its children, as far as it is read here. */
export interface PersistedSnapshot {
  readonly status: string;
  readonly value?: unknown;
  readonly context?: unknown;
  readonly children?: Readonly<Record<string, { readonly snapshot: PersistedSnapshot; readonly src: string }>>;
}

/**
 * Starts a root actor from a checkpoint and arms its timers again. XState's snapshots keep neither pending timers nor
 * the identity of running requests; both come from the checkpoint's own tables.
 */
export function restoreActors(
  root: AnyActorRef,
  checkpoint: Checkpoint,
  timers: Timers,
  actorAt: (address: Address) => AnyActorRef | undefined,
): void {
  root.start();
  for (const timer of checkpoint.timers) {
    const source = actorAt(timer.source);
    const target = actorAt(timer.target);
    if (!source || !target) throw new Error(`the checkpoint has a timer for ${timer.target}, which does not exist`);
    timers.restoring = { id: timer.id, due: timer.due };
    root.system.scheduler.schedule(source, target, timer.event, 0, timer.sendId);
    timers.restoring = undefined;
  }
}
