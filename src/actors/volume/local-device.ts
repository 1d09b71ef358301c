/**
 * Disks of this machine that pods claim as folders (`local` PersistentVolumes whose path is a block device): formatted
 * if blank, and mounted once for all pods that use them.
 *
 * Decides: a disk with any signature is never formatted. Invariants: existing data stay; the mount is removed with the
 * last pod that uses it; a slow volume delays no other.
 *
 * Upstream: pkg/volume/local/local.go, k8s.io/mount-utils (`FormatAndMount`).
 */
import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { type FileHandle, open, rmdir } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type { VolumeSetUp } from '../../machines/model/operations/volume.ts';
import { errnoOf, makeFolder, openParent } from '../host/root-folder.ts';
import { pairsOf } from '../stats/kernel-text.ts';
import { isMounted, type Mounter } from './mounter.ts';
import { fdPath } from './tree.ts';

export type LocalVolume = Extract<VolumeSetUp, { kind: 'local' }>;

const MOUNTS = 'plugins/kubernetes.io/local-volume/mounts';
const PARENT_MODE = 0o750;
const INSIDE = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** The timeout of mkfs and fsck, which take minutes on a large disk. */
const TOOL_TIMEOUT_MS = 30 * 60_000;
/** Exit codes: blkid found nothing; fsck repaired the file system, or could not. */
const BLKID_NOTHING = 2;
const FSCK_UNCORRECTED = 4;

/** A failure before the pod's own folder is reached; upstream has a step of its own for it. */
export class DeviceFailure extends OperationError {}

/** The folder of the mounted device. */
export async function mountLocalDevice(root: string, volume: LocalVolume, mounter: Mounter): Promise<FileHandle> {
  try {
    return await mounted(root, volume, mounter);
  } catch (error) {
    await removeIfEmpty(root, volume.spec);
    const message = messageOf(error);
    throw new DeviceFailure(message, { code: errnoOf(error), retriable: true });
  }
}

async function mounted(root: string, { source, spec, filesystem }: LocalVolume, mounter: Mounter): Promise<FileHandle> {
  const path = pathOf(root, spec);
  const place = openParent(root, path, PARENT_MODE);
  if (!place) throw new OperationError(`${path} cannot be made`);
  try {
    makeFolder(place.path, PARENT_MODE);
    if (!(await isMounted(root, path))) {
      await prepare(source, filesystem);
      const folder = await open(place.path, INSIDE);
      try {
        const options = [...(filesystem.readOnly ? ['ro'] : []), ...filesystem.options, 'defaults'];
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
export async function unmountLocalDevice(root: string, spec: string, mounter: Mounter): Promise<void> {
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

/** Creates a file system on a blank device, or checks the existing file system. */
async function prepare(device: string, { type, readOnly }: LocalVolume['filesystem']): Promise<void> {
  const found = await formatOf(device);
  if (found !== '') {
    if (!readOnly) await check(device);
    return;
  }
  if (readOnly) {
    throw new OperationError(`cannot mount unformatted disk ${device} as we are manipulating it in read-only mode`);
  }
  const forced = type === 'ext3' || type === 'ext4' ? ['-F', '-m0'] : type === 'xfs' ? ['-f'] : [];
  const { code, output } = await tool(`mkfs.${type}`, [...forced, device]);
  if (code !== 0) {
    throw new OperationError(
      `format of disk ${JSON.stringify(device)} failed: type:(${JSON.stringify(type)}) errcode:(exit status ${code}) ` +
        `output:(${output.trim()}) `,
    );
  }
}

/** The type of the file system on a device; `''` for a blank device. A table of partitions counts as content. */
async function formatOf(device: string): Promise<string> {
  const { code, output } = await tool('blkid', ['-p', '-s', 'TYPE', '-s', 'PTTYPE', '-o', 'export', device]);
  if (code === BLKID_NOTHING) return '';
  if (code !== 0) throw new OperationError(`failed to get disk format of disk ${device}: ${output.trim()}`);
  const found = pairsOf(output.split('\n'));
  return found.get('TYPE') ?? (found.has('PTTYPE') ? 'unknown data, probably partitions' : '');
}

async function check(device: string): Promise<void> {
  const { code, output } = await tool('fsck', ['-a', device]);
  if (code !== FSCK_UNCORRECTED) return;
  throw new OperationError(`'fsck' found errors on device ${device} but could not correct them: ${output.trim()}`);
}

function tool(program: string, argv: readonly string[]): Promise<{ code: number; output: string }> {
  return new Promise((resolve, reject) => {
    const options = { timeout: TOOL_TIMEOUT_MS, killSignal: 'SIGKILL' } as const;
    execFile(program, [...argv], options, (error, stdout, stderr) => {
      const output = stdout + stderr;
      if (!error) resolve({ code: 0, output });
      else if (error.killed)
        reject(new OperationError(`${program} did not end: ${output.trim()}`, { code: 'ETIMEDOUT' }));
      else if (typeof error.code === 'number') resolve({ code: error.code, output });
      else reject(new OperationError(`there is no program ${program} on this node`, { code: String(error.code) }));
    });
  });
}
