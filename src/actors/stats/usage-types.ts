/** Types of usage: of cgroups, and of the stats summary. */
import type { PressureStall } from './kernel-text.ts';

/**
 * The types of /stats/summary: the JSON of k8s.io/kubelet stats/v1alpha1, field by field.
 *
 * Counters are `bigint`, because nanoseconds of CPU time leave the safe range of a number after a few weeks on a large
 * machine; `statsText` writes them as plain JSON numbers. Times are RFC 3339. A field that is not known is left out.
 */
export interface Summary {
  readonly node: NodeStats;
  readonly pods: readonly PodStats[];
}

export interface NodeStats {
  readonly nodeName: string;
  readonly systemContainers?: readonly ContainerStats[];
  readonly startTime: string;
  readonly cpu?: CpuStats;
  readonly memory?: MemoryStats;
  readonly io?: IoStats;
  readonly network?: NetworkStats;
  readonly fs?: FsStats;
  readonly runtime?: { readonly imageFs?: FsStats; readonly containerFs?: FsStats };
  readonly rlimit?: { readonly time: string; readonly maxpid: bigint; readonly curproc: bigint };
  readonly swap?: SwapStats;
}

export interface PodReference {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
}

export interface PodStats {
  readonly podRef: PodReference;
  readonly startTime: string;
  readonly containers: readonly ContainerStats[];
  readonly cpu?: CpuStats;
  readonly memory?: MemoryStats;
  readonly io?: IoStats;
  readonly network?: NetworkStats;
  readonly volume?: readonly VolumeStats[];
  readonly 'ephemeral-storage'?: FsStats;
  readonly process_stats?: { readonly process_count: bigint };
  readonly swap?: SwapStats;
}

export interface ContainerStats {
  readonly name: string;
  readonly startTime: string;
  readonly cpu?: CpuStats;
  readonly memory?: MemoryStats;
  readonly io?: IoStats;
  readonly rootfs?: FsStats;
  readonly logs?: FsStats;
  readonly swap?: SwapStats;
}

export interface CpuStats {
  readonly time: string;
  readonly usageNanoCores?: bigint;
  readonly usageCoreNanoSeconds?: bigint;
  readonly psi?: PressureStall;
}

export interface MemoryStats {
  readonly time: string;
  readonly availableBytes?: bigint;
  readonly usageBytes?: bigint;
  readonly workingSetBytes?: bigint;
  readonly rssBytes?: bigint;
  readonly pageFaults?: bigint;
  readonly majorPageFaults?: bigint;
  readonly psi?: PressureStall;
}

export interface IoStats {
  readonly time: string;
  readonly psi?: PressureStall;
}

export interface SwapStats {
  readonly time: string;
  readonly swapAvailableBytes?: bigint;
  readonly swapUsageBytes?: bigint;
}

export interface InterfaceStats {
  readonly name: string;
  readonly rxBytes?: bigint;
  readonly rxErrors?: bigint;
  readonly txBytes?: bigint;
  readonly txErrors?: bigint;
}

export interface NetworkStats extends InterfaceStats {
  readonly time: string;
  readonly interfaces: readonly InterfaceStats[];
}

export interface FsStats {
  readonly time: string;
  readonly availableBytes?: bigint;
  readonly capacityBytes?: bigint;
  readonly usedBytes?: bigint;
  readonly inodesFree?: bigint;
  readonly inodes?: bigint;
  readonly inodesUsed?: bigint;
}

export interface VolumeStats extends FsStats {
  readonly name: string;
  readonly pvcRef?: { readonly name: string; readonly namespace: string };
  /** With the feature gate CSIVolumeHealth, where the driver reports it. */
  readonly volumeHealthStats?: { readonly abnormal: boolean };
}

/** The summary that upstream serves: without pods that have no running container. */
export const ofRunningPods = ({ node, pods }: Summary): Summary => ({
  node,
  pods: pods.filter(({ containers }) => containers.length > 0),
});

/**
 * JSON of statistics: every `bigint` is written as a plain number, however large.
 *
 * `indent`: the spaces of each level; with 0 the text has one line.
 */
export const statsText = (value: unknown, indent = 0): string => JSON.stringify(value, written, indent);

/** A replacer for JSON: writes `bigint` as numbers, and times without fractions, as Kubernetes does. */
function written(key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return JSON.rawJSON(String(value));
  const isTime = (key === 'time' || key === 'startTime') && typeof value === 'string';
  return isTime ? value.replace(/\.\d+Z$/, 'Z') : value;
}

/** Usage and limits of one cgroup; a missing controller gives `null`, and numbers include descendants. */
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
  /** Bytes of swap, on cgroup v1 of memory and swap together; `null` when unlimited or not counted. */
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
