/**
 * Usage and limits of one cgroup, the same for cgroup v1 and v2.
 *
 * Invariants: no state between reads; a missing controller gives `null`, never zero; numbers include descendants. As in
 * cAdvisor, the working set is the usage without the inactive file cache.
 */
import { statSync } from 'node:fs';
import type { Hierarchy } from './hierarchy.ts';
import {
  type PressureStall,
  pairsOf,
  readMeminfo,
  readNumber,
  readPressure,
  readTable,
  readText,
} from './kernel-text.ts';

export interface CpuUsage {
  /** Time on all cores, in nanoseconds. */
  readonly usage: bigint;
  readonly user: bigint;
  readonly system: bigint;
  readonly periods: bigint;
  readonly throttledPeriods: bigint;
  /** Nanoseconds. */
  readonly throttled: bigint;
  /** Periods in which saved time was spent, and how much; `null` where the kernel has no bursts. */
  readonly bursts: { readonly periods: bigint; readonly nanoseconds: bigint } | null;
  readonly pressure: PressureStall | null;
}

export interface MemoryUsage {
  readonly usage: bigint;
  readonly workingSet: bigint;
  readonly rss: bigint;
  readonly cache: bigint;
  /** File cache that was used recently, and file cache that was not. */
  readonly activeFile: bigint;
  readonly inactiveFile: bigint;
  readonly mappedFile: bigint;
  readonly swap: bigint;
  readonly kernel: bigint;
  readonly pageFaults: bigint;
  readonly majorPageFaults: bigint;
  /** Highest usage since the cgroup was created; 0 if the kernel does not record it. */
  readonly maxUsage: bigint;
  readonly failures: bigint;
  /** Processes killed by the OOM killer; `null` if the kernel does not count them. */
  readonly oomKills: bigint | null;
  /** Memory protected from reclaim; 0 for none. */
  readonly reservation: bigint;
  /** Bytes; `null` when unlimited. */
  readonly limit: bigint | null;
  /** Bytes of swap alone; `null` when unlimited or not counted. */
  readonly swapLimit: bigint | null;
  readonly pressure: PressureStall | null;
}

export interface DeviceIo {
  /** `8:0` */
  readonly device: string;
  readonly readBytes: bigint;
  readonly writtenBytes: bigint;
  readonly reads: bigint;
  readonly writes: bigint;
}

export interface CgroupUsage {
  readonly cpu: CpuUsage | null;
  readonly memory: MemoryUsage | null;
  readonly io: { readonly devices: readonly DeviceIo[]; readonly pressure: PressureStall | null };
  readonly pids: { readonly current: bigint; readonly limit: bigint | null } | null;
}

/** A larger value of cgroup v1 means no limit: the kernel then reports the largest page-aligned number. */
const UNLIMITED = 1n << 62n;
const NANOS_PER_MICRO = 1_000n;
/** USER_HZ is 100 on every architecture. */
const NANOS_PER_TICK = 10_000_000n;

const notNegative = (value: bigint): bigint => (value < 0n ? 0n : value);
const limited = (value: bigint | null): bigint | null => (value === null || value >= UNLIMITED ? null : value);

/** `root` is the prefix of /proc. */
export function readUsage(hierarchy: Hierarchy, cgroup: string, root: string): CgroupUsage {
  return hierarchy.version === 2 ? readUnified(hierarchy, cgroup, root) : readLegacy(hierarchy, cgroup, root);
}

/** When the cgroup was created, by its folder; `null` if it is removed. */
export function createdAtMs(hierarchy: Hierarchy, cgroup: string): number | null {
  const folder = hierarchy.folder('memory', cgroup) ?? hierarchy.folder('cpuacct', cgroup);
  const file = hierarchy.version === 2 ? 'cgroup.events' : 'cgroup.clone_children';
  try {
    return Math.round(statSync(`${folder}/${file}`).mtimeMs);
  } catch {
    return null;
  }
}

// ---- v2 -------------------------------------------------------------------------------------------------------------

function readUnified(hierarchy: Hierarchy, cgroup: string, root: string): CgroupUsage {
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
  const of = (name: string): bigint => table.get(name) ?? 0n;
  return {
    usage,
    workingSet: notNegative(usage - of('inactive_file')),
    rss: of('anon'),
    cache: of('file'),
    activeFile: of('active_file'),
    inactiveFile: of('inactive_file'),
    mappedFile: of('file_mapped'),
    kernel: of('kernel') || of('kernel_stack') + of('slab') + of('pagetables') + of('percpu'),
    pageFaults: of('pgfault'),
    majorPageFaults: of('pgmajfault'),
  };
}

