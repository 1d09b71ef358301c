/**
 * One open segment: whole batches go in, each closed by a link of the hash chain.
 *
 * Invariants: `bytes` is the length of what the operating system has whole, so that a process that dies loses nothing;
 * `undo` makes the file that long again; a link is the sha256 of every line before it but the other links; what a disk
 * could not keep, and a file that was removed, fails the next write, and the end; a disk that hangs is asked once.
 */
import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, stat } from 'node:fs/promises';
import { type Disk, type Durability, PRIVATE, writeAll } from './disk.ts';
import { encodeLine } from './line.ts';

/** A disk that is asked for each batch makes the runtime wait, whose own data are on the same one. */
const SYNC_PERIOD_MS = 1_000;

export class Segment {
  readonly path: string;
  bytes = 0;
  /** The last link of the chain; empty before the first. */
  link = '';
  private lines: Hash = createHash('sha256');
  private readonly handle: FileHandle;
  private readonly durability: Durability;
  /** Until the disk has answered. */
  private due: NodeJS.Timeout | undefined;
  private isSynced = true;
  private syncing: Promise<void> = Promise.resolve();
  private failure: unknown;

  private constructor(path: string, handle: FileHandle, durability: Durability) {
    this.path = path;
    this.handle = handle;
    this.durability = durability;
  }

  /** Fails where a file of that name exists: a segment is never written twice. */
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

  /** A file without a name takes all that is written and gives nothing back. */
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
