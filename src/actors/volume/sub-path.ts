/**
 * `volume.bindSubPaths`: bind-mounts a part of a volume for one container where the volume's other users cannot move
 * it.
 *
 * A container that shares the volume may replace any name in it by a link at any moment. So a sub-path is walked name
 * by name on open folders; links are resolved by hand and never lead above the volume (a link to the volume's own path
 * restarts there); the open file is mounted, not a path.
 */

import { constants } from 'node:fs';
import { chmod, type FileHandle, mkdir, open, readlink, realpath, stat } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import type { InputOf } from '../../kernel/operation.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type { SubPath, Unprepared, volumeOperations } from '../../machines/model/operations/volume.ts';
import { trimRight } from '../../machines/model/values/go-text.ts';
import { goError } from '../go-errors.ts';
import { boundedCall } from '../host/bounded-calls.ts';
import { O_PATH, openParent } from '../host/root-folder.ts';
import { type Mounter, mountsBelow, realPath } from './mounter.ts';
import { fdPath, removeTree } from './tree.ts';

type Input = InputOf<(typeof volumeOperations)['volume.bindSubPaths']>;

/** As many links as the kernel follows in one path. */
const LINKS_MAX = 40;
/** Folders below each other: each is held open, and a process has a limit of descriptors. */
const LEVELS_MAX = 256;
const PARENT_MODE = 0o750;
const TARGET_FILE_MODE = 0o640;
/** The mode with set-group-ID and sticky bit, which folders of `fsGroup` and tmpfs have. */
const MODE_BITS = 0o7777;

export async function bindSubPaths(
  { root, subPaths }: Input,
  mounter: Mounter,
  signal: AbortSignal,
): Promise<{ failed: Readonly<Record<string, Unprepared>> }> {
  const failed: Record<string, Unprepared> = {};
  for (const subPath of subPaths) {
    try {
      signal.throwIfAborted();
      await bindSubPath(root, subPath, mounter);
    } catch (error) {
      const why = messageOf(error);
      if (!Object.hasOwn(failed, subPath.container)) {
        failed[subPath.container] = { message: await pathMessage(subPath), why };
      }
    }
  }
  return { failed };
}

/** The message for the pod's author: whether the path is missing, and nothing else of the node. */
async function pathMessage({ container, volume, volumePath, subPath }: SubPath): Promise<string> {
  const problem = async (of: string): Promise<unknown> =>
    await boundedCall(`subPath ${of}`, () => stat(of)).then(
      () => null,
      (error) => error,
    );
  const isMissing = codeOf(await problem(`${volumePath}/${subPath}`)) === 'ENOENT';
  const ofVolume = isMissing ? await problem(volumePath) : null;
  if (codeOf(ofVolume) === 'ENOENT') return goError('stat', volumePath, ofVolume).message;
  const step = isMissing ? 'create subPath directory' : 'prepare subPath';
  return `failed to ${step} for volumeMount ${JSON.stringify(volume)} of container ${JSON.stringify(container)}`;
}

async function bindSubPath(root: string, subPath: SubPath, mounter: Mounter): Promise<void> {
  const subject = `subPath ${subPath.subPath} of ${subPath.volumePath}`;
  const source = await boundedCall(subject, () => openSubPath(subPath.volumePath, subPath.subPath), {
    dispose: (late) => late.close(),
  });
  try {
    await bind(root, source, subPath.target, mounter);
  } finally {
    await source.close();
  }
}

/** Opens the entry that the sub-path names. Missing folders are created with the volume's mode if `mayMake` is set. */
export async function openSubPath(volumePath: string, subPath: string, mayMake = true): Promise<FileHandle> {
  const trail: FileHandle[] = [await open(volumePath, O_PATH | constants.O_DIRECTORY)];
  try {
    await follow(trail, { volumePath, subPath }, mayMake);
    return trail.pop() as FileHandle;
  } finally {
    for (const handle of trail) await handle.close();
  }
}

type Part = Pick<SubPath, 'volumePath' | 'subPath'>;

