/**
 * Folders and disks of this machine that pods claim (`local` PersistentVolumes): bind-mounted into the pod's folder.
 *
 * Decides: the first pod that uses a volume changes the volume's group; later pods do not. Invariants: its content is
 * never removed; a folder is bound only after its group was changed, so a bound folder is finished.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, realpath, stat } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import type { KeptGroup, Unshared } from '../../machines/model/operations/volume.ts';
import { boundedCall } from '../host/bounded-calls.ts';
import { errnoOf, makeFolder, openParent, type Place } from '../host/root-folder.ts';
import { type LocalVolume, mountLocalDevice, unmountLocalDevice } from './local-device.ts';
import { type Mounter, mountsBelow, realPath } from './mounter.ts';
import { fdPath, shareTree } from './tree.ts';

const PARENT_MODE = 0o750;
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY;
const INSIDE = FOLDER | constants.O_NOFOLLOW;
const PLUGIN = 'volumes/kubernetes.io~local-volume';

/** Upstream's prefix of errors before the volume is bound. */
export const LOCAL_STEP = 'MountVolume.NewMounter initialization';

/** By PersistentVolume, the newest operation. */
const underWay = new Map<string, Promise<unknown>>();

/** Serializes the operations of one PersistentVolume, so that a disk is not unmounted while another pod binds it. */
async function inTurn<Answer>(spec: string, work: () => Promise<Answer>): Promise<Answer> {
  const result = (underWay.get(spec) ?? Promise.resolve()).then(work, work);
  underWay.set(spec, result);
  try {
    return await result;
  } finally {
    if (underWay.get(spec) === result) underWay.delete(spec);
  }
}

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
  const { source, path } = volume;
  const point = await realPath(root, path);
  if ((await mountsBelow(point)).includes(point)) return {};
  const found = await boundedCall(`local volume ${source}`, () => openSource(source), {
    dispose: (late) => late?.close(),
  });
  const folder = found ?? (await mountLocalDevice(root, volume, mounter));
  try {
    const notGiven = await shareWithGroup(root, volume, folder);
    await bind(root, volume, folder, mounter);
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
    const code = errnoOf(error);
    if (code === 'ENOENT') throw new SourceMissing(`path ${JSON.stringify(source)} does not exist`, { code });
    if (code !== 'ENOTDIR') throw error;
    if ((await stat(source)).isBlockDevice()) return null;
    throw new SourceMissing(`only directory and block device are supported, which ${source} is not`, { code });
  }
}

/** The volume's source folder is missing or of another type. */
export class SourceMissing extends OperationError {}

/** Whether any pod has the volume mounted. */
async function isInUse(root: string, { spec }: Pick<LocalVolume, 'spec'>): Promise<boolean> {
  const mounts = await mountsBelow(`${await realpath(root)}/pods`);
  return mounts.some((point) => point.endsWith(`/${PLUGIN}/${spec}`));
}

async function bind(root: string, { path, filesystem }: LocalVolume, source: FileHandle, mounter: Mounter) {
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
    const options = [...(filesystem.readOnly ? ['ro'] : []), ...filesystem.options];
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
