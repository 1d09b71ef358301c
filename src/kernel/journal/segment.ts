/**
 * One open segment: accepts whole batches, each closed by a link of the hash chain. Also finds the incomplete tail of a
 * closed one.
 *
 * Invariants: `bytes` is the length that the operating system has completely, so a dying process loses nothing; `undo`
 * truncates the file to that length; a link is the sha256 of all lines before it except other links; a failed sync or a
 * removed file fails the next write and the closing; a hanging disk is synced only once.
 */
import { createHash, type Hash } from 'node:crypto';
import { closeSync, fstatSync, readSync } from 'node:fs';
import { type FileHandle, stat } from 'node:fs/promises';
import { type Disk, type Durability, PRIVATE, writeAll } from './disk.ts';
import { openFile } from './files.ts';
import { encodeLine, linesOf, parseLine } from './line.ts';

/** Syncing every batch would delay the runtime, whose data are on the same disk. */
const SYNC_PERIOD_MS = 1_000;

export class Segment {
  readonly path: string;
  bytes = 0;
  /** The last link of the chain; empty before the first. */
  link = '';
  private lines: Hash = createHash('sha256');
  private readonly handle: FileHandle;
  private readonly durability: Durability;
  /** The timer of the next sync; set until the disk has answered. */
  private due: NodeJS.Timeout | undefined;
  private isSynced = true;
  private syncing: Promise<void> = Promise.resolve();
  private failure: unknown;

  private constructor(path: string, handle: FileHandle, durability: Durability) {
    this.path = path;
    this.handle = handle;
    this.durability = durability;
  }

  /** Fails if the file exists: a segment is never written twice. */
  static async create(disk: Disk, path: string, durability: Durability): Promise<Segment> {
    return new Segment(path, await disk.open(path, 'wx', PRIVATE), durability);
  }

  async write(lines: string, upto: number): Promise<void> {
    if (this.failure !== undefined) throw this.failure;
    const bytes = Buffer.from(lines);
    const written = this.lines.copy().update(bytes);
    const sha256 = written.copy().digest('hex');
    const whole = Buffer.concat([bytes, Buffer.from(encodeLine(JSON.stringify({ k: 'chain', upto, sha256 })))]);
    await writeAll(this.handle, whole, this.bytes);
    this.bytes += whole.length;
    this.lines = written;
    this.link = sha256;
    this.isSynced = false;
    if (this.durability === 'second') this.due ??= this.syncLater();
  }

  async undo(): Promise<void> {
    await this.handle.truncate(this.bytes);
  }

  private syncLater(): NodeJS.Timeout {
    return setTimeout(() => {
      this.syncing = this.sync();
    }, SYNC_PERIOD_MS).unref();
  }

  private async sync(): Promise<void> {
    this.isSynced = true;
    try {
      await this.handle.datasync();
      await this.requirePlace();
    } catch (error) {
      this.failure = error;
    }
    this.due = this.isSynced ? undefined : this.syncLater();
  }

  /** A deleted file still accepts writes, and loses them. */
  private async requirePlace(): Promise<void> {
    const [own, there] = await Promise.all([this.handle.stat(), stat(this.path).catch(() => null)]);
    if (there?.ino === own.ino && there.dev === own.dev) return;
    throw new Error(`${this.path} was removed or replaced by another process while it was written`);
  }

  async close(): Promise<void> {
    await this.syncing;
    clearTimeout(this.due);
    try {
      if (this.failure !== undefined) throw this.failure;
      if (this.durability === 'second') await this.handle.datasync();
    } finally {
      await this.handle.close();
    }
  }
}

/** The first window: most turns fit; otherwise the window grows until it contains the end of a turn. */
const WINDOW_BYTES = 256 * 1024;
const WINDOW_GROWTH = 8;

/** Reads backwards, so that opening a journal does not read a whole segment. */
export function tornBytes(path: string): number {
  const descriptor = openFile(path);
  try {
    const { size } = fstatSync(descriptor);
    for (let window = WINDOW_BYTES; ; window *= WINDOW_GROWTH) {
      const from = Math.max(0, size - window);
      const bytes = Buffer.allocUnsafe(size - from);
      readSync(descriptor, bytes, 0, bytes.length, from);
      const whole = endOfLastTurn(bytes);
      if (whole > 0) return bytes.length - whole;
      if (from === 0) return size;
    }
  } finally {
    closeSync(descriptor);
  }
}

/** Offset after the last `end` and its link; 0 if there is none. A segment's checkpoint counts as an end. */
function endOfLastTurn(bytes: Buffer): number {
  let whole = 0;
  let open = false;
  for (const line of linesOf([bytes])) {
    if (!line.whole) break;
    const parsed = parseLine(line.bytes);
    if (typeof parsed === 'string') {
      open = true;
      continue;
    }
    const { k } = parsed.raw;
    if (k === 'end' || k === 'checkpoint' || k === 'gap') open = false;
    else if (k !== 'chain') open = true;
    if (!open) whole = line.offset + line.bytes.length + 1;
  }
  return whole;
}
