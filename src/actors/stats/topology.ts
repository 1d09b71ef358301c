/**
 * The topology of this machine: processors with cores, sockets and NUMA nodes, and disks.
 *
 * Reads /proc and /sys, below an injected root. A machine without this description (a container without /sys) counts as
 * one socket with a core for each processor.
 */
import { readdirSync } from 'node:fs';
import { basename } from 'node:path';
import type { MachineTopology } from '../../machines/model/operations/host.ts';
import { parseCpuSet } from '../../machines/model/values/cpu-set.ts';
import { parseMounts } from '../host/kernel/mounts.ts';
import { readNumber, readText } from './kernel-text.ts';

const CPUS = '/sys/devices/system/cpu';
const NODES = '/sys/devices/system/node';
const BYTES_PER_KIB = 1_024n;
/** The unit of a disk's size, whatever its block size. */
const SECTOR_BYTES = 512n;
/** Devices that look like disks and are not. */
const VIRTUAL_DISK = /^(loop|ram|sr|fd|zram)\d/;

const entries = (path: string): string[] => {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
};

/** The numbers of entries like `cpu0` or `node3`, ascending. */
const numbered = (path: string, prefix: string): number[] =>
  entries(path)
    .flatMap((name) => (name.startsWith(prefix) && /^\d+$/.test(name.slice(prefix.length)) ? [name] : []))
    .map((name) => Number(name.slice(prefix.length)))
    .sort((a, b) => a - b);

export function readTopology(root: string): MachineTopology {
  const nodeOfCpu = new Map<number, number>();
  const numaNodes = numbered(`${root}${NODES}`, 'node').map((id) => {
    const folder = `${root}${NODES}/node${id}`;
    for (const cpu of numbered(folder, 'cpu')) nodeOfCpu.set(cpu, id);
    return { id, memoryBytes: nodeMemory(folder), hugePages: nodeHugePages(folder), ...nodeDistances(folder) };
  });
  return {
    cpus: withCaches(
      root,
      processors(root).map((id) => ({ ...placeOf(root, id), numaNode: nodeOfCpu.get(id) ?? 0 })),
    ),
    numaNodes,
    disks: disks(root),
    fileSystems: mountedDisks(root),
  };
}

/** The CPUs that are online: /proc/cpuinfo lists only these. */
function processors(root: string): number[] {
  const listed = (readText(`${root}/proc/cpuinfo`) ?? '').matchAll(/^processor[\s:]*(\d+)/gm);
  return [...listed].map(([, id]) => Number(id));
}

function placeOf(root: string, id: number) {
  const folder = `${root}${CPUS}/cpu${id}/topology`;
  const core = readNumber(`${folder}/core_id`);
  const socket = readNumber(`${folder}/physical_package_id`);
  return { id, core: core === null ? id : Number(core), socket: socket === null ? 0 : Number(socket) };
}

const NODE_CACHE_LEVEL = 3;

/**
 * Adds the shared caches to the CPUs. A cache that all CPUs of a node share is omitted. Upstream: cadvisor's
 * UncoreCaches.
 */
function withCaches(root: string, cpus: MachineTopology['cpus']): MachineTopology['cpus'] {
  const sizes = Map.groupBy(cpus, ({ numaNode }) => numaNode);
  return cpus.map((cpu) => {
    const cache = cacheOf(root, cpu.id);
    return cache === null || cache.cpus === sizes.get(cpu.numaNode)?.length ? cpu : { ...cpu, cache: cache.id };
  });
}

/** The first cache above level 2, and how many CPUs share it. */
function cacheOf(root: string, cpu: number): { readonly id: number; readonly cpus: number } | null {
  const folder = `${root}${CPUS}/cpu${cpu}/cache`;
  for (const index of numbered(folder, 'index')) {
    const [level, id] = ['level', 'id'].map((file) => readNumber(`${folder}/index${index}/${file}`));
    const shared = parseCpuSet(readText(`${folder}/index${index}/shared_cpu_list`)?.trim() ?? '');
    if (level == null || id == null || level < NODE_CACHE_LEVEL || shared.error !== undefined) continue;
    return { id: Number(id), cpus: shared.value.length };
  }
  return null;
}

function nodeMemory(folder: string): string {
  const kibibytes = /MemTotal:\s+(\d+) kB/.exec(readText(`${folder}/meminfo`) ?? '')?.[1];
  return String(BigInt(kibibytes ?? '0') * BYTES_PER_KIB);
}

function nodeHugePages(folder: string) {
  return entries(`${folder}/hugepages`).flatMap((name) => {
    const kib = /^hugepages-(\d+)kB$/.exec(name)?.[1];
    const count = readNumber(`${folder}/hugepages/${name}/nr_hugepages`);
    return kib === undefined || count === null ? [] : [{ kib: Number(kib), count: Number(count) }];
  });
}

/** The distances of a NUMA node from a text like `10 21`; its distance to itself is 10. */
function nodeDistances(folder: string): { readonly distances?: readonly number[] } {
  const text = readText(`${folder}/distance`)?.trim() ?? '';
  return text === '' ? {} : { distances: text.split(/\s+/).map(Number) };
}

function disks(root: string) {
  const names = entries(`${root}/sys/block`).filter((name) => !VIRTUAL_DISK.test(name));
  return names.sort().flatMap((name) => {
    const sectors = readNumber(`${root}/sys/block/${name}/size`);
    if (sectors === null || sectors === 0n) return [];
    const device = readText(`${root}/sys/block/${name}/dev`) ?? '';
    return [{ name, device, sizeBytes: String(sectors * SECTOR_BYTES) }];
  });
}

/** The file systems that are mounted from a block device; each device once, at its first mount. */
export function mountedDisks(root: string): MachineTopology['fileSystems'] {
  const mounts = parseMounts(readText(`${root}/proc/self/mountinfo`) ?? '');
  const byDevice = new Map<string, { device: string; mountPoint: string; type: string }>();
  for (const { source, point, type } of mounts) {
    if (!source.startsWith('/dev/') || VIRTUAL_DISK.test(basename(source)) || byDevice.has(source)) continue;
    byDevice.set(source, { device: source, mountPoint: point, type });
  }
  return [...byDevice.values()];
}

/** The number of books or drawers of this machine; most machines have none. */
export function countOf(root: string, level: 'book' | 'drawer'): number {
  const ids = processors(root).map((id) => readText(`${root}${CPUS}/cpu${id}/topology/${level}_id`));
  return new Set(ids.filter((id) => id !== null)).size;
}
