/**
 * Maintains closed segments: compresses them, and removes the oldest when the directory exceeds its size limit. Runs
 * asynchronously to the kernel; after a failure the files stay as they are.
 *
 * Invariants:
 *   - the current segment is never touched; a segment with a torn tail is never compressed, because it is evidence;
 *   - a segment is removed with its checkpoint, the oldest incarnation first, and a blob when no segment refers to it;
 *   - a blob that this process refers to is known before the line that does so is written.
 */
import { createReadStream, createWriteStream, existsSync, readdirSync, rmSync, statSync, unlinkSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';
import { PRIVATE } from './disk.ts';
import { BLOB_HANDLE_MAX_BYTES, blobNamesIn } from './files.ts';
import { BLOB_DIRECTORY, checkpointName, type SegmentFile, segmentsIn, UNFINISHED } from './layout.ts';
import { bareLine } from './line.ts';
import { tornBytes } from './segment.ts';

export class Archive {
  private readonly directory: string;
  private readonly incarnation: string;
  private readonly maxBytes: number;
  /** Blobs that this process referred to, by the number at which the segment was to begin. */
  private readonly referred = new Map<number, Set<string>>();
  /** Blobs that segments of earlier incarnations refer to, read when they are first needed. */
  private readonly read = new Map<string, ReadonlySet<string>>();
  private readonly torn = new Set<string>();
  private openFrom = 0;
  private work: Promise<void> = Promise.resolve();

  constructor(directory: string, incarnation: string, maxBytes: number) {
    this.directory = directory;
    this.incarnation = incarnation;
    this.maxBytes = maxBytes;
  }

  /** Records that the segment beginning at `first` refers to this blob. */
  refer(first: number, blob: string): void {
    const names = this.referred.get(first) ?? new Set();
    this.referred.set(first, names.add(blob));
  }

  /**
   * Applies the size limit and, if requested, compresses every closed segment, one after the other. `first` is the
   * number of this incarnation's open segment: earlier ones are closed.
   */
  tidy(first: number, compressing: boolean): Promise<void> {
    this.openFrom = first;
    const result = this.tidyAfter(this.work, compressing);
    this.work = result.catch(() => undefined);
    return result;
  }

  private async tidyAfter(before: Promise<void>, compressing: boolean): Promise<void> {
    await before;
    try {
      if (compressing) await this.compressClosed();
    } finally {
      await this.applyLimit();
    }
  }

  private closed(): SegmentFile[] {
    return segmentsIn(this.directory).filter((segment) => !this.isOpen(segment));
  }

  /** Segments that begin during this run have a higher number than the open segment at its start. */
  private isOpen({ incarnation, first }: SegmentFile): boolean {
    return incarnation === this.incarnation && first >= this.openFrom;
  }

  idle(): Promise<void> {
    return this.work;
  }

  /** A segment that cannot be compressed does not block the others. */
  private async compressClosed(): Promise<void> {
    const failures: unknown[] = [];
    for (const segment of this.closed().filter(({ compressed }) => !compressed)) {
      try {
        if (!this.isTorn(segment)) await compress(segment.path);
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }

  private isTorn({ path }: SegmentFile): boolean {
    if (!this.torn.has(path) && tornBytes(path) > 0) this.torn.add(path);
    return this.torn.has(path);
  }

  private async applyLimit(): Promise<void> {
    for (;;) {
      const [oldest, ...kept] = this.closed();
      if (!oldest || sizeOf(this.directory) <= this.maxBytes) return;
      rmSync(oldest.path);
      rmSync(join(this.directory, checkpointName(oldest.incarnation, oldest.first)), { force: true });
      this.forget(oldest, kept[0]);
      await this.removeBlobs(kept);
    }
  }

  private forget(removed: SegmentFile, next: SegmentFile | undefined): void {
    this.torn.delete(removed.path);
    this.read.delete(keyOf(removed));
    if (removed.incarnation !== this.incarnation) return;
    const keptFrom = next?.first ?? this.openFrom;
    for (const first of this.referred.keys()) if (first < keptFrom) this.referred.delete(first);
  }

  private async removeBlobs(kept: readonly SegmentFile[]): Promise<void> {
    const folder = join(this.directory, BLOB_DIRECTORY);
    const stored = existsSync(folder) ? readdirSync(folder).filter((name) => !name.endsWith(UNFINISHED)) : [];
    if (stored.length === 0) return;
    for (const segment of kept) if (segment.incarnation !== this.incarnation) await this.readNames(segment);
    for (const name of stored) {
      // Check and removal are one step: the writer calls `refer` before it looks for the file.
      if (!this.isReferred(name)) unlinkSync(join(folder, name));
    }
  }

  private isReferred(name: string): boolean {
    for (const names of this.referred.values()) if (names.has(name)) return true;
    for (const names of this.read.values()) if (names.has(name)) return true;
    return false;
  }

  private async readNames(segment: SegmentFile): Promise<void> {
    if (!this.read.has(keyOf(segment))) this.read.set(keyOf(segment), await blobNamesOf(segment));
  }
}

const keyOf = ({ incarnation, first }: SegmentFile): string => `${incarnation}-${first}`;

/** Reads the segment as a stream: a segment may have 64 MB, and the kernel must be able to run turns meanwhile. */
async function blobNamesOf({ path, compressed }: SegmentFile): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  const file = createReadStream(path);
  const collect = async (chunks: AsyncIterable<Buffer>): Promise<void> => {
    let rest: Buffer = Buffer.alloc(0);
    for await (const chunk of chunks) {
      const bytes = Buffer.concat([rest, chunk]);
      for (const name of blobNamesIn(bytes)) names.add(name);
      rest = Buffer.from(bytes.subarray(-BLOB_HANDLE_MAX_BYTES));
    }
  };
  await (compressed ? pipeline(file, createZstdDecompress(), collect) : pipeline(file, collect));
  return names;
}

/** Total size of the journal's files in its directory, in bytes. */
function sizeOf(directory: string): number {
  let bytes = 0;
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) bytes += statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.size ?? 0;
  }
  return bytes;
}

