/**
 * The folder of a volume below its pod, its file system, and the mark of a volume that is set up.
 *
 * Invariant: links below the pod's folder are never followed.
 */
import { closeSync, constants, lstatSync, openSync, type Stats } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type { VolumeMount } from '../../machines/model/operations/volume.ts';
import { errnoOf, makeFolder, openParent } from '../host/root-folder.ts';
import { type Mounter, mountsBelow, realPath } from './mounter.ts';
import { fdPath } from './tree.ts';

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** The mode of folders above a volume; the volume itself is open to any user of a container. */
const PARENT_MODE = 0o750;
const PLUGIN_MODE = 0o755;
const VOLUME_MODE = 0o777;

/** `<pod>/volumes/<plugin>/<name>`, each with its own permissions. */
export async function makeVolumeFolder(root: string, path: string): Promise<void> {
  const plugin = path.slice(0, path.lastIndexOf('/'));
  for (const [each, mode] of [
    [plugin, PLUGIN_MODE],
    [path, VOLUME_MODE],
  ] as const) {
    const place = openParent(root, each, PARENT_MODE);
    if (!place) continue;
    try {
      makeFolder(place.path, mode);
    } finally {
      place.folder.close();
    }
  }
}

export async function openFolder(root: string, path: string): Promise<FileHandle> {
  const place = openParent(root, path);
  if (!place) throw new OperationError(`${path} does not exist`, { code: 'ENOENT' });
  try {
    return await open(place.path, FOLDER);
  } finally {
    place.folder.close();
  }
}

export async function mountOnce(root: string, path: string, mount: VolumeMount, mounter: Mounter): Promise<void> {
  const point = await realPath(root, path);
  if ((await mountsBelow(point)).includes(point)) return;
  const folder = await openFolder(root, path);
  try {
    await mountOn(fdPath(folder), mount, mounter);
  } catch (error) {
    if (!(mount.optional && isForbidden(error))) throw explained(error, mount);
  } finally {
    await folder.close();
  }
}

/** Kernels before 6.4 do not know `noswap`. */
async function mountOn(target: string, { type, options }: VolumeMount, mounter: Mounter): Promise<void> {
  try {
    await mounter.mount(type, target, options);
  } catch (error) {
    const known = options.filter((option) => option !== 'noswap');
    if (codeOf(error) !== 'EINVAL' || known.length === options.length) throw error;
    await mounter.mount(type, target, known);
  }
}

const isForbidden = (error: unknown): boolean => codeOf(error) === 'EPERM' || codeOf(error) === 'EACCES';

function explained(error: unknown, { type }: VolumeMount): Error {
  const why = messageOf(error);
  const hint = isForbidden(error) ? '; the agent needs CAP_SYS_ADMIN to mount: run it as root' : '';
  return new OperationError(`cannot mount ${type}: ${why}${hint}`, { code: codeOf(error) ?? 'EIO' });
}

const MARK_MODE = 0o644;
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW;

/**
 * Marks a volume that containers of its pod may use already: an empty file `ready` in the plug-in's folder of the pod,
 * as upstream. `<pod>/volumes/<plugin>/<name>` has `<pod>/plugins/<plugin>/<name>/ready`.
 *
 * Invariant: a marked volume is completely set up.
 */
export const readyMark = (podDirectory: string, volumePath: string): string =>
  `${podDirectory}/plugins${volumePath.slice(`${podDirectory}/volumes`.length)}/ready`;

/** The file or folder at this path, reached through no link; `null`: there is none. */
export function foundAt(root: string, path: string): Stats | null {
  const place = openParent(root, path);
  if (!place) return null;
  try {
    return lstatSync(place.path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw error;
  } finally {
    place.folder.close();
  }
}

export function leaveMark(root: string, mark: string): void {
  const place = openParent(root, mark, PARENT_MODE);
  if (!place) return;
  try {
    closeSync(openSync(place.path, CREATE, MARK_MODE));
  } finally {
    place.folder.close();
  }
}
