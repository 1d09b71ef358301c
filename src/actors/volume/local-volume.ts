/**
 * `local` PersistentVolumes: folders of this machine, bind-mounted into the pod's folder; and block devices of this
 * machine, formatted if blank, mounted once for all their pods, and bind-mounted from there.
 *
 * Decides: the first pod that uses a volume changes the volume's group; later pods do not. A disk with any signature is
 * never formatted.
 *
 * Invariants: content is never removed; a folder is bound only after its group was changed, so a bound folder is
 * finished; the mount of a device is removed with the last pod that uses it; a slow volume delays no other.
 *
 * Upstream: pkg/volume/local/local.go, k8s.io/mount-utils (`FormatAndMount`).
 */
import { constants } from 'node:fs';
import { type FileHandle, open, realpath, rmdir, stat } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type { KeptGroup, Unshared, VolumeSetUp } from '../../machines/model/operations/volume.ts';
import { boundedCall } from '../host/bounded-calls.ts';
import { makeFolder, openParent, type Place } from '../host/root-folder.ts';
import { serializer } from '../serializer.ts';
import { prepareFileSystem } from './file-system.ts';
import { isMounted, type Mounter, mountsBelow, realPath } from './mounter.ts';
import { fdPath, shareTree } from './tree.ts';

const PARENT_MODE = 0o750;
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY;
const INSIDE = FOLDER | constants.O_NOFOLLOW;
const PLUGIN = 'volumes/kubernetes.io~local-volume';

/** Upstream's prefix of errors before the volume is bound. */
export const LOCAL_STEP = 'MountVolume.NewMounter initialization';

/** By PersistentVolume, so that a disk is not unmounted while another pod binds it. */
const inTurn = serializer();

/**
 * The part of a volume whose group was not changed to the pod's: the whole volume, if it keeps another group, or some
 * of its files.
 */
export interface Unshareable {
  readonly kept?: KeptGroup;
  readonly unshared?: Unshared;
}

export const bindLocal = (root: string, volume: LocalVolume, mounter: Mounter): Promise<Unshareable> =>
  inTurn(volume.spec, () => bindNow(root, volume, mounter));

/**
 * Unmounts the disks of these PersistentVolumes that no pod uses any more. Called after volumes were unbound from pods.
 */
export async function unmountUnused(root: string, specs: readonly string[], mounter: Mounter): Promise<void> {
  for (const spec of specs) {
    await inTurn(spec, async () => {
      if (!(await isInUse(root, { spec }))) await unmountLocalDevice(root, spec, mounter);
    });
  }
}

async function bindNow(root: string, volume: LocalVolume, mounter: Mounter): Promise<Unshareable> {
  const { source, path, filesystem } = volume;
  const point = await realPath(root, path);
  if ((await mountsBelow(point)).includes(point)) return {};
  const found = await boundedCall(`local volume ${source}`, () => openSource(source), {
    dispose: (late) => late?.close(),
  });
  const folder = found ?? (await mountLocalDevice(root, volume, mounter));
  try {
    const notGiven = await shareWithGroup(root, volume, folder);
    const options = [...(filesystem.readOnly ? ['ro'] : []), ...filesystem.options];
    await bindFolder({ root, path, options }, folder, mounter);
    return notGiven;
  } finally {
    await folder.close();
  }
}

async function shareWithGroup(root: string, volume: LocalVolume, folder: FileHandle): Promise<Unshareable> {
  if (volume.ownership === null) return {};
  const { spec, ownership } = volume;
  const { groupId: wanted, onlyTop } = ownership;
  if (await isInUse(root, volume)) {
    const { gid: has } = await folder.stat();
    return has === wanted ? {} : { kept: { spec, wanted, has } };
  }
  const unshared = await shareTree(folder, { groupId: wanted, readOnly: false, always: !onlyTop }, volume.path);
  return unshared === null ? {} : { unshared };
}

