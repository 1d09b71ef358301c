/**
 * Opens files below given folders only.
 *
 * Invariant: the served file is the checked one. A pod that writes into the folder may redirect a name at any moment,
 * so the file is first opened with O_PATH, which does not allow reading, and then its location is checked. FIFOs and
 * devices are never opened for reading.
 */
import type { Stats } from 'node:fs';
import { type FileHandle, open, readlink, realpath } from 'node:fs/promises';
import { sep } from 'node:path';

/** Linux' O_PATH, which Node.js does not export. */
const PLACE_ONLY = 0o10000000;

export interface OpenedPlace {
  /** Leads to the opened file while `handle` is open, even if it is renamed. */
  readonly path: string;
  /** The path of the file at the time of opening, without links. */
  readonly realPath: string;
  readonly info: Stats;
  readonly handle: FileHandle;
}

/**
 * The file or folder at `path`, or `null` if it is outside of the `roots`. The caller closes its `handle`. Links among
 * the roots themselves are followed.
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
