/**
 * The kernel's interface to a journal. The kernel numbers its records and marks the end of turns; the journal decides
 * when bytes reach the disk, where a segment ends, and what to drop when the disk is full.
 *
 * Invariants: records arrive in the order of their numbers, the header first; no method throws because of the disk; no
 * callback runs before the method that received it has returned.
 */
import type { KernelRecord } from '../records.ts';

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
