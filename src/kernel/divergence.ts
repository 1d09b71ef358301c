/**
 * Explains the first turn in which a log and the replayed actors diverge: what differs, which actor decided it and in
 * which state, and the causes that lead there from the input. Pure.
 *
 * Defines what a replay always guarantees, and what it guarantees only for machines that are unchanged since the
 * recording. It always guarantees everything that is visible to the world: operations and log lines, in order for each
 * subject, and the deadlines of timers. Messages, states and digests are internal to machines: if a participating
 * machine has changed, a different message or state is only a note.
 */
import { type Address, parentOf } from './address.ts';
import { align, type Pair } from './alignment.ts';
import type { PendingTimer } from './clock.ts';
import { isContainer, isObject, isSameJson } from './json.ts';
import type { EffectRecord, EndRecord, JournalRecord } from './records.ts';

/**
 * `missing`: only the log has the record; `extra`: only the replay has it; `deadline`: a timer is set for another time;
 * `digest`: every record is the same, but the context of an actor differs.
 */
type MismatchKind = 'different' | 'missing' | 'extra' | 'deadline' | 'digest';

export type Mismatch = Pair & {
  readonly kind: MismatchKind;
  readonly n: number;
  /**
   * The places where expected and actual differ, at most {@link DIFFERENCES_MAX}; empty when one of them is missing.
   */
  readonly differences: readonly Difference[];
};

/** The first difference between the log and the replayed actors. */
export type Divergence = Mismatch & {
  readonly turn: number;
  /** The input that began the turn. */
  readonly input: JournalRecord | null;
  /**
   * The actors that decided differently; for a digest, or a timer that is no longer set, all actors that took part in
   * the turn.
   */
  readonly actors: readonly Address[];
  /** The state value of the first of `actors` before the turn; absent if that actor did not exist. */
  readonly state?: unknown;
  /** The causes of the differing record, from the input on, at most {@link CHAIN_MAX}. */
  readonly chain: readonly JournalRecord[];
  /**
   * For a `digest` mismatch: the paths that the replayed turn changes in the context of the first actor. The log has
   * only the digest of that change.
   */
  readonly changes?: readonly string[];
  /** For a `deadline` mismatch: the timers of the replay. */
  readonly timers?: readonly PendingTimer[];
  /** Later differences in the same turn, at most {@link BEHIND_MAX}. */
  readonly behind: readonly Mismatch[];
};

export interface Difference {
  /** Keys from the record on, each after a dot: `.event.input.rootDir`. */
  readonly path: string;
  /** The value at the path; absent if there is none. */
  readonly expected?: unknown;
  readonly actual?: unknown;
}

/** The log's knowledge of the actors before the turn. */
export interface Before {
  stateOf(address: Address): unknown;
  /** A request that is still open. */
  requestOf(id: number): EffectRecord | undefined;
  isUnchanged: IsUnchanged;
}

/** The limit of reported differences: more would not help a reader. */
const DIFFERENCES_MAX = 20;
const BEHIND_MAX = 20;
const CHAIN_MAX = 50;

/** The differences of a turn. Without a divergence only notes remain: differences that no journal promises. */
export interface Compared {
  /** The number of records of the turn before the difference. */
  readonly same: number;
  readonly divergence: Divergence | null;
  readonly notes: readonly Mismatch[];
}

export function isSameTurn(expected: readonly JournalRecord[], actual: readonly JournalRecord[]): boolean {
  return expected.length === actual.length && expected.every((record, at) => isSameJson(record, actual[at]));
}

