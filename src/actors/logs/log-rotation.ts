/**
 * Rotation of a container log: the log is renamed, so that a reader can finish, and is compressed when the next one is
 * rotated.
 *
 * Invariants: names are resolved below the folder of logs and never through a link (`root-folder.ts`); there are never
 * more than `maxFiles` parts; leftovers of an interrupted rotation are removed by the next one.
 */
import { createWriteStream } from 'node:fs';
import { open, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { LimitFunction } from 'p-limit';
import pLimit from 'p-limit';
import type { KeptLog } from '../../machines/model/operations/logs.ts';
import { openParent, type Place } from '../host/root-folder.ts';
import { openLog } from '../server/logs/log-file.ts';

const COMPRESSED = '.gz';
const UNFINISHED = '.tmp';

export function rotate(log: KeptLog, signal: AbortSignal, now: () => Date): Promise<string | null> {
  return within(log.root, log.path, async (place) => {
    const name = basename(log.path);
    const parts = await clearedParts(place, name);
    const excess = parts.length - Math.max(log.maxFiles - 2, 0);
    for (const part of parts.slice(0, Math.max(excess, 0))) await rm(sibling(place, part));
    for (const part of parts.slice(Math.max(excess, 0))) {
      if (!part.endsWith(COMPRESSED)) await compress(place, part, signal);
    }
    if (signal.aborted) return null;
    const aside = `${name}.${timestamp(now())}`;
    await rename(place.path, sibling(place, aside));
    return aside;
  });
}

/** Parts of the log, oldest first; leftovers of an interrupted rotation are removed. */
async function clearedParts(place: Place, name: string): Promise<readonly string[]> {
  const parts = await partsOf(place, name);
  const isStale = (part: string) => part.endsWith(UNFINISHED) || parts.includes(`${part}${COMPRESSED}`);
  for (const part of parts.filter(isStale)) await rm(sibling(place, part));
  return parts.filter((part) => !isStale(part)).sort();
}

export async function partsOf(place: Place, name: string): Promise<readonly string[]> {
  const entries = await readdir(dirname(place.path), { withFileTypes: true });
  return entries.filter((each) => each.isFile() && each.name.startsWith(`${name}.`)).map((each) => each.name);
}

/** Compresses a part of a log. Neither name is trusted: a pod may have mounted the folder and replaced the file. */
async function compress(place: Place, part: string, signal: AbortSignal): Promise<void> {
  const [source, draft] = [sibling(place, part), sibling(place, `${part}${UNFINISHED}`)];
  const whole = await openLog(source);
  try {
    const { mode } = await whole.stat();
    await rm(draft, { force: true });
    const packed = createWriteStream(draft, { mode, flags: 'wx' });
    await pipeline(whole.createReadStream({ autoClose: false }), createGzip(), packed, { signal });
  } finally {
    await whole.close();
  }
  const file = await open(draft, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(draft, sibling(place, `${part}${COMPRESSED}`));
  await rm(source);
}

const twoDigits = (value: number): string => String(value).padStart(2, '0');

/** Local time in Go's layout `20060102-150405`, which sorts by age. */
const timestamp = (at: Date): string =>
  `${at.getFullYear()}${twoDigits(at.getMonth() + 1)}${twoDigits(at.getDate())}-` +
  `${twoDigits(at.getHours())}${twoDigits(at.getMinutes())}${twoDigits(at.getSeconds())}`;

/** Works in the folder of a log; `null` if there is no such folder. */
export async function within<T>(root: string, path: string, work: (place: Place) => Promise<T>): Promise<T | null> {
  const place = openParent(root, path);
  if (!place) return null;
  try {
    return await work(place);
  } finally {
    place.folder.close();
  }
}

export const sibling = (place: Place, name: string): string => join(dirname(place.path), basename(name));

/** Concurrent rotations of all logs of the node. */
let rotations: { readonly workers: number; readonly run: LimitFunction } | undefined;

export function limited(workers: number): LimitFunction {
  if (rotations?.workers !== workers) rotations = { workers, run: pLimit(workers) };
  return rotations.run;
}
