/**
 * Block devices of pods: a link in the pod’s folder, which the runtime follows, and a bind mount of the device on a
 * file below the plug-in’s folder, where other tools of the node find its users.
 *
 * Invariants: the link is created first and removed last, so that the next agent finds what to remove; a device is
 * never opened; anything but a block device is rejected.
 */
import { constants } from 'node:fs';
import { open, readlink, rmdir, stat, symlink, unlink } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import { ignoring, inParent, O_PATH } from '../host/root-folder.ts';
import { type Mounter, mountsBelow, realPath } from './mounter.ts';
import { fdPath } from './tree.ts';

const FOLDER_MODE = 0o750;
const FILE_MODE = 0o640;

export const isLinked = async (root: string, link: string): Promise<boolean> =>
  (await inParent(root, link, (path) => readlink(path).catch(ignoring('ENOENT', 'EINVAL')))) !== null;

export async function linkDevice(root: string, link: string, device: string): Promise<void> {
  const make = async (path: string) => {
    if ((await readlink(path).catch(ignoring('ENOENT', 'EINVAL'))) === device) return;
    await unlink(path).catch(ignoring('ENOENT'));
    await symlink(device, path);
  };
  await inParent(root, link, make, FOLDER_MODE);
}

/** Binds the device to the file, once. */
export async function bindDevice(root: string, map: string, device: string, mounter: Mounter): Promise<void> {
  if (!(await stat(device)).isBlockDevice()) {
    throw new OperationError(`${device} is not a block device; a volume of volumeMode Block has to be one`);
  }
  const point = await realPath(root, map);
  if ((await mountsBelow(point)).includes(point)) return;
  const source = await open(device, O_PATH);
  const bind = async (path: string) => {
    const file = await open(path, constants.O_RDONLY | constants.O_CREAT | constants.O_NOFOLLOW, FILE_MODE);
    try {
      await mounter.bind(fdPath(source), fdPath(file));
    } finally {
      await file.close();
    }
  };
  try {
    await inParent(root, map, bind, FOLDER_MODE);
  } finally {
    await source.close();
  }
}

/** Removes the bind mount of a device. A device that is not bound is no error. */
export async function unbindDevice(root: string, map: string, mounter: Mounter): Promise<void> {
  const point = await realPath(root, map);
  const isBound = (await mountsBelow(point)).includes(point);
  await inParent(root, map, async (path) => {
    if (isBound) await mounter.unmount(path);
    await unlink(path).catch(ignoring('ENOENT'));
  });
}

/** Removes a link, and the folder of the links if this was the last. */
export async function unlinkDevice(root: string, link: string): Promise<void> {
  await inParent(root, link, (path) => unlink(path).catch(ignoring('ENOENT')));
  const folder = link.slice(0, link.lastIndexOf('/'));
  await inParent(root, folder, (path) => rmdir(path).catch(ignoring('ENOENT', 'ENOTEMPTY', 'EEXIST')));
}
