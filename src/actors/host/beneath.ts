/**
 * Files below a folder, and only there, whatever a container put in the way.
 *
 * A path is resolved name by name on open folders (`/proc/self/fd/<fd>/<name>`) and never through a symbolic link, so
 * neither `..`, nor a link that was there, nor one that is exchanged for a folder while we look can lead out of the
 * root.
 */
import { constants } from 'node:fs';
import { chmod, type FileHandle, lstat, mkdir, open } from 'node:fs/promises';
import { isAbsolute, normalize, relative, sep } from 'node:path';
import { OperationError } from '../../kernel/json.ts';

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const PERMISSIONS = 0o777;

export interface Place {
  /** The folder that holds the name: to be closed. */
  readonly folder: FileHandle;
  /** The path to use in calls: it stays right whatever happens to the names above. */
  readonly path: string;
}

export const errnoOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';

/** The names that lead from root to path. Fails on the root itself and on everything outside. */
export function namesBelow(root: string, path: string): readonly string[] {
  if (!isAbsolute(root) || !isAbsolute(path)) throw outside(root, path);
  const names = relative(normalize(root), normalize(path)).split(sep);
  if (names[0] === '' || names[0] === '..' || path.includes('\0')) throw outside(root, path);
  return names;
}

const outside = (root: string, path: string): OperationError =>
  new OperationError(`refusing to touch ${JSON.stringify(path)}: it is not below ${root}`, { code: 'EXDEV' });

/**
 * Opens the folder that holds the last name of `path`. Missing folders are made with `mode`, or the answer is `null`
 * where no mode is given.
 */
export async function openParent(root: string, path: string, mode?: number): Promise<Place | null> {
  const names = namesBelow(root, path);
  const last = names.at(-1) ?? '';
  let folder = await openRoot(root, mode);
  if (!folder) return null;
  for (const name of names.slice(0, -1)) {
    const next: FileHandle | null = await enter({ folder, path: at(folder, name) }, path, mode);
    await folder.close();
    if (!next) return null;
    folder = next;
  }
  return { folder, path: at(folder, last) };
}

const at = (folder: FileHandle, name: string): string => `/proc/self/fd/${folder.fd}/${name}`;

/** The root itself may be a link: it is the administrator's. */
async function openRoot(root: string, mode?: number): Promise<FileHandle | null> {
  const found = await openIfThere(root, constants.O_DIRECTORY);
  if (found || mode === undefined) return found;
  await mkdir(root, { recursive: true, mode });
  return open(root, constants.O_DIRECTORY);
}

async function openIfThere(path: string, flags: number): Promise<FileHandle | null> {
  try {
    return await open(path, flags);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw error;
  }
}

async function enter(place: Place, path: string, mode?: number): Promise<FileHandle | null> {
  try {
    const found = await openIfThere(place.path, FOLDER);
    if (found || mode === undefined) return found;
    await makeFolder(place, mode);
    return await open(place.path, FOLDER);
  } catch (error) {
    const code = errnoOf(error);
    await place.folder.close();
    if (code === 'ELOOP' || code === 'ENOTDIR') {
      const name = place.path.split('/').at(-1);
      throw new OperationError(`refusing to touch ${path}: "${name}" on the way is not a folder`, { code });
    }
    throw error;
  }
}

/**
 * Makes the folder where it is missing; one that exists gets the permissions it lacks and keeps the others. Fails with
 * `ENOTDIR` on something else.
 */
export async function makeFolder(place: Place, mode: number): Promise<void> {
  try {
    await mkdir(place.path, mode);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
  }
  const found = await lstat(place.path);
  if (!found.isDirectory()) throw new OperationError(`${place.path} is not a folder`, { code: 'ENOTDIR' });
  const wanted = mode & PERMISSIONS;
  if ((found.mode & wanted) !== wanted) await chmod(place.path, (found.mode & 0o7777) | wanted);
}
