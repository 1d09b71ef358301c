/**
 * Verifies a journal without running it, and counts its contents. Continues after a problem where possible. The journal
 * may be in use: segments compressed or removed since the listing are not problems.
 */
import { existsSync, statSync } from 'node:fs';
import type { DroppedRecord, GapRecord, JournalRecord } from '../records.ts';
import { JournalError } from './errors.ts';
import { openSegment } from './files.ts';
import { type SegmentFile, segmentsIn } from './layout.ts';
import { linesOf } from './line.ts';
import { isDirectory, Journal, nothingThere, preambleOf, readCheckpoint } from './reader.ts';
import type { TornTail } from './sequence.ts';

export interface IncarnationReport {
  readonly incarnation: string;
  readonly segments: number;
  /** Bytes on disk, in compressed form for compressed segments. */
  readonly bytes: number;
  readonly checkpoints: number;
  /** Number of the first remaining record: more than 0 if older segments were removed. */
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

/** Verifies all incarnations, or the named one; `path` as for `readJournal`. Throws only if there is no incarnation. */
export function verifyJournal(path: string, incarnation?: string): JournalReport {
  if (!isDirectory(path)) {
    // The user named this file, so it must be a journal; in a directory, a crash may leave an empty segment.
    preambleOf(path);
    return report([verifySegments(path, [{ path, bytes: statSync(path).size }])]);
  }
  const chosenSegments = segmentsIn(path).filter(
    (segment) => (incarnation ?? segment.incarnation) === segment.incarnation,
  );
  if (chosenSegments.length === 0) throw new JournalError('no-journal', { file: path }, nothingThere(incarnation));
  return report(
    [...Map.groupBy(chosenSegments, (segment) => segment.incarnation)].map((found) => verifySegments(...found)),
  );
}

const report = (incarnations: readonly IncarnationReport[]): JournalReport => ({
  ok: incarnations.every(({ problems }) => problems.length === 0),
  incarnations,
});

type Listed = Pick<SegmentFile, 'path' | 'bytes'>;

export function verifySegments(incarnation: string, segments: readonly Listed[]): IncarnationReport {
  const found = verifyListed(incarnation, segments);
  if (found.problems.length === 0) return found;
  const remaining = segments.filter(({ path }) => !isGone(path));
  if (remaining.length === 0) return { ...found, problems: [] };
  return remaining.length < segments.length ? verifySegments(incarnation, remaining) : found;
}

function verifyListed(incarnation: string, segments: readonly Listed[]): IncarnationReport {
  const problems: JournalError[] = [];
  const counts: Counts = { first: 0, records: 0, turns: 0, gaps: [], dropped: [] };
  const paths = segments.map(({ path }) => path);
  const isTornBegin: Expectation = ({ kind, place }) =>
    kind === 'no-journal' && place.file === paths.at(-1) && hasNoWholeLine(place.file);
  let torn: TornTail | undefined;
  collecting(problems, isTornBegin, () => {
    const journal = new Journal(paths);
    counts.first = journal.checkpoint ? journal.checkpoint.after + 1 : 0;
    for (const record of journal.records) count(counts, record);
    torn = journal.torn;
  });
  const checkpoints = paths.filter((path) => hasCheckpoint(path, problems, isTornBegin)).length;
  const bytes = segments.reduce((sum, segment) => sum + segment.bytes, 0);
  return { incarnation, segments: paths.length, bytes, checkpoints, ...counts, torn, problems };
}

/** Whether the segment has no complete line: a crash may leave the last segment without a complete header. */
function hasNoWholeLine(path: string): boolean {
  const [first] = linesOf(openSegment(path).chunks);
  return first === undefined || !first.whole;
}

/** Whether the segment was removed, not only compressed, since it was listed. */
const isGone = (path: string): boolean => !existsSync(path) && !existsSync(`${path}.zst`);

interface Counts {
  first: number;
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

type Expectation = (error: JournalError) => boolean;

/** Whether the segment begins with a checkpoint. Verifies that checkpoint as well. */
function hasCheckpoint(path: string, problems: JournalError[], isTornBegin: Expectation): boolean {
  let found = false;
  collecting(problems, isTornBegin, () => {
    const { checkpoint } = preambleOf(path);
    found = checkpoint !== undefined;
    if (checkpoint) readCheckpoint(path, checkpoint);
  });
  return found;
}

/** Runs the work and collects its problem, each problem once. */
function collecting(problems: JournalError[], isExpected: Expectation, work: () => void): void {
  try {
    work();
  } catch (error) {
    if (!(error instanceof JournalError)) throw error;
    const isListed = isExpected(error) || problems.some(({ message }) => message === error.message);
    if (!isListed) problems.push(error);
  }
}
