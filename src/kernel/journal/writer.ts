/**
 * The kernel's side of a journal: collects turns into batches, passes them to the store, and suspends when the disk
 * fails. Also the interface that the kernel knows.
 *
 * Invariants:
 *   J1 a batch consists of whole turns; it is written at the end of its tick, or earlier when an operation waits for it
 *      or it is long enough;
 *   J2 batches, and the beginnings of segments between them, reach the store in order and one at a time;
 *   J3 a durability callback runs when the operating system has all earlier records, or journaling is suspended;
 *   J4 the disk's failures suspend journaling and never reach the kernel; writing goes on only in a new segment that
 *      begins with a checkpoint and records the gap;
 *   J5 a hanging disk does not prevent the process from ending.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { KernelRecord } from '../records.ts';
import { messageOf } from '../thrown.ts';
import type { Archive } from './archive.ts';
import { JournalError } from './errors.ts';
import { encodeLine } from './line.ts';
import type { Store } from './store.ts';

/** A batch of this many records, about 50 KB, is written in the middle of a tick; larger batches are no faster. */
const BATCH_MAX_RECORDS = 256;
/** More records than this in memory (a minute of a busy node) mean that the disk hangs. */
const BACKLOG_MAX_RECORDS = 65_536;

export interface PreviousIncarnation {
  readonly incarnation: string;
  /** Bytes at its end that belong to no complete turn; 0 after a clean end. They stay in the file. */
  readonly tornBytes: number;
}

export interface JournalWriter extends JournalSink {
  /** The incarnation, which the header must contain. */
  readonly incarnation: string;
  readonly directory: string;
  readonly previous: PreviousIncarnation | undefined;
  /** Why journaling is suspended; undefined while it is not. */
  readonly suspension: string | undefined;
}

export interface WriterSettings {
  readonly incarnation: string;
  readonly directory: string;
  readonly previous: PreviousIncarnation | undefined;
  readonly segmentMaxBytes: number;
  readonly segmentMaxAgeMs: number;
  readonly retryMs: number;
  readonly closeMaxMs: number;
  readonly store: Store;
  readonly archive: Archive;
  /** Whether there is enough free space to resume. */
  readonly hasRoom: () => Promise<boolean>;
  readonly report: Report;
  /** Called when the journal is closed. */
  readonly released: () => void;
}
/** Reports to users; the sentence names the cause and its consequence. */
export type Report = (level: 'info' | 'warn' | 'error', sentence: string) => void;

class Batch {
  readonly kind = 'batch';
  readonly records: KernelRecord[] = [];
  readonly waiting: (() => void)[] = [];

  get upto(): number {
    return this.records.at(-1)!.n;
  }

  add(next: Batch): void {
    this.records.push(...next.records);
    this.waiting.push(...next.waiting);
  }
}
type Work = { readonly waiting: (() => void)[] } & (
  | Batch
  | { readonly kind: 'begin'; readonly after: number; readonly checkpoint: string; readonly why: string }
  | { readonly kind: 'end'; readonly why: string }
);

export class Writer implements JournalWriter {
  readonly incarnation: string;
  readonly directory: string;
  readonly previous: PreviousIncarnation | undefined;
  wantsCheckpoint = false;
  private readonly settings: WriterSettings;
  private header = '';
  private turn: KernelRecord[] = [];
  private batch = new Batch();
  private queue: Work[] = [];
  private backlog = 0;
  private current: Work | undefined;
  private working: Promise<void> = Promise.resolve();
  private flushing: NodeJS.Immediate | undefined;
  private retrying: NodeJS.Timeout | undefined;
  private last = -1;
  /** The segment that receives new records: the number of its first record, and when it began. */
  private first = 0;
  private since = performance.now();
  private isBeginning = false;
  /** Size of the segment when starting the next one failed. */
  private stayedAt = 0;
  private suspendedBy: string | undefined;
  private lastSuspension = '';
  private closed = false;

