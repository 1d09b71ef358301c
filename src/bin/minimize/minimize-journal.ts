/**
 * Finds the smallest journal that fails in the same way as a longer one.
 *
 * Invariants: in front of a difference everything replays the same; for any other failure the machines of this build
 * decide every record of the result.
 */
import { align } from '../../kernel/alignment.ts';
import { jsonCopy } from '../../kernel/json.ts';
import { Kernel } from '../../kernel/kernel.ts';
import type { HeaderRecord, InputRecord, JournalRecord, KernelRecord } from '../../kernel/records.ts';
import { type ReplayOptions, replay } from '../../kernel/replay.ts';
import type { Unnumbered } from '../../kernel/turn-recorder.ts';
import type { AnyStateMachine } from '../../kernel/xstate.ts';
import { crashIn, differenceAsFailure, type Failure, type Turn, textIn } from './failures.ts';
import { reduce } from './reduce.ts';

export interface MinimizedJournal {
  readonly what: string;
  readonly inputs: { readonly before: number; readonly after: number };
  readonly trials: number;
  readonly isMinimal: boolean;
  readonly records: readonly JournalRecord[];
}

export interface MinimizeOptions extends Pick<ReplayOptions, 'machine' | 'strict'> {
  readonly records: readonly JournalRecord[];
  /** A text that the smaller journal must contain; by default it must have the first difference, or the first crash. */
  readonly shows?: string;
  readonly deadlineMs: number;
}

/** A string is the reason why nothing can be minimized. */
export function minimizeJournal(options: MinimizeOptions): MinimizedJournal | string {
  const failure = failureIn(options);
  if (typeof failure === 'string') return failure;
  const turns = turnsUpTo(options.records, failure.n);
  const [first, ...rest] = turns;
  if (!first) return 'the journal has no whole turn';
  const trials = new Trials(options, failure, first);
  const needed = trials.needed(rest);
  if (!needed) return `${failure.what} does not come when today's machines take these inputs`;
  const reduced = reduce(needed, (subset) => trials.needed(subset), {
    groups: [podOf, actorOf, nameOf],
    deadlineMs: options.deadlineMs,
  });
  return {
    what: failure.what,
    inputs: { before: options.records.filter(isInput).length, after: reduced.items.length },
    trials: reduced.trials,
    isMinimal: reduced.isMinimal,
    records: trials.written(reduced.items),
  };
}

function failureIn({ machine, records, strict = false, shows }: MinimizeOptions): Failure | string {
  if (shows !== undefined) return textIn(records, shows) ?? `no record that was decided has ${JSON.stringify(shows)}`;
  const { divergence } = replay({ machine, records, strict });
  if (divergence) return differenceAsFailure(divergence, strict);
  return crashIn(records) ?? 'it replays the same and no actor crashed; name what it shows by --shows';
}

interface Played {
  readonly player: Player;
  readonly taken: readonly Turn[];
}

/** Replays subsets of the turns, and builds the journal of the last subset that fails. */
class Trials {
  private readonly options: MinimizeOptions;
  private readonly failure: Failure;
  private readonly first: Turn;

  constructor(options: MinimizeOptions, failure: Failure, first: Turn) {
    this.options = options;
    this.failure = failure;
    this.first = first;
  }

  /** The turns among these whose inputs actors waited for, up to the failing one; `undefined` if none fails. */
  needed(turns: readonly Turn[]): readonly Turn[] | undefined {
    const played = this.played(turns);
    if (!played || !this.failure.isFirst) return played?.taken;
    const { machine, strict = false } = this.options;
    const { divergence } = replay({ machine, strict, records: this.recordsOf(played) });
    return this.failure.isFirst(divergence) ? played.taken : undefined;
  }

  /** The records of a journal of these turns. */
  written(turns: readonly Turn[]): readonly JournalRecord[] {
    const played = this.played(turns);
    return played ? this.recordsOf(played) : [];
  }

  private recordsOf({ player, taken }: Played): readonly JournalRecord[] {
    if (!this.failure.isFirst) return player.records;
    const logged = taken.at(-1) ?? this.first;
    const made = player.records.slice(player.records.findLastIndex(isBeginning));
    const before = player.records.slice(0, player.records.length - made.length);
    return [...before, ...asLogged(logged, made)];
  }

  private played(turns: readonly Turn[]): Played | undefined {
    const player = new Player(this.options.machine, this.first[0] as HeaderRecord);
    if (this.failure.isShownBy(player.firstTurn, this.first)) return { player, taken: [] };
    if (!this.failure.mayPrecede(player.firstTurn, this.first)) return undefined;
    const taken: Turn[] = [];
    for (const turn of turns) {
      const made = player.take(turn[0] as InputRecord);
      if (!made) continue;
      taken.push(turn);
      if (this.failure.isShownBy(made, turn)) return { player, taken };
      if (!this.failure.mayPrecede(made, turn)) return undefined;
    }
    return undefined;
  }
}

