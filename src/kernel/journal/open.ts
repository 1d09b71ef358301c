/**
 * Opens the journal of a node for a new incarnation: locks the directory, checks the files of the previous incarnation,
 * and starts suspended if the disk cannot be written. Files of earlier incarnations are never changed.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { codeOf, messageOf } from '../thrown.ts';
import { Archive } from './archive.ts';
import { type Disk, type Durability, PRIVATE, realDisk } from './disk.ts';
import { JournalError } from './errors.ts';
import { isIncarnation, nextIncarnation, type SegmentFile, segmentsIn, UNFINISHED, unfinishedIn } from './layout.ts';
import { type Owner, takeOwnership } from './owner.ts';
import { tornBytes } from './segment.ts';
import { Store } from './store.ts';
import { type JournalWriter, type PreviousIncarnation, type Report, Writer } from './writer.ts';

/** A segment of this size replays in seconds, and is small enough to copy. */
const SEGMENT_MAX_BYTES = 16 * 1024 * 1024;
/** A checkpoint is at most this old, even on an idle node. */
const SEGMENT_MAX_AGE_MS = 60 * 60 * 1000;
/** Holds some days of a busy node, compressed; a usual limit for the kubelet's own logs as well. */
const RETAINED_MAX_BYTES = 1024 * 1024 * 1024;
/** Delay before a suspended journal tries the disk again: a full disk is not emptied within seconds. */
const RETRY_MS = 30_000;
/** The limit of waiting for the disk at exit; service managers kill after a minute and a half. */
const CLOSE_MAX_MS = 30_000;
/** Free space for a checkpoint and a start; with less the disk would be full again at once. */
const ROOM_MIN_BYTES = 4 * 1024 * 1024;
/** Temporary refusals of the disk. Any other error means that the directory is unsuitable. */
const DISK_ERRORS: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EIO', 'EROFS']);

export interface JournalOptions {
  readonly directory: string;
  /** Default: the next number. The header must carry the writer's `incarnation`. */
  readonly incarnation?: string;
  /** Default: `second`. */
  readonly durability?: Durability;
  readonly segmentMaxBytes?: number;
  readonly segmentMaxAgeMs?: number;
  readonly retainedMaxBytes?: number;
  readonly retryMs?: number;
  readonly closeMaxMs?: number;
  readonly roomMinBytes?: number;
  readonly disk?: Disk;
  readonly report?: Report;
}

export function openJournal(options: JournalOptions): JournalWriter {
  const { directory, report = () => undefined, durability = 'second', disk = realDisk } = options;
  const problem = writeProblem(directory);
  const segments = existing(directory);
  const incarnation = options.incarnation ?? nextIncarnation(segments);
  refuseUnusable(incarnation, segments, directory);
  const claim = new Claim(directory);
  if (problem === undefined) claim.take();
  const archive = new Archive(directory, incarnation, options.retainedMaxBytes ?? RETAINED_MAX_BYTES);
  const writer = new Writer({
    incarnation,
    directory,
    previous: previousOf(segments.at(-1), report),
    segmentMaxBytes: options.segmentMaxBytes ?? SEGMENT_MAX_BYTES,
    segmentMaxAgeMs: options.segmentMaxAgeMs ?? SEGMENT_MAX_AGE_MS,
    retryMs: options.retryMs ?? RETRY_MS,
    closeMaxMs: options.closeMaxMs ?? CLOSE_MAX_MS,
    store: new Store({
      directory,
      incarnation,
      durability,
      disk,
      prepare: () => claim.take(),
      isOwned: () => claim.isHeld(),
      referred: (first, blob) => archive.refer(first, blob),
    }),
    archive,
    hasRoom: () => hasRoom(directory, options.roomMinBytes ?? ROOM_MIN_BYTES),
    report,
    released: () => claim.release(),
  });
  if (problem === undefined) writer.tidy(0, false);
  else writer.suspend(problem);
  return writer;
}

/** Tries to write a few bytes; returns why journaling starts suspended if that fails. */
function writeProblem(directory: string): string | undefined {
  const probe = join(directory, `probe-${process.pid}${UNFINISHED}`);
  try {
    makeDirectory(directory);
    writeFileSync(probe, 'is there room?\n', { mode: PRIVATE });
    rmSync(probe);
    return undefined;
  } catch (error) {
    if (!DISK_ERRORS.has(codeOf(error) ?? '')) throw unusable(directory, error);
    rmSync(probe, { force: true });
    return messageOf(error);
  }
}

/** Reports the disk's own error: `mkdir` with `recursive` calls a read-only disk ENOENT. */
function makeDirectory(directory: string): void {
  try {
    mkdirSync(directory, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return;
    if (codeOf(error) !== 'ENOENT') throw error;
    makeDirectory(dirname(directory));
    mkdirSync(directory, { mode: 0o700 });
  }
}

function existing(directory: string): SegmentFile[] {
  try {
    return segmentsIn(directory);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw unusable(directory, error);
  }
}

function unusable(directory: string, error: unknown): JournalError {
  return new JournalError('unusable', { file: directory }, `no journal can be kept here: ${messageOf(error)}`, error);
}

function refuseUnusable(incarnation: string, segments: readonly SegmentFile[], directory: string): void {
  const refuse = (sentence: string): never => {
    throw new JournalError('unusable', { file: directory }, sentence);
  };
  if (!isIncarnation(incarnation))
    refuse(`"${incarnation}" cannot name an incarnation: use letters, digits, ".", "_", "-"`);
  if (segments.some((segment) => segment.incarnation === incarnation))
    refuse(`incarnation ${incarnation} exists already`);
}

function previousOf(last: SegmentFile | undefined, report: Report): PreviousIncarnation | undefined {
  if (!last) return undefined;
  let torn = 0;
  try {
    torn = last.compressed ? 0 : tornBytes(last.path);
  } catch (error) {
    report('warn', `the end of ${last.path} cannot be looked at: ${messageOf(error)}`);
  }
  if (torn > 0)
    report('warn', `incarnation ${last.incarnation} ended within a turn: ${torn} bytes of ${last.path} are cut`);
  return { incarnation: last.incarnation, tornBytes: torn };
}

/** The lock of the directory; taken later if the directory cannot be locked at the start. */
class Claim {
  private readonly directory: string;
  private owner: Owner | undefined;

  constructor(directory: string) {
    this.directory = directory;
  }

  take(): void {
    if (this.isHeld()) return;
    this.release();
    makeDirectory(this.directory);
    this.owner = takeOwnership(this.directory);
    for (const path of unfinishedIn(this.directory)) rmSync(path, { force: true });
  }

  isHeld(): boolean {
    return this.owner?.isThere() === true;
  }

  release(): void {
    this.owner?.release();
    this.owner = undefined;
  }
}

/** When the free space cannot be read, the next attempt to write decides. */
async function hasRoom(directory: string, bytes: number): Promise<boolean> {
  try {
    const { bavail, bsize } = await statfs(directory);
    return bavail * bsize >= bytes;
  } catch {
    return true;
  }
}
