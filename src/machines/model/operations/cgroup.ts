/**
 * Operations on the kernel's cgroups. Implemented by `src/actors/cgroup`.
 *
 * A cgroup is named by its path below the root of a hierarchy, as the kernel shows it (`/kubepods/burstable/pod<uid>`,
 * `/kubepods.slice/kubepods-burstable.slice`). Only the port knows the version of the machine's cgroups: a request
 * means the same on both. Amounts are decimal text, because they have 64 bits.
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
  readonly memoryBytes?: string;
  /** A cgroup that uses more than `memoryBytes` already is limited to its usage. */
  readonly memoryAtLeastUsed?: boolean;
  readonly pids?: string;
  /** Bytes by page size as the kernel names it: `2MB`. */
  readonly hugePageBytes?: Readonly<Record<string, string>>;
  /** Files of version 2 with their content: `memory.min`. */
  readonly unified?: Readonly<Record<string, string>>;
}

interface CgroupTarget {
  readonly driver: CgroupDriver;
  readonly path: string;
}

export type DesiredCgroup = CgroupTarget & { readonly resources: CgroupResources };

/** Sent at each change between working and failing; `message` is empty when it works. `group`: that of the request. */
export type CgroupsHeld = { readonly type: 'cgroups.held'; readonly group: string; readonly message: string };

type Nothing = Record<string, never>;

export const cgroupOperations = {
  /** Folders of the cgroup that do not exist; empty when it exists in every hierarchy that counts. */
  'cgroup.missing': query<{ path: string }, { missing: readonly string[] }>(),
  /** Creates the cgroup where it is missing, with all cgroups above it, and limits it to `resources`. */
  'cgroup.ensure': idempotent<DesiredCgroup, null>(),
  /** Fails with code `ENOENT` when the cgroup does not exist. */
  'cgroup.update': idempotent<DesiredCgroup, null>(),
  /** Limits existing cgroups to their resources, now and each period. */
  'cgroup.hold': stream<{ group: string; desired: readonly DesiredCgroup[]; periodMs: number }, CgroupsHeld>(),
  /**
   * Kills processes that still run in the cgroups, then removes them and all below. A missing one is ignored. Refuses
   * paths that are not below `within`, and the root as `within`: a wrong path must not end the machine.
   */
  'cgroup.destroy': idempotent<{ driver: CgroupDriver; paths: readonly string[]; within: string }, null>(),
  /** Cgroups of pods right below `parents`, with the uid in their name. */
  'cgroup.listPods': query<
    { driver: CgroupDriver; parents: readonly string[] },
    { pods: readonly { uid: string; path: string }[] }
  >(),
  /** Bytes that the cgroup uses now, and by id those of containers whose cgroups are right below it. */
  'cgroup.memoryUsage': query<
    { path: string; containers: readonly string[] },
    { bytes: string; containers: Readonly<Record<string, string>> }
  >(),
  /** The cgroup of this process. Fails where CPU and memory are accounted in different ones. */
  'cgroup.own': query<Nothing, { path: string }>(),
  /**
   * Keeps processes in the cgroup `path`, which is created: this agent with `oomScoreAdj`, or every process of the
   * system that is still in the root cgroup, except the kernel's own and the first one. Now and each period.
   */
  'cgroup.gather': stream<
    { path: string; who: 'kubelet' | 'system'; oomScoreAdj: number; periodMs: number },
    CgroupsHeld
  >(),
};
