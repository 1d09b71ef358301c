/** The machine that is emulated: processors in NUMA nodes, memory, and disks beside the one that it is started from. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

export interface Disk {
  /** Its label, and the name of its file. */
  readonly name: string;
  /** As `mke2fs` takes it: `512M`. */
  readonly size: string;
  /** Arguments of `mke2fs`; `swap`: made by `mkswap`. */
  readonly format: readonly string[] | 'swap';
  /** A folder whose files it has from the beginning. */
  readonly contents?: string;
}

export interface Hardware {
  /** Of each NUMA node. */
  readonly cpus: number;
  /** Of each NUMA node. */
  readonly memoryMiB: number;
  readonly numaNodes: number;
  /** Options of the kernel beside those that every guest has. */
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
