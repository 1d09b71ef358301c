/** Checks a journal without running it, and counts what is in it. Goes on behind a problem where that is possible. */
import { statSync } from 'node:fs';
import type { DroppedRecord, GapRecord, JournalRecord } from '../records.ts';
import { JournalError } from './errors.ts';
import { segmentsIn } from './layout.ts';
import { isDirectory, Journal, nothingThere, preambleOf, readCheckpoint } from './reader.ts';
import type { TornTail } from './sequence.ts';

export interface IncarnationReport {
  readonly incarnation: string;
  readonly segments: number;
  /** On disk, compressed as they are. */
  readonly bytes: number;
  readonly checkpoints: number;
  /** Number of the first record that is left: more than 0 when older segments were removed. */
  readonly first: number;
  readonly records: number;
  readonly turns: number;
  readonly torn: TornTail | undefined;
  readonly gaps: readonly GapRecord[];
  readonly dropped: readonly DroppedRecord[];
  readonly problems: readonly JournalError[];
}

export interface JournalReport {
  readonly ok: boolean;
  readonly incarnations: readonly IncarnationReport[];
}

/** `path` as for `readJournal`; all incarnations, or the one that is named. Throws only where there is none at all. */
export function verifyJournal(path: string, incarnation?: string): JournalReport {
  if (!isDirectory(path)) return report([verifySegments(path, [path])]);
  const byIncarnation = new Map<string, string[]>();
  for (const segment of segmentsIn(path)) {
    const paths = byIncarnation.get(segment.incarnation) ?? [];
    byIncarnation.set(segment.incarnation, [...paths, segment.path]);
  }
  const wanted = [...byIncarnation].filter(([name]) => incarnation === undefined || name === incarnation);
  if (wanted.length === 0) throw new JournalError('no-journal', { file: path }, nothingThere(incarnation));
  return report(wanted.map(([name, paths]) => verifySegments(name, paths)));
}

const report = (incarnations: readonly IncarnationReport[]): JournalReport => ({
  ok: incarnations.every(({ problems }) => problems.length === 0),
  incarnations,
});

function verifySegments(incarnation: string, paths: readonly string[]): IncarnationReport {
  const problems: JournalError[] = [];
  const counts = { first: 0, records: 0, turns: 0, gaps: [] as GapRecord[], dropped: [] as DroppedRecord[] };
  let torn: TornTail | undefined;
  collecting(problems, () => {
    const journal = new Journal(paths);
    counts.first = journal.checkpoint ? journal.checkpoint.after + 1 : 0;
    for (const record of journal.records) count(counts, record);
    torn = journal.torn;
  });
  const checkpoints = paths.filter((path) => hasCheckpoint(path, problems)).length;
  const bytes = paths.reduce((sum, path) => sum + statSync(path).size, 0);
  return { incarnation, segments: paths.length, bytes, checkpoints, ...counts, torn, problems };
}

interface Counts {
  records: number;
  turns: number;
  gaps: GapRecord[];
  dropped: DroppedRecord[];
}

function count(counts: Counts, record: JournalRecord): void {
  if (record.k === 'gap') counts.gaps.push(record);
  else if (record.k === 'dropped') counts.dropped.push(record);
  else counts.records++;
  if (record.k === 'end') counts.turns++;
}

/** True if the segment begins with a checkpoint; whether that one is whole is looked at on the way. */
function hasCheckpoint(path: string, problems: JournalError[]): boolean {
  let found = false;
  collecting(problems, () => {
    const { checkpoint } = preambleOf(path);
    found = checkpoint !== undefined;
    if (checkpoint) readCheckpoint(path, checkpoint);
  });
  return found;
}

/** Each problem once, however many ways lead to it. */
function collecting(problems: JournalError[], work: () => void): void {
  try {
    work();
  } catch (error) {
    if (!(error instanceof JournalError)) throw error;
    // A segment that a crash left without a header is torn, and the reader says what that means.
    const told = error.kind === 'no-journal' || problems.some(({ message }) => message === error.message);
    if (!told) problems.push(error);
  }
}
