/**
 * The disks of storage networks that an earlier agent, or another kubelet, left attached: from the folders below
 * `<root>/plugins` and below those of pods, and the kernel's table of mounts.
 */
import { readdir, readlink, stat } from 'node:fs/promises';
import { DISK_PLUGINS, handleIn } from '../../machines/model/csi/disks.ts';
import type { CSIInventory, FoundDevice, FoundVolume } from '../../machines/model/operations/csi.ts';
import { ignoring } from '../host/root-folder.ts';
import { isMounted, realPath } from '../volume/mounter.ts';
import { foldersIn } from './iscsi-record.ts';
import { mountedDisk } from './mounts.ts';

const BLOCK = 'volumeDevices';

export async function diskInventory(root: string): Promise<CSIInventory> {
  const [volumes, devices, errors]: [FoundVolume[], FoundDevice[], string[]] = [[], [], []];
  for (const driver of Object.values(DISK_PLUGINS)) {
    const plain = await foldersOf(root, driver, false);
    const blocks = await foldersOf(root, driver, true);
    devices.push(...plain.map((folder) => deviceIn(root, driver, folder, null)));
    devices.push(...blocks.map((folder) => deviceIn(root, driver, folder, handleIn(folder))));
    for (const uid of await foldersIn(`${root}/pods`)) {
      for (const found of [
        ...(await mountedVolumes(root, { uid, driver })),
        ...(await mappedVolumes(root, { uid, driver }, blocks)),
      ]) {
        if (typeof found === 'string') errors.push(found);
        else volumes.push(found);
      }
    }
  }
  return { volumes, devices, errors };
}

const deviceIn = (root: string, driver: string, folder: string, block: string | null): FoundDevice => ({
  directory: `${root}/plugins/${folder}`,
  driver,
  handle: handleIn(folder),
  block,
  folder,
});

/** Folders of disks below `<root>/plugins`; those of iSCSI are below a folder for each interface. */
async function foldersOf(root: string, driver: string, isBlock: boolean): Promise<readonly string[]> {
  const plugin = isBlock ? `${driver}/${BLOCK}` : driver;
  const names = (await foldersIn(`${root}/plugins/${plugin}`)).filter((name) => name !== BLOCK).toSorted();
  if (driver !== DISK_PLUGINS.iscsi) return names.map((name) => `${plugin}/${name}`);
  const nested = await Promise.all(
    names.map(async (name) => (await foldersIn(`${root}/plugins/${plugin}/${name}`)).map((each) => `${name}/${each}`)),
  );
  return nested.flat().map((name) => `${plugin}/${name}`);
}

interface Owner {
  readonly uid: string;
  readonly driver: string;
}

async function mountedVolumes(root: string, { uid, driver }: Owner): Promise<(FoundVolume | string)[]> {
  const folder = `${root}/pods/${uid}/volumes/${driver.replace('/', '~')}`;
  const plugins = await realPath(root, `${root}/plugins`);
  const found: (FoundVolume | string)[] = [];
  for (const spec of (await foldersIn(folder)).toSorted()) {
    const path = `${folder}/${spec}`;
    if (!(await isMounted(root, path))) continue;
    const { others } = await mountedDisk(root, path);
    const point = others.find((each) => each.startsWith(`${plugins}/${driver}/`));
    if (point === undefined) found.push(`${path}: couldn't fetch globalPDPath. failed to obtain volume spec`);
    else found.push(volumeIn({ uid, driver }, spec, point.slice(plugins.length + 1), false));
  }
  return found;
}

const volumeIn = ({ uid, driver }: Owner, spec: string, folder: string, isBlock: boolean): FoundVolume => ({
  uid,
  spec,
  driver,
  handle: handleIn(folder),
  isEphemeral: false,
  isBlock,
  folder,
});

/** A link of the pod leads to the same device as the pod's file in the folder of a disk. */
async function mappedVolumes(root: string, owner: Owner, blocks: readonly string[]): Promise<(FoundVolume | string)[]> {
  const { uid, driver } = owner;
  const folder = `${root}/pods/${uid}/${BLOCK}/${driver.replace('/', '~')}`;
  const links = (await readdir(folder, { withFileTypes: true }).catch(ignoring('ENOENT'))) ?? [];
  if (links.length === 0) return [];
  const maps = await Promise.all(blocks.map(async (each) => [each, await numberOf(`${root}/plugins/${each}/${uid}`)]));
  return await Promise.all(
    links.flatMap(async ({ name }) => {
      const path = `${folder}/${name}`;
      const target = await readlink(path).catch(ignoring('EINVAL', 'ENOENT'));
      const number = target === null ? null : await numberOf(target);
      const map = number === null ? undefined : maps.find(([, each]) => each === number)?.[0];
      return map === undefined || map === null
        ? `${path} is of a device without a folder: it is left alone`
        : volumeIn(owner, name, String(map), true);
    }),
  );
}

/** The number of a block device; `null` if there is none at this path. */
async function numberOf(path: string): Promise<number | null> {
  const found = await stat(path).catch(() => null);
  return found?.isBlockDevice() ? found.rdev : null;
}
