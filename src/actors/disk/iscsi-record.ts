/**
 * The record of an iSCSI disk: `iscsi.json` in its folder for the node, in the kubelet's format, which is below the
 * mount of its file system while that is mounted.
 */
import { constants } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { iscsiIdIn } from '../../machines/model/csi/disks.ts';
import type { ISCSIDisk } from '../../machines/model/operations/disk.ts';
import { ignoring, inParent } from '../host/root-folder.ts';
import { failed } from './machine.ts';

const RECORD = 'iscsi.json';
const FILE_MODE = 0o644;
/** A record has some names of at most a few kilobytes. */
const RECORD_MAX_BYTES = 64 * 1024;
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const WRITE = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;

export async function writeDisk(root: string, directory: string, disk: ISCSIDisk): Promise<void> {
  const record = {
    VolName: disk.volume,
    Portals: disk.portals,
    Iqn: disk.iqn,
    Lun: String(disk.lun),
    InitIface: disk.initialInterface,
    Iface: disk.interface,
    InitiatorName: disk.initiatorName,
    MetricsProvider: null,
  };
  await inParent(root, `${directory}/${RECORD}`, async (path) => {
    const file = await open(path, WRITE, FILE_MODE);
    try {
      await file.writeFile(`${JSON.stringify(record)}\n`);
      await file.datasync();
    } finally {
      await file.close();
    }
  });
}

/** What is needed to log out. */
export interface Recorded {
  readonly volume: string;
  readonly portals: readonly string[];
  readonly iqn: string;
  readonly lun: number | null;
  /** `null`: unknown; the session of any interface ends. */
  readonly iface: string | null;
  readonly initiatorName: string;
}

/** Without a record, the name of the folder tells what is needed, as upstream. */
export async function recordedDisk(root: string, directory: string): Promise<Recorded> {
  const text = await inParent(root, `${directory}/${RECORD}`, readRecord);
  return parsed(text ?? '') ?? fromPath(directory);
}

async function readRecord(path: string): Promise<string | null> {
  const file = await open(path, READ).catch(ignoring('ENOENT', 'ELOOP'));
  if (!file) return null;
  try {
    return (await file.stat()).size > RECORD_MAX_BYTES ? null : await file.readFile('utf8');
  } finally {
    await file.close();
  }
}

function parsed(text: string): Recorded | null {
  try {
    const { VolName, Portals, Iqn, Lun, Iface, InitiatorName } = JSON.parse(text) as Record<string, unknown>;
    const portals = Array.isArray(Portals) ? Portals.filter((each) => typeof each === 'string' && each !== '') : [];
    if (portals.length === 0 || typeof Iqn !== 'string' || typeof Iface !== 'string') return null;
    const lun = typeof Lun === 'string' && /^\d{1,5}$/.test(Lun) ? Number(Lun) : null;
    return {
      volume: textOf(VolName),
      portals: [...new Set(portals)],
      iqn: Iqn,
      lun,
      iface: Iface,
      initiatorName: textOf(InitiatorName),
    };
  } catch {
    return null;
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

function fromPath(directory: string): Recorded {
  const [iface = '', name = ''] = directory.split('/').slice(-2);
  const id = iscsiIdIn(name);
  if (id === null) throw failed(`iscsi detach disk: no iqn in ${name}`);
  const { portal, iqn, lun } = id;
  const given = iface.startsWith('iface-') ? iface.slice('iface-'.length) : null;
  return { volume: '', portals: [portal], iqn, lun: Number(lun), iface: given, initiatorName: '' };
}

const PLUGIN = 'plugins/kubernetes.io/iscsi';
const BLOCK = 'volumeDevices';

/** The number of disks of a target's portal that have a folder on this node. */
export async function disksOfTarget(root: string, portal: string, iqn: string): Promise<number> {
  const count = async (plugin: string): Promise<number> => {
    const folders = await foldersIn(plugin);
    const names = await Promise.all(
      folders.filter((each) => each !== BLOCK).map((folder) => foldersIn(`${plugin}/${folder}`)),
    );
    return names.flat().filter((name) => name.startsWith(`${portal}-${iqn}`)).length;
  };
  return (await count(`${root}/${PLUGIN}`)) + (await count(`${root}/${PLUGIN}/${BLOCK}`));
}

export async function foldersIn(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(ignoring('ENOENT', 'ENOTDIR'));
  return (entries ?? []).filter((entry) => entry.isDirectory()).map(({ name }) => name);
}
