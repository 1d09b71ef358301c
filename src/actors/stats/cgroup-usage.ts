/**
 * Finds cgroups, and reads their usage and limits in the same form for version 2, which has one folder for all
 * controllers, and version 1, which has one for each.
 *
 * A cgroup is named as /proc/<pid>/cgroup names it: `/` for the root, `/kubepods/besteffort/pod…` below. Pods and
 * containers: with cgroupfs `pod<uid>/<container id>`, with systemd `…-pod<uid with _>.slice/<runtime>-<id>.scope`.
 *
 * Invariants: no state between reads; a missing controller gives `null`, never zero; numbers include descendants. As in
 * cAdvisor, the working set is the usage without the inactive file cache.
 */
import { statSync } from 'node:fs';
import { readHierarchies } from '../cgroup/hierarchies.ts';
import {
  folders,
  notNegative,
  type PressureStall,
  pairsOf,
  readMeminfo,
  readNumber,
  readPressure,
  readTable,
  readText,
} from './kernel-text.ts';
import type { CgroupUsage, CpuUsage, DeviceIo, MemoryUsage } from './usage-types.ts';

const NANOS_PER_MICRO = 1_000n;

function readUnified(hierarchy: Hierarchy, cgroup: string, root: string): CgroupUsage {
  const folder = hierarchy.folder('memory', cgroup)!;
  const current = readNumber(`${folder}/pids.current`) ?? rootProcesses(hierarchy, cgroup);
  return {
    cpu: unifiedCpu(folder),
    memory: cgroup === '/' ? unifiedRootMemory(folder, root) : unifiedMemory(folder),
    io: { devices: unifiedIo(folder), pressure: readPressure(pressureFile(folder, 'io', cgroup, root)) },
    pids: current === null ? null : { current, limit: readNumber(`${folder}/pids.max`) },
  };
}

/** The root counts no threads: upstream then takes its processes. */
function rootProcesses(hierarchy: Hierarchy, cgroup: string): bigint | null {
  const count = processCount(hierarchy, cgroup);
  return count === null ? null : BigInt(count);
}

/**
 * The file with the pressure of a cgroup. On most kernels the root has no such file, and the machine's pressure is the
 * same.
 */
const pressureFile = (folder: string, of: 'cpu' | 'memory' | 'io', cgroup: string, root: string): string =>
  cgroup === '/' ? `${root}/proc/pressure/${of}` : `${folder}/${of}.pressure`;

function unifiedCpu(folder: string): CpuUsage | null {
  const table = readTable(`${folder}/cpu.stat`);
  const micros = (name: string): bigint => (table.get(name) ?? 0n) * NANOS_PER_MICRO;
  if (!table.has('usage_usec')) return null;
  const bursts = table.get('nr_bursts');
  return {
    usage: micros('usage_usec'),
    user: micros('user_usec'),
    system: micros('system_usec'),
    periods: table.get('nr_periods') ?? 0n,
    throttledPeriods: table.get('nr_throttled') ?? 0n,
    throttled: micros('throttled_usec'),
    bursts: bursts === undefined ? null : { periods: bursts, nanoseconds: micros('burst_usec') },
    pressure: readPressure(`${folder}/cpu.pressure`),
  };
}

function unifiedMemory(folder: string): MemoryUsage | null {
  const usage = readNumber(`${folder}/memory.current`);
  if (usage === null) return null;
  const swap = readNumber(`${folder}/memory.swap.current`) ?? 0n;
  const events = readTable(`${folder}/memory.events`);
  return {
    ...unifiedMemoryFields(readTable(`${folder}/memory.stat`), usage),
    swap,
    maxUsage: readNumber(`${folder}/memory.peak`) ?? 0n,
    failures: events.get('max') ?? 0n,
    oomKills: events.get('oom_kill') ?? null,
    reservation: readNumber(`${folder}/memory.min`) ?? 0n,
    limit: readNumber(`${folder}/memory.max`),
    swapLimit: readNumber(`${folder}/memory.swap.max`),
    pressure: readPressure(`${folder}/memory.pressure`),
  };
}

