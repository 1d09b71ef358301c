/**
 * A failure in a journal as a test that can be applied to a shorter journal: the first difference of a replay, an actor
 * that crashed, or a record with a given text.
 */
import { contents } from '../../kernel/alignment.ts';
import type { Divergence } from '../../kernel/divergence.ts';
import type { EndRecord, JournalRecord } from '../../kernel/records.ts';

/** A turn of the log: its input, its derived records, its end. */
export type Turn = readonly JournalRecord[];

export interface Failure {
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
export function differenceAsFailure(divergence: Divergence, strict: boolean): Failure {
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
export function crashIn(records: Iterable<JournalRecord>): Failure | undefined {
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

/** The first derived record whose JSON has this text. */
export function textIn(records: Iterable<JournalRecord>, text: string): Failure | undefined {
  const isInput = ({ k }: JournalRecord): boolean => k === 'header' || k === 'in' || k === 'timer' || k === 'result';
  const matches = (record: JournalRecord): boolean => !isInput(record) && JSON.stringify(record).includes(text);
  for (const record of records)
    if (matches(record)) return ofToday(`a record with ${JSON.stringify(text)}`, record.n, matches);
  return undefined;
}