export function divergenceOf(
  turn: number,
  expected: readonly JournalRecord[],
  actual: readonly JournalRecord[],
  before: Before,
): Compared {
  const pairs = align(expected, actual);
  const found = mismatchesIn(pairs);
  const world = new WorldComparison(expected, actual, before);
  const isNote = (mismatch: Mismatch): boolean => !isDivergence(mismatch, expected, actual, { before, world });
  const broken = found.find((mismatch) => !isNote(mismatch));
  if (!broken && found.length > 0) return { same: expected.length, divergence: null, notes: found };
  const last = pairs.at(-1);
  const first = broken ? originOf(broken, found, { expected, actual, before }) : last && place(last);
  if (!first) return { same: 0, divergence: null, notes: [] };
  const behind = found.filter((mismatch) => mismatch !== first);
  const same = pairs.findIndex((pair) => pair.expected === first.expected && pair.actual === first.actual);
  const side = first.expected ? expected : actual;
  const record = first.expected ?? first.actual;
  const actors = record.k === 'end' ? involvedIn(side) : decidingActor(record, side, before);
  const state = actors[0] === undefined ? undefined : before.stateOf(actors[0]);
  const divergence: Divergence = {
    ...first,
    turn,
    input: expected[0] ?? null,
    actors,
    ...(state === undefined ? {} : { state }),
    chain: chainTo(record, side, before),
    behind: behind.slice(0, BEHIND_MAX),
  };
  return { same, divergence, notes: [] };
}

interface Turn {
  readonly expected: readonly JournalRecord[];
  readonly actual: readonly JournalRecord[];
  readonly before: Before;
}

/** The first difference among the causes of this difference: a changed machine may have decided there. */
function originOf(broken: Mismatch, found: readonly Mismatch[], { expected, actual, before }: Turn): Mismatch {
  const side = broken.expected ? expected : actual;
  const chain = chainTo(broken.expected ?? broken.actual, side, before);
  const isOn = ({ expected: logged, actual: made }: Mismatch): boolean => {
    const record = broken.expected ? logged : made;
    return record !== null && chain.includes(record);
  };
  return found.find(isOn) ?? broken;
}

/** Whether a difference is visible to the world, or belongs to machines that are unchanged since the recording. */
function isDivergence(
  mismatch: Mismatch,
  expected: readonly JournalRecord[],
  actual: readonly JournalRecord[],
  { before, world }: { readonly before: Before; readonly world: WorldComparison },
): boolean {
  const { kind } = mismatch;
  const record = mismatch.expected ?? mismatch.actual;
  if (kind === 'deadline') return true;
  if (kind === 'digest') return [...expected, ...actual].flatMap(partOf).every(before.isUnchanged);
  if (record.k === 'message') return before.isUnchanged(record.from) && before.isUnchanged(record.to);
  const deciders = decidingActor(record, mismatch.expected ? expected : actual, before);
  const isUnchanged = deciders.every(before.isUnchanged);
  return isUnchanged || (record.k !== 'state' && !world.isSame(record));
}

/**
 * The mismatches in the order of the turn. Causes are equal if they are the same record, even when an insertion shifted
 * its number.
 */
function mismatchesIn(pairs: readonly Pair[]): Mismatch[] {
  const numbers = new Map(pairs.flatMap(({ expected, actual }) => (actual ? [[actual.n, expected?.n]] : [])));
  const requestsMoved = pairs.some(
    ({ expected, actual }) => !(expected && actual) && (expected ?? actual)?.k === 'effect',
  );
  const found: Mismatch[] = [];
  for (const pair of pairs) {
    const { expected, actual } = pair;
    if (!expected || !actual) {
      found.push(place(pair));
      continue;
    }
    const moved = { ...actual, n: expected.n };
    if ('cause' in actual && actual.cause !== undefined) {
      const cause = numbers.has(actual.cause) ? numbers.get(actual.cause) : actual.cause;
      Object.assign(moved, { cause });
    }
    const isRequest = expected.k === 'effect' || expected.k === 'cancel';
    if (isRequest && requestsMoved) Object.assign(moved, { id: expected.id });
    if (JSON.stringify(expected) === JSON.stringify(moved)) continue;
    if (expected.k !== 'end' || actual.k !== 'end')
      found.push({ ...place(pair), differences: differencesOf(expected, moved) });
    else if (found.length === 0) found.push(endMismatch(expected, actual));
  }
  return found;
}

