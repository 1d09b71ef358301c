/** Usage of a cgroup of version 2, which has one folder for all controllers. */

import type { Hierarchy } from './hierarchy.ts';
import { notNegative, pairsOf, readMeminfo, readNumber, readPressure, readTable, readText } from './kernel-text.ts';
import type { CgroupUsage, CpuUsage, DeviceIo, MemoryUsage } from './usage-types.ts';

const NANOS_PER_MICRO = 1_000n;

export function readUnified(hierarchy: Hierarchy, cgroup: string, root: string): CgroupUsage {
  const folder = hierarchy.folder('memory', cgroup)!;
  const current = readNumber(`${folder}/pids.current`);
  return {
    cpu: unifiedCpu(folder),
    memory: cgroup === '/' ? unifiedRootMemory(folder, root) : unifiedMemory(folder),
    io: { devices: unifiedIo(folder), pressure: readPressure(pressureFile(folder, 'io', cgroup, root)) },
    pids: current === null ? null : { current, limit: readNumber(`${folder}/pids.max`) },
  };
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
