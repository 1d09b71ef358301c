/**
 * Reads one incarnation of a journal as an iterable of complete turns, over plain and compressed segments, holding at
 * most one segment in memory. Faults are thrown as `JournalError` with their position. A torn tail is not a fault: it
 * is left out and reported by `torn`.
 */
import { hash } from 'node:crypto';
import { statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import {
  type Checkpoint,
  type CheckpointRecord,
  FORMAT_VERSION,
  type HeaderRecord,
  type JournalRecord,
} from '../records.ts';
import { codeOf, messageOf } from '../thrown.ts';
import { JournalError } from './errors.ts';
import { readWholeFile } from './files.ts';
import { segmentName, segmentsIn } from './layout.ts';
import { Sequence, scanSegment, type TornTail } from './sequence.ts';
import { isTooDeep, NESTING_MAX } from './shape.ts';
import { OLDEST_FORMAT } from './upcast.ts';

export interface ReadOptions {
  /** Default: the newest. */
  readonly incarnation?: string;
  /**
   * Where to begin: at the oldest remaining segment (default), at the newest checkpoint, or this many segments before
   * the end, if a segment there can be read on its own.
   */
  readonly from?: 'oldest' | 'newest-checkpoint' | number;
}

/** The state at the start of a segment, and the number of the last record it covers. */
export interface StoredCheckpoint {
  readonly after: number;
  readonly state: Checkpoint;
}

export class Journal {
  readonly header: HeaderRecord;
  /** Absent if the records begin with the header. */
  readonly checkpoint: StoredCheckpoint | undefined;
  readonly segments: readonly string[];
  /** Earlier segments, which are left out. */
  readonly skipped: number;
  private tail: TornTail | undefined;

  constructor(segments: readonly string[], skipped = 0) {
    this.skipped = skipped;
    const from = firstWithHeader(segments);
    const { header, checkpoint } = preambleOf(segments[from]!);
    this.header = header;
    this.checkpoint = checkpoint && stored(segments[from]!, checkpoint);
    this.segments = segments.slice(from);
  }

  /** The state after record `n`, if a segment begins there, as at the end of a gap. */
  checkpointAfter(n: number): StoredCheckpoint | undefined {
    if (this.checkpoint?.after === n) return this.checkpoint;
    const name = segmentName(this.header.incarnation, n + 1);
    const file = this.segments.find((path) => basename(path).startsWith(name));
    if (file === undefined) return undefined;
    const { checkpoint } = preambleOf(file);
    return checkpoint && stored(file, checkpoint);
  }

  /** Every record from the start, in complete turns; each call reads from the beginning. */
  get records(): Iterable<JournalRecord> {
    return { [Symbol.iterator]: () => this.read() };
  }

  /** The omitted end of the last segment; known after the records were read to their end. */
  get torn(): TornTail | undefined {
    return this.tail;
  }

  private *read(): Generator<JournalRecord> {
    const sequence = new Sequence(this.header, this.checkpoint ? this.checkpoint.after + 1 : 0);
    for (const file of this.segments) {
      for (const line of scanSegment(file, (end) => sequence.endOfSegment(end))) yield* sequence.take(file, line);
    }
    if (sequence.lastGap) yield sequence.lastGap;
    this.tail = sequence.torn;
  }
}

/** `path` is a journal's directory, or one segment, which is then read on its own. */
export function readJournal(path: string, options: ReadOptions = {}): Journal {
  if (!isDirectory(path)) return new Journal([path]);
  const all = segmentsIn(path);
  const incarnation = options.incarnation ?? all.at(-1)?.incarnation;
  const segments = all.filter((segment) => segment.incarnation === incarnation).map((segment) => segment.path);
  if (segments.length === 0) throw new JournalError('no-journal', { file: path }, nothingThere(options.incarnation));
  const { from = 'oldest' } = options;
  if (from === 'oldest') return new Journal(segments);
  if (from === 'newest-checkpoint') return new Journal(segments.slice(segments.findLastIndex(isReadable)));
  const first = Math.max(0, segments.slice(0, Math.max(1, segments.length - from + 1)).findLastIndex(isReadable));
  return new Journal(segments.slice(first), first);
}

/** If the disk refused the first lines of a start, the journal begins after them. */
function firstWithHeader(segments: readonly string[]): number {
  return segments.findIndex((file, at) => at === segments.length - 1 || hasHeader(file));
}

function hasHeader(file: string): boolean {
  try {
    return preambleOf(file).header !== undefined;
  } catch (error) {
    if (error instanceof JournalError && error.kind === 'no-journal') return false;
    throw error;
  }
}

/** Header and checkpoint of a segment, which make it readable on its own. */
export function preambleOf(file: string): { header: HeaderRecord; checkpoint: CheckpointRecord | undefined } {
  let header: HeaderRecord | undefined;
  for (const { record, line } of scanSegment(file)) {
    if (line === 1 && record.k === 'header') header = supported(record, file);
    else if (line === 1 || !header) break;
    else if (record.k === 'checkpoint') return { header, checkpoint: record };
    else if (record.k !== 'gap') return { header, checkpoint: undefined };
  }
  if (header) return { header, checkpoint: undefined };
  throw new JournalError('no-journal', { file }, 'it does not begin with the header of a journal');
}

const stored = (segment: string, checkpoint: CheckpointRecord): StoredCheckpoint => ({
  after: checkpoint.after,
  state: readCheckpoint(segment, checkpoint) as Checkpoint,
});

/** The state in a checkpoint file, which must be the file that the segment names. */
export function readCheckpoint(segment: string, { file: name, sha256 }: CheckpointRecord): unknown {
  const file = join(dirname(segment), basename(name));
  let text: Buffer;
  try {
    text = readWholeFile(file);
  } catch (error) {
    const sentence = `the checkpoint that ${segment} begins with cannot be read (${codeOf(error) ?? messageOf(error)})`;
    throw new JournalError('missing', { file }, sentence, error);
  }
  if (isTooDeep(text)) throw new JournalError('damaged', { file }, `it is nested deeper than ${NESTING_MAX} levels`);
  if (hash('sha256', text) === sha256) return JSON.parse(text.toString());
  throw new JournalError('damaged', { file }, `the checkpoint that ${segment} begins with is not what was written`);
}

function supported(header: HeaderRecord, file: string): HeaderRecord {
  const version: number = header.version;
  if (version === FORMAT_VERSION) return header;
  const readable = `formats ${OLDEST_FORMAT} to ${FORMAT_VERSION}`;
  const sentence = `it has format ${version}, this Statelet reads ${readable}; use the one that wrote it`;
  throw new JournalError(
    'unsupported-version',
    { file, line: 1, offset: 0, n: 0 },
    `${sentence} (${writerOf(header)})`,
  );
}

const writerOf = (header: HeaderRecord): string => `Statelet ${header.build?.statelet ?? 'of unknown version'}`;

function isReadable(file: string): boolean {
  try {
    const { checkpoint } = preambleOf(file);
    return checkpoint !== undefined;
  } catch {
    return false;
  }
}

export function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (error) {
    throw new JournalError(
      'no-journal',
      { file: path },
      `there is nothing to read (${codeOf(error) ?? messageOf(error)})`,
      error,
    );
  }
}

/** The error of a directory that holds no journal, or not the requested incarnation. */
export const nothingThere = (incarnation: string | undefined): string =>
  incarnation === undefined ? 'it holds no segments of a journal' : `it holds no incarnation ${incarnation}`;
