/**
 * What the kernel needs of a journal. The kernel numbers its records and says where a turn ends; the journal decides
 * when bytes reach the disk, where a segment ends, and what to give up when the disk is full.
 *
 * Invariants: records arrive in the order of their numbers, the header first; no method throws for the disk's sake;
 * no callback runs before the method that was given it has returned.
 */
import type { KernelRecord } from '../records.ts';

export interface JournalSink {
  /** Keeps one record; never throws for a full disk. */
  append(record: KernelRecord): void;
  /** End of a turn: everything appended so far belongs together. */
  commit(): void;
  /**
   * Calls back when everything appended until now outlives this process (or journaling is suspended). Never calls back
   * at once.
   */
  whenDurable(callback: () => void): void;
  /** True when the kernel should hand over a checkpoint at the end of this turn (after `commit`). */
  readonly wantsCheckpoint: boolean;
  /**
   * The whole state after the last committed turn, as plain JSON. The journal starts a new segment with it; its number
   * is that of the last record appended.
   */
  writeCheckpoint(checkpoint: unknown): void;
  /** Writes what is left and gives the directory back. The kernel appends nothing afterwards. */
  close(): Promise<void>;
}