/** The root cgroup has no counter of memory in use: the sum of anonymous memory and file cache replaces it. */
function unifiedRootMemory(folder: string, root: string): MemoryUsage | null {
  const table = readTable(`${folder}/memory.stat`);
  const machine = readMeminfo(root);
  const total = machine.get('MemTotal');
  if (total === undefined) return null;
  const usage = (table.get('anon') ?? 0n) + (table.get('file') ?? 0n);
  const swapTotal = machine.get('SwapTotal') ?? 0n;
  return {
    ...unifiedMemoryFields(table, usage),
    swap: swapTotal - (machine.get('SwapFree') ?? 0n),
    maxUsage: 0n,
    failures: 0n,
    oomKills: null,
    reservation: 0n,
    limit: total,
    swapLimit: swapTotal,
    pressure: readPressure(`${root}/proc/pressure/memory`),
  };
}

function unifiedMemoryFields(table: ReadonlyMap<string, bigint>, usage: bigint) {
  const counter = (name: string): bigint => table.get(name) ?? 0n;
  return {
    usage,
    workingSet: notNegative(usage - counter('inactive_file')),
    rss: counter('anon'),
    cache: counter('file'),
    activeFile: counter('active_file'),
    inactiveFile: counter('inactive_file'),
    mappedFile: counter('file_mapped'),
    kernel: counter('kernel') || counter('kernel_stack') + counter('slab') + counter('pagetables') + counter('percpu'),
    pageFaults: counter('pgfault'),
    majorPageFaults: counter('pgmajfault'),
  };
}

/** `8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0` */
function unifiedIo(folder: string): DeviceIo[] {
  const lines = readText(`${folder}/io.stat`)?.split('\n') ?? [];
  return lines.flatMap((line) => {
    const [device = '', ...fields] = line.split(' ');
    const values = pairsOf(fields);
    const counter = (name: string): bigint => BigInt(values.get(name) ?? '0');
    if (!/^\d+:\d+$/.test(device) || !values.has('rbytes')) return [];
    return [
      {
        device,
        readBytes: counter('rbytes'),
        writtenBytes: counter('wbytes'),
        reads: counter('rios'),
        writes: counter('wios'),
      },
    ];
  });
}

/** A larger value of cgroup v1 means no limit: the kernel then reports the largest page-aligned number. */
const UNLIMITED = 1n << 62n;

/** USER_HZ is 100 on every architecture. */
const NANOS_PER_TICK = 10_000_000n;

const limited = (value: bigint | null): bigint | null => (value === null || value >= UNLIMITED ? null : value);

function readLegacy(hierarchy: Hierarchy, cgroup: string, root: string): CgroupUsage {
  const pids = hierarchy.folder('pids', cgroup);
  const current = pids === null || cgroup === '/' ? null : readNumber(`${pids}/pids.current`);
  return {
    cpu: legacyCpu(hierarchy, cgroup),
    memory: legacyMemory(hierarchy, cgroup, root),
    io: { devices: legacyIo(hierarchy, cgroup), pressure: rootPressure(cgroup, root, 'io') },
    pids: current === null ? null : { current, limit: readNumber(`${pids}/pids.max`) },
  };
}

/** The pressure of the whole machine for the root cgroup: cgroup v1 does not count pressure by cgroup. */
const rootPressure = (cgroup: string, root: string, of: 'cpu' | 'memory' | 'io'): PressureStall | null =>
  cgroup === '/' ? readPressure(`${root}/proc/pressure/${of}`) : null;

function legacyCpu(hierarchy: Hierarchy, cgroup: string): CpuUsage | null {
  const accounting = hierarchy.folder('cpuacct', cgroup);
  const usage = accounting === null ? null : readNumber(`${accounting}/cpuacct.usage`);
  if (usage === null) return null;
  const ticks = readTable(`${accounting}/cpuacct.stat`);
  const bandwidth = readTable(`${hierarchy.folder('cpu', cgroup)}/cpu.stat`);
  const bursts = bandwidth.get('nr_bursts');
  return {
    usage,
    user: (ticks.get('user') ?? 0n) * NANOS_PER_TICK,
    system: (ticks.get('system') ?? 0n) * NANOS_PER_TICK,
    periods: bandwidth.get('nr_periods') ?? 0n,
    throttledPeriods: bandwidth.get('nr_throttled') ?? 0n,
    throttled: bandwidth.get('throttled_time') ?? 0n,
    bursts: bursts === undefined ? null : { periods: bursts, nanoseconds: bandwidth.get('burst_time') ?? 0n },
    pressure: null,
  };
}

