/**
 * Replay: feed the inputs of a log to fresh actors and demand that everything else comes out identical, or as far as
 * `promise.ts` promises it where machines are not the recorded ones.
 *
 * Invariants:
 *   R1 nothing is performed and no timer is armed: the world of a replay is the log.
 *   R2 the first difference ends the replay; it names the record, what was expected and what came.
 *   R3 a record that the log has and the actors did not produce is as much a difference as the reverse.
 */
import type { AnyStateMachine } from 'xstate';
import type { Address } from './address.ts';
import { buildInfo, changedMachines } from './build-info.ts';
import type { Checkpoint } from './checkpoint.ts';
import type { PendingTimer } from './clock.ts';
import { changedPaths, sameDigests } from './digest.ts';
import { type Before, type Compared, type Divergence, divergenceOf, isSameTurn, type Mismatch } from './divergence.ts';
import type { JournalSink } from './journal/sink.ts';
import { Kernel, type KernelOptions } from './kernel.ts';
import { Matching } from './matching.ts';
import type { EffectRecord, HeaderRecord, InputRecord, JournalRecord, KernelRecord } from './records.ts';
import { messageOf } from './thrown.ts';

export interface ReplayReport {
  readonly records: number;
  readonly turns: number;
  readonly inputs: number;
  readonly divergence: Divergence | null;
  /** Messages, states and digests that differ where machines are not the recorded ones; the first {@link NOTES_MAX}. */
  readonly notes: readonly Note[];
  /** How many there are. */
  readonly noted: number;
  readonly kernel: Kernel;
}

/** A difference that nothing promises: the world sees the same. */
export interface Note extends Pick<Mismatch, 'n' | 'kind' | 'differences'> {
  readonly turn: number;
  readonly record: JournalRecord;
}

/** Paths of a context; a reader is not helped by more. */
const CHANGES_MAX = 20;
/** Each turn of a changed machine may have some; the first ones say what changed. */
const NOTES_MAX = 100;

/** The log is whole, but something in it keeps it from being fed to actors; the message says what and where. */
export class NotReplayable extends Error {
  override readonly name = 'NotReplayable';
}

export interface ReplayOptions {
  readonly machine: AnyStateMachine;
  readonly records: Iterable<JournalRecord>;
  /** Continue from here: `records` then begin with the record that follows it. */
  readonly from?: { readonly checkpoint: Checkpoint; readonly header: HeaderRecord };
  /** Whether differences that no journal promises count, too. */
  readonly strict?: boolean;
  readonly onTurn?: (records: readonly KernelRecord[], kernel: Kernel) => void;
  readonly onStep?: KernelOptions['onStep'];
}

class Comparison implements JournalSink {
  readonly wantsCheckpoint = false;
  divergence: Divergence | null = null;
  records = 0;
  noted = 0;
  readonly notes: Note[] = [];
  readonly recorded = new RecordedState();
  readonly matching: Matching;
  /** The machine of today of every actor that ever was, by address. */
  readonly machines = new Map<Address, string>();
  readonly #options: ReplayOptions;
  #header: HeaderRecord | undefined;
  #changed: ReadonlySet<string> | undefined;
  #produced: KernelRecord[] = [];

  constructor(options: ReplayOptions, pending: () => readonly PendingTimer[]) {
    this.#options = options;
    this.#header = options.from?.header;
    this.matching = new Matching(pending);
  }

  append(record: KernelRecord): void {
    this.#produced.push(record);
  }
  commit(): void {}
  whenDurable(callback: () => void): void {
    callback();
  }
  writeCheckpoint(): void {}
  close(): Promise<void> {
    return Promise.resolve();
  }

  /** Compares one turn as the log has it with what was produced for it. */
  settle(turn: number, expected: readonly JournalRecord[]): void {
    const produced = this.#produced;
    this.#produced = [];
    if (expected[0]?.k === 'header') this.#header = expected[0];
    const kept = expected.filter((record) => record.k !== 'dropped');
    const found = this.divergence || isSameTurn(kept, produced) ? null : this.#compare(turn, expected, produced);
    this.records += found?.same ?? kept.length;
    this.divergence ??= found?.divergence ?? null;
    for (const mismatch of found?.notes ?? []) this.#note(turn, mismatch);
    for (const record of kept) this.recorded.apply(record);
  }

