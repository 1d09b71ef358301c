/** Usage of a cgroup of version 1, which has one folder for each controller. */

import type { Hierarchy } from './hierarchy.ts';
import {
  notNegative,
  type PressureStall,
  readMeminfo,
  readNumber,
  readPressure,
  readTable,
  readText,
} from './kernel-text.ts';
import type { CgroupUsage, CpuUsage, DeviceIo, MemoryUsage } from './usage-types.ts';

/** A larger value of cgroup v1 means no limit: the kernel then reports the largest page-aligned number. */
const UNLIMITED = 1n << 62n;

/** USER_HZ is 100 on every architecture. */
const NANOS_PER_TICK = 10_000_000n;

const limited = (value: bigint | null): bigint | null => (value === null || value >= UNLIMITED ? null : value);

export function readLegacy(hierarchy: Hierarchy, cgroup: string, root: string): CgroupUsage {
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
  const withSwap = limited(readNumber(`${folder}/memory.memsw.limit_in_bytes`));
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