/** A deadline is more informative than the digest, which may differ because the actor also keeps that deadline. */
function endMismatch(expected: EndRecord, actual: EndRecord): Mismatch {
  const isDeadline = JSON.stringify(expected.armed) !== JSON.stringify(actual.armed);
  return { ...place({ expected, actual }), kind: isDeadline ? 'deadline' : 'digest' };
}

function place(pair: Pair): Mismatch {
  const { expected, actual } = pair;
  const kind = expected === null ? 'extra' : actual === null ? 'missing' : 'different';
  const { n } = expected ?? actual;
  return { kind, n, ...pair, differences: expected && actual ? differencesOf(expected, actual) : [] };
}

/**
 * The actor that made the request, sent the message or changed its state; for a message its sender, for a stop the
 * parent.
 */
function decidingActor(record: JournalRecord, side: readonly JournalRecord[], before: Before): Address[] {
  if (record.k === 'message') return [record.from];
  if (record.k === 'cancel') {
    const request = side.find((other) => other.k === 'effect' && other.id === record.id);
    const at = request?.k === 'effect' ? request.at : before.requestOf(record.id)?.at;
    return at === undefined ? [] : [stopperOf(parentOf(at), side)];
  }
  if (record.k === 'in') return [record.to];
  if (record.k === 'effect' || record.k === 'result') return [parentOf(record.at)];
  if (record.k === 'state') return [stopperOf(record.at, side)];
  return 'at' in record ? [record.at] : [];
}

/** The actor that stopped the actor at this address: the nearest ancestor that was not stopped itself. */
function stopperOf(address: Address, side: readonly JournalRecord[]): Address {
  const isStopped = side.some((other) => other.k === 'state' && other.at === address && other.status === 'stopped');
  return isStopped ? stopperOf(parentOf(address), side) : address;
}

function receiverOf(record: JournalRecord): Address | undefined {
  if (record.k === 'in' || record.k === 'message') return record.to;
  if (record.k === 'timer') return record.at;
  return record.k === 'result' ? parentOf(record.at) : undefined;
}

/** The actors whose context or timers a turn may have changed; in the first turn, those that started. */
function involvedIn(records: readonly JournalRecord[]): Address[] {
  const involved = new Set<Address>();
  for (const record of records) {
    if (record.k === 'message') involved.add(record.from);
    const receiver = receiverOf(record);
    if (receiver !== undefined) involved.add(receiver);
  }
  if (involved.size > 0) return [...involved];
  return records.flatMap((record) => (record.k === 'state' ? [record.at] : []));
}

/** The actors that send, receive or perform the subject of a record. */
function partOf(record: JournalRecord): Address[] {
  if (record.k === 'message') return [record.from, record.to];
  if (record.k === 'effect' || record.k === 'result') return [parentOf(record.at)];
  if (record.k === 'in') return [record.to];
  return 'at' in record ? [record.at] : [];
}

function chainTo(record: JournalRecord, side: readonly JournalRecord[], before: Before): JournalRecord[] {
  const chain = [record];
  for (let at: JournalRecord | undefined = record; at && at !== side[0]; ) {
    at = causeOf(at, side, before) ?? side[0];
    if (at) chain.unshift(at);
  }
  return chain.length > CHAIN_MAX ? [...chain.slice(0, 1), ...chain.slice(1 - CHAIN_MAX)] : chain;
}

/**
 * The cause named by the record; a state or log line follows from the last record that its actor or an ancestor
 * received.
 */
function causeOf(record: JournalRecord, side: readonly JournalRecord[], before: Before): JournalRecord | undefined {
  const earlier = side.slice(0, side.indexOf(record));
  if ('cause' in record) return earlier.find(({ n }) => n === record.cause);
  for (let address = decidingActor(record, side, before)[0] ?? ''; address !== ''; address = parentOf(address)) {
    const received = earlier.findLast((other) => receiverOf(other) === address);
    if (received) return received;
  }
  return undefined;
}

