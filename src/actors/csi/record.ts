/**
 * The records of CSI volumes on disk: `vol_data.json` beside each mount, in the kubelet's format.
 *
 * Invariants: links are never followed; a record is written atomically; a record of another agent, or a modified one,
 * is trusted only if it matches its folder.
 */
import { createHash } from 'node:crypto';
import { constants, type Dirent } from 'node:fs';
import { mkdir, open, readdir, rename, rm, rmdir, unlink } from 'node:fs/promises';
import { basename } from 'node:path';
import { OperationError } from '../../kernel/json.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type { CSIInventory, FoundDevice, FoundVolume, VolumeData } from '../../machines/model/operations/csi.ts';
import { ignoring, inParent } from '../host/root-folder.ts';
import { isMounted } from '../volume/mounter.ts';

const RECORD = 'vol_data.json';
const FOLDER_MODE = 0o750;
const FILE_MODE = 0o644;
/** The record has a driver's name, a handle, and the kubelet's other fields. */
const RECORD_MAX_BYTES = 64 * 1024;
const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export async function writeRecord(root: string, directory: string, data: VolumeData): Promise<void> {
  const write = async (path: string) => {
    await rm(`${path}.tmp`, { force: true });
    const file = await open(`${path}.tmp`, 'wx', FILE_MODE);
    try {
      await file.writeFile(`${JSON.stringify(data)}\n`);
      await file.datasync();
    } finally {
      await file.close();
    }
    await rename(`${path}.tmp`, path);
  };
  await inParent(root, `${directory}/${RECORD}`, write, FOLDER_MODE);
}

export const makeTarget = (root: string, path: string): Promise<unknown> =>
  inParent(root, path, (name) => mkdir(name, FOLDER_MODE).catch(ignoring('EEXIST')), FOLDER_MODE);

/** `null` if there is no record, or the record lacks the driver's input. */
export async function readRecord(root: string, directory: string): Promise<VolumeData | null> {
  return await inParent(root, `${directory}/${RECORD}`, async (path) => {
    const file = await open(path, READ_FLAGS).catch(ignoring('ENOENT'));
    if (!file) return null;
    try {
      const { size } = await file.stat();
      if (size > RECORD_MAX_BYTES) throw new OperationError(`${directory}/${RECORD} has ${size} bytes: not reading it`);
      return parsed(await file.readFile('utf8'));
    } finally {
      await file.close();
    }
  });
}

function parsed(text: string): VolumeData | null {
  try {
    const data: VolumeData | null = JSON.parse(text);
    const isComplete = typeof data?.['driverName'] === 'string' && typeof data['volumeHandle'] === 'string';
    return isComplete ? data : null;
  } catch {
    return null;
  }
}

/** Removes the mount's folder, the record and their folder; a folder with a mount is not touched. */
export async function removeRecord(root: string, directory: string, target: string): Promise<void> {
  const path = `${directory}/${target}`;
  if (await isMounted(root, path)) {
    throw new OperationError(`${path} is still mounted, though the driver says that it is not`, {
      code: 'EBUSY',
      retriable: true,
    });
  }
  await inParent(root, path, (name) => rmdir(name).catch(removeIfRegularFile(name)));
  await inParent(root, `${directory}/${RECORD}`, (name) => rm(name, { force: true }));
  await inParent(root, directory, (name) => rmdir(name).catch(ignoring('ENOENT')));
}

const removeIfRegularFile = (name: string) => async (error: unknown) => {
  if (codeOf(error) === 'ENOTDIR') await unlink(name);
  else if (codeOf(error) !== 'ENOENT') throw error;
};

const VOLUMES = 'volumes/kubernetes.io~csi';
const DEVICES = 'plugins/kubernetes.io/csi';
const BLOCK = 'volumeDevices';
const BLOCK_VOLUMES = 'volumeDevices/kubernetes.io~csi';

