/** Converts readings into the parts of the summary, one pure function a part. */
import type { FilesystemUsage, ContainerStats as RuntimeStats } from '../../machines/model/api/cri.ts';
import { pickBy } from '../../machines/model/values/tables.ts';
import { boundedCall } from '../host/bounded-calls.ts';
import { type FileSystemUsage, type FolderUsage, fileSystemUsage } from './disk-usage.ts';
import { millis } from './inventory.ts';
import { NO_PRESSURE, type PressureStall } from './kernel-text.ts';
import type { InterfaceUsage } from './machine-devices.ts';
import { isOnServer, serverUsage } from './server-usage.ts';
import type {
  CgroupUsage,
  CpuStats,
  FsStats,
  InterfaceStats,
  IoStats,
  MemoryStats,
  NetworkStats,
  SwapStats,
  VolumeStats,
} from './usage-types.ts';

/** The name by which the kubelet finds the default interface. */
const DEFAULT_INTERFACE = 'eth0';
/** cgroup v1 has no pressure: upstream then reports zeros. */
const NO_STALL: PressureStall = { full: NO_PRESSURE, some: NO_PRESSURE };

/** A time as RFC 3339 with milliseconds, for metrics; the text of a summary omits the milliseconds. */
export const timeOf = (ms: number): string => new Date(ms).toISOString();

export interface Usage {
  readonly atMs: number;
  readonly cpu: CpuStats | null;
  readonly memory: MemoryStats | null;
  readonly io: IoStats;
  readonly swap: SwapStats | null;
}

/** `rate` in nanoseconds a second. As in cAdvisor, a cgroup without a limit has no available bytes. */
export function usageOf(usage: CgroupUsage, atMs: number, rate: bigint | null): Usage {
  const time = timeOf(atMs);
  const stall = (pressure: PressureStall | null) => ({ psi: pressure ?? NO_STALL });
  const { cpu, memory, io } = usage;
  return {
    atMs,
    cpu: cpu && { time, ...nanoCores(rate), usageCoreNanoSeconds: cpu.usage, ...stall(cpu.pressure) },
    memory: memory && {
      time,
      ...(memory.limit === null ? {} : { availableBytes: positive(memory.limit - memory.workingSet) }),
      usageBytes: memory.usage,
      workingSetBytes: memory.workingSet,
      rssBytes: memory.rss,
      pageFaults: memory.pageFaults,
      majorPageFaults: memory.majorPageFaults,
      ...stall(memory.pressure),
    },
    io: { time, ...stall(io.pressure) },
    swap: memory && {
      time,
      ...(memory.swapLimit === null ? {} : { swapAvailableBytes: positive(memory.swapLimit - memory.swap) }),
      swapUsageBytes: memory.swap,
    },
  };
}

const positive = (value: bigint): bigint => (value < 0n ? 0n : value);
const nanoCores = (rate: bigint | null) => (rate === null ? {} : { usageNanoCores: rate });

/** The usage that the runtime counts: the only source for containers without a cgroup. */
export function runtimeUsage({ cpu, memory, swap }: Pick<RuntimeStats, 'cpu' | 'memory' | 'swap'>): Usage {
  const atMs = millis(cpu?.timestamp ?? memory?.timestamp ?? '0');
  const time = timeOf(atMs);
  const rate = value(cpu?.usage_nano_cores);
  return {
    atMs,
    cpu: cpu ? { time, ...nanoCores(rate), ...field('usageCoreNanoSeconds', cpu.usage_core_nano_seconds) } : null,
    memory: memory
      ? {
          time,
          ...field('availableBytes', memory.available_bytes),
          ...field('usageBytes', memory.usage_bytes),
          ...field('workingSetBytes', memory.working_set_bytes),
          ...field('rssBytes', memory.rss_bytes),
          ...field('pageFaults', memory.page_faults),
          ...field('majorPageFaults', memory.major_page_faults),
        }
      : null,
    io: { time },
    swap: swap
      ? {
          time,
          ...field('swapAvailableBytes', swap.swap_available_bytes),
          ...field('swapUsageBytes', swap.swap_usage_bytes),
        }
      : null,
  };
}

type Counted = { readonly value: string } | null | undefined;
const value = (counted: Counted): bigint | null => (counted == null ? null : BigInt(counted.value));
const field = <Name extends string>(name: Name, counted: Counted): { readonly [Key in Name]?: bigint } =>
  counted == null ? {} : ({ [name]: BigInt(counted.value) } as { readonly [Key in Name]?: bigint });

