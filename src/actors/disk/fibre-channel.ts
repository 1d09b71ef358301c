/**
 * Finds and forgets disks of Fibre Channel networks.
 *
 * Decides: a multipath device is preferred to its paths; the SCSI hosts are searched again unless one is found.
 * Invariant: names from outside are compared as text, never as patterns.
 *
 * Upstream: pkg/volume/fc/fc_util.go, attacher.go.
 */
import { messageOf } from '../../kernel/thrown.ts';
import { fcIdIn } from '../../machines/model/csi/disks.ts';
import type { FCDisk } from '../../machines/model/operations/disk.ts';
import { pause } from '../pause.ts';
import {
  DEVICE_TIMEOUT_MS,
  type DiskMachine,
  deleteDevice,
  deviceBehind,
  exists,
  failed,
  multipathOf,
  namesIn,
  pathsOf,
  run,
  writeCommand,
} from './machine.ts';

/** A device that was just unmounted may be busy for a moment. */
const DETACH_PAUSE_MS = 10_000;
const DETACH_ATTEMPTS = 13;

type Id = Pick<FCDisk, 'wwns' | 'lun' | 'wwids'>;

interface Found {
  readonly disk: string | null;
  readonly multipath: string | null;
}

/** Returns the path of the device. */
export async function attachFC(disk: FCDisk, machine: DiskMachine): Promise<string> {
  const first = await search(disk, machine);
  if (first.multipath === null) await scanHosts(machine);
  const found = first.multipath === null ? await search(disk, machine, first) : first;
  const device = found.multipath ?? found.disk;
  if (device === null) throw failed('no fc disk found');
  if (!(await exists(device))) throw failed(`device ${device} does not exist`);
  return device;
}

async function search({ wwns, lun, wwids }: Id, machine: DiskMachine, before: Found = { disk: null, multipath: null }) {
  const isByTarget = wwns.length > 0;
  const folder = `${machine.dev}/disk/${isByTarget ? 'by-path' : 'by-id'}`;
  const names = await namesIn(folder);
  let found = before;
  for (const id of isByTarget ? wwns : wwids) {
    const isMeant = isByTarget ? isPathTo(`fc-0x${id}-lun-${lun}`) : (name: string) => name === `scsi-${id}`;
    const disk = await firstDevice(folder, names.filter(isMeant));
    if (disk === null) continue;
    found = { disk, multipath: await multipathOf(machine, disk) };
    if (found.multipath !== null) return found;
  }
  return found;
}

/** `fc-0x…`, or the same behind the name of a PCI device: `pci-0000:41:00.0-fc-0x…`. */
const isPathTo = (end: string) => (name: string) =>
  name === end || (name.startsWith('pci-') && name.endsWith(`-${end}`));

async function firstDevice(folder: string, names: readonly string[]): Promise<string | null> {
  for (const name of names) {
    const device = await deviceBehind(`${folder}/${name}`);
    if (device !== null) return device;
  }
  return null;
}

/** Failures are no matter: the search shows whether there is a disk. */
async function scanHosts(machine: DiskMachine): Promise<void> {
  const folder = `${machine.sys}/class/scsi_host`;
  const hosts = await namesIn(folder);
  await Promise.all(hosts.map((host) => writeCommand(machine, `${folder}/${host}/scan`, '- - -').catch(() => {})));
}

/** Forgets a device that is not mounted any more, again and again for two minutes. */
export async function detachFC(device: string, machine: DiskMachine, signal: AbortSignal): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await forget(device, machine);
    } catch (error) {
      signal.throwIfAborted();
      if (attempt === DETACH_ATTEMPTS) throw failed(`fc: failed to detach disk: ${device}: ${messageOf(error)}`);
      await pause(Math.min(DETACH_PAUSE_MS, machine.pollMs * 10), signal);
    }
  }
}

/** Forgets a block device, which is found by the name of its folder. One that has gone is no error. */
export async function detachFCBlock(directory: string, machine: DiskMachine, signal: AbortSignal): Promise<void> {
  const { disk, multipath } = await search(fcIdIn(directory.slice(directory.lastIndexOf('/') + 1)), machine);
  const device = multipath ?? disk;
  if (device !== null) await detachFC(device, machine, signal);
}

async function forget(device: string, machine: DiskMachine): Promise<void> {
  const path = await deviceBehind(device);
  if (path === null) throw failed(`lstat ${device}: no such file or directory`);
  const isMultipath = path.startsWith(`${machine.dev}/dm-`);
  const paths = isMultipath ? await pathsOf(machine, path) : [path];
  if (isMultipath) {
    const { status, output } = await run(machine, 'multipath', ['-f', path], { timeoutMs: DEVICE_TIMEOUT_MS });
    if (status !== '') throw failed(`failed to flush multipath device ${path}: ${status}\n${output}`);
  }
  for (const each of paths) {
    await run(machine, 'blockdev', ['--flushbufs', each], { timeoutMs: DEVICE_TIMEOUT_MS });
    await deleteDevice(machine, each.slice(each.lastIndexOf('/') + 1)).catch(() => {});
  }
}
