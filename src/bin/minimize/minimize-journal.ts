/**
 * Finds the smallest journal that fails in the same way as a longer one.
 *
 * Invariants: before a difference everything replays the same; for any other failure the machines of this build decide
 * every record of the result.
 *
 * A failure is a test that can be applied to a shorter journal: the first difference of a replay, an actor that
 * crashed, or a record with a given text.
 */
import { align, contents } from '../../kernel/alignment.ts';
import type { Divergence } from '../../kernel/divergence.ts';
import { jsonCopy } from '../../kernel/json.ts';
import { Kernel } from '../../kernel/kernel.ts';
import type { EndRecord, HeaderRecord, InputRecord, JournalRecord, KernelRecord } from '../../kernel/records.ts';
import { isInput } from '../../kernel/records.ts';
import { type ReplayOptions, replay } from '../../kernel/replay.ts';
import type { Unnumbered } from '../../kernel/turn-recorder.ts';
import type { AnyStateMachine } from '../../kernel/xstate.ts';
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

/** A turn of the log: its input, its derived records, its end. */
type Turn = readonly JournalRecord[];

interface Failure {
  /** The failure as text: `FAILS is shown by …`. */
  readonly what: string;
  /** Whether this turn shows the failure. `logged` is the same turn of the log. */
  readonly isShownBy: (made: Turn, logged: Turn) => boolean;
  /** Whether a turn before the failure may be like this; with a different past it would be another failure. */
  readonly mayPrecede: (made: Turn, logged: Turn) => boolean;
  /** The last relevant record of the log. */
  readonly n: number;
  /** Whether this is the first difference of a replay; only for a failure that is a difference. */
  readonly isFirst?: (divergence: Divergence | null) => boolean;
}

const derivedOf = (turn: Turn): Turn => turn.slice(1, -1);

/** A replay guarantees messages between machines and their states only if the machines are the recorded ones. */
const seenIn = (turn: Turn): Turn => derivedOf(turn).filter(({ k }) => k !== 'message' && k !== 'state');

const isSame = (made: Turn, logged: Turn, of: (turn: Turn) => Turn = derivedOf): boolean => {
  const [one, other] = [contents(of(made)), contents(of(logged))];
  return one.length === other.length && one.every((content, at) => content === other[at]);
};

const endOf = (turn: Turn): EndRecord | undefined => {
  const last = turn.at(-1);
  return last?.k === 'end' ? last : undefined;
};

const delaysOf = (turn: Turn): string =>
  Object.values(endOf(turn)?.armed ?? {})
    .toSorted((one, other) => one - other)
    .join();

const hasSameDigest = (made: Turn, logged: Turn): boolean => endOf(made)?.digest === endOf(logged)?.digest;

/** `strict`: messages and states count like effects on the world. */
function differenceAsFailure(divergence: Divergence, strict: boolean): Failure {
  const { kind, n, expected, actual, actors } = divergence;
  const by = actors.join(', ');
  const isDigest = kind === 'digest';
  const mayPrecede = (made: Turn, logged: Turn): boolean =>
    isSame(made, logged, strict || isDigest ? derivedOf : seenIn) &&
    delaysOf(made) === delaysOf(logged) &&
    (!isDigest || hasSameDigest(made, logged));
  const isShownBy = (made: Turn, logged: Turn): boolean => {
    if (isDigest) return isSame(made, logged) && !hasSameDigest(made, logged);
    if (kind === 'deadline') return isSame(made, logged) && delaysOf(made) !== delaysOf(logged);
    const lost = expected === null || (has(logged, expected) && !has(made, expected));
    return lost && (actual === null || (has(made, actual) && !has(logged, actual)));
  };
  const isFirst = (other: Divergence | null): boolean => other?.kind === kind && other.actors[0] === actors[0];
  return { what: `a difference (${kind}) at record ${n}, by ${by}`, isShownBy, mayPrecede, isFirst, n };
}

function has(turn: Turn, record: JournalRecord): boolean {
  const derived = contents(derivedOf(turn));
  return contents([record]).some((content) => derived.includes(content));
}

/** A failure of the replayed machines on the same inputs, whatever its cause. */
const ofToday = (what: string, n: number, matches: (record: JournalRecord) => boolean): Failure => ({
  what,
  n,
  isShownBy: (made) => made.some(matches),
  mayPrecede: () => true,
});

/** The first crash of an actor, or of the whole agent. */
function crashIn(records: Iterable<JournalRecord>): Failure | undefined {
  for (const record of records) {
    if (record.k !== 'state' || record.status !== 'error') continue;
    const message = record.error?.message ?? '';
    const matches = (other: JournalRecord): boolean =>
      other.k === 'state' &&
      other.at === record.at &&
      other.status === 'error' &&
      (other.error?.message ?? '') === message;
    return ofToday(`the crash of ${record.at} (${message})`, record.n, matches);
  }
  return undefined;
}

function textIn(records: Iterable<JournalRecord>, text: string): Failure | undefined {
  const matches = (record: JournalRecord): boolean => !isBeginning(record) && JSON.stringify(record).includes(text);
  for (const record of records)
    if (matches(record)) return ofToday(`a record with ${JSON.stringify(text)}`, record.n, matches);
  return undefined;
}
