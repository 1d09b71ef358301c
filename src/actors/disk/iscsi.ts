/**
 * Attaches and detaches disks of iSCSI targets.
 *
 * Decides: a session that exists is used; a disk with several portals waits for two paths, and for its multipath
 * device; the session ends with the last disk of its target.
 * Invariants: the record is on disk before the login; one target is logged in to, or out of, by one disk at a time; a
 * target that does not answer delays no other.
 *
 * Upstream: pkg/volume/iscsi/iscsi_util.go.
 */
import { lstat, rm, rmdir } from 'node:fs/promises';
import { messageOf } from '../../kernel/thrown.ts';
import type { ISCSIDisk } from '../../machines/model/operations/disk.ts';
import { ignoring, inParent, makeFolder } from '../host/root-folder.ts';
import { pause } from '../pause.ts';
import { serializer } from '../serializer.ts';
import { isMounted } from '../volume/mounter.ts';
import { cloneInterface, deleteInterface, iscsiadm, type Login, logIn, transportOf } from './iscsi-login.ts';
import { disksOfTarget, type Recorded, recordedDisk, writeDisk } from './iscsi-record.ts';
import { devicesOf, hostsByPortal } from './iscsi-sessions.ts';
import {
  DEVICE_TIMEOUT_MS,
  type DiskMachine,
  deleteDevice,
  failed,
  multipathOf,
  namesIn,
  run,
  writeCommand,
} from './machine.ts';

/** As many paths as a multipath volume should have. */
const PATHS_MIN = 2;
/** Attempts to get all paths, and attempts to get at least two. */
const ATTEMPTS_MIN = 2;
const ATTEMPTS_MAX = 5;
/** Looks for a device, and for the multipath device of several paths; a second between two. */
const DEVICE_LOOKS = 30;
const MULTIPATH_LOOKS = 10;
const FOLDER_MODE = 0o750;
/** iscsiadm found no session, or no record, to end. */
const NOTHING_TO_END: ReadonlySet<string> = new Set(['', 'exit status 2', 'exit status 21']);

/** By target: a login and a logout would cross. */
const inTurn = serializer();

interface Place {
  readonly root: string;
  readonly directory: string;
}

/** Returns the path of the device. */
export async function attachISCSI({ root, directory }: Place, login: Login): Promise<string> {
  const { disk } = login;
  const transport = await transportOf(login);
  if (disk.initiatorName !== '') await cloneInterface(login);
  return await inTurn(disk.iqn, async () => {
    await inParent(root, directory, async (path) => makeFolder(path, FOLDER_MODE), FOLDER_MODE);
    if (!(await isMounted(root, directory))) await writeDisk(root, directory, disk);
    const paths = await attachPaths(login, transport);
    const looks = disk.portals.length > 1 ? MULTIPATH_LOOKS : 1;
    return (await lookForMultipath(login, paths, looks)) ?? paths[0]!;
  });
}

/** The paths of the device's links, by the portals that lead to it. */
async function attachPaths(login: Login, transport: string): Promise<readonly string[]> {
  const { disk, machine, signal } = login;
  const found = new Map<string, string>();
  let last = '<nil>';
  let hosts = await hostsByPortal(machine, disk.iqn);
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    for (const portal of disk.portals.filter((each) => !found.has(each))) {
      signal.throwIfAborted();
      try {
        if (!hosts.has(portal)) {
          await logIn(login, portal);
          hosts = await hostsByPortal(machine, disk.iqn);
        }
      } catch (error) {
        last = messageOf(error);
        continue;
      }
      const host = hosts.get(portal);
      if (host === undefined) continue;
      await writeCommand(machine, `${machine.sys}/class/scsi_host/host${host}/scan`, `0 0 ${disk.lun}`);
      if (transport === '') throw failed(`could not parse iface file for ${disk.interface}`);
      const { name, isPattern } = linkOf(disk, portal, transport);
      const path = await lookForLink(login, name, isPattern);
      if (path !== null) found.set(portal, path);
      else last = `Timed out waiting for device at path /dev/disk/by-path/${name} after ${DEVICE_LOOKS}s`;
    }
    if (found.size === 0) {
      await deleteInterface(login);
      throw failed(`failed to get any path for iscsi disk, last err seen:\n${last}`);
    }
    if (found.size === disk.portals.length || (found.size >= PATHS_MIN && attempt >= ATTEMPTS_MIN)) break;
  }
  return [...found.values()];
}

