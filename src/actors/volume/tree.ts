/**
 * Removing and handing over whole trees, name by name on open folders.
 *
 * Invariants: no link is followed, whatever is exchanged for what meanwhile; nothing on another file system is touched.
 */
import { constants } from 'node:fs';
import { chmod, type FileHandle, lchown, lstat, open, readdir, rmdir, unlink } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import { errnoOf } from '../host/beneath.ts';

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const SETGID = 0o2000;

/** The path of an open file or folder; of a name in it. Other processes of this machine can use it, too. */
export const fdPath = ({ fd }: { readonly fd: number }, name = ''): string =>
  `/proc/${process.pid}/fd/${fd}${name === '' ? '' : `/${name}`}`;

/** Removes what is at `path`, a name in an open folder; nothing there is fine. */
export async function removeTree(path: string, device?: number): Promise<void> {
  try {
    const found = await lstat(path);
    if (!found.isDirectory()) return await unlink(path);
    if (device !== undefined && found.dev !== device) throw mounted(path);
    const folder = await open(path, FOLDER);
    try {
      const { dev } = await folder.stat();
      if (device !== undefined && dev !== device) throw mounted(path);
      for (const name of await readdir(fdPath(folder))) await removeTree(fdPath(folder, name), dev);
    } finally {
      await folder.close();
    }
    await rmdir(path);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
}

function mounted(path: string): OperationError {
  const name = path.split('/').at(-1) ?? path;
  const message = `not removing "${name}": it is on another file system, and what is there is not ours to delete`;
  return new OperationError(message, { code: 'EBUSY', retriable: true });
}

/** What a group may do: everything, or everything but write. */
export interface Ownership {
  readonly groupId: number;
  readonly readOnly: boolean;
  /** Also what lies below a top that belongs to the group already. */
  readonly always?: boolean;
}

/** The mode of something that a group shall share: folders hand their group on to what is made in them. */
export function sharedMode(mode: number, isFolder: boolean, readOnly: boolean): number {
  const own = mode | (readOnly ? 0o440 : 0o660);
  return isFolder ? own | 0o110 | SETGID : own;
}

/** Gives a tree to a group, as a rule unless its top already belongs to it. */
export async function shareTree(folder: FileHandle, ownership: Ownership): Promise<void> {
  const top = await folder.stat();
  const wanted = sharedMode(top.mode & 0o7777, true, ownership.readOnly);
  const isShared = top.gid === ownership.groupId && (top.mode & 0o7777) === wanted;
  if (isShared && ownership.always !== true) return;
  await shareBelow(folder, ownership);
  await folder.chown(top.uid, ownership.groupId);
  await folder.chmod(wanted);
}

async function shareBelow(folder: FileHandle, ownership: Ownership): Promise<void> {
  for (const name of await readdir(fdPath(folder))) {
    const path = fdPath(folder, name);
    const found = await lstat(path);
    await lchown(path, found.uid, ownership.groupId);
    if (found.isSymbolicLink()) continue;
    await shareOne(path, ownership);
  }
}

/** A handle that only names the thing: it can be a FIFO or a device, and it is never opened for reading. */
const NAME_ONLY = 0o10000000 | constants.O_NOFOLLOW;

async function shareOne(path: string, ownership: Ownership): Promise<void> {
  const handle = await open(path, NAME_ONLY);
  try {
    const found = await handle.stat();
    if (found.isSymbolicLink()) return;
    await chmod(fdPath(handle), sharedMode(found.mode & 0o7777, found.isDirectory(), ownership.readOnly));
    if (!found.isDirectory()) return;
    const folder = await open(fdPath(handle), constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      await shareBelow(folder, ownership);
    } finally {
      await folder.close();
    }
  } finally {
    await handle.close();
  }
}
