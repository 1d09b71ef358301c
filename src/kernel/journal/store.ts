/**
 * The disk side of a journal: writes batches, checkpoints and segments into the directory. One call at a time.
 *
 * Invariants: a failed call leaves the segment at its previous length, and no segment without header; blobs and
 * checkpoints are on disk before the lines that refer to them; `kept` is the number of the last record that is in a
 * segment or in a recorded gap.
 */
import { hash } from 'node:crypto';
import { access, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { CheckpointRecord, GapRecord, JournalLine, JournalRecord, KernelRecord } from '../records.ts';
import { codeOf } from '../thrown.ts';
import { type Disk, type Durability, syncDirectory, writeWhole } from './disk.ts';
import { Encoder } from './encoder.ts';
import { BLOB_DIRECTORY, checkpointName, segmentName } from './layout.ts';
import { encodeLine } from './line.ts';
import { Segment } from './segment.ts';

export interface StoreSettings {
  readonly directory: string;
  readonly incarnation: string;
  readonly durability: Durability;
  readonly disk: Disk;
  /** Creates the directory if necessary and takes ownership of it; called before each new segment. */
  readonly prepare: () => void;
  /** False if the directory's lock is lost, so that another agent may hold it. */
  readonly isOwned: () => boolean;
  /** Called when the segment that begins with this number refers to a blob. */
  readonly referred: (first: number, blob: string) => void;
}

/** A batch of complete turns. */
export interface Turns {
  readonly records: readonly KernelRecord[];
  readonly upto: number;
}

/** A segment, its encoder, and the blobs that its lines refer to. */
interface Open {
  readonly file: Segment;
  readonly encoder: Encoder;
  readonly blobs: Map<string, string>;
  blobBytes: number;
}

export interface Beginning {
  /** The header line, as in the first segment. */
  readonly header: string;
  readonly after: number;
  readonly checkpoint: string;
  /** Why records before the segment are missing; empty if none are. */
  readonly why: string;
}

const NO_SPACE: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT']);
const line = (record: JournalLine): string => encodeLine(JSON.stringify(record));

export class Store {
  private readonly settings: StoreSettings;
  private open: Open | undefined;
  private previousLink: string | undefined;
  private kept = -1;

  constructor(settings: StoreSettings) {
    this.settings = settings;
  }

  get isOpen(): boolean {
    return this.open !== undefined;
  }

  get bytes(): number {
    return this.open ? this.open.file.bytes + this.open.blobBytes : 0;
  }

  /** Appends to the open segment. The first records, which begin with the header, open one. */
  async write(turns: Turns): Promise<void> {
    if (!this.settings.isOwned()) throw new Error(`the lock of ${this.settings.directory} was removed or replaced`);
    this.open ??= await this.createSegment(0);
    try {
      await this.appendOrOmit(this.open, turns);
    } catch (error) {
      if (this.kept === -1) await this.discard();
      throw error;
    }
    this.kept = turns.upto;
  }

  /** Appends the turns. On a full disk, derived records are left out before anything else is dropped. */
  private async appendOrOmit(open: Open, { records, upto }: Turns): Promise<void> {
    try {
      await this.append(open, records, upto);
    } catch (error) {
      const code = codeOf(error) ?? '';
      if (!NO_SPACE.has(code)) throw error;
      await this.append(open, withoutDerived(records, code), upto);
    }
  }

  private async append(open: Open, records: readonly JournalRecord[], upto: number): Promise<void> {
    const { file, encoder } = open;
    let lines = '';
    for (const record of records) lines += encodeLine(encoder.encode(record));
    try {
      await this.writeBlobs(open);
      await file.write(lines, upto);
    } catch (error) {
      encoder.forget();
      await file.undo();
      throw error;
    }
  }

  /** Removes the open segment: a segment without a header would hide the later ones. */
  private async discard(): Promise<void> {
    const { open } = this;
    this.open = undefined;
    if (open) await removeQuietly(open.file);
  }

  /** Starts a new segment from a checkpoint. If that fails, the previous one stays open. */
  async begin(beginning: Beginning): Promise<void> {
    const { directory, incarnation, disk, durability, prepare } = this.settings;
    const first = beginning.after + 1;
    const file = checkpointName(incarnation, first);
    let next: Open | undefined;
    try {
      prepare();
      await writeWhole(disk, join(directory, file), beginning.checkpoint, durability);
      next = await this.createSegment(first);
      await next.file.write(this.preamble(beginning, file), beginning.after);
    } catch (error) {
      if (next) await removeQuietly(next.file);
      await rm(join(directory, file), { force: true }).catch(() => undefined);
      throw error;
    }
    await this.close().catch(() => undefined);
    this.open = next;
    this.kept = beginning.after;
  }

  /** Closes the segment. If the segment still accepts a line, a `gap` record states that nothing follows. */
  async end(why: string): Promise<void> {
    const { open } = this;
    if (!open) return;
    try {
      await open.file.write(line({ n: this.kept + 1, k: 'gap', why }), this.kept);
    } catch {
      await open.file.undo().catch(() => undefined);
    }
    await this.close().catch(() => undefined);
  }

  async close(): Promise<void> {
    const { open } = this;
    if (!open) return;
    this.previousLink = open.file.link;
    this.open = undefined;
    await open.file.close();
  }

  private preamble({ header, after, checkpoint, why }: Beginning, file: string): string {
    const from = Math.max(1, this.kept + 1);
    const gap: GapRecord = { n: from, k: 'gap', upto: after, why };
    const previous = this.open?.file.link ?? this.previousLink;
    const sha256 = hash('sha256', checkpoint);
    const record: CheckpointRecord = { k: 'checkpoint', after, file, sha256, ...(previous && { previous }) };
    return header + (from <= after ? line(gap) : '') + line(record);
  }

  private async createSegment(first: number): Promise<Open> {
    const { disk, directory, incarnation, durability, prepare } = this.settings;
    prepare();
    const segment = await Segment.create(disk, join(directory, segmentName(incarnation, first)), durability);
    if (durability === 'second') {
      await syncDirectory(disk, directory).catch(async (error) => {
        await removeQuietly(segment);
        throw error;
      });
    }
    const blobs = new Map<string, string>();
    const encoder = new Encoder((name, json) => {
      this.settings.referred(first, name);
      blobs.set(name, json);
    });
    return { file: segment, encoder, blobs, blobBytes: 0 };
  }

  private async writeBlobs(open: Open): Promise<void> {
    const { blobs } = open;
    if (blobs.size === 0) return;
    const { disk, directory, durability, prepare } = this.settings;
    prepare();
    const folder = join(directory, BLOB_DIRECTORY);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    for (const [sha256, json] of blobs) {
      const path = join(folder, sha256);
      if (!(await exists(path))) await writeWhole(disk, path, json, durability);
      open.blobBytes += Buffer.byteLength(json);
      blobs.delete(sha256);
    }
    if (durability === 'second') await syncDirectory(disk, folder);
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

/**
 * Record kinds that are left out on a nearly full disk, because replay produces them again. Inputs, requests and
 * digests stay.
 */
const OMITTED_KINDS: ReadonlySet<string> = new Set(['message', 'log', 'state']);

/**
 * The records without messages, log lines and states; each sequence of omitted records becomes one `dropped` record.
 */
function withoutDerived(records: readonly JournalRecord[], why: string): JournalRecord[] {
  const kept: JournalRecord[] = [];
  for (const record of records) {
    const before = kept.at(-1);
    if (!OMITTED_KINDS.has(record.k)) kept.push(record);
    else if (before?.k === 'dropped') kept[kept.length - 1] = { ...before, upto: record.n };
    else kept.push({ n: record.n, k: 'dropped', upto: record.n, why });
  }
  return kept;
}
