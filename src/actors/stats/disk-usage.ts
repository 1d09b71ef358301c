/**
 * Usage of file systems and folders.
 *
 * Invariants: a folder is measured without leaving its file system and without following links; hard links count once;
 * names are arbitrary bytes, so that none is skipped; measuring is bounded, and an incomplete result is marked as a
 * lower bound.
 */
import type { OpenDirOptions } from 'node:fs';
import { lstat, opendir, statfs } from 'node:fs/promises';

export interface FileSystemUsage {
  readonly capacity: bigint;
  /** Bytes available to unprivileged processes. */
  readonly available: bigint;
  readonly used: bigint;
  readonly inodes: bigint;
  readonly inodesFree: bigint;
}

export interface FolderUsage {
  readonly used: bigint;
  readonly inodes: bigint;
  /** False if a limit ended the measurement: the true usage is larger. */
  readonly complete: boolean;
}

/** The limit of counted entries: counting more would take too long. */
const MAX_ENTRIES = 1_000_000;
/** The time limit of measuring one folder. */
const MAX_MS = 20_000;
/** Files inspected in parallel, at most one for each thread that Node reads with. */
const TOGETHER = 8;
/** The unit of `st_blocks`, whatever the block size of the file system. */
const BLOCK_BYTES = 512n;

export async function fileSystemUsage(path: string): Promise<FileSystemUsage | null> {
  try {
    const { blocks, bfree, bavail, bsize, files, ffree } = await statfs(path, { bigint: true });
    const used = (blocks - bfree) * bsize;
    return { capacity: blocks * bsize, available: bavail * bsize, used, inodes: files, inodesFree: ffree };
  } catch {
    return null;
  }
}

/** Node's types lack names as bytes here. */
const BY_BYTES = { bufferSize: 256, encoding: 'buffer' } as unknown as OpenDirOptions;
const SLASH = Buffer.from('/');

interface FolderBounds {
  /** Real paths below the folder where other file systems are mounted. These are not touched, because they may hang. */
  readonly elsewhere?: ReadonlySet<string>;
  readonly maxEntries?: number;
  readonly maxMs?: number;
  readonly signal?: AbortSignal;
  /** The folder itself is not counted. */
  readonly contentsOnly?: boolean;
}

/** Measures a folder like `du -sx`. A removed path has no usage. */
export async function folderUsage(path: string, bounds: FolderBounds = {}): Promise<FolderUsage> {
  const measuring = new Measuring(bounds);
  const device = await measuring.begin(path);
  if (device !== null) await measuring.run();
  return measuring.result();
}

class Measuring {
  readonly #bounds: Required<Pick<FolderBounds, 'maxEntries' | 'maxMs'>> & Pick<FolderBounds, 'signal'>;
  readonly #contentsOnly: boolean;
  readonly #elsewhere: ReadonlySet<string>;
  readonly #startedAt = performance.now();
  readonly #linkedFiles = new Set<bigint>();
  readonly #folders: Buffer[] = [];
  #device = 0n;
  #used = 0n;
  #inodes = 0n;
  #entries = 0;
  #complete = true;

  constructor(bounds: FolderBounds) {
    const { maxEntries = MAX_ENTRIES, maxMs = MAX_MS, signal, elsewhere = new Set(), contentsOnly = false } = bounds;
    this.#elsewhere = elsewhere;
    this.#contentsOnly = contentsOnly;
    this.#bounds = { maxEntries, maxMs, ...(signal ? { signal } : {}) };
  }

  async begin(path: string): Promise<bigint | null> {
    try {
      const found = await lstat(path, { bigint: true });
      this.#device = found.dev;
      const isFolder = found.isDirectory();
      if (isFolder) this.#folders.push(Buffer.from(path));
      if (isFolder && this.#contentsOnly) return found.dev;
      this.#inodes = 1n;
      this.#used = found.blocks * BLOCK_BYTES;
      return found.dev;
    } catch {
      return null;
    }
  }

  async run(): Promise<void> {
    for (let folder = this.#folders.pop(); folder !== undefined; folder = this.#folders.pop()) {
      await this.#measure(folder).catch(() => {});
      if (!this.#complete) return;
    }
  }

  result(): FolderUsage {
    return { used: this.#used, inodes: this.#inodes, complete: this.#complete };
  }

  async #measure(folder: Buffer): Promise<void> {
    let together: Promise<void>[] = [];
    for await (const entry of await opendir(folder, BY_BYTES)) {
      together.push(this.#count(Buffer.concat([folder, SLASH, Buffer.from(entry.name)])));
      if (together.length < TOGETHER) continue;
      await Promise.all(together);
      together = [];
      if (this.#isOverBounds()) return;
    }
    await Promise.all(together);
  }

  #isOverBounds(): boolean {
    const { maxEntries, maxMs, signal } = this.#bounds;
    const isLate = performance.now() - this.#startedAt > maxMs;
    this.#complete = this.#entries < maxEntries && !isLate && signal?.aborted !== true;
    return !this.#complete;
  }

  async #count(path: Buffer): Promise<void> {
    this.#entries += 1;
    if (this.#elsewhere.has(String(path))) return;
    const found = await lstat(path, { bigint: true }).catch(() => null);
    if (found === null || found.dev !== this.#device) return;
    if (found.nlink > 1n && !found.isDirectory()) {
      if (this.#linkedFiles.has(found.ino)) return;
      this.#linkedFiles.add(found.ino);
    }
    this.#inodes += 1n;
    this.#used += found.blocks * BLOCK_BYTES;
    if (found.isDirectory()) this.#folders.push(path);
  }
}
