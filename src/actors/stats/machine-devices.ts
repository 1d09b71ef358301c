/**
 * Usage of this machine's file systems, and the activity of its disks and network interfaces.
 *
 * Formats: proc_pid_mountinfo(5), and Documentation/admin-guide/iostats of the kernel. A hanging file system only loses
 * its own numbers.
 */
import { realpathSync } from 'node:fs';
import { basename } from 'node:path';
import { boundedCall } from '../host/bounded-calls.ts';
import { type FileSystemUsage, fileSystemUsage } from './disk-usage.ts';
import { readText } from './kernel-text.ts';
import { mountedDisks } from './topology.ts';

/** The activity of a disk since the machine started. */
export interface DiskActivity {
  readonly reads: bigint;
  readonly readsMerged: bigint;
  readonly sectorsRead: bigint;
  readonly readMs: bigint;
  readonly writes: bigint;
  readonly writesMerged: bigint;
  readonly sectorsWritten: bigint;
  readonly writeMs: bigint;
  readonly current: bigint;
  /** The time with at least one request in progress. */
  readonly busyMs: bigint;
  /** The same time, weighted by the number of requests in progress. */
  readonly weightedMs: bigint;
}

export interface DiskSample {
  /** `/dev/sda1` */
  readonly device: string;
  readonly atMs: number;
  /** `null` if the file system does not answer. */
  readonly usage: FileSystemUsage | null;
  /** `null` if the kernel does not count the activity. */
  readonly activity: DiskActivity | null;
}

/** The activity of each disk that has a mount. `root` is the prefix of /proc. */
export async function machineDisks(root: string, now: () => number): Promise<DiskSample[]> {
  const activity = diskActivity(readText(`${root}/proc/diskstats`) ?? '');
  return await Promise.all(
    mountedDisks(root).map(async ({ device, mountPoint }) => ({
      device,
      usage: await boundedCall(mountPoint, () => fileSystemUsage(mountPoint)).catch(() => null),
      activity: activity.get(kernelName(device)) ?? null,
      atMs: now(),
    })),
  );
}

/** The kernel's name of a device: `dm-0` for `/dev/mapper/x`. */
function kernelName(device: string): string {
  try {
    return basename(realpathSync(device));
  } catch {
    return basename(device);
  }
}

const FIELDS = 11;

/** By name of the disk. */
export function diskActivity(diskstats: string): ReadonlyMap<string, DiskActivity> {
  const lines = diskstats.split('\n').flatMap((line): [string, DiskActivity][] => {
    const [, , name = '', ...columns] = line.trim().split(/\s+/);
    const numbers = columns.slice(0, FIELDS);
    if (numbers.length < FIELDS || !numbers.every((each) => /^\d+$/.test(each))) return [];
    const column = (at: number): bigint => BigInt(numbers[at] ?? 0);
    const read = { reads: column(0), readsMerged: column(1), sectorsRead: column(2), readMs: column(3) };
    const written = { writes: column(4), writesMerged: column(5), sectorsWritten: column(6), writeMs: column(7) };
    return [[name, { ...read, ...written, current: column(8), busyMs: column(9), weightedMs: column(10) }]];
  });
  return new Map(lines);
}

/**
 * Bytes and packets by network interface, from the view of a process.
 *
 * Format: proc_pid_net_dev(5). Interfaces whose traffic others count (`lo`, veth ends of containers) are left out, as
 * in cAdvisor.
 */
export interface InterfaceUsage {
  readonly name: string;
  readonly rxBytes: bigint;
  readonly rxPackets: bigint;
  readonly rxErrors: bigint;
  readonly rxDropped: bigint;
  readonly txBytes: bigint;
  readonly txPackets: bigint;
  readonly txErrors: bigint;
  readonly txDropped: bigint;
}

const IGNORED = /^(lo|veth|docker|nerdctl)/i;
/** Columns after the name: eight for received traffic, then eight for sent traffic. */
const COLUMNS = 16;

export function parseInterfaces(text: string): InterfaceUsage[] {
  return text.split('\n').flatMap((line) => {
    const [name = '', rest = ''] = line.split(':', 2).map((part) => part.trim());
    const columns = rest.split(/\s+/);
    if (name === '' || IGNORED.test(name) || columns.length < COLUMNS || !columns.every((each) => /^\d+$/.test(each)))
      return [];
    const [rxBytes = 0n, rxPackets = 0n, rxErrors = 0n, rxDropped = 0n, ...others] = columns.map(BigInt);
    const [txBytes = 0n, txPackets = 0n, txErrors = 0n, txDropped = 0n] = others.slice(COLUMNS / 2 - 4);
    return [{ name, rxBytes, rxPackets, rxErrors, rxDropped, txBytes, txPackets, txErrors, txDropped }];
  });
}

/** The machine's own interfaces. */
export const nodeInterfaces = (root: string): InterfaceUsage[] =>
  parseInterfaces(readText(`${root}/proc/1/net/dev`) ?? '');

/**
 * The interfaces in the network namespace of this process; `null` if it has ended. As in cAdvisor, a pod in the network
 * of the machine has the interfaces of the machine.
 */
export function processInterfaces(root: string, pid: number): InterfaceUsage[] | null {
  const text = readText(`${root}/proc/${pid}/net/dev`);
  return text === null ? null : parseInterfaces(text);
}