/** Other transports than TCP have a part of the PCI bus in their names. */
function linkOf({ iqn, lun }: ISCSIDisk, portal: string, transport: string) {
  const address = portal.startsWith('[') ? portal.replace(/[[\]]/g, '') : portal;
  const name = `ip-${address}-iscsi-${iqn}-lun-${lun}`;
  return transport === 'tcp' ? { name, isPattern: false } : { name: `pci-*-${name}`, isPattern: true };
}

async function lookForLink({ machine, signal }: Login, name: string, isPattern: boolean): Promise<string | null> {
  const folder = `${machine.dev}/disk/by-path`;
  const [start = '', end = ''] = name.split('*');
  const isMeant = (each: string) => each.length >= name.length - 1 && each.startsWith(start) && each.endsWith(end);
  const look = async () =>
    isPattern
      ? ((await namesIn(folder)).find(isMeant) ?? null)
      : (await lstat(`${folder}/${name}`).catch(ignoring('ENOENT'))) && name;
  for (let looks = 1; looks <= DEVICE_LOOKS; looks++) {
    const found = await look();
    if (found !== null) return `${folder}/${found}`;
    if (looks < DEVICE_LOOKS) await pause(machine.pollMs, signal);
    signal.throwIfAborted();
  }
  return null;
}

async function lookForMultipath({ machine, signal }: Login, paths: readonly string[], looks: number) {
  for (let look = 1; look <= looks; look++) {
    for (const path of paths) {
      const device = await multipathOf(machine, path);
      if (device !== null) return device;
    }
    if (look < looks) await pause(machine.pollMs, signal);
    signal.throwIfAborted();
  }
  return null;
}

/** The disk is not mounted any more. A block device stays in the kernel as long as its session, as upstream. */
export async function detachISCSI(
  { root, directory }: Place,
  isBlock: boolean,
  machine: DiskMachine,
  signal: AbortSignal,
): Promise<void> {
  const recorded = await recordedDisk(root, directory);
  const { portals, iqn, lun } = recorded;
  if (!isBlock && lun !== null) await forgetDevices(machine, iqn, lun);
  await inTurn(iqn, async () => {
    if ((await disksOfTarget(root, portals[0]!, iqn)) <= 1) await logOut({ machine, signal }, recorded);
    await inParent(root, `${directory}/iscsi.json`, (path) => rm(path, { force: true }));
    await inParent(root, directory, (path) => rmdir(path).catch(ignoring('ENOENT')));
  });
}

/** A failure is repaired by the logout, or costs an idle device. */
async function forgetDevices(machine: DiskMachine, iqn: string, lun: number): Promise<void> {
  const names = await devicesOf(machine, iqn, lun);
  const multipaths = await Promise.all(names.map((name) => multipathOf(machine, `${machine.dev}/${name}`)));
  for (const device of new Set(multipaths.filter((each) => each !== null))) {
    await run(machine, 'multipath', ['-f', device], { timeoutMs: DEVICE_TIMEOUT_MS });
  }
  for (const name of names) await deleteDevice(machine, name).catch(() => {});
}

async function logOut(login: Pick<Login, 'machine' | 'signal'>, recorded: Recorded): Promise<void> {
  const { portals, iqn, iface, initiatorName, volume } = recorded;
  const end = async (...argv: string[]) => {
    const { status } = await iscsiadm(login, ...argv);
    if (!NOTHING_TO_END.has(status)) throw failed(`failed to finish detachISCSIDisk, err: ${status}`);
  };
  const own = iface === null ? [] : ['-I', iface];
  for (const portal of portals) {
    await end('-m', 'node', '-p', portal, '-T', iqn, '--logout', ...own);
    await end('-m', 'node', '-p', portal, '-T', iqn, '-o', 'delete', ...own);
  }
  const isCloned = initiatorName !== '' && iface === `${portals[0]}:${volume}`;
  if (isCloned) await end('-m', 'iface', '-I', iface, '-o', 'delete');
}