export async function inventory(root: string): Promise<CSIInventory> {
  const errors: string[] = [];
  const volumes: FoundVolume[] = [];
  const devices: FoundDevice[] = [];
  for (const uid of await namesIn(`${root}/pods`)) {
    for (const spec of await namesIn(`${root}/pods/${uid}/${VOLUMES}`)) {
      const data = await verifiedRecord(root, `${root}/pods/${uid}/${VOLUMES}/${spec}`, spec, errors);
      if (data)
        volumes.push({
          uid,
          spec,
          ...idOf(data),
          isEphemeral: data['volumeLifecycleMode'] === 'Ephemeral',
          isBlock: false,
        });
    }
  }
  for (const driver of await namesIn(`${root}/${DEVICES}`)) {
    if (driver === BLOCK) continue;
    for (const name of await namesIn(`${root}/${DEVICES}/${driver}`)) {
      const directory = `${root}/${DEVICES}/${driver}/${name}`;
      const data = await verifiedRecord(root, directory, '', errors);
      if (data && isOf(data, driver, name)) devices.push({ directory, ...idOf(data), block: null, ...labelIn(data) });
      else if (data) errors.push(`${directory}/${RECORD} is not of this folder: it is left alone`);
    }
  }
  const blocks = await blockDevices(root, errors);
  for (const uid of await namesIn(`${root}/pods`)) {
    for (const spec of await linksIn(`${root}/pods/${uid}/${BLOCK_VOLUMES}`)) {
      const device = blocks.find(({ block }) => block === spec);
      if (device)
        volumes.push({ uid, spec, driver: device.driver, handle: device.handle, isEphemeral: false, isBlock: true });
      else
        errors.push(`${root}/pods/${uid}/${BLOCK_VOLUMES}/${spec} is of a device without a record: it is left alone`);
    }
  }
  return { volumes, devices: [...devices, ...blocks], errors };
}

async function blockDevices(root: string, errors: string[]): Promise<readonly FoundDevice[]> {
  const found: FoundDevice[] = [];
  for (const spec of await namesIn(`${root}/${DEVICES}/${BLOCK}`)) {
    const directory = `${root}/${DEVICES}/${BLOCK}/${spec}/data`;
    const isRecorded = (await readdir(directory).catch(ignoring('ENOENT'))) !== null;
    const data = isRecorded ? await verifiedRecord(root, directory, spec, errors) : null;
    if (data) found.push({ directory, ...idOf(data), block: spec });
  }
  return found;
}

const idOf = (data: VolumeData) => ({ driver: data['driverName'] ?? '', handle: data['volumeHandle'] ?? '' });

const labelIn = ({ seLinuxMountContext: label = '' }: VolumeData) => (label === '' ? {} : { label });

const isOf = (data: VolumeData, driver: string, name: string): boolean =>
  data['driverName'] === driver &&
  createHash('sha256')
    .update(data['volumeHandle'] ?? '')
    .digest('hex') === name;

/** Folders only, sorted by name. */
const namesIn = (folder: string) => entriesIn(folder, (entry) => entry.isDirectory());
const linksIn = (folder: string) => entriesIn(folder, (entry) => entry.isSymbolicLink());

async function entriesIn(folder: string, isMeant: (entry: Dirent) => boolean): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(ignoring('ENOENT'));
  return (entries ?? [])
    .filter(isMeant)
    .map(({ name }) => name)
    .toSorted();
}

async function verifiedRecord(
  root: string,
  directory: string,
  spec: string,
  errors: string[],
): Promise<VolumeData | null> {
  try {
    const data = await readRecord(root, directory);
    if (data !== null && (spec === '' || data['specVolID'] === spec)) return data;
    errors.push(`${directory}/${RECORD} is missing or says nothing of "${basename(directory)}": it is left alone`);
  } catch (error) {
    errors.push(`${directory}/${RECORD} cannot be read: ${messageOf(error)}`);
  }
  return null;
}
