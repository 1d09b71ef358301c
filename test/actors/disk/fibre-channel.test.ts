/** Disks of Fibre Channel networks: links to loop devices stand for them. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { diskInventory } from '../../../src/actors/disk/inventory.ts';
import type { FCDisk } from '../../../src/machines/model/operations/disk.ts';
import { DiskRoom, needsDisks } from './support.ts';

const WWN = '50060e801049cfd1';
const BY_TARGET: FCDisk = { kind: 'fc', wwns: [WWN], lun: '2', wwids: [] };
const FOLDER = `kubernetes.io/fc/${WWN}-lun-2`;

let room: DiskRoom;
let device: string;
beforeEach(() => {
  room = new DiskRoom();
  device = room.disk();
  writeFileSync(join(room.folder('machine/sys/class/scsi_host/host0'), 'scan'), '');
});
afterEach(() => room.close());

const scanned = () => readFileSync(join(room.machine.sys, 'class/scsi_host/host0/scan'), 'utf8');
const directory = (folder = FOLDER) => room.file('plugins', folder);
const attach = (source: FCDisk = BY_TARGET, isBlock = false) =>
  room.ask('disk.attach', { directory: directory(), source, isBlock, secrets: {} });
const detach = (isBlock = false, folder = FOLDER) =>
  room.ask('disk.detach', { directory: directory(folder), kind: 'fc', isBlock });
/** The kernel's file by which a device is forgotten. */
function deletable(name: string): string {
  const path = join(room.folder('machine/sys/block', name, 'device'), 'delete');
  writeFileSync(path, '');
  return path;
}

describe.skipIf(needsDisks)('a disk of a Fibre Channel network', () => {
  it('is found by its target and unit, after the hosts were searched', async () => {
    room.link(`disk/by-path/pci-0000:41:00.0-fc-0x${WWN}-lun-2`, device);
    room.link(`disk/by-path/pci-0000:41:00.0-fc-0x${WWN}-lun-20`, '/dev/null');
    expect(await attach()).toEqual({ device });
    expect(scanned()).toBe('- - -');
  });

  it('is found by its own identifier', async () => {
    room.link('disk/by-id/scsi-VENDOR_0001', device);
    expect(await attach({ kind: 'fc', wwns: [], lun: '', wwids: ['other', 'VENDOR_0001'] })).toEqual({ device });
  });

  it('with several paths is its multipath device, and no host is searched', async () => {
    room.link(`disk/by-path/fc-0x${WWN}-lun-2`, device);
    room.folder('machine/sys/block/dm-3/slaves', device.slice('/dev/'.length));
    room.link('dm-3', device);
    expect(await attach()).toEqual({ device: join(room.machine.dev, 'dm-3') });
    expect(scanned()).toBe('');
  });

  it('that is not there is said, also if its name is a pattern', async () => {
    room.link(`disk/by-path/fc-0x${WWN}-lun-2`, device);
    await expect(attach({ ...BY_TARGET, wwns: ['.*'] })).rejects.toThrow(/^no fc disk found$/);
  });

  it('is flushed and forgotten when no pod has it any more', async () => {
    room.link(`disk/by-path/fc-0x${WWN}-lun-2`, device);
    const forgotten = deletable(device.slice('/dev/'.length));
    await room.ask('disk.mountDevice', { directory: directory(), device, fsType: 'ext4', options: [] });
    room.calls();
    await detach();
    expect(room.calls().filter((call) => !call.startsWith('tee'))).toEqual([
      `umount --no-canonicalize /plugins/${FOLDER}`,
      'blockdev --flushbufs LOOP',
    ]);
    expect(readFileSync(forgotten, 'utf8')).toBe('1');
    expect(room.mounts()).toEqual([]);
    expect((await diskInventory(room.root)).devices).toEqual([]);
  });

  it('that is busy is forgotten later', async () => {
    const left = room.file('left');
    writeFileSync(left, '11');
    room.become('multipath', `n=$(cat ${left}); echo $((n - 1)) > ${left}; [ $n = 1 ]`);
    const dm = join(room.machine.dev, 'dm-3');
    writeFileSync(dm, '');
    room.folder('machine/sys/block/dm-3/slaves', device.slice('/dev/'.length));
    room.link(`disk/by-path/fc-0x${WWN}-lun-2`, device);
    const block = `kubernetes.io/fc/volumeDevices/${WWN}-lun-2`;
    mkdirSync(directory(block), { recursive: true });
    await detach(true, block);
    expect(room.calls().filter((call) => call.startsWith('multipath'))).toHaveLength(11);
    writeFileSync(left, '99');
    mkdirSync(directory(block), { recursive: true });
    await expect(detach(true, block)).rejects.toThrow(
      `fc: failed to detach disk: ${dm}: failed to flush multipath device ${dm}: exit status 1\n`,
    );
  });

  it('as a block device is bound for the pod, and found by the next agent', async () => {
    const folder = `kubernetes.io/fc/volumeDevices/${WWN}-lun-2`;
    const map = join(directory(folder), 'u1');
    const path = join(room.pod, 'volumeDevices/kubernetes.io~fc/raw');
    mkdirSync(dirname(map), { recursive: true });
    const mount = { path, map };
    await room.ask('disk.setUp', { directory: directory(folder), device, mount, options: [], ownership: null });
    const handle = `${WWN}-lun-2`;
    const id = { driver: 'kubernetes.io/fc', handle, folder };
    expect(await diskInventory(room.root)).toEqual({
      volumes: [{ uid: 'u1', spec: 'raw', ...id, isEphemeral: false, isBlock: true }],
      devices: [{ directory: directory(folder), ...id, block: handle }],
      errors: [],
    });
    await room.ask('disk.tearDown', { podDirectory: room.pod, mount });
    await detach(true, folder);
    expect(await diskInventory(room.root)).toEqual({ volumes: [], devices: [], errors: [] });
    expect(room.mounts()).toEqual([]);
  });
});
