/**
 * Joins the lines of one incarnation's segments into complete turns.
 *
 * Invariants: numbers are consecutive except where a `dropped` or a `gap` records a hole; a segment continues exactly
 * where the previous one ended; time never goes back; a turn is returned only when its `end` was read, never in part.
 */
import type { CheckpointRecord, GapRecord, HeaderRecord, InputRecord, JournalRecord } from '../records.ts';
import { JournalError, type JournalPlace } from './errors.ts';
import type { ScannedLine, SegmentEnd } from './scan.ts';

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
  /** Number of the next record. */
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
    if (record.k === 'in' || record.k === 'timer' || record.k === 'result') this.passTime(record, place);
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
