/**
 * The disk side of a journal: puts batches, checkpoints and segments into the directory. One call at a time.
 *
 * Invariants: a call that fails leaves the segment as long as it was before, and none that has no header; what a line
 * refers to (blob, checkpoint) is on disk before the line; `kept` is the number of the last record that is in a segment
 * or recorded as a gap.
 */
import { hash } from 'node:crypto';
import { access, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { CheckpointRecord, GapRecord, JournalLine } from '../records.ts';
import { type Disk, type Durability, syncDirectory, writeWhole } from './disk.ts';
import { codeOf } from './errors.ts';
import { BLOB_DIRECTORY, checkpointName, segmentName } from './layout.ts';
import { encodeLine } from './line.ts';
import { Segment } from './segment.ts';
import { thin } from './thin.ts';

export interface StoreSettings {
  readonly directory: string;
  readonly incarnation: string;
  readonly durability: Durability;
  readonly disk: Disk;
  /** Makes the directory, if need be, and takes ownership of it; called before each new segment. */
  readonly prepare: () => void;
  /** False when the lock of the directory is gone, so that another agent may have it. */
  readonly isOwned: () => boolean;
}

/** Whole turns. */
export interface Lines {
  readonly text: string;
  readonly upto: number;
  readonly blobs: ReadonlyMap<string, string>;
}

export interface Beginning {
  /** The header line, as the first segment has it. */
  readonly header: string;
  readonly after: number;
  readonly checkpoint: string;
  /** Why records before it are missing, if some are. */
  readonly why: string;
}

const NO_SPACE: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT']);
const line = (record: JournalLine): string => encodeLine(JSON.stringify(record));

export class Store {
  private readonly settings: StoreSettings;
  private segment: Segment | undefined;
  private previousLink: string | undefined;
  private kept = -1;

  constructor(settings: StoreSettings) {
    this.settings = settings;
  }

  get isOpen(): boolean {
    return this.segment !== undefined;
  }

  /** Appends to the open segment. The very first lines, which begin with the header, open it. */
  async write(lines: Lines): Promise<void> {
    if (!this.settings.isOwned()) throw new Error(`the lock of ${this.settings.directory} was removed or replaced`);
    await this.writeBlobs(lines.blobs);
    this.segment ??= await this.createSegment(0);
    try {
      await appendOrThin(this.segment, lines);
    } catch (error) {
      if (this.kept === -1) await this.discard();
      throw error;
    }
    this.kept = lines.upto;
  }

  /** A segment without a header would hide those behind it. */
  private async discard(): Promise<void> {
    const { segment } = this;
    this.segment = undefined;
    if (segment) await removeQuietly(segment);
  }

  /** Begins a new segment from a checkpoint. If that fails, the one before stays open. */
  async begin(beginning: Beginning): Promise<void> {
    const { directory, incarnation, disk, durability, prepare } = this.settings;
    const first = beginning.after + 1;
    const file = checkpointName(incarnation, first);
    let next: Segment | undefined;
    try {
      prepare();
      await writeWhole(disk, join(directory, file), beginning.checkpoint, durability);
      next = await this.createSegment(first);
      await next.write(this.preamble(beginning, file), beginning.after);
    } catch (error) {
      if (next) await removeQuietly(next);
      await rm(join(directory, file), { force: true }).catch(() => undefined);
      throw error;
    }
    await this.close().catch(() => undefined);
    this.segment = next;
    this.kept = beginning.after;
  }

  /** Says in the segment, if it still takes a line, that nothing follows; and closes it. */
  async end(why: string): Promise<void> {
    const { segment } = this;
    if (!segment) return;
    try {
      await segment.write(line({ n: this.kept + 1, k: 'gap', why }), this.kept);
    } catch {
      await segment.undo().catch(() => undefined);
    }
    await this.close().catch(() => undefined);
  }

  async close(): Promise<void> {
    const { segment } = this;
    if (!segment) return;
    this.previousLink = segment.link;
    this.segment = undefined;
    await segment.close();
  }

  private preamble({ header, after, checkpoint, why }: Beginning, file: string): string {
    const from = Math.max(1, this.kept + 1);
    const gap: GapRecord = { n: from, k: 'gap', upto: after, why };
    const previous = this.segment?.link ?? this.previousLink;
    const sha256 = hash('sha256', checkpoint);
    const record: CheckpointRecord = { k: 'checkpoint', after, file, sha256, ...(previous && { previous }) };
    return header + (from <= after ? line(gap) : '') + line(record);
  }

  private async createSegment(first: number): Promise<Segment> {
    const { disk, directory, incarnation, durability, prepare } = this.settings;
    prepare();
    const segment = await Segment.create(disk, join(directory, segmentName(incarnation, first)), durability);
    if (durability === 'second') {
      await syncDirectory(disk, directory).catch(async (error) => {
        await removeQuietly(segment);
        throw error;
      });
    }
    return segment;
  }

  private async writeBlobs(blobs: ReadonlyMap<string, string>): Promise<void> {
    if (blobs.size === 0) return;
    const { disk, directory, durability, prepare } = this.settings;
    prepare();
    const folder = join(directory, BLOB_DIRECTORY);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    for (const [sha256, json] of blobs) {
      const path = join(folder, sha256);
      if (!(await exists(path))) await writeWhole(disk, path, json, durability);
    }
    if (durability === 'second') await syncDirectory(disk, folder);
  }
}

/** On a full disk, what replay makes again is left out before anything else is given up. */
async function appendOrThin(segment: Segment, { text, upto }: Lines): Promise<void> {
  try {
    await segment.write(text, upto);
  } catch (error) {
    await segment.undo();
    if (!NO_SPACE.has(codeOf(error))) throw error;
    await segment.write(thin(text, codeOf(error)), upto).catch(async (second) => {
      await segment.undo();
      throw second;
    });
  }
}

async function removeQuietly(segment: Segment): Promise<void> {
  await segment.close().catch(() => undefined);
  await rm(segment.path, { force: true }).catch(() => undefined);
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