function legacyMemory(hierarchy: Hierarchy, cgroup: string, root: string): MemoryUsage | null {
  const folder = hierarchy.folder('memory', cgroup);
  const usage = folder === null ? null : readNumber(`${folder}/memory.usage_in_bytes`);
  if (usage === null) return null;
  const table = readTable(`${folder}/memory.stat`);
  const counter = (name: string): bigint => table.get(`total_${name}`) ?? table.get(name) ?? 0n;
  const limit = limited(readNumber(`${folder}/memory.limit_in_bytes`));
  const machine = cgroup === '/' ? readMeminfo(root) : null;
  return {
    usage,
    workingSet: notNegative(usage - counter('inactive_file')),
    rss: counter('rss'),
    cache: counter('cache'),
    activeFile: counter('active_file'),
    inactiveFile: counter('inactive_file'),
    mappedFile: counter('mapped_file'),
    swap: counter('swap'),
    kernel: readNumber(`${folder}/memory.kmem.usage_in_bytes`) ?? 0n,
    pageFaults: counter('pgfault'),
    majorPageFaults: counter('pgmajfault'),
    maxUsage: readNumber(`${folder}/memory.max_usage_in_bytes`) ?? 0n,
    failures: readNumber(`${folder}/memory.failcnt`) ?? 0n,
    oomKills: readTable(`${folder}/memory.oom_control`).get('oom_kill') ?? null,
    reservation: limited(readNumber(`${folder}/memory.soft_limit_in_bytes`)) ?? 0n,
    limit: machine?.get('MemTotal') ?? limit,
    // As in cAdvisor, the limit of memory and swap together: cgroup v1 has no other.
    swapLimit: machine?.get('SwapTotal') ?? limited(readNumber(`${folder}/memory.memsw.limit_in_bytes`)),
    pressure: rootPressure(cgroup, root, 'memory'),
  };
}

/** `8:0 Read 4096` per line, and a total that is not needed. */
function legacyIo(hierarchy: Hierarchy, cgroup: string): DeviceIo[] {
  const folder = hierarchy.folder('blkio', cgroup);
  if (folder === null) return [];
  const bytes = legacyIoTable(`${folder}/blkio.throttle.io_service_bytes_recursive`);
  const counts = legacyIoTable(`${folder}/blkio.throttle.io_serviced_recursive`);
  return [...bytes].map(([device, moved]) => ({
    device,
    readBytes: moved.get('Read') ?? 0n,
    writtenBytes: moved.get('Write') ?? 0n,
    reads: counts.get(device)?.get('Read') ?? 0n,
    writes: counts.get(device)?.get('Write') ?? 0n,
  }));
}

function legacyIoTable(path: string): Map<string, Map<string, bigint>> {
  const devices = new Map<string, Map<string, bigint>>();
  for (const line of readText(path)?.split('\n') ?? []) {
    const [device = '', kind = '', value = ''] = line.split(' ');
    if (!/^\d+:\d+$/.test(device) || !/^\d+$/.test(value)) continue;
    devices.set(device, (devices.get(device) ?? new Map()).set(kind, BigInt(value)));
  }
  return devices;
}

/** `root` is the prefix of /proc. */
export function readUsage(hierarchy: Hierarchy, cgroup: string, root: string): CgroupUsage {
  return hierarchy.version === 2 ? readUnified(hierarchy, cgroup, root) : readLegacy(hierarchy, cgroup, root);
}

/**
 * When the cgroup was created, by its folder and a file in it, whichever is older: the folder's time changes with the
 * groups below, the file's when the kernel forgets and reads it again. `null` if it is removed.
 */
export function createdAtMs(hierarchy: Hierarchy, cgroup: string): number | null {
  const folder = hierarchy.folder('memory', cgroup) ?? hierarchy.folder('cpuacct', cgroup);
  const file = hierarchy.version === 2 ? 'cgroup.events' : 'cgroup.clone_children';
  const times = [`${folder}`, `${folder}/${file}`].flatMap(changedAtMs);
  return times.length === 0 ? null : Math.round(Math.min(...times));
}

