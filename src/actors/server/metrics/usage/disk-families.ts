/** The machine's own disks in `/metrics/cadvisor`: samples of the root group, by the name of the family. */
import type { DiskActivity, DiskSample } from '../../../stats/machine-disks.ts';
import type { FamilyType, Sample } from '../instruments.ts';

const MS_PER_SECOND = 1_000;

interface Definition {
  readonly help: string;
  readonly type: FamilyType;
  readonly read: (disk: DiskSample) => bigint | number | undefined;
}

const usage = (help: string, field: 'inodesFree' | 'inodes' | 'capacity' | 'used'): Definition => ({
  help,
  type: 'gauge',
  read: (disk) => disk.usage?.[field],
});
const activity = (help: string, field: keyof DiskActivity, type: FamilyType = 'counter'): Definition => ({
  help,
  type,
  read: (disk) => disk.activity?.[field],
});
const seconds = (help: string, field: 'readMs' | 'writeMs' | 'busyMs' | 'weightedMs'): Definition => ({
  help,
  type: 'counter',
  read: (disk) => (disk.activity === null ? undefined : Number(disk.activity[field]) / MS_PER_SECOND),
});

/** The kernel's counting unit, whatever the block size of a disk is. */
const SECTOR_BYTES = 512n;
const sectors = (help: string, field: 'sectorsRead' | 'sectorsWritten'): Definition => ({
  help,
  type: 'counter',
  read: (disk) => (disk.activity === null ? undefined : disk.activity[field] * SECTOR_BYTES),
});

export const DISK_FAMILIES: Readonly<Record<string, Definition>> = {
  container_fs_inodes_free: usage('Number of available Inodes', 'inodesFree'),
  container_fs_inodes_total: usage('Number of Inodes', 'inodes'),
  container_fs_limit_bytes: usage(
    'Number of bytes that can be consumed by the container on this filesystem.',
    'capacity',
  ),
  container_fs_usage_bytes: usage('Number of bytes that are consumed by the container on this filesystem.', 'used'),
  container_fs_io_current: activity('Number of I/Os currently in progress', 'current', 'gauge'),
  container_fs_io_time_seconds_total: seconds('Cumulative count of seconds spent doing I/Os', 'busyMs'),
  container_fs_io_time_weighted_seconds_total: seconds('Cumulative weighted I/O time in seconds', 'weightedMs'),
  container_fs_read_seconds_total: seconds('Cumulative count of seconds spent reading', 'readMs'),
  container_fs_write_seconds_total: seconds('Cumulative count of seconds spent writing', 'writeMs'),
  container_fs_reads_merged_total: activity('Cumulative count of reads merged', 'readsMerged'),
  container_fs_writes_merged_total: activity('Cumulative count of writes merged', 'writesMerged'),
  container_fs_reads_total: activity('Cumulative count of reads completed', 'reads'),
  container_fs_writes_total: activity('Cumulative count of writes completed', 'writes'),
  container_fs_reads_bytes_total: sectors('Cumulative count of bytes read', 'sectorsRead'),
  container_fs_writes_bytes_total: sectors('Cumulative count of bytes written', 'sectorsWritten'),
  container_fs_sector_reads_total: activity('Cumulative count of sector reads completed', 'sectorsRead'),
  container_fs_sector_writes_total: activity('Cumulative count of sector writes completed', 'sectorsWritten'),
};

export const diskSamples = (disks: readonly DiskSample[], { read }: Definition): Sample[] =>
  disks.flatMap((disk) => {
    const value = read(disk);
    if (value === undefined) return [];
    const labels = { container: '', device: disk.device, id: '/', image: '', name: '', namespace: '', pod: '' };
    return [{ labels, value: Number(value), timestampMs: disk.atMs }];
  });
