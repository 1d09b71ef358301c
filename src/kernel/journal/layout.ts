/**
 * The file names in a journal's directory.
 *
 *   j-<incarnation>-<n>.ndjson       a segment; `n` is the number of its first record after header and checkpoint
 *   j-<incarnation>-<n>.ndjson.zst   the same, closed and compressed
 *   c-<incarnation>-<n>.json         the checkpoint that the segment of the same name begins with
 *   blobs/<sha256>                   a value too big for a line
 *   owner.lock, owner.json           who writes here
 *   *.tmp                            unfinished; removed when the journal is opened next
 *
 * An incarnation is named by the count of boots (`000042`), not by time: a node's clock may be wrong at boot. Names
 * sort by length, then as text, so the count may outgrow its padding.
 */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';

export const BLOB_DIRECTORY = 'blobs';
export const UNFINISHED = '.tmp';
/** Digits that hold 10^12 records: at 1,000 a second, 31 years of one boot. */
const NUMBER_DIGITS = 12;
const INCARNATION_DIGITS = 6;
const SEGMENT = /^j-([A-Za-z0-9._-]+)-(\d{12,})\.ndjson(\.zst)?$/;
const INCARNATION = /^[A-Za-z0-9._-]{1,64}$/;

export interface SegmentFile {
  readonly path: string;
  readonly incarnation: string;
  readonly first: number;
  readonly compressed: boolean;
  readonly bytes: number;
}

const numbered = (n: number): string => String(n).padStart(NUMBER_DIGITS, '0');
export const segmentName = (incarnation: string, first: number): string => `j-${incarnation}-${numbered(first)}.ndjson`;
export const checkpointName = (incarnation: string, first: number): string =>
  `c-${incarnation}-${numbered(first)}.json`;
export const isSegmentName = (name: string): boolean => SEGMENT.test(name);
export const isIncarnation = (name: string): boolean => INCARNATION.test(name);

function compareIncarnations(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

function segmentFile(path: string): SegmentFile | undefined {
  const match = SEGMENT.exec(basename(path));
  if (!match) return undefined;
  const compressed = match[3] !== undefined;
  const bytes = statSync(path, { throwIfNoEntry: false })?.size;
  // The file was compressed or removed since it was listed.
  if (bytes === undefined) return compressed ? undefined : segmentFile(`${path}.zst`);
  return { path, incarnation: match[1] ?? '', first: Number(match[2]), compressed, bytes };
}

/**
 * All segments, oldest first. If both forms of a segment exist, the process died while compressing it: the plain one is
 * used, because it was complete before.
 */
export function segmentsIn(directory: string): SegmentFile[] {
  const byName = new Map<string, SegmentFile>();
  for (const name of readdirSync(directory).sort()) {
    const segment = segmentFile(join(directory, name));
    if (!segment) continue;
    const key = name.replace(/\.zst$/, '');
    if (!byName.has(key)) byName.set(key, segment);
  }
  return [...byName.values()].sort((a, b) => compareIncarnations(a.incarnation, b.incarnation) || a.first - b.first);
}

/** The name for the next boot. */
export function nextIncarnation(segments: readonly SegmentFile[]): string {
  const counts = segments.map(({ incarnation }) => Number(incarnation)).filter(Number.isSafeInteger);
  return incarnationId(String(Math.max(0, ...counts) + 1));
}

/** The name of the incarnation with this number: `3` is `000003`. */
export const incarnationId = (number: string): string => number.padStart(INCARNATION_DIGITS, '0');

export function unfinishedIn(directory: string): string[] {
  const blobs = join(directory, BLOB_DIRECTORY);
  const folders = existsSync(blobs) ? [directory, blobs] : [directory];
  return folders.flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => name.endsWith(UNFINISHED))
      .map((name) => join(folder, name)),
  );
}
