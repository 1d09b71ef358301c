/**
 * Reads segments line by line, verifies checksums and the hash chain, and joins the lines of one incarnation into
 * complete turns.
 *
 * An invalid line is the torn end of a crash if no chain link follows it, because a batch is started only after the
 * previous one is complete. If a link follows, written bytes were changed: that is damage.
 * Invariants: numbers are consecutive except where a `dropped` or a `gap` records a hole; a segment continues exactly
 * where the previous one ended; time never goes back; a turn is returned only when its `end` was read, never in part.
 */
import { createHash, type Hash } from 'node:crypto';
import { dirname } from 'node:path';
import type { CheckpointRecord, GapRecord, HeaderRecord, InputRecord, JournalLine, JournalRecord } from '../records.ts';
import { isInput } from '../records.ts';
import { BadReference, Decoder } from './decoder.ts';
import { JournalError, type JournalPlace } from './errors.ts';
import { openSegment, readBlob } from './files.ts';
import { LINE_MAX_BYTES, linesOf, type ParsedLine, type PlacedLine, parseBareLine, parseLine } from './line.ts';
import { isLine } from './shape.ts';
import { isReadableFormat, upcast } from './upcast.ts';

const LINE_FEED = Buffer.from('\n');
/** A line without this mark contains no reference. */
const REFERENCE_MARK = '"$';

interface ScannedLine {
  /** The record with its references resolved. */
  readonly record: JournalLine;
  readonly offset: number;
  readonly line: number;
}

interface SegmentEnd {
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

/** The bytes after the last complete turn. They stay in the file and are never returned. */
export interface TornTail {
  readonly file: string;
  readonly offset: number;
  readonly bytes: number;
  readonly records: number;
  readonly why: string;
}

export class Sequence {
  private readonly header: HeaderRecord;
  private readonly headerText: string;
  private next: number;
  private open: JournalRecord[] = [];
  private openOffset = 0;
  private end: SegmentEnd | undefined;
  private link: string | undefined;
  private suspended: GapRecord | undefined;
  /** The time of the last input. */
  private time = Number.NEGATIVE_INFINITY;

  constructor(header: HeaderRecord, next: number) {
    this.header = header;
    this.headerText = JSON.stringify(header);
    this.next = next;
  }

  /** The records that this line makes complete. */
  take(file: string, { record, line, offset }: ScannedLine): readonly JournalRecord[] {
    const place = { file, line, offset };
    if (line === 1) this.begin(record, place);
    switch (record.k) {
      case 'chain':
        if (record.upto !== this.next - 1) throw this.hole(record.upto + 1, place);
        this.link = record.sha256;
        return [];
      case 'checkpoint':
        this.join(record, place);
        return [];
      case 'gap':
        return this.cross(record, place);
      case 'header':
        if (this.next > 0) return [];
    }
    return this.keep(record, offset, place);
  }

  endOfSegment(end: SegmentEnd): void {
    this.end = end;
  }

  /** The last suspension, if no later segment ended it. */
  get lastGap(): GapRecord | undefined {
    return this.suspended;
  }

  get torn(): TornTail | undefined {
    const { end, open } = this;
    const offset = open.length > 0 ? this.openOffset : end?.bad?.offset;
    if (!end || offset === undefined) return undefined;
    const why = end.bad ? `a line was not finished: ${end.bad.why}` : 'the last turn has no end';
    return { file: end.file, offset, bytes: end.bytes - offset, records: open.length, why };
  }

  private begin(record: ScannedLine['record'], place: JournalPlace): void {
    if (record.k === 'header' && JSON.stringify(record) === this.headerText) return;
    throw new JournalError(
      'damaged',
      place,
      `it does not begin with the header of incarnation ${this.header.incarnation}`,
    );
  }

  private keep(record: JournalRecord, offset: number, place: JournalPlace): readonly JournalRecord[] {
    if (record.n !== this.next) throw this.hole(record.n, place);
    if (isInput(record)) this.passTime(record, place);
    this.next = (record.k === 'dropped' ? record.upto : record.n) + 1;
    if (this.open.length === 0) this.openOffset = offset;
    this.open.push(record);
    if (record.k !== 'end') return [];
    const turn = this.open;
    this.open = [];
    return turn;
  }

  /** Fails if time goes back: the kernel's clock never does. */
  private passTime({ n, t }: InputRecord, place: JournalPlace): void {
    if (t < this.time) throw new JournalError('damaged', { ...place, n }, `time goes back from ${this.time} to ${t}`);
    this.time = t;
  }

  /** The start of a segment, which must continue where the previous one ended. */
  private join({ after, previous }: CheckpointRecord, place: JournalPlace): void {
    const torn = this.torn;
    if (torn)
      throw new JournalError('damaged', { file: torn.file, offset: torn.offset }, `it ends too early: ${torn.why}`);
    this.end = undefined;
    if (after !== this.next - 1) throw this.hole(after + 1, place);
    if (this.link !== undefined && previous !== undefined && previous !== this.link) {
      throw new JournalError('damaged', place, 'the segment before does not end with the link that this one names');
    }
    this.link = undefined;
  }

  private cross(gap: GapRecord, place: JournalPlace): readonly JournalRecord[] {
    if (gap.n > this.next) throw this.hole(gap.n, place);
    if (gap.upto === undefined) {
      this.suspended = gap;
      return [];
    }
    if (gap.upto < this.next - 1) throw this.hole(gap.upto + 1, place);
    this.suspended = undefined;
    this.open = [];
    this.end = undefined;
    this.link = undefined;
    this.next = gap.upto + 1;
    return [gap];
  }

  private hole(found: number, place: JournalPlace): JournalError {
    const { next } = this;
    if (found < next) return new JournalError('damaged', { ...place, n: found }, `record ${next} was expected`);
    const records = found === next + 1 ? `record ${next} is missing` : `records ${next} to ${found - 1} are missing`;
    return new JournalError('missing', { ...place, n: found }, `${records} before it; was a segment removed?`);
  }
}