  constructor(settings: WriterSettings) {
    this.settings = settings;
    this.incarnation = settings.incarnation;
    this.directory = settings.directory;
    this.previous = settings.previous;
  }

  get suspension(): string | undefined {
    return this.suspendedBy;
  }

  append(record: KernelRecord): void {
    this.checkOrder(record);
    this.last = record.n;
    if (record.k === 'header') this.header = encodeLine(JSON.stringify(record));
    if (this.suspendedBy === undefined) this.turn.push(record);
  }

  commit(): void {
    if (this.turn.length === 0) return;
    this.batch.records.push(...this.turn);
    this.turn = [];
    if (this.batch.records.length >= BATCH_MAX_RECORDS) this.flush();
    else this.flushing ??= setImmediate(() => this.flush());
    this.considerRotation();
  }

  whenDurable(callback: () => void): void {
    const isCollecting = this.batch.records.length > 0 || this.turn.length > 0;
    const work = isCollecting ? this.batch : (this.queue.at(-1) ?? this.current);
    if (work && this.suspendedBy === undefined) work.waiting.push(callback);
    else queueMicrotask(callback);
    if (isCollecting) this.flush();
  }

  writeCheckpoint(checkpoint: unknown): void {
    this.wantsCheckpoint = false;
    if (this.closed || (this.last < this.first && this.suspendedBy === undefined)) return;
    this.suspendedBy = undefined;
    this.flush();
    this.first = this.last + 1;
    this.since = performance.now();
    this.isBeginning = true;
    const [after, why] = [this.last, this.lastSuspension];
    this.add({ kind: 'begin', after, checkpoint: JSON.stringify(checkpoint), why, waiting: [] });
  }

  /** Writes all pending records, including an unfinished turn, which shows why the kernel died. */
  async close(): Promise<void> {
    this.commit();
    this.flush();
    this.closed = true;
    clearTimeout(this.retrying);
    const { closeMaxMs, report } = this.settings;
    const isLate = pause(closeMaxMs, true, { ref: false });
    if (await Promise.race([this.settle().then(() => false), isLate])) {
      report('error', `the journal is not closed and may lack its end: the disk takes more than ${closeMaxMs} ms`);
    }
  }

  private async settle(): Promise<void> {
    while (this.current) await this.working;
    const { store, archive, released } = this.settings;
    try {
      await store.close();
      await archive.idle();
    } finally {
      released();
    }
  }

  private checkOrder(record: KernelRecord): void {
    const place = { file: this.directory, n: record.n };
    const expected = this.last + 1;
    if (record.n !== expected || (record.k === 'header') !== (expected === 0)) {
      throw new JournalError('unusable', place, `a ${record.k} came where record ${expected} was expected`);
    }
    if (record.k === 'header' && record.incarnation !== this.incarnation) {
      const sentence = `the header names incarnation ${record.incarnation}, but this one is ${this.incarnation}`;
      throw new JournalError('unusable', place, sentence);
    }
  }

  private flush(): void {
    clearImmediate(this.flushing);
    this.flushing = undefined;
    const { batch } = this;
    if (batch.records.length === 0) return;
    this.batch = new Batch();
    this.backlog += batch.records.length;
    const before = this.queue.at(-1);
    if (before?.kind === 'batch' && before.records.length < BATCH_MAX_RECORDS) before.add(batch);
    else this.add(batch);
    if (this.backlog > BACKLOG_MAX_RECORDS) this.suspend('the disk does not keep up');
  }

  private considerRotation(): void {
    if (this.suspendedBy !== undefined || this.isBeginning) return;
    const { segmentMaxBytes, segmentMaxAgeMs, store } = this.settings;
    if (store.bytes - this.stayedAt >= segmentMaxBytes || performance.now() - this.since >= segmentMaxAgeMs)
      this.wantsCheckpoint = true;
  }

  private add(work: Work): void {
    this.queue.push(work);
    if (!this.current) this.working = this.workOff();
  }

