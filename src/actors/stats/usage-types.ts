/** Usage and limits of one cgroup; a missing controller gives `null`, and numbers include descendants. */
import type { PressureStall } from './kernel-text.ts';

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
