/**
 * Reads one segment line by line, verifies checksums and the hash chain, and distinguishes damage from a torn end.
 *
 * An invalid line is the torn end of a crash if no chain link follows it, because a batch is started only after the
 * previous one is complete. If a link follows, written bytes were changed: that is damage.
 */
import { createHash, type Hash } from 'node:crypto';
import { dirname } from 'node:path';
import type { HeaderRecord, JournalLine } from '../records.ts';
import { BadReference, Decoder } from './decoder.ts';
import { JournalError, type JournalPlace } from './errors.ts';
import { openSegment, readBlob } from './files.ts';
import { LINE_MAX_BYTES, linesOf, type ParsedLine, type PlacedLine, parseBareLine, parseLine } from './line.ts';
import { isLine } from './shape.ts';
import { isReadableFormat, upcast } from './upcast.ts';

const LINE_FEED = Buffer.from('\n');
/** A line without this mark contains no reference. */
const REFERENCE_MARK = '"$';

export interface ScannedLine {
  /** The record with its references resolved. */
  readonly record: JournalLine;
  readonly offset: number;
  readonly line: number;
}

export interface SegmentEnd {
  readonly file: string;
  readonly bytes: number;
  /** The first unreadable line before the end, if any. */
  readonly bad: { readonly offset: number; readonly line: number; readonly why: string } | undefined;
}

/** `onEnd` receives the end of the segment once it was read completely. */
export function* scanSegment(file: string, onEnd: (end: SegmentEnd) => void = () => {}): Generator<ScannedLine> {
  const chain = new Chain();
  const decoder = new Decoder((sha256) => readBlob(dirname(file), sha256, file));
  const { isCompressed, chunks } = openSegment(file);
  let next = 0;
  let bytes = 0;
  let bad: SegmentEnd['bad'];
  for (const placed of linesOf(chunks)) {
    const { offset, number: line } = placed;
    if (placed.bytes.length > LINE_MAX_BYTES) throw tooLong(file, placed);
    const parsed = placed.whole ? parsedAs(isCompressed, placed.bytes, next) : 'it has no end';
    bytes = offset + placed.bytes.length + (placed.whole ? 1 : 0);
    if (bad) refuseLink(file, bad, parsed);
    else if (typeof parsed === 'string') bad = { offset, line, why: parsed };
    else {
      const record = recordOf(decoder, parsed, { file, line, offset });
      if (record.k === 'chain') chain.check(record.sha256, { file, line, offset, n: record.upto });
      else chain.add(parsed.bytes);
      if ('n' in record) next = record.n + 1;
      yield { record, offset, line };
    }
  }
  onEnd({ file, bytes, bad });
}

const parsedAs = (isCompressed: boolean, bytes: Buffer, next: number): ParsedLine | string =>
  isCompressed ? parseBareLine(bytes, next) : parseLine(bytes);

/** A line with a valid checksum was written as it is: an error in it is not the result of a crash. */
function recordOf(decoder: Decoder, { raw, json }: ParsedLine, place: JournalPlace): JournalLine {
  let why = 'it holds no record that this format knows';
  try {
    const record = decoder.decode(raw, json.length, !json.includes(REFERENCE_MARK));
    if (isLine(record)) return isHeader(record) ? upcast(record) : record;
  } catch (error) {
    if (!(error instanceof BadReference)) throw error;
    why = error.message;
  }
  throw new JournalError('damaged', place, `its checksum is right, but ${why}`);
}

/** A header of a supported format; the fields of other formats are unknown. */
const isHeader = (record: JournalLine): record is HeaderRecord =>
  record.k === 'header' && isReadableFormat(record.version);

const tooLong = (file: string, { offset, number: line }: PlacedLine): JournalError =>
  new JournalError('damaged', { file, line, offset }, `the line has more than ${LINE_MAX_BYTES} bytes`);

function refuseLink(file: string, bad: NonNullable<SegmentEnd['bad']>, later: ParsedLine | string): void {
  if (typeof later === 'string' || later.raw.k !== 'chain') return;
  const place = { file, line: bad.line, offset: bad.offset };
  throw new JournalError('damaged', place, `the line was changed after it was written: ${bad.why}`);
}

/** The hash chain of one segment. */
class Chain {
  readonly #lines: Hash = createHash('sha256');

  add(line: Buffer): void {
    this.#lines.update(line).update(LINE_FEED);
  }

  check(stated: string, place: JournalPlace): void {
    if (stated === this.#lines.copy().digest('hex')) return;
    throw new JournalError('damaged', place, 'the chain is broken: a line before it was added, removed or changed');
  }
}