/** The usage of a pod without a cgroup: the sum of its containers. */
export function sumOf(parts: readonly Usage[], atMs: number): Usage {
  const time = timeOf(atMs);
  const total = (of: (usage: Usage) => bigint | undefined): bigint =>
    parts.reduce((sum, part) => sum + (of(part) ?? 0n), 0n);
  return {
    atMs,
    cpu: {
      time,
      usageNanoCores: total(({ cpu }) => cpu?.usageNanoCores),
      usageCoreNanoSeconds: total(({ cpu }) => cpu?.usageCoreNanoSeconds),
    },
    memory: {
      time,
      usageBytes: total(({ memory }) => memory?.usageBytes),
      workingSetBytes: total(({ memory }) => memory?.workingSetBytes),
      rssBytes: total(({ memory }) => memory?.rssBytes),
      pageFaults: total(({ memory }) => memory?.pageFaults),
      majorPageFaults: total(({ memory }) => memory?.majorPageFaults),
    },
    io: { time },
    swap: { time, swapUsageBytes: total(({ swap }) => swap?.swapUsageBytes) },
  };
}

export const fileSystemStats = (usage: FileSystemUsage, atMs: number): FsStats => ({
  ...room(usage, atMs),
  usedBytes: usage.used,
  inodesUsed: usage.inodes - usage.inodesFree,
});

export const partStats = (on: FileSystemUsage, used: bigint, inodesUsed: bigint, atMs: number): FsStats => ({
  ...room(on, atMs),
  usedBytes: used,
  inodesUsed,
});

const room = ({ available, capacity, inodes, inodesFree }: FileSystemUsage, atMs: number) => ({
  time: timeOf(atMs),
  availableBytes: available,
  capacityBytes: capacity,
  inodesFree,
  inodes,
});

/** The runtime's usage of its own folder, on the file system that holds it. */
export function layerStats(layer: FilesystemUsage | null | undefined, on: FileSystemUsage | null): FsStats | null {
  if (layer == null || on === null) return null;
  const atMs = millis(layer.timestamp);
  return partStats(on, value(layer.used_bytes) ?? 0n, value(layer.inodes_used) ?? 0n, atMs);
}

export function sumOfFolders(parts: readonly Pick<FolderUsage, 'used' | 'inodes'>[]): { used: bigint; inodes: bigint } {
  return parts.reduce((sum, { used, inodes }) => ({ used: sum.used + used, inodes: sum.inodes + inodes }), {
    used: 0n,
    inodes: 0n,
  });
}

export function networkStats(interfaces: readonly InterfaceUsage[], atMs: number): NetworkStats {
  const all = interfaces.map(
    ({ name, rxBytes, rxErrors, txBytes, txErrors }): InterfaceStats => ({
      name,
      rxBytes,
      rxErrors,
      txBytes,
      txErrors,
    }),
  );
  const main = all.find(({ name }) => name === DEFAULT_INTERFACE) ?? { name: '' };
  return { time: timeOf(atMs), ...main, interfaces: all };
}

/** By volume of the pod, its claim and its path. */
export type ClaimPlaces = Readonly<Record<string, { readonly claim: string; readonly path: string }>>;

/** The usage of a volume; `null` if it is removed or does not answer. */
const claimUsage = (path: string): Promise<FileSystemUsage | null> =>
  isOnServer(path) ? serverUsage(path) : boundedCall(path, () => fileSystemUsage(path)).catch(() => null);

/**
 * The usage of the volumes of a pod's claims. A volume may be on any file system, including one that does not answer.
 */
export async function claimStats(namespace: string, places: ClaimPlaces, atMs: number): Promise<VolumeStats[]> {
  const measured = Object.entries(places).map(async ([name, { claim, path }]): Promise<VolumeStats[]> => {
    const usage = await claimUsage(path);
    return usage === null ? [] : [{ name, pvcRef: { name: claim, namespace }, ...fileSystemStats(usage, atMs) }];
  });
  return (await Promise.all(measured)).flat();
}

/** Without the fields that are not known. */
export function withoutNulls<Fields extends Readonly<Record<string, unknown>>>(
  fields: Fields,
): { [Key in keyof Fields]?: NonNullable<Fields[Key]> } {
  return pickBy(fields, (value) => value != null) as {
    [Key in keyof Fields]?: NonNullable<Fields[Key]>;
  };
}
