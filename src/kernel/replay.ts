/**
 * Replay: feeds the inputs of a log to fresh actors and requires everything else to be identical, or, for changed
 *   machines, as far as `divergence.ts` guarantees it.
 *
 * Invariants:
 *   R1 no operation is performed and no timer is armed: the world of a replay is the log.
 *   R2 the first difference ends the replay; it names the record, the expected and the actual content.
 *   R3 a record that only the log has is a difference, as is one that only the actors produced.
 */
import type { AnyStateMachine } from 'xstate';
import type { Address } from './address.ts';
import { buildInfo, changedMachines } from './build-info.ts';
import type { PendingTimer } from './clock.ts';
import { changedPaths, sameDigests } from './digest.ts';
import { type Before, type Compared, type Divergence, divergenceOf, isSameTurn, type Mismatch } from './divergence.ts';
import type { JournalSink } from './journal/writer.ts';
import { Kernel, type KernelOptions } from './kernel.ts';
import { Matching } from './matching.ts';
import type {
  Checkpoint,
  EffectRecord,
  HeaderRecord,
  JournalRecord,
  KernelRecord,
  PersistedSnapshot,
} from './records.ts';
import { isInput } from './records.ts';
import { messageOf } from './thrown.ts';

export interface ReplayReport {
  readonly records: number;
  readonly turns: number;
  readonly inputs: number;
  readonly divergence: Divergence | null;
  /** Differing messages, states and digests of changed machines, limited to the first {@link NOTES_MAX}. */
  readonly notes: readonly Note[];
  /** The total number of notes. */
  readonly noted: number;
  readonly kernel: Kernel;
}

/** A difference in what replay does not guarantee; it is invisible to the world. */
export interface Note extends Pick<Mismatch, 'n' | 'kind' | 'differences'> {
  readonly turn: number;
  readonly record: JournalRecord;
}

/** The limit of reported paths of a context: more would not help a reader. */
const CHANGES_MAX = 20;
/** Each turn of a changed machine may add notes; the first ones show what changed. */
const NOTES_MAX = 100;

/** The log is intact, but cannot be fed to actors; the message says what prevents it and where. */
export class NotReplayable extends Error {
  override readonly name = 'NotReplayable';
}

export interface ReplayOptions {
  readonly machine: AnyStateMachine;
  readonly records: Iterable<JournalRecord>;
  /** The checkpoint to continue from: `records` begin with the record after it. */
  readonly from?: { readonly checkpoint: Checkpoint; readonly header: HeaderRecord };
  /** Whether differences in what replay does not guarantee count as well. */
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
  /** By address, the machine of every actor that ever started in the replay. */
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

  /** Compares one turn of the log with the records produced for it. */
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

  /** The state of the log before a turn, and which actors can be compared with replayed ones. */
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

/** A log without machine hashes counts as unchanged. */
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

/**
 * As {@link replay}, but yields after each turn whether it equals the log's, for callers that do other work in between.
 */
export function* replaying(options: ReplayOptions): Generator<boolean, ReplayReport> {
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
    yield sink.divergence === null;
  }
  if (!kernel) throw new NotReplayable('the log has no complete turn');
  const divergence = sink.divergence && named(sink.divergence, kernel, sink.recorded);
  const { records, notes, noted } = sink;
  return { records, turns: kernel.turn, inputs, divergence, notes, noted, kernel };
}

/**
 * Adds the names of actors: an `end` has timers by number and digests by order, and the replayed actors have the names.
 */
function named(divergence: Divergence, kernel: Kernel, recorded: RecordedState): Divergence {
  if (divergence.kind === 'deadline') return withTimers(divergence, kernel);
  return divergence.kind === 'digest' ? withChanges(divergence, kernel, recorded) : divergence;
}

/**
 * Moves the first actor whose context differs to the front; the order stays if the replayed actors changed nothing
 * there.
 */
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
    // XState has many errors for a snapshot of other charts.
    throw new NotReplayable(`the checkpoint that it begins with is of other machines: ${messageOf(error)}`);
  }
}

/** The input is copied, so that machines cannot mutate the log. */
function feed(kernel: Kernel, record: JournalRecord, sink: Comparison): void {
  if (isInput(record)) {
    const { n: _n, ...draft } = sink.matching.today(record);
    kernel.input(draft);
    return;
  }
  sink.divergence = divergenceOf(kernel.turn, [record], [], sink.before([record])).divergence;
}

/**
 * Groups records into turns, each closed by its `end`; records after the last `end` form no turn. A gap that ends at
 * the checkpoint `from` is skipped.
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

/**
 * The last state and the open requests of every actor, as recorded so far. Receives every record of the log one turn
 * after the replay; starts from the state of a checkpoint.
 */
class RecordedState implements Omit<Before, 'isUnchanged'> {
  private readonly states = new Map<Address, unknown>();
  private readonly requests = new Map<number, EffectRecord>();

  adopt(checkpoint: Checkpoint, root: Address): void {
    this.seed(root, checkpoint.root);
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

  /** Whether the log has a running actor at this address. */
  knows(address: Address): boolean {
    return this.states.has(address);
  }

  requestOf(id: number): EffectRecord | undefined {
    return this.requests.get(id);
  }
}