const LINE_FEED = Buffer.from('\n');
const LINK = Buffer.from('{"k":"chain"');

/**
 * Compresses a closed segment. Derivable parts are left out: checksums, consecutive numbers, and every link of the hash
 * chain but the last, which covers all lines. The rest is NDJSON.
 *
 * The plain file is removed only after the compressed one, which carries its own checksum, is on disk.
 */
export async function compress(path: string): Promise<void> {
  const unfinished = `${path}.zst${UNFINISHED}`;
  try {
    const params = { [constants.ZSTD_c_checksumFlag]: 1 };
    const target = createWriteStream(unfinished, { mode: PRIVATE });
    await pipeline(createReadStream(path), bareLines, createZstdCompress({ params }), target);
    const handle = await open(unfinished, 'r+');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(unfinished, `${path}.zst`);
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw error;
  }
  rmSync(path);
}

/** The lines of a plain segment in the form of a compressed one. */
async function* bareLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  let link: Buffer = rest;
  let last = -1;
  for await (const chunk of chunks) {
    const bytes = Buffer.concat([rest, chunk]);
    const lines: Buffer[] = [];
    let start = 0;
    for (let end = bytes.indexOf(LINE_FEED); end !== -1; end = bytes.indexOf(LINE_FEED, start)) {
      const { bare, n } = bareLine(bytes.subarray(start, end), last);
      start = end + 1;
      last = n;
      if (bare.subarray(0, LINK.length).equals(LINK)) link = Buffer.concat([bare, LINE_FEED]);
      else lines.push(bare, LINE_FEED);
    }
    rest = bytes.subarray(start);
    yield Buffer.concat(lines);
  }
  yield link;
}