/** None if the file is gone. */
function changedAtMs(path: string): number[] {
  try {
    return [statSync(path).mtimeMs];
  } catch {
    return [];
  }
}

export type Controller = 'cpu' | 'cpuacct' | 'memory' | 'pids' | 'blkio';

export interface Hierarchy {
  readonly version: 1 | 2;
  /** The folder of a cgroup in the tree of this controller; `null` if the controller is not mounted. */
  folder(controller: Controller, cgroup: string): string | null;
  /** Names of the cgroups directly below. */
  children(cgroup: string): readonly string[];
}

/** How many processes are in the cgroup itself, as upstream counts: neither threads nor those of the cgroups below. */
export function processCount(hierarchy: Hierarchy, cgroup: string): number | null {
  return processesOf(hierarchy, cgroup)?.length ?? null;
}

/**
 * The ids of the processes in the cgroup itself; 0 for each process that is outside the agent's view. As in cAdvisor,
 * from the tree of the CPU controller.
 */
export function processesOf(hierarchy: Hierarchy, cgroup: string): readonly string[] | null {
  const inTree = (tree: Controller) => readText(`${hierarchy.folder(tree, cgroup)}/cgroup.procs`);
  const pids = inTree('cpu') ?? inTree('memory');
  return pids === null ? null : pids.split('\n').filter((pid) => pid !== '');
}

export const below = (cgroup: string, name: string): string => (cgroup === '/' ? `/${name}` : `${cgroup}/${name}`);

/** `root` is the prefix of /proc and /sys. */
export async function hierarchyOf(root: string): Promise<Hierarchy> {
  const { version, mounts } = await readHierarchies(root);
  const folder = (controller: Controller, cgroup: string): string | null => {
    const mount = mounts.get(version === 2 ? '' : controller);
    return mount === undefined ? null : `${mount}${cgroup === '/' ? '' : cgroup}`;
  };
  const tree: Controller = version === 2 || mounts.has('memory') ? 'memory' : 'cpuacct';
  return {
    version,
    folder,
    children: (cgroup) => {
      const path = folder(tree, cgroup);
      return path === null ? [] : folders(path);
    },
  };
}

export interface PodCgroup {
  readonly uid: string;
  readonly cgroup: string;
  /** Cgroups of containers and of the sandbox, by id. */
  readonly containers: ReadonlyMap<string, string>;
}

const QOS_CGROUP = /(^|-)(burstable|besteffort)(\.slice)?$/;
const POD_CGROUP = /^pod(.+)$/;
const POD_SLICE = /-pod([^-]+)\.slice$/;
/** CRI-O's monitor of a container has a cgroup with its id, too, which is not counted. */
const MONITOR = 'crio-conmon';
const CONTAINER = /^(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?$/;

/** `podsCgroup` is `/kubepods`, `/kubepods.slice`, ...; empty if pods have no cgroup of their own. */
export function podCgroups(hierarchy: Hierarchy, podsCgroup: string): PodCgroup[] {
  if (podsCgroup === '') return [];
  return hierarchy.children(podsCgroup).flatMap((name) => {
    const cgroup = below(podsCgroup, name);
    if (QOS_CGROUP.test(name)) return hierarchy.children(cgroup).flatMap((pod) => podOf(hierarchy, cgroup, pod));
    return podOf(hierarchy, podsCgroup, name);
  });
}

function podOf(hierarchy: Hierarchy, parent: string, name: string): PodCgroup[] {
  const uid = POD_CGROUP.exec(name)?.[1] ?? POD_SLICE.exec(name)?.[1]?.replaceAll('_', '-');
  if (uid === undefined) return [];
  const cgroup = below(parent, name);
  const containers = hierarchy.children(cgroup).flatMap((child): [string, string][] => {
    const id = child.startsWith(MONITOR) ? undefined : CONTAINER.exec(child)?.[1];
    return id === undefined ? [] : [[id, below(cgroup, child)]];
  });
  return [{ uid, cgroup, containers: new Map(containers) }];
}
