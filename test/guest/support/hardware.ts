/** The emulated machine: processors in NUMA nodes, memory, and disks beside the one from which it boots. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

export interface Disk {
  /** The label, and the name of the file. */
  readonly name: string;
  /** The size as an argument of `mke2fs`: `512M`. */
  readonly size: string;
  /** Arguments of `mke2fs`; `swap`: created by `mkswap`. */
  readonly format: readonly string[] | 'swap';
  /** A folder whose files it contains from the beginning. */
  readonly contents?: string;
}

export interface Hardware {
  /** The CPUs of each NUMA node. */
  readonly cpus: number;
  /** The memory of each NUMA node. */
  readonly memoryMiB: number;
  readonly numaNodes: number;
  /** Options of the kernel beside those of every guest. */
  readonly kernelOptions: readonly string[];
  readonly disks: readonly Disk[];
}

export const PLAIN: Hardware = { cpus: 2, memoryMiB: 3_072, numaNodes: 1, kernelOptions: [], disks: [] };

/** Options of the emulator, by name. */
export function processorsAndMemory({ cpus, memoryMiB, numaNodes }: Hardware): Record<string, readonly string[]> {
  const nodes = Array.from({ length: numaNodes }, (_, node) => node);
  return {
    '-smp': [`${cpus * numaNodes},sockets=${numaNodes},cores=${cpus},threads=1`],
    '-m': [`${memoryMiB * numaNodes}M`],
    '-object': nodes.map((node) => `memory-backend-ram,id=memory${node},size=${memoryMiB}M`),
    '-numa': nodes.map(
      (node) => `node,nodeid=${node},cpus=${node * cpus}-${(node + 1) * cpus - 1},memdev=memory${node}`,
    ),
  };
}

export const diskFile = (folder: string, { name }: Disk): string => join(folder, `${name}.img`);

export function makeDisk(folder: string, disk: Disk): void {
  const file = diskFile(folder, disk);
  execFileSync('truncate', ['-s', disk.size, file]);
  if (disk.format === 'swap') execFileSync('mkswap', ['-q', '-L', disk.name, file]);
  else {
    const contents = disk.contents === undefined ? [] : ['-d', disk.contents];
    execFileSync('mke2fs', ['-q', '-t', 'ext4', '-L', disk.name, ...disk.format, ...contents, file]);
  }
}