const isInput = ({ k }: JournalRecord): boolean => k === 'in' || k === 'timer' || k === 'result';
const isBeginning = (record: JournalRecord): boolean => record.k === 'header' || isInput(record);

/** Whole turns, up to that of record `n`. */
function turnsUpTo(records: readonly JournalRecord[], n: number): Turn[] {
  const turns: Turn[] = [];
  let turn: JournalRecord[] = [];
  for (const record of records) {
    turn.push(record);
    if (record.k !== 'end') continue;
    turns.push(turn);
    if (record.n >= n) break;
    turn = [];
  }
  return turns;
}

/** The records of a turn in the log, with the numbers of the replay. */
function asLogged(logged: Turn, made: Turn): JournalRecord[] {
  const numbers = new Map<number, number>();
  const requests = new Map<number, number>();
  const [begun, end] = [made[0], made.at(-1)];
  const [input] = logged;
  if (!begun || !input) return [];
  const from = begun.n;
  let nextRequest = Math.max(0, ...made.flatMap((record) => (record.k === 'effect' ? [record.id] : [])));
  const pairs = align(logged.slice(1), made.slice(1)).flatMap((pair) => (pair.expected ? [pair] : []));
  const records: JournalRecord[] = [begun];
  numbers.set(input.n, from);
  for (const [at, { expected: record, actual }] of pairs.entries()) {
    const n = from + 1 + at;
    numbers.set(record.n, n);
    const cause = 'cause' in record && record.cause !== undefined ? { cause: numbers.get(record.cause) ?? from } : {};
    if (record.k === 'effect') {
      const id = actual?.k === 'effect' ? actual.id : ++nextRequest;
      requests.set(record.id, id);
      records.push({ ...record, n, id, ...cause });
    } else if (record.k === 'cancel') {
      const id = actual?.k === 'cancel' ? actual.id : (requests.get(record.id) ?? record.id);
      records.push({ ...record, n, id });
    } else if (record.k === 'end') {
      records.push({ ...record, n, turn: end?.k === 'end' ? end.turn : record.turn });
    } else records.push({ ...record, n, ...cause });
  }
  return records;
}

const addressOf = (turn: Turn): string => {
  const [record] = turn;
  return record?.k === 'in' ? record.to : record?.k === 'timer' || record?.k === 'result' ? record.at : '';
};

const podOf = (turn: Turn): string => /\/pod-([^/]+)/.exec(addressOf(turn))?.[1] ?? '';
const actorOf = (turn: Turn): string => addressOf(turn);
const nameOf = (turn: Turn): string => {
  const [record] = turn;
  return record?.k === 'result' ? record.name : record?.k === 'in' ? record.event.type : '';
};

/**
 * Feeds a subset of a journal's inputs to the machines of this build. Requests are matched by subject, because their
 * numbers are those of the whole journal.
 */
class Player {
  /** All records so far, in the form that a reader of a journal gets. */
  readonly records: KernelRecord[] = [];
  readonly kernel: Kernel;
  private made: readonly KernelRecord[] = [];

  constructor(machine: AnyStateMachine, { n: _n, k: _k, t, ...header }: HeaderRecord) {
    const sink = {
      wantsCheckpoint: false,
      append: (record: KernelRecord) => void this.records.push(jsonCopy(record)),
      commit: () => {},
      whenDurable: () => {},
      writeCheckpoint: () => {},
      close: () => Promise.resolve(),
    };
    this.kernel = new Kernel({
      machine,
      header,
      sink,
      onTurn: (records) => void (this.made = records),
      onStopped: () => {},
    }).boot(t);
  }

  /** The records of the first turn, in which the root starts. */
  get firstTurn(): readonly KernelRecord[] {
    return this.made;
  }

  /** The records of the turn; `undefined` if no actor waits for this input. */
  take(record: InputRecord): readonly KernelRecord[] | undefined {
    const draft = this.draftOf(record);
    if (!draft) return undefined;
    this.kernel.input(draft);
    return this.made;
  }

  private draftOf({ n: _n, ...draft }: InputRecord): Unnumbered<InputRecord> | undefined {
    if (draft.k === 'in') return this.kernel.snapshotOf(draft.to) === undefined ? undefined : draft;
    if (draft.k === 'timer') {
      const timers = this.kernel.timers
        .list()
        .filter(({ target, event }) => target === draft.at && event.type === draft.event);
      const [next] = timers.toSorted((one, other) => one.due - other.due);
      return next && { ...draft, id: next.id };
    }
    const named = this.kernel.outbox.list().filter(({ name }) => name === draft.name);
    const request = named.find(({ at }) => at === draft.at) ?? (named.length === 1 ? named[0] : undefined);
    return request && { ...draft, id: request.id, at: request.at };
  }
}
