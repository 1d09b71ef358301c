/** The kernel's counters of disks, and the open files of processes, read from files like the kernel's. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { processFiles } from '../../../src/actors/stats/cgroup-samples.ts';
import { diskActivity, machineDisks } from '../../../src/actors/stats/machine-devices.ts';
import { temporaryFolder } from '../../support/host-ports.ts';

const DISKSTATS = [
  '   8       0 sda 101 2 3030 404 505 6 7070 808 9 1010 1111 0 0 0 0 12 13',
  ' 253       0 dm-0 1 0 8 4 5 0 16 8 0 10 11',
  '   7       0 loop0 1 0 8',
].join('\n');

function written(root: string, files: Readonly<Record<string, string>>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(root, path, '..'), { recursive: true });
    writeFileSync(join(root, path), content);
  }
}

it('each disk has its counters, also on a kernel with fewer of them; a line that is cut off counts nothing', () => {
  const activity = diskActivity(DISKSTATS);
  expect([...activity.keys()]).toEqual(['sda', 'dm-0']);
  expect(activity.get('sda')).toEqual({
    reads: 101n,
    readsMerged: 2n,
    sectorsRead: 3030n,
    readMs: 404n,
    writes: 505n,
    writesMerged: 6n,
    sectorsWritten: 7070n,
    writeMs: 808n,
    current: 9n,
    busyMs: 1010n,
    weightedMs: 1111n,
  });
});

it('a file system is measured where it is mounted; one that is gone costs its numbers alone', async () => {
  const root = await temporaryFolder();
  const mounts = ['1 1 8:0 / / rw - ext4 /dev/sda rw', `2 1 8:16 / ${root}/gone rw - ext4 /dev/sdb rw`, ''].join('\n');
  written(root, { 'proc/self/mountinfo': mounts, 'proc/diskstats': DISKSTATS });
  const [sda, sdb] = await machineDisks(root, () => 7);
  expect(sda).toMatchObject({ device: '/dev/sda', atMs: 7, activity: { reads: 101n } });
  expect(sda?.usage?.capacity).toBeGreaterThan(0n);
  expect(sdb).toEqual({ device: '/dev/sdb', atMs: 7, usage: null, activity: null });
});

it('files and sockets of all processes of a group count, the limit is that of one of them', async () => {
  const root = await temporaryFolder();
  const limits = 'Limit                     Soft Limit           Hard Limit           Units\n';
  written(root, {
    'proc/12/fd/.keep': '',
    'proc/12/limits': `${limits}Max open files            1024                 4096                 files\n`,
    'proc/13/fd/.keep': '',
  });
  symlinkSync('socket:[99]', join(root, 'proc/12/fd/3'));
  symlinkSync('/dev/null', join(root, 'proc/13/fd/0'));
  const pids = ['0', '12', '13', '14'];
  expect(processFiles(pids, root, '12')).toEqual({ open: 4, sockets: 1, openLimit: 1024 });
  expect(processFiles(pids, root)).toEqual({ open: 4, sockets: 1, openLimit: null });
  expect(processFiles([], root)).toEqual({ open: 0, sockets: 0, openLimit: null });
  const many = Array.from({ length: 1_001 }, () => '12');
  expect(processFiles(many, root), 'too many processes to inspect').toBeNull();
});

it('more than can be inspected has no number of sockets, and one that is unlimited is -1', async () => {
  const root = await temporaryFolder();
  written(root, {
    'proc/12/limits': 'Max open files            unlimited            unlimited            files\n',
    ...Object.fromEntries(Array.from({ length: 2_001 }, (_, fd) => [`proc/12/fd/${fd}`, ''])),
  });
  expect(processFiles(['12'], root, '12')).toEqual({ open: 2_001, sockets: null, openLimit: -1 });
});
