/**
 * Operations on the kernel's cgroups. Implemented by `src/actors/cgroup`.
 *
 * A cgroup is named by its path below the root of a hierarchy, as the kernel shows it (`/kubepods/burstable/pod<uid>`,
 * `/kubepods.slice/kubepods-burstable.slice`). Only the port knows the version of the machine's cgroups: requests are
 * independent of it. Amounts are decimal text, because they have 64 bits.
 */
import { idempotent, query, stream } from '../../../kernel/xstate.ts';

/** Who creates cgroups: this agent itself, or systemd on request. */
export type CgroupDriver = 'cgroupfs' | 'systemd';

/** The limits of a cgroup. Absent ones stay as they are. */
export interface CgroupResources {
  /** 2 to 262144; on version 2 the equivalent weight. */
  readonly cpuShares?: string;
  /** Microseconds in a period; -1: no limit. */
  readonly cpuQuotaUs?: string;
  readonly cpuPeriodUs?: string;
  /** -1: no limit; zero is not a limit. */
  readonly memoryBytes?: string;
  /** A cgroup that already uses more than `memoryBytes` is limited to its usage. */
  readonly memoryAtLeastUsed?: boolean;
  readonly pids?: string;
  /** CPUs that the group may use, `0-3`; on version 2 only. */
  readonly cpus?: string;
  /** Bytes by page size, named as in the kernel: `2MB`. */
  readonly hugePageBytes?: Readonly<Record<string, string>>;
  /** Files of version 2 with their content: `memory.min`. */
  readonly unified?: Readonly<Record<string, string>>;
}

interface CgroupTarget {
  readonly driver: CgroupDriver;
  readonly path: string;
}

export type DesiredCgroup = CgroupTarget & { readonly resources: CgroupResources };

/** Sent at each change between success and failure; `message` is empty on success. `group`: as in the request. */
export type CgroupsHeld = { readonly type: 'cgroups.held'; readonly group: string; readonly message: string };

type Nothing = Record<string, never>;

export const cgroupOperations = {
  /** Folders of the cgroup that do not exist; empty if it exists in every required hierarchy. */
  'cgroup.missing': query<{ path: string }, { missing: readonly string[] }>(),
  /** Creates the cgroup if necessary, with all cgroups above it, and applies `resources`. */
  'cgroup.ensure': idempotent<DesiredCgroup, null>(),
  /** Fails with code `ENOENT` if the cgroup does not exist. */
  'cgroup.update': idempotent<DesiredCgroup, null>(),
  /** Limits existing cgroups to their resources, now and each period. */
  'cgroup.hold': stream<{ group: string; desired: readonly DesiredCgroup[]; periodMs: number }, CgroupsHeld>(),
  /**
   * Kills the processes in the cgroups, then removes them with all descendants. A missing one is ignored. Refuses paths
   * that are not below `within`, and the root as `within`: a wrong path must not kill the machine.
   */
  'cgroup.destroy': idempotent<{ driver: CgroupDriver; paths: readonly string[]; within: string }, null>(),
  /** Cgroups of pods directly below `parents`, with the uid in their name. */
  'cgroup.listPods': query<
    { driver: CgroupDriver; parents: readonly string[] },
    { pods: readonly { uid: string; path: string }[] }
  >(),
  /** Bytes that the cgroup uses, and the bytes of each container whose cgroup is directly below it, by its id. */
  'cgroup.memoryUsage': query<
    { path: string; containers: readonly string[] },
    { bytes: string; containers: Readonly<Record<string, string>> }
  >(),
  /** The cgroup of this process. Fails if CPU and memory are accounted in different ones. */
  'cgroup.own': query<Nothing, { path: string }>(),
  /**
   * Moves processes into the cgroup `path`, which is created, now and each period: this agent with `oomScoreAdj`, or
   * every process in the root cgroup except kernel threads and init.
   */
  'cgroup.gather': stream<
    { path: string; who: 'kubelet' | 'system'; oomScoreAdj: number; periodMs: number },
    CgroupsHeld
  >(),
};
