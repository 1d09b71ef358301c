/**
 * `volume.tearDown` and `volume.podFolders`: find leftovers of pods, and remove the volumes of a pod, including those
 * that an earlier agent set up.
 *
 * Decides by the kernel's mount table, not by stored state. Invariants: first every mount below the pod's folder is
 * unmounted, the last one first; only then are files removed, without following links and without entering another file
 * system; nothing outside the pod's folder is touched.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, readdir, stat } from 'node:fs/promises';
import pLimit from 'p-limit';
import { OperationError } from '../../kernel/json.ts';
import type { InputOf } from '../../kernel/operation.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type { volumeOperations } from '../../machines/model/operations/volume.ts';
import { LOCAL_MAPS } from '../../machines/model/volumes/plan.ts';
import { namesBelow, openParent } from '../host/root-folder.ts';
import { unbindDevice } from './block-device.ts';
import { unmountUnused } from './local-volume.ts';
import { type Mounter, mountsBelow, realPath } from './mounter.ts';
import { endMounts, type NetworkPrograms, NFS_AT_ONCE, nfsFolderOf, unmountNFS } from './network-volume.ts';
import type { Projects } from './projects.ts';
import { fdPath, removeTree } from './tree.ts';

type Input = InputOf<(typeof volumeOperations)['volume.tearDown']>;

/** The marks are removed before the volumes that they stand for. */
const FOLDERS = ['plugins', 'volume-subpaths', 'volumes', 'volumeDevices'];
const LOCAL_FOLDERS = 'volumes/kubernetes.io~local-volume';
const LOCAL_DEVICES = 'volumeDevices/kubernetes.io~local-volume';
/** Rounds over the mounts: one mount may have covered another. */
const ROUNDS_MAX = 16;

interface TearDownTools {
  readonly mounter: Mounter;
  readonly projects: Projects;
  readonly network?: NetworkPrograms;
}

export async function tearDownVolumes({ root, podDirectory }: Input, tools: TearDownTools): Promise<null> {
  const { mounter, projects } = tools;
  if (!(await exists(root, podDirectory))) return null;
  await endMounts(podDirectory);
  const volumes = await realPath(root, `${podDirectory}/volumes`);
  await unmountAll(root, podDirectory, mounter, tools.network);
  await unmountUnused(root, await readdir(`${podDirectory}/${LOCAL_FOLDERS}`).catch(emptyIfMissing), mounter);
  await unbindDevices(root, podDirectory, mounter);
  for (const name of FOLDERS) {
    const place = openParent(root, `${podDirectory}/${name}`);
    if (!place) continue;
    try {
      await removeTree(place.path, (await stat(fdPath(place.folder))).dev);
    } finally {
      place.folder.close();
    }
  }
  projects.forgetBelow(volumes);
  return null;
}

/** The links of the pod show which devices of the machine are bound for it. */
async function unbindDevices(root: string, podDirectory: string, mounter: Mounter): Promise<void> {
  const uid = podDirectory.slice(podDirectory.lastIndexOf('/') + 1);
  for (const name of await readdir(`${podDirectory}/${LOCAL_DEVICES}`).catch(emptyIfMissing)) {
    await unbindDevice(root, `${root}/${LOCAL_MAPS}/${name}/${uid}`, mounter);
  }
}

function emptyIfMissing(error: unknown): readonly string[] {
  if (codeOf(error) !== 'ENOENT') throw error;
  return [];
}

/** Pods that left something on disk, whether they are known or not. */
export async function podFolders(root: string): Promise<readonly string[]> {
  try {
    const entries = await readdir(`${root}/pods`, { withFileTypes: true });
    return entries
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name)
      .toSorted();
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

async function exists(root: string, podDirectory: string): Promise<boolean> {
  const place = openParent(root, `${podDirectory}/volumes`);
  place?.folder.close();
  return place !== null;
}

/** Unmounts everything at or below a folder of a pod. */
export async function unmountAll(
  root: string,
  directory: string,
  mounter: Mounter,
  network?: NetworkPrograms,
): Promise<void> {
  const folder = await realPath(root, directory);
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const points = await mountsBelow(folder);
    if (points.length === 0) return;
    const ofServers = new Set(points.filter((point) => nfsFolderOf(folder, point) === point));
    for (const point of points) {
      // What is mounted in a volume of a server goes with it: its path leads over the server.
      if (ofServers.has(nfsFolderOf(folder, point) ?? '')) continue;
      await unmountOnce(point, () => unmount(root, `${directory}${point.slice(folder.length)}`, mounter));
    }
    const atOnce = pLimit(NFS_AT_ONCE);
    await Promise.all(
      [...ofServers].map((point) => atOnce(() => unmountOnce(point, () => unmountNFS(point, network)))),
    );
  }
  const [left] = await mountsBelow(folder);
  if (left === undefined) return;
  throw new OperationError(`${left} is mounted again whenever it is unmounted`, { code: 'EBUSY', retriable: true });
}

async function unmountOnce(point: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    // In shared mounts the mount disappears together with its copy, which was unmounted before.
    if ((await mountsBelow(point)).includes(point)) throw error;
  }
}

async function unmount(root: string, path: string, mounter: Mounter): Promise<void> {
  const folder = await openAmongMounts(root, path);
  try {
    await mounter.unmount(fdPath(folder, path.slice(path.lastIndexOf('/') + 1)));
  } catch (error) {
    const why = messageOf(error);
    throw new OperationError(`cannot unmount ${path}: ${why}`, { code: 'EBUSY', retriable: true });
  } finally {
    await folder.close();
  }
}

/** Opens the folder above a mount. The folder may be on another mount that hangs: each step may block. */
async function openAmongMounts(root: string, path: string): Promise<FileHandle> {
  let folder = await open(root, constants.O_DIRECTORY);
  for (const name of namesBelow(root, path).slice(0, -1)) {
    const above = folder;
    try {
      folder = await open(fdPath(above, name), constants.O_DIRECTORY | constants.O_NOFOLLOW);
    } finally {
      await above.close();
    }
  }
  return folder;
}
