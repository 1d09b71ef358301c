/**
 * `host.preparePod` and `host.removePod`: the folders and managed files of pods.
 *
 * Decides: nothing outside the root is touched (see `root-folder.ts`). Files are written in place, because containers
 * have them mounted. A folder with mounts below it is not removed: the mounted data does not belong to the agent.
 */
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  readSync,
  writeSync,
} from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { normalize } from 'node:path';
import { OperationError } from '../../../kernel/json.ts';
import type { Port } from '../../../kernel/operation.ts';
import { messageOf } from '../../../kernel/thrown.ts';
import type { hostOperations, NodeText } from '../../../machines/model/operations/host.ts';
import { parseMounts } from '../kernel/mounts.ts';
import { errnoOf, makeFolder, openParent, RootFolder } from '../root-folder.ts';

type Operations = typeof hostOperations;

/** Mode of created parent folders. */
const PARENT_MODE = 0o750;
const WRITE_FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const READ_FLAGS = constants.O_RDONLY | constants.O_NONBLOCK;
/** The agent writes no larger file: a larger file is replaced without comparison. */
const MAX_COMPARED_BYTES = 1_048_576;
/** Bytes read of the node's own hosts file. */
const NODE_FILE_BYTES_MAX = 10 * 1024 * 1024;

/**
 * Folders first, then files, all synchronously like the path resolution (`root-folder.ts`), because a pod waits for
 * them.
 */
export const preparePod: Port<Operations['host.preparePod']> = async ({ input: { root, directories, files } }) => {
  const roots = new Map<string, RootFolder>();
  const below = (rootPath: string): RootFolder => {
    const known = roots.get(rootPath) ?? new RootFolder(rootPath, PARENT_MODE);
    roots.set(rootPath, known);
    return known;
  };
  try {
    for (const directory of directories) makeManagedFolder(below(directory.root ?? root), directory);
    for (const file of files) writeManagedFile(below(root), file);
  } finally {
    for (const each of roots.values()) each.close();
  }
  return null;
};

function makeManagedFolder(folder: RootFolder, { path, mode }: { path: string; mode: number }): void {
  const place = folder.to(path);
  try {
    makeFolder(place, mode);
  } catch (error) {
    throw named(error, path, 'a folder');
  }
}

interface ManagedFile {
  readonly path: string;
  readonly mode: number;
  readonly content: string | NodeText | null;
}

function bytesOf(content: string | NodeText): Buffer {
  if (typeof content === 'string') return Buffer.from(content);
  const { before, file, known, after } = content;
  return Buffer.concat([Buffer.from(before), bytesNow(file) ?? Buffer.from(known), Buffer.from(after)]);
}

/** `null`: the file cannot be read, is not regular, or is too large. */
function bytesNow(file: string): Buffer | null {
  try {
    const fd = openSync(file, READ_FLAGS);
    try {
      const found = fstatSync(fd);
      return found.isFile() && found.size <= NODE_FILE_BYTES_MAX ? readFileSync(fd) : null;
    } finally {
      closeSync(fd);
    }
  } catch {
    return null;
  }
}

function writeManagedFile(folder: RootFolder, { path, mode, content }: ManagedFile): void {
  const place = folder.to(path);
  try {
    const fd = openSync(place, WRITE_FLAGS, mode);
    try {
      const found = fstatSync(fd);
      if (!found.isFile()) throw new OperationError('it is not a regular file', { code: 'EEXIST' });
      if ((found.mode & 0o777) !== mode) fchmodSync(fd, mode);
      if (content !== null) replaceContent(fd, bytesOf(content), found.size);
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    throw named(error, path, 'a regular file');
  }
}

function replaceContent(fd: number, content: Buffer, size: number): void {
  if (size === content.length && size <= MAX_COMPARED_BYTES) {
    const before = Buffer.alloc(size);
    if (readSync(fd, before, 0, size, 0) === size && before.equals(content)) return;
  }
  ftruncateSync(fd, 0);
  writeSync(fd, content, 0, content.length, 0);
}

function named(error: unknown, path: string, what: string): Error {
  const code = errnoOf(error);
  const why = messageOf(error);
  const isForeign = code === 'ELOOP' || code === 'ENOTDIR' || code === 'EISDIR' || code === 'ENXIO';
  return new OperationError(`cannot prepare ${path}: ${isForeign ? `it exists and is not ${what}` : why}`, { code });
}

export const removePod: Port<Operations['host.removePod']> = async ({ input: { root, paths } }) => {
  for (const path of paths) {
    const place = openParent(root, path);
    if (!place) continue;
    try {
      await refuseMounts(path);
      await rm(place.path, { recursive: true, force: true });
    } finally {
      place.folder.close();
    }
  }
  return null;
};

async function refuseMounts(path: string): Promise<void> {
  const folder = normalize(path).replace(/\/$/, '');
  const mounts = parseMounts(await readFile('/proc/self/mountinfo', 'utf8'));
  const mounted = mounts.find(({ point }) => point === folder || point.startsWith(`${folder}/`));
  if (!mounted) return;
  const message = `not removing ${path}: ${mounted.point} is still mounted, and what is there is not ours to delete`;
  throw new OperationError(message, { code: 'EBUSY', retriable: true });
}
