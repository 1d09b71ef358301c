/**
 * The mounts of disks of storage networks: of their file systems for the node, and of these, or of block devices, for
 * pods.
 *
 * Decides by the kernel's table of mounts: what an earlier agent mounted stays.
 * Invariants: a disk may stop to answer at any time, so its file system is mounted and unmounted by processes, with
 * time limits; nothing is unmounted lazily, because the device is removed afterwards.
 */
import { constants } from 'node:fs';
import { open, readFile, realpath, rmdir } from 'node:fs/promises';
import type { InputOf } from '../../kernel/operation.ts';
import type { diskOperations } from '../../machines/model/operations/disk.ts';
import type { Unshared } from '../../machines/model/operations/volume.ts';
import { boundedCall } from '../host/bounded-calls.ts';
import { parseMounts } from '../host/kernel/mounts.ts';
import { ignoring, inParent, makeFolder } from '../host/root-folder.ts';
import { bindDevice, linkDevice, unbindDevice, unlinkDevice } from '../volume/block-device.ts';
import { prepareFileSystem } from '../volume/file-system.ts';
import { bindFolder } from '../volume/local-volume.ts';
import { isMounted, type Mounter, realPath } from '../volume/mounter.ts';
import { mountFailure } from '../volume/network-volume.ts';
import { unmountAll } from '../volume/tear-down.ts';
import { shareTree } from '../volume/tree.ts';
import { type DiskMachine, failed, run } from './machine.ts';

type Operations = typeof diskOperations;

const FOLDER_MODE = 0o750;
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const TYPE_DEFAULT = 'ext4';
/** A journal may have to be replayed first. */
const MOUNT_TIMEOUT_MS = 5 * 60_000;
/** What was not written yet is written first. */
const UNMOUNT_TIMEOUT_MS = 2 * 60_000;

/** Mounts the file system of a device for the node, once; a failed mount leaves no folder, as upstream. */
export async function mountDevice(
  { root, directory, device, fsType, options: given }: InputOf<Operations['disk.mountDevice']>,
  machine: DiskMachine,
  signal: AbortSignal,
): Promise<null> {
  if (await isMounted(root, directory)) return null;
  await inParent(root, directory, async (path) => makeFolder(path, FOLDER_MODE), FOLDER_MODE);
  const type = fsType || TYPE_DEFAULT;
  const options = [...given, 'defaults'];
  await prepareFileSystem(device, { type, target: directory, options }, (name, argv, timeoutMs) =>
    run(machine, name, argv, { timeoutMs, signal }),
  );
  const argv = ['-t', type, '-o', options.join(','), device, directory];
  const ending = await run(machine, 'mount', argv, { timeoutMs: MOUNT_TIMEOUT_MS, signal });
  if (ending.status !== '') throw mountFailure('mount', argv.join(' '), ending);
  return null;
}

/** Unmounts a path. One that is not mounted is no error. */
export async function unmount(root: string, path: string, machine: DiskMachine): Promise<void> {
  if (!(await isMounted(root, path))) return;
  const point = await realPath(root, path);
  const argv = ['--no-canonicalize', point];
  const { status, output } = await run(machine, 'umount', argv, { timeoutMs: UNMOUNT_TIMEOUT_MS });
  if (!(await isMounted(root, path))) return;
  throw failed(`unmount failed: ${status}\nUnmounting arguments: ${point}\nOutput: ${output}`);
}

interface MountedDisk {
  /** The device as it was mounted: `/dev/sdb`; empty if nothing is mounted. */
  readonly device: string;
  /** Other mounts of the file system below the root folder. */
  readonly others: readonly string[];
}

/** What the kernel's table tells of the disk that is mounted at a path. */
export async function mountedDisk(root: string, path: string): Promise<MountedDisk> {
  const [point, top] = [await realPath(root, path), await realpath(root)];
  const lines = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n');
  const mounts = lines.flatMap((line) => parseMounts(line).map((mount) => ({ ...mount, id: line.split(' ')[2] })));
  const own = mounts.findLast((mount) => mount.point === point);
  if (own === undefined) return { device: '', others: [] };
  const others = mounts.filter(({ id, point: at }) => id === own.id && at !== point && at.startsWith(`${top}/`));
  return { device: own.source, others: others.map((mount) => mount.point) };
}

type SetUp = InputOf<Operations['disk.setUp']>;

/** Binds the disk for a pod, once. */
export async function setUp(input: SetUp, mounter: Mounter): Promise<Unshared | null> {
  const { root, directory, device, mount, options } = input;
  if (mount.map !== null) {
    const found = await realpath(device);
    await linkDevice(root, mount.path, found);
    await bindDevice(root, mount.map, found, mounter);
    return null;
  }
  if (await isMounted(root, mount.path)) return null;
  if (!(await isMounted(root, directory))) throw failed(`${directory} is not mounted any more`);
  const source = await openFolder(directory);
  try {
    await bindFolder({ root, path: mount.path, options }, source, mounter);
  } finally {
    await source.close();
  }
  return await share(input);
}

const openFolder = (path: string) =>
  boundedCall(`the disk at ${path}`, () => open(path, FOLDER), { dispose: (late) => late.close() });

/** A failure is logged by its count only, as upstream: the volume can be used. */
async function share({ mount: { path }, ownership }: SetUp): Promise<Unshared | null> {
  if (ownership === null) return null;
  const { groupId, onlyTop } = ownership;
  const folder = await openFolder(path);
  try {
    return await shareTree(folder, { groupId, readOnly: false, always: !onlyTop }, path);
  } finally {
    await folder.close();
  }
}

/** Unbinds the paths of containers, and the path of the pod. */
export async function tearDown(
  { root, podDirectory, mount: { path, map } }: InputOf<Operations['disk.tearDown']>,
  mounter: Mounter,
  machine: DiskMachine,
): Promise<null> {
  if (map !== null) {
    await unbindDevice(root, map, mounter);
    await unlinkDevice(root, path);
    return null;
  }
  await unmountAll(root, `${podDirectory}/volume-subpaths`, mounter);
  await unmount(root, path, machine);
  await inParent(root, path, (name) => rmdir(name).catch(ignoring('ENOENT')));
  return null;
}