  #compare(turn: number, expected: readonly JournalRecord[], produced: readonly KernelRecord[]): Compared | null {
    const kept = expected.filter((record) => record.k !== 'dropped');
    let actual = this.matching.inLogNames(kept, produced);
    for (const record of expected) {
      if (record.k === 'dropped') actual = actual.filter(({ n }) => n < record.n || n > record.upto);
    }
    if (isSameTurn(kept, actual)) return null;
    return divergenceOf(turn, kept, actual, this.before(kept));
  }

  /** The state of the log before a turn, and which actors may be compared with today's. */
  before(expected: readonly JournalRecord[]): Before {
    const { recorded } = this;
    this.#changed ??= this.#options.strict ? new Set() : changedSince(this.#header, this.#options.machine);
    const changed = this.#changed;
    const begun = new Set(expected.flatMap((record) => ('at' in record ? [record.at] : [])));
    return {
      stateOf: (address) => recorded.stateOf(address),
      requestOf: (id) => recorded.requestOf(id),
      isUnchanged: (address) => {
        if (changed.size === 0) return true;
        const machine = this.machines.get(address);
        return machine !== undefined && !changed.has(machine) && (recorded.knows(address) || begun.has(address));
      },
    };
  }

  #note(turn: number, { n, kind, differences, ...pair }: Mismatch): void {
    this.noted++;
    const record = pair.expected ?? pair.actual;
    if (this.notes.length < NOTES_MAX) this.notes.push({ n, turn, kind, record, differences });
  }
}

/** A log without the machines of its build counts as one of today's. */
function changedSince(header: HeaderRecord | undefined, machine: AnyStateMachine): ReadonlySet<string> {
  if (!header || Object.keys(header.build.machines).length === 0) return new Set();
  return new Set(changedMachines(header.build, buildInfo(machine, header.build.statelet)));
}

export function replay(options: ReplayOptions): ReplayReport {
  const run = replaying(options);
  for (;;) {
    const { done, value } = run.next();
    if (done) return value;
  }
}

/** As {@link replay}, and stops after each turn: what runs beside other things goes on when they had their time. */
export function* replaying(options: ReplayOptions): Generator<void, ReplayReport> {
  let kernel: Kernel | undefined;
  const sink = new Comparison(options, () => kernel?.timers.list() ?? []);
  const turns = turnsOf(options.records, options.from?.checkpoint.n)[Symbol.iterator]();
  let inputs = 0;
  if (options.from) kernel = restored(options, options.from, sink);
  for (let next = turns.next(); !next.done && !sink.divergence; next = turns.next()) {
    const turn = next.value;
    const [first] = turn;
    if (!first) continue;
    if (!kernel) {
      if (first.k !== 'header') throw new NotReplayable(`a log begins with its header, not with "${first.k}"`);
      kernel = kernelFor(options, first, sink).boot(first.t);
    } else {
      feed(kernel, first, sink);
      inputs++;
    }
    sink.settle(kernel.turn - 1, turn);
    yield;
  }
  if (!kernel) throw new NotReplayable('the log has no complete turn');
  const divergence = sink.divergence && named(sink.divergence, kernel, sink.recorded);
  const { records, notes, noted } = sink;
  return { records, turns: kernel.turn, inputs, divergence, notes, noted, kernel };
}

/** An `end` has numbers of timers, and digests in their order; whose those are, today's actors know. */
function named(divergence: Divergence, kernel: Kernel, recorded: RecordedState): Divergence {
  if (divergence.kind === 'deadline') return withTimers(divergence, kernel);
  return divergence.kind === 'digest' ? withChanges(divergence, kernel, recorded) : divergence;
}

/** Puts the first actor whose context differs first; the list stays where today's actors changed nothing there. */
function withChanges(divergence: Divergence, kernel: Kernel, recorded: RecordedState): Divergence {
  const { expected, actual } = divergence;
  if (expected?.k !== 'end' || actual?.k !== 'end') return divergence;
  const first = kernel.changedActors[sameDigests(expected.digest, actual.digest)];
  if (!first) return divergence;
  const { address, before, after } = first;
  const state = recorded.stateOf(address);
  const changes = changedPaths(before?.context, after.context, CHANGES_MAX);
  return { ...divergence, actors: [address], ...(state === undefined ? {} : { state }), changes };
}

