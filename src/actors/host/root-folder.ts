/**
 * Path resolution below a root folder. The result is never outside the root, whatever a container placed on the path.
 *
 * A path is resolved name by name on open folders (`/proc/self/fd/<fd>/<name>`), never through a symbolic link, so
 * neither `..` nor a link can lead out of the root, even if the link replaces a folder during the walk. The walk is
 * synchronous: it is on the node's own disk, never in a volume, and the thread pool would make each step ten times
 * slower.
 */
import { chmodSync, closeSync, constants, lstatSync, mkdirSync, openSync } from 'node:fs';
import { isAbsolute, normalize, relative, sep } from 'node:path';
import { OperationError } from '../../kernel/json.ts';
import { codeOf } from '../../kernel/thrown.ts';

/**
 * Linux' flag for a handle that only names a file, which Node.js does not export: a FIFO or a device is not opened for
 * reading.
 */
export const O_PATH = 0o10000000;
/** Opens a folder, and never through a link. */
export const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const PERMISSIONS = 0o777;

/** An open folder, which has to be closed. */
class Folder {
  readonly fd: number;

  constructor(path: string, flags: number) {
    this.fd = openSync(path, flags);
  }

  close(): void {
    closeSync(this.fd);
  }
}

export interface Place {
  readonly folder: Folder;
  /** The path for system calls: it stays valid whatever happens to the names above. */
  readonly path: string;
}

/** For `catch` of a call that may fail with these errors of the system: its result is then `null`. */
export const ignoring =
  (...codes: readonly string[]) =>
  (error: unknown): null => {
    if (!codes.includes(codeOf(error) ?? '')) throw error;
    return null;
  };

/** The names that lead from root to path. Fails for the root itself and for every path outside. */
export function namesBelow(root: string, path: string): readonly string[] {
  if (!isAbsolute(root) || !isAbsolute(path)) throw outside(root, path);
  const names = relative(normalize(root), normalize(path)).split(sep);
  if (names[0] === '' || names[0] === '..' || path.includes('\0')) throw outside(root, path);
  return names;
}

const outside = (root: string, path: string): OperationError =>
  new OperationError(`refusing to touch ${JSON.stringify(path)}: it is not below ${root}`, { code: 'EXDEV' });

/**
 * Opens the folder of the last name of `path`. Missing folders are created with `mode`; without a mode the result is
 * `null`.
 */
export function openParent(root: string, path: string, mode?: number): Place | null {
  const names = namesBelow(root, path);
  const last = names.at(-1) ?? '';
  let folder = openRoot(root, mode);
  for (const name of names.slice(0, -1)) {
    if (!folder) return null;
    const above = folder;
    try {
      folder = enter(inFolder(above, name), path, mode);
    } finally {
      above.close();
    }
  }
  return folder && { folder, path: inFolder(folder, last) };
}

/**
 * Runs an operation on a path below `root` without following links out of it; `null` if its folder is missing and no
 * mode is given.
 */
export async function inParent<Answer>(
  root: string,
  path: string,
  work: (path: string) => Promise<Answer>,
  mode?: number,
) {
  const place = openParent(root, path, mode);
  if (!place) return null;
  try {
    return await work(place.path);
  } finally {
    place.folder.close();
  }
}

/**
 * The parent folders of several paths below one root, each opened once, because the folders of a pod share them. For
 * synchronous calls; `close` invalidates the returned paths.
 */
export class RootFolder {
  readonly #root: string;
  readonly #mode: number;
  readonly #open = new Map<string, Folder>();

  /** `mode`: of missing parent folders. */
  constructor(root: string, mode: number) {
    this.#root = root;
    this.#mode = mode;
  }

  /** The path for system calls, as in {@link openParent}. */
  to(path: string): string {
    const names = namesBelow(this.#root, path);
    let folder = this.#kept('', () => openRoot(this.#root, this.#mode));
    let parents = '';
    for (const name of names.slice(0, -1)) {
      const above = folder;
      parents = `${parents}/${name}`;
      folder = this.#kept(parents, () => enter(inFolder(above, name), path, this.#mode));
    }
    return inFolder(folder, names.at(-1) ?? '');
  }

  #kept(parents: string, open: () => Folder | null): Folder {
    const folder = this.#open.get(parents) ?? open();
    if (!folder) throw new OperationError(`${this.#root}${parents} was removed meanwhile`, { code: 'ENOENT' });
    this.#open.set(parents, folder);
    return folder;
  }

  close(): void {
    for (const folder of this.#open.values()) folder.close();
    this.#open.clear();
  }
}

const inFolder = (folder: Folder, name: string): string => `/proc/self/fd/${folder.fd}/${name}`;

/** Opens the root, which may itself be a link: the administrator chose its path. */
function openRoot(root: string, mode?: number): Folder | null {
  const found = openIfExists(root, constants.O_DIRECTORY);
  if (found || mode === undefined) return found;
  mkdirSync(root, { recursive: true, mode });
  return new Folder(root, constants.O_DIRECTORY);
}

function openIfExists(path: string, flags: number): Folder | null {
  try {
    return new Folder(path, flags);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

/** `path` is the caller's path, for errors. */
function enter(place: string, path: string, mode?: number): Folder | null {
  try {
    if (mode === undefined) return openIfExists(place, FOLDER);
    // Most folders of a new pod are missing, and throwing an error costs more than this question.
    if (!lstatSync(place, { throwIfNoEntry: false })) makeFolder(place, mode);
    return new Folder(place, FOLDER);
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ELOOP' || code === 'ENOTDIR') {
      const name = place.split('/').at(-1);
      throw new OperationError(`refusing to touch ${path}: "${name}" on the way is not a folder`, { code });
    }
    throw error;
  }
}

/**
 * Creates a folder. An existing one gets the permissions that it lacks and keeps the others. Fails with `ENOTDIR` on
 * anything else.
 */
export function makeFolder(path: string, mode: number): void {
  let found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) {
    madeOrExisting(path, mode);
    found = lstatSync(path);
  }
  if (!found.isDirectory()) throw new OperationError(`${path} is not a folder`, { code: 'ENOTDIR' });
  const permissions = mode & PERMISSIONS;
  if ((found.mode & permissions) !== permissions) chmodSync(path, (found.mode & 0o7777) | permissions);
}

function madeOrExisting(path: string, mode: number): void {
  try {
    mkdirSync(path, mode);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
}