function differencesOf(expected: unknown, actual: unknown, path = ''): Difference[] {
  if (JSON.stringify(expected) === JSON.stringify(actual)) return [];
  if (!isContainer(expected) || !isContainer(actual)) return [{ path: path || '.', expected, actual }];
  const keys = [...new Set([...Object.keys(expected), ...Object.keys(actual)])];
  return keys.flatMap((key) => differencesOf(expected[key], actual[key], `${path}.${key}`)).slice(0, DIFFERENCES_MAX);
}

/** Whether an actor's machine is unchanged since the recording. */
type IsUnchanged = (address: Address) => boolean;

/** Subject and content of a record that is visible to the world; `undefined` for an invisible one. */
type Seen = { readonly subject: string; readonly content: string } | undefined;

/** Keys that identify the subject of an operation or line; the first key that is found is used. */
const SUBJECTS = ['uid', 'containerId', 'podSandboxId', 'container', 'pod', 'object', 'image', 'path'] as const;
/** Levels of an input in which a subject is searched. */
const SUBJECT_DEPTH = 4;

interface Requests {
  /** A request of the log that is still open. */
  requestOf(id: number): EffectRecord | undefined;
}

/** Compares, for each subject, the records of both sides of a turn that are visible to the world. */
class WorldComparison {
  readonly #differing: ReadonlySet<string>;
  readonly #requests: Requests;
  readonly #requestsOfTurn = new Map<number, EffectRecord>();

  constructor(expected: readonly JournalRecord[], actual: readonly JournalRecord[], requests: Requests) {
    this.#requests = requests;
    for (const record of [...expected, ...actual])
      if (record.k === 'effect') this.#requestsOfTurn.set(record.id, record);
    const [logged, today] = [this.#bySubject(expected), this.#bySubject(actual)];
    const subjects = new Set([...logged.keys(), ...today.keys()]);
    this.#differing = new Set([...subjects].filter((subject) => logged.get(subject) !== today.get(subject)));
  }

  isSame(record: JournalRecord): boolean {
    const compared = this.#comparedPart(record);
    return compared === undefined || !this.#differing.has(compared.subject);
  }

  #bySubject(records: readonly JournalRecord[]): Map<string, string> {
    const compared = records.flatMap((record) => this.#comparedPart(record) ?? []);
    const groups = Map.groupBy(compared, ({ subject }) => subject);
    return new Map([...groups].map(([subject, all]) => [subject, all.map(({ content }) => content).join('\n')]));
  }

  #comparedPart(record: JournalRecord): Seen {
    if (record.k === 'effect') return { subject: subjectOf(record), content: `${record.name} ${jsonOf(record.input)}` };
    if (record.k === 'log') {
      const { level, text, fields } = record;
      return { subject: subjectIn(fields, 1) ?? text, content: jsonOf([level, text, fields]) };
    }
    if (record.k !== 'cancel') return undefined;
    const request = this.#requestsOfTurn.get(record.id) ?? this.#requests.requestOf(record.id);
    return request && { subject: subjectOf(request), content: `cancel ${request.name}` };
  }
}

const jsonOf = (value: unknown): string => JSON.stringify(value);

const subjectOf = ({ name, input }: EffectRecord): string => subjectIn(input, SUBJECT_DEPTH) ?? name;

/** The nearest value of the first key that occurs at all. */
function subjectIn(value: unknown, depth: number): string | undefined {
  let level: readonly unknown[] = [value];
  for (let left = depth; left > 0 && level.length > 0; left--) {
    const objects = level.filter((each) => isObject(each));
    for (const key of SUBJECTS) {
      const found = objects.map((each) => each[key]).find((each) => typeof each === 'string');
      if (found !== undefined) return `${key} ${found}`;
    }
    level = objects.flatMap((each) => Object.values(each));
  }
  return undefined;
}