/** Walks on from the end of the trail, which always begins with the volume. */
async function follow(trail: FileHandle[], { volumePath, subPath }: Part, mayMake: boolean): Promise<void> {
  const mode = mayMake ? (await innermost(trail).stat()).mode & MODE_BITS : null;
  const names = split(subPath);
  let links = 0;
  for (let name = names.shift(); name !== undefined; name = names.shift()) {
    if (name === '..') {
      await goUp(trail, subPath);
      continue;
    }
    if (trail.length > LEVELS_MAX) throw tooDeep(volumePath);
    const next = await enter(innermost(trail), name, mode);
    if (!(await next.stat()).isSymbolicLink()) {
      trail.push(next);
      continue;
    }
    const target = await readlinkOf(next, innermost(trail), name);
    if (++links > LINKS_MAX) throw escapes(subPath);
    names.unshift(...(target.startsWith('/') ? await fromTop(trail, target, { volumePath, subPath }) : split(target)));
  }
}

/** Resolves an absolute link, which may name a path in this volume by the volume's path on the host. */
async function fromTop(trail: FileHandle[], target: string, { volumePath, subPath }: Part): Promise<string[]> {
  const tops = [volumePath, await realpath(volumePath)].map((top) => `${trimRight(top, '/')}/`);
  const top = tops.find((each) => `${target}/`.startsWith(each));
  if (top === undefined) throw escapes(subPath);
  for (const handle of trail.splice(1)) await handle.close();
  return split(target.slice(top.length));
}

const split = (path: string): string[] => path.split('/').filter((name) => name !== '' && name !== '.');

const innermost = (trail: readonly FileHandle[]): FileHandle => {
  const last = trail.at(-1);
  if (last === undefined) throw new OperationError('a trail begins with its volume');
  return last;
};

async function goUp(trail: FileHandle[], subPath: string): Promise<void> {
  if (trail.length === 1) throw escapes(subPath);
  await trail.pop()?.close();
}

const escapes = (subPath: string): OperationError =>
  new OperationError(`"${subPath}" leads out of its volume through a link`, { code: 'EXDEV' });

const tooDeep = (volumePath: string): OperationError =>
  new OperationError(`a sub-path of ${volumePath} has more than ${LEVELS_MAX} folders below each other`, {
    code: 'ENAMETOOLONG',
  });

async function readlinkOf(link: FileHandle, folder: FileHandle, name: string): Promise<string> {
  await link.close();
  return await readlink(fdPath(folder, name));
}

async function enter(folder: FileHandle, name: string, mode: number | null): Promise<FileHandle> {
  const path = fdPath(folder, name);
  try {
    return await open(path, O_PATH | constants.O_NOFOLLOW);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || mode === null) throw error;
  }
  await mkdir(path, mode);
  const made = await open(path, O_PATH | constants.O_NOFOLLOW);
  if ((await made.stat()).isDirectory()) await chmod(fdPath(made), mode);
  return made;
}

async function bind(root: string, source: FileHandle, path: string, mounter: Mounter): Promise<void> {
  const from = await source.stat();
  const point = await realPath(root, path);
  const place = openParent(root, path, PARENT_MODE);
  if (!place) return;
  try {
    const isMounted = (await mountsBelow(point)).includes(point);
    if (isMounted && (await isSame(place.path, from))) return;
    if (isMounted) await mounter.unmount(fdPath(place.folder, place.path.split('/').at(-1)));
    await makeTarget(place.path, from.isDirectory());
    const target = await open(place.path, O_PATH | constants.O_NOFOLLOW);
    try {
      await mounter.bind(fdPath(source), fdPath(target));
    } finally {
      await target.close();
    }
  } finally {
    place.folder.close();
  }
}

async function isSame(path: string, { dev, ino }: { readonly dev: number; readonly ino: number }): Promise<boolean> {
  const target = await open(path, O_PATH | constants.O_NOFOLLOW);
  try {
    const found = await target.stat();
    return found.dev === dev && found.ino === ino;
  } finally {
    await target.close();
  }
}

/** Creates the target of the mount: a folder for a folder, a file for everything else. */
async function makeTarget(path: string, isFolder: boolean): Promise<void> {
  await removeTree(path);
  if (isFolder) return await mkdir(path, PARENT_MODE);
  await (await open(path, constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY, TARGET_FILE_MODE)).close();
}
