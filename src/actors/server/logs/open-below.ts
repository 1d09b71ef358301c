/**
 * Opens what lies below given folders, and nothing else.
 *
 * Invariant: what is served is what was checked. A name may lead elsewhere from one moment to the next when a pod
 * writes into the folder, so that the file is opened first, as a mere place that nothing can be read from, and then
 * asked where it lies. Neither a FIFO nor a device is ever opened for reading.
 */
import type { Stats } from 'node:fs';
import { type FileHandle, open, readlink, realpath } from 'node:fs/promises';
import { sep } from 'node:path';

/** Linux' O_PATH, which Node.js does not name. */
const PLACE_ONLY = 0o10000000;

export interface OpenedPlace {
  /** Leads to the opened file for as long as `handle` is open, whatever becomes of its name. */
  readonly path: string;
  /** The path of the file when it was opened, without links. */
  readonly realPath: string;
  readonly info: Stats;
  readonly handle: FileHandle;
}

/**
 * The file or folder that `path` leads to, or `null` when it is outside of the `roots`. The caller closes its `handle`.
 * Links among the roots themselves are followed.
 */
export async function openBelow(path: string, roots: readonly string[]): Promise<OpenedPlace | null> {
  if (path.includes('\0')) return null;
  const handle = await open(path, PLACE_ONLY).catch(() => null);
  if (handle === null) return null;
  const place = await described(handle, roots).catch(() => null);
  if (place === null) await handle.close();
  return place;
}

async function described(handle: FileHandle, roots: readonly string[]): Promise<OpenedPlace | null> {
  const path = `/proc/self/fd/${handle.fd}`;
  const [realPath, info, ...folders] = await Promise.all([
    readlink(path),
    handle.stat(),
    ...roots.map((root) => realpath(root).catch(() => null)),
  ]);
  if (!info.isFile() && !info.isDirectory()) return null;
  const isBelow = folders.some((root) => root !== null && (realPath === root || realPath.startsWith(root + sep)));
  return isBelow ? { path, realPath, info, handle } : null;
}
