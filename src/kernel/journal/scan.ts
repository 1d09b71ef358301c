/**
 * Reads one segment line by line: checks checksums and the hash chain, and distinguishes damage from an unfinished end.
 *
 * A line that does not hold is the torn end of a crash if no link of the chain follows it, because a batch is only
 * begun after the batch before is whole. With a link behind it, something has changed what was written: that is damage.
 */
import { createHash, type Hash } from 'node:crypto';
import type { JournalLine } from '../records.ts';
import { hasBlobs } from './blobs.ts';
import { JournalError, type JournalPlace } from './errors.ts';
import { chunksOf } from './files.ts';
import { LINE_MAX_BYTES, linesOf, type PlacedLine, parseLine } from './line.ts';
import { FIRST_LINK } from './segment.ts';

const LINE_FEED = Buffer.from('\n');

export interface ScannedLine {
  readonly record: JournalLine;
  readonly offset: number;
  readonly line: number;
  /** The line may hold names of blobs. */
  readonly hasBlobs: boolean;
}

export interface SegmentEnd {
  readonly file: string;
  readonly bytes: number;
  /** Where the lines stop making sense, if they do before the end. */
  readonly bad: { readonly offset: number; readonly line: number; readonly why: string } | undefined;
}

/** `onEnd` gets how the segment ends, if it is read to its end. */
export function* scanSegment(file: string, onEnd: (end: SegmentEnd) => void = () => {}): Generator<ScannedLine> {
  const chain = new Chain();
  let bytes = 0;
  let bad: SegmentEnd['bad'];
  for (const placed of linesOf(chunksOf(file))) {
    const { offset, number: line } = placed;
    if (placed.bytes.length > LINE_MAX_BYTES) throw tooLong(file, placed);
    const record = placed.whole ? parseLine(placed.bytes) : 'it has no end';
    bytes = offset + placed.bytes.length + (placed.whole ? 1 : 0);
    if (bad) refuseLink(file, bad, record);
    else if (typeof record === 'string') bad = { offset, line, why: record };
    else {
      if (record.k === 'chain') chain.check(record.sha256, { file, line, offset, n: record.upto });
      else chain.add(placed.bytes);
      yield { record, offset, line, hasBlobs: hasBlobs(placed.bytes) };
    }
  }
  onEnd({ file, bytes, bad });
}

const tooLong = (file: string, { offset, number: line }: PlacedLine): JournalError =>
  new JournalError('damaged', { file, line, offset }, `the line has more than ${LINE_MAX_BYTES} bytes`);

function refuseLink(file: string, bad: NonNullable<SegmentEnd['bad']>, later: JournalLine | string): void {
  if (typeof later === 'string' || later.k !== 'chain') return;
  const place = { file, line: bad.line, offset: bad.offset };
  throw new JournalError('damaged', place, `the line was changed after it was written: ${bad.why}`);
}

/** The chain of one segment as its lines make it. */
class Chain {
  private link = FIRST_LINK;
  private batch: Hash = createHash('sha256').update(FIRST_LINK);

  add(line: Buffer): void {
    this.batch.update(line).update(LINE_FEED);
  }

  check(stated: string, place: JournalPlace): void {
    this.link = this.batch.digest('hex');
    this.batch = createHash('sha256').update(this.link);
    if (stated === this.link) return;
    throw new JournalError('damaged', place, 'the chain is broken: a line before it was added, removed or changed');
  }
}
