/**
 * Aligns the records of one turn in a log with the records that the replayed actors produced.
 *
 * Invariants: both orders are kept; a record that is missing on one side shifts later numbers without making them
 * differences; records with different content are paired only if kind, actor and name agree; a record without a partner
 * stands alone.
 */
import type { JournalRecord } from './records.ts';

/** A record of the log with its replayed counterpart, or a record of only one side. */
export type Pair =
  | { readonly expected: JournalRecord; readonly actual: JournalRecord | null }
  | { readonly expected: null; readonly actual: JournalRecord };

/** Cells of the longest-common-subsequence table, 4 bytes each; longer turns are compared position by position. */
const TABLE_CELLS_MAX = 4_000_000;

export function align(expected: readonly JournalRecord[], actual: readonly JournalRecord[]): Pair[] {
  const [a, b] = [contents(expected), contents(actual)];
  let from = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from++;
  let end = 0;
  while (end < Math.min(a.length, b.length) - from && a.at(-1 - end) === b.at(-1 - end)) end++;
  const middle = commonPlaces(a.slice(from, a.length - end), b.slice(from, b.length - end));
  const anchors = [
    ...Array.from({ length: from }, (_, i) => [i, i] as const),
    ...middle.map(([i, j]) => [i + from, j + from] as const),
    ...Array.from({ length: end }, (_, i) => [a.length - end + i, b.length - end + i] as const),
    [a.length, b.length] as const,
  ];
  const pairs: Pair[] = [];
  let [i, j] = [0, 0];
  for (const [nextI, nextJ] of anchors) {
    pairs.push(...pairedByName(expected.slice(i, nextI), actual.slice(j, nextJ)));
    const [logged, made] = [expected[nextI], actual[nextJ]];
    if (logged && made) pairs.push({ expected: logged, actual: made });
    [i, j] = [nextI + 1, nextJ + 1];
  }
  return pairs;
}

/** The content of each record, without the numbers that an earlier insertion shifts. */
export function contents(records: readonly JournalRecord[]): string[] {
  const requesters = new Map<number, string>();
  return records.map((record) => {
    if (record.k === 'end') return 'end';
    if (record.k === 'cancel') return `cancel ${requesters.get(record.id) ?? record.id}`;
    if (record.k === 'effect') requesters.set(record.id, record.at);
    return JSON.stringify({ ...record, n: 0, cause: 0, ...(record.k === 'effect' ? { id: 0 } : {}) });
  });
}

/** The positions of the longest common subsequence. */
function commonPlaces(a: readonly string[], b: readonly string[]): [number, number][] {
  const width = b.length + 1;
  if ((a.length + 1) * width > TABLE_CELLS_MAX) return samePlaces(a, b);
  const longest = new Int32Array((a.length + 1) * width);
  const from = (i: number, j: number): number => longest[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i * width + j] = a[i] === b[j] ? from(i + 1, j + 1) + 1 : Math.max(from(i + 1, j), from(i, j + 1));
    }
  }
  const places: [number, number][] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) places.push([i++, j++]);
    else if (from(i + 1, j) >= from(i, j + 1)) i++;
    else j++;
  }
  return places;
}

const samePlaces = (a: readonly string[], b: readonly string[]): [number, number][] =>
  a.flatMap((content, i): [number, number][] => (content === b[i] ? [[i, i]] : []));

/** Pairs two stretches without a common record: records of one kind, actor and name whose content changed. */
function pairedByName(expected: readonly JournalRecord[], actual: readonly JournalRecord[]): Pair[] {
  const pairs: Pair[] = [];
  const todays = Map.groupBy(actual.entries(), ([, record]) => nameOf(record));
  let next = 0;
  for (const record of expected) {
    const named = todays.get(nameOf(record)) ?? [];
    const found = named.splice(0, named.findIndex(([at]) => at >= next) + 1).at(-1);
    if (found === undefined) pairs.push({ expected: record, actual: null });
    else {
      const [at, made] = found;
      pairs.push(...actual.slice(next, at).map(alone), { expected: record, actual: made });
      next = at + 1;
    }
  }
  return [...pairs, ...actual.slice(next).map(alone)];
}

const alone = (actual: JournalRecord): Pair => ({ expected: null, actual });

function nameOf(record: JournalRecord): string {
  switch (record.k) {
    case 'message':
      return `message ${record.from} ${record.to} ${record.event.type}`;
    case 'effect':
      return `effect ${record.at} ${record.name}`;
    case 'log':
    case 'state':
      return `${record.k} ${record.at}`;
    case 'cancel':
      return `cancel ${record.id}`;
    default:
      return record.k;
  }
}