function withTimers(divergence: Divergence, kernel: Kernel): Divergence {
  const isOf = ({ id }: PendingTimer): boolean => divergence.differences.some(({ path }) => path === `.armed.${id}`);
  const timers = kernel.timers.list().filter(isOf);
  const actors = timers.length > 0 ? [...new Set(timers.map(({ target }) => target))] : divergence.actors;
  return { ...divergence, actors, timers };
}

function kernelFor(options: ReplayOptions, header: HeaderRecord, sink: Comparison): Kernel {
  const { n: _n, k: _k, t: _t, ...rest } = header;
  const { machine, onTurn, onStep } = options;
  const onActor = (address: Address, id: string): void => void sink.machines.set(address, id);
  return new Kernel({
    machine,
    header: rest,
    sink,
    onActor,
    onStopped: () => {},
    ...(onTurn && { onTurn }),
    ...(onStep && { onStep }),
  });
}

function restored(options: ReplayOptions, from: NonNullable<ReplayOptions['from']>, sink: Comparison): Kernel {
  const kernel = kernelFor(options, from.header, sink);
  try {
    kernel.restore(from.checkpoint);
    sink.recorded.adopt(from.checkpoint, options.machine.id);
    return kernel;
  } catch (error) {
    // Charts can differ in as many ways from those of a checkpoint as XState has words for.
    throw new NotReplayable(`the checkpoint that it begins with is of other machines: ${messageOf(error)}`);
  }
}

/** A fresh copy of the input goes in, so that nothing a machine does can reach back into the log. */
function feed(kernel: Kernel, record: JournalRecord, sink: Comparison): void {
  if (record.k === 'in' || record.k === 'timer' || record.k === 'result') {
    const { n: _n, ...draft } = sink.matching.today(record satisfies InputRecord);
    kernel.input(draft);
    return;
  }
  sink.divergence = divergenceOf(kernel.turn, [record], [], sink.before([record])).divergence;
}

/**
 * Groups records into turns, each closed by its `end`. What follows the last `end` is not a turn. A gap that ends where
 * the checkpoint was taken, `from`, is behind us.
 */
function* turnsOf(records: Iterable<JournalRecord>, from: number | undefined): Generator<readonly JournalRecord[]> {
  let turn: JournalRecord[] = [];
  for (const record of records) {
    if (record.k === 'gap' && record.upto !== undefined && record.upto + 1 === from) continue;
    if (record.k === 'gap')
      throw new NotReplayable(`the journal was suspended (${record.why}); replay cannot cross record ${record.n}`);
    turn.push(record);
    if (record.k !== 'end') continue;
    yield turn;
    turn = [];
  }
}

/** The part of XState's persisted snapshot that is read here. */
interface PersistedSnapshot {
  readonly value?: unknown;
  readonly children?: Readonly<Record<string, { readonly snapshot: PersistedSnapshot }>>;
}

/**
 * The last state and the open requests of every actor, as a log has recorded them so far. Takes every record of the
 * log, a turn behind the replay, and begins with the state of a checkpoint.
 */
class RecordedState implements Omit<Before, 'isUnchanged'> {
  private readonly states = new Map<Address, unknown>();
  private readonly requests = new Map<number, EffectRecord>();

  adopt(checkpoint: Checkpoint, root: Address): void {
    this.seed(root, checkpoint.root as PersistedSnapshot);
    for (const request of checkpoint.effects)
      this.requests.set(request.id, { ...request, n: checkpoint.n, k: 'effect' });
  }

  private seed(address: Address, { value, children = {} }: PersistedSnapshot): void {
    if (value !== undefined) this.states.set(address, value);
    for (const [id, { snapshot }] of Object.entries(children)) this.seed(`${address}/${id}`, snapshot);
  }

  apply(record: JournalRecord): void {
    if (record.k === 'effect') this.requests.set(record.id, record);
    else if (record.k === 'result' || record.k === 'cancel') this.requests.delete(record.id);
    else if (record.k !== 'state') return;
    else if (record.status === undefined) this.states.set(record.at, record.value);
    else this.states.delete(record.at);
  }

  stateOf(address: Address): unknown {
    return this.states.get(address);
  }

  /** Whether the log has a living actor at this address. */
  knows(address: Address): boolean {
    return this.states.has(address);
  }

  requestOf(id: number): EffectRecord | undefined {
    return this.requests.get(id);
  }
}