/** Opens the source folder; `null` if the source is a block device. */
async function openSource(source: string): Promise<FileHandle | null> {
  try {
    return await open(source, FOLDER);
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOENT') throw new SourceMissing(`path ${JSON.stringify(source)} does not exist`, { code });
    if (code !== 'ENOTDIR') throw error;
    if ((await stat(source)).isBlockDevice()) return null;
    throw new SourceMissing(`only directory and block device are supported, which ${source} is not`, { code });
  }
}

/** The volume's source folder is missing or of another type. */
export class SourceMissing extends OperationError {}

async function isInUse(root: string, { spec }: Pick<LocalVolume, 'spec'>): Promise<boolean> {
  const mounts = await mountsBelow(`${await realpath(root)}/pods`);
  return mounts.some((point) => point.endsWith(`/${PLUGIN}/${spec}`));
}

/** Binds a folder to a path of a pod, with further options of a mount. */
export async function bindFolder(
  { root, path, options }: { readonly root: string; readonly path: string; readonly options: readonly string[] },
  source: FileHandle,
  mounter: Mounter,
): Promise<void> {
  const place = openParent(root, path, PARENT_MODE);
  if (!place) return;
  try {
    makeFolder(place.path, PARENT_MODE);
    const target = await open(place.path, INSIDE);
    try {
      await mounter.bind(fdPath(source), fdPath(target));
    } finally {
      await target.close();
    }
    if (options.length > 0) await remount(place, source, options, mounter);
  } finally {
    place.folder.close();
  }
}

/**
 * Sets the options of a bind mount. If this fails, the mount is removed: a volume without its options must not be used.
 */
async function remount(place: Place, source: FileHandle, options: readonly string[], mounter: Mounter): Promise<void> {
  const target = await open(place.path, INSIDE);
  try {
    await mounter.remount(fdPath(source), fdPath(target), options);
  } catch (error) {
    await mounter.unmount(place.path);
    throw error;
  } finally {
    await target.close();
  }
}

export type LocalVolume = Extract<VolumeSetUp, { kind: 'local' }>;

const MOUNTS = 'plugins/kubernetes.io/local-volume/mounts';

/** A failure before the pod's own folder is reached; upstream has a step of its own for it. */
export class DeviceFailure extends OperationError {}

async function mountLocalDevice(root: string, volume: LocalVolume, mounter: Mounter): Promise<FileHandle> {
  try {
    return await mounted(root, volume, mounter);
  } catch (error) {
    await removeIfEmpty(root, volume.spec);
    const message = messageOf(error);
    throw new DeviceFailure(message, { code: codeOf(error) ?? '', retriable: true });
  }
}

async function mounted(root: string, { source, spec, filesystem }: LocalVolume, mounter: Mounter): Promise<FileHandle> {
  const path = pathOf(root, spec);
  const place = openParent(root, path, PARENT_MODE);
  if (!place) throw new OperationError(`${path} cannot be made`);
  try {
    makeFolder(place.path, PARENT_MODE);
    if (!(await isMounted(root, path))) {
      const options = [...(filesystem.readOnly ? ['ro'] : []), ...filesystem.options, 'defaults'];
      await prepareFileSystem(source, { type: filesystem.type, target: path, options });
      const folder = await open(place.path, INSIDE);
      try {
        await mounter.device(source, fdPath(folder), filesystem.type, options);
      } finally {
        await folder.close();
      }
    }
    return await open(place.path, INSIDE);
  } finally {
    place.folder.close();
  }
}

/** Unmounts a device. A device that is not mounted is no error. */
async function unmountLocalDevice(root: string, spec: string, mounter: Mounter): Promise<void> {
  const path = pathOf(root, spec);
  const place = openParent(root, path);
  if (!place) return;
  try {
    if (await isMounted(root, path)) await mounter.unmount(place.path);
  } finally {
    place.folder.close();
  }
  await removeIfEmpty(root, spec);
}

const pathOf = (root: string, spec: string): string => `${root}/${MOUNTS}/${spec}`;

/** Removes an empty folder; a mounted folder, or one with content, stays. */
async function removeIfEmpty(root: string, spec: string): Promise<void> {
  const place = openParent(root, pathOf(root, spec));
  if (!place) return;
  await rmdir(place.path).catch(() => undefined);
  place.folder.close();
}
