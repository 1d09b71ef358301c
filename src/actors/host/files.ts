/**
 * Plain files and folders of the node itself: reading a file, creating folders and shared mounts, and links to logs.
 */
import { constants } from 'node:fs';
import {
  access,
  chmod,
  type FileHandle,
  lstat,
  mkdir,
  open,
  readlink,
  realpath,
  rename,
  stat,
  statfs,
  symlink,
} from 'node:fs/promises';
import { dirname } from 'node:path';
import { OperationError } from '../../kernel/json.ts';
import type { Port } from '../../kernel/operation.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type { hostOperations } from '../../machines/model/operations/host.ts';
import { goError } from '../go-errors.ts';
import { type Mounter, mountBehind, mountsBelow } from '../volume/mounter.ts';

type Operations = typeof hostOperations;

export const readTextFile: Port<Operations['host.readFile']> = async ({ input: { path, maxBytes } }) => {
  try {
    const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const found = await handle.stat();
      if (!found.isFile()) throw new OperationError(`${path} is not a regular file`);
      const bytes = await readAtMost(handle, maxBytes + 1, found.size);
      if (bytes.length > maxBytes) {
        throw new OperationError(`${path} has more than ${maxBytes} bytes`, { code: 'EFBIG' });
      }
      return { content: bytes.toString('utf8') };
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return { content: null };
    throw error;
  }
};

/** Files of the kernel have a stated size of zero. */
const FIRST_READ_BYTES = 4_096;

/**
 * The bytes of an open file up to its end, but at most `limit`. The buffer has the stated size and grows only if the
 * file has more.
 */
export async function readAtMost(handle: FileHandle, limit: number, statedSize: number): Promise<Buffer> {
  let buffer = Buffer.alloc(Math.min(limit, Math.max(statedSize + 1, FIRST_READ_BYTES)));
  let length = 0;
  for (;;) {
    const { bytesRead } = await handle.read(buffer, length, buffer.length - length, length);
    length += bytesRead;
    if (bytesRead === 0 || length === limit) return buffer.subarray(0, length);
    if (length === buffer.length) buffer = Buffer.concat([buffer], Math.min(limit, 2 * length));
  }
}

export const canRead = (path: string): Promise<boolean> =>
  access(path, constants.R_OK).then(
    () => true,
    () => false,
  );

export const readable: Port<Operations['host.readable']> = async ({ input: { paths } }) => ({
  readable: await Promise.all(paths.map(canRead)),
});

/** An existing folder keeps its mode: its owner may have restricted it. A new one has exactly this mode. */
export const directoriesPort =
  (mounter: Mounter): Port<Operations['host.makeDirectories']> =>
  async ({ input: { directories } }) => {
    for (const { path, mode, what, shared } of directories) {
      await namingErrors('creating', what, () => makeDirectory(path, mode));
      if (shared) await namingErrors('configuring', what, () => makeShared(path, mounter));
    }
    return null;
  };

async function namingErrors(doing: string, what: string | undefined, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (what === undefined) throw error;
    const message = messageOf(error);
    throw new OperationError(`error ${doing} ${what}: ${message}`, { code: codeOf(error) ?? '' });
  }
}

async function makeDirectory(path: string, mode: number): Promise<void> {
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory()) return;
  if (found) throw new OperationError(`mkdir ${path}: it exists and is not a directory`, { code: 'ENOTDIR' });
  const parent = dirname(path);
  if (parent !== path) await makeDirectory(parent, mode);
  try {
    await mkdir(path, mode);
    await chmod(path, mode);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw goError('mkdir', path, error);
  }
}

/** Creates a symbolic link, or redirects an existing one; anything else under that name stays and is an error. */
export const makeSymlink: Port<Operations['host.symlink']> = async ({ id, input: { path, target } }) => {
  const found = await lstat(path).catch(() => null);
  if (found?.isSymbolicLink() && (await readlink(path)) === target) return null;
  if (found && !found.isSymbolicLink()) {
    throw new OperationError(`symlink ${path}: it exists and is not a symbolic link`, { code: 'EEXIST' });
  }
  const draft = `${path}.${process.pid}.${id}`;
  await symlink(target, draft);
  await rename(draft, path);
  return null;
};

/** The size of a file system, and how much of it unprivileged processes may still fill. */
export const fileSystem: Port<(typeof hostOperations)['host.fileSystem']> = async ({ input: { path } }) => {
  const { blocks, bavail, bsize } = await statfs(path, { bigint: true });
  return { capacityBytes: String(blocks * bsize), availableBytes: String(bavail * bsize) };
};

/**
 * Makes a folder of the node a shared mount: mounts below it propagate to the containers that have the folder, and
 * mounts made by such a container propagate to the node and the others (`mountPropagation`).
 *
 * Does nothing if the folder is already in a shared mount. Otherwise the folder is bind-mounted onto itself, including
 * the mounts below it.
 */
async function makeShared(path: string, mounter: Mounter): Promise<void> {
  const handle = await open(path, 'r');
  try {
    const before = `/proc/${process.pid}/fd/${handle.fd}`;
    const holder = await mountBehind(before);
    if (holder?.isShared) return;
    const real = await realpath(path);
    if (holder?.point !== real) {
      const below = await mountsBelow(real);
      await mounter.bindTree(real, real);
      // The new mount includes the mounts below; the old ones, hidden below it, would have no path later.
      for (const point of below) await mounter.unmount(before + point.slice(real.length));
    }
    await mounter.shareTree(real);
  } finally {
    await handle.close();
  }
}