/** `8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0` */
function unifiedIo(folder: string): DeviceIo[] {
  const lines = readText(`${folder}/io.stat`)?.split('\n') ?? [];
  return lines.flatMap((line) => {
    const [device = '', ...fields] = line.split(' ');
    const values = pairsOf(fields);
    const of = (name: string): bigint => BigInt(values.get(name) ?? '0');
    if (!/^\d+:\d+$/.test(device) || !values.has('rbytes')) return [];
    return [{ device, readBytes: of('rbytes'), writtenBytes: of('wbytes'), reads: of('rios'), writes: of('wios') }];
  });
}

// ---- v1 -------------------------------------------------------------------------------------------------------------

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
  const of = (name: string): bigint => table.get(`total_${name}`) ?? table.get(name) ?? 0n;
  const limit = limited(readNumber(`${folder}/memory.limit_in_bytes`));
  const withSwap = limited(readNumber(`${folder}/memory.memsw.limit_in_bytes`));
  const machine = cgroup === '/' ? readMeminfo(root) : null;
  return {
    usage,
    workingSet: notNegative(usage - of('inactive_file')),
    rss: of('rss'),
    cache: of('cache'),
    activeFile: of('active_file'),
    inactiveFile: of('inactive_file'),
    mappedFile: of('mapped_file'),
    swap: of('swap'),
    kernel: readNumber(`${folder}/memory.kmem.usage_in_bytes`) ?? 0n,
    pageFaults: of('pgfault'),
    majorPageFaults: of('pgmajfault'),
    maxUsage: readNumber(`${folder}/memory.max_usage_in_bytes`) ?? 0n,
    failures: readNumber(`${folder}/memory.failcnt`) ?? 0n,
    oomKills: readTable(`${folder}/memory.oom_control`).get('oom_kill') ?? null,
    reservation: limited(readNumber(`${folder}/memory.soft_limit_in_bytes`)) ?? 0n,
    limit: machine?.get('MemTotal') ?? limit,
    swapLimit:
      machine?.get('SwapTotal') ?? (limit === null || withSwap === null ? null : notNegative(withSwap - limit)),
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

// ---- rates ----------------------------------------------------------------------------------------------------------

/** The shortest window that gives a rate. */
const MIN_WINDOW_MS = 1_000;
/** The longest window that gives a rate: `usageNanoCores` is no average over a longer time. */
const MAX_WINDOW_MS = 300_000;
const NANOS_PER_MILLI = 1_000_000n;
const NANOS_PER_SECOND = 1_000_000_000n;

interface Reading {
  readonly atMs: number;
  readonly usage: bigint;
  readonly rate: bigint | null;
}

/** Whether the earlier reading is too old, or in the future because the clock was set back. */
const isStale = (windowMs: number): boolean => windowMs < 0 || windowMs > MAX_WINDOW_MS;

/**
 * Converts CPU time counters to rates since the last request.
 *
 * Invariants: a counter that decreased (a new cgroup of the same name) has no rate; two requests in quick succession
 * give the same rate, because a short window is imprecise; an unused counter is forgotten; a clock that was set back
 * loses one rate.
 */
export class Rates {
  #last = new Map<string, Reading>();

  /** Nanoseconds of CPU time a second; `null` when this is the first reading. */
  note(key: string, atMs: number, usage: bigint): bigint | null {
    const before = this.#last.get(key);
    const windowMs = before === undefined ? 0 : atMs - before.atMs;
    if (before?.rate != null && windowMs >= 0 && windowMs < MIN_WINDOW_MS) return before.rate;
    const isComparable = before !== undefined && windowMs > 0 && !isStale(windowMs) && usage >= before.usage;
    const nanos = BigInt(Math.round(windowMs)) * NANOS_PER_MILLI;
    const rate = isComparable ? ((usage - before.usage) * NANOS_PER_SECOND) / nanos : null;
    this.#last.set(key, { atMs, usage, rate });
    return rate;
  }

  /** Whether another reading of this key now would have no rate: a short sample gives one first. */
  needsReading(key: string, nowMs: number): boolean {
    const before = this.#last.get(key);
    return before?.rate == null || isStale(nowMs - before.atMs);
  }

  /** Forgets readings that are too old to be compared with a later reading. */
  prune(nowMs: number): void {
    for (const [key, { atMs }] of this.#last) if (isStale(nowMs - atMs)) this.#last.delete(key);
  }
}