  private async workOff(): Promise<void> {
    for (let work = this.queue.shift(); work; work = this.queue.shift()) {
      this.current = work;
      try {
        await this.perform(work);
      } catch (error) {
        this.failed(work, error);
      }
      if (work.kind === 'batch') this.backlog -= work.records.length;
      if (work.kind === 'begin') this.isBeginning = false;
      release(work);
    }
    this.current = undefined;
  }

  private async perform(work: Work): Promise<void> {
    const { store } = this.settings;
    if (work.kind === 'batch') return store.write(work);
    if (work.kind === 'end') return store.end(work.why);
    const resuming = !store.isOpen;
    await store.begin({ ...work, header: this.header });
    this.stayedAt = 0;
    if (resuming) this.settings.report('info', `the journal goes on after record ${work.after}`);
    this.tidy(work.after + 1, true);
  }

  private failed(work: Work, error: unknown): void {
    if (work.kind === 'begin' && this.settings.store.isOpen) {
      this.stayedAt = this.settings.store.bytes;
      this.settings.report(
        'warn',
        `the journal could not begin a new segment and goes on in the old one: ${messageOf(error)}`,
      );
    } else this.suspend(messageOf(error));
  }

  /** Maintains closed segments in the background. */
  tidy(first: number, compressing: boolean): void {
    const { archive, report } = this.settings;
    const failed = (error: unknown) => report('warn', `old segments are left as they are: ${messageOf(error)}`);
    void archive.tidy(first, compressing).catch(failed);
  }

  /** Stops writing: from now on records are only counted. The node keeps working; its journal has a gap. */
  suspend(why: string): void {
    if (this.suspendedBy !== undefined) return;
    this.settings.report('error', `journaling is suspended and its journal will have a gap: ${why}`);
    this.suspendedBy = why;
    this.lastSuspension = why;
    this.wantsCheckpoint = false;
    const given = [...(this.current ? [this.current] : []), ...this.queue, this.batch];
    this.queue = [];
    this.backlog = this.current?.kind === 'batch' ? this.current.records.length : 0;
    this.batch = new Batch();
    this.turn = [];
    this.isBeginning = false;
    for (const work of given) release(work);
    if (this.current) this.queue.push({ kind: 'end', why, waiting: [] });
    this.retryLater();
  }

  private retryLater(): void {
    clearTimeout(this.retrying);
    if (this.closed) return;
    const attempt = async (): Promise<void> => {
      if (await this.settings.hasRoom()) this.wantsCheckpoint = this.suspendedBy !== undefined;
      else this.retryLater();
    };
    this.retrying = setTimeout(() => void attempt(), this.settings.retryMs).unref();
  }
}

/** Each callback runs in its own microtask: one that throws does not stop the others. */
function release(work: { waiting: (() => void)[] }): void {
  for (const callback of work.waiting.splice(0)) queueMicrotask(callback);
}

/**
 * The kernel's interface to a journal. The kernel numbers its records and marks the end of turns; the journal decides
 * when bytes reach the disk, where a segment ends, and what to drop when the disk is full.
 *
 * Invariants: records arrive in the order of their numbers, the header first; no method throws because of the disk; no
 * callback runs before the method that received it has returned.
 */
export interface JournalSink {
  /** Takes one record; a full disk never makes it throw. */
  append(record: KernelRecord): void;
  /** Ends a turn: all records appended since the last call belong together. */
  commit(): void;
  /**
   * Calls back when everything appended so far would survive the process, or journaling is suspended. Never calls back
   * synchronously.
   */
  whenDurable(callback: () => void): void;
  /** True if the kernel should provide a checkpoint at the end of this turn, after `commit`. */
  readonly wantsCheckpoint: boolean;
  /**
   * Receives the whole state after the last committed turn, as plain JSON. The journal starts a new segment with it,
   * numbered by the last appended record.
   */
  writeCheckpoint(checkpoint: unknown): void;
  /** Writes all pending records and releases the directory. The kernel appends nothing afterwards. */
  close(): Promise<void>;
}
