/**
 * What the node agent asks of the kernel's control groups. Implemented by `src/actors/cgroup`.
 *
 * A group is named by its path below the root of a hierarchy, as the kernel shows it (`/kubepods/burstable/pod<uid>`,
 * `/kubepods.slice/kubepods-burstable.slice`). Which version the machine has is the port's own knowledge: the same
 * request means the same on both. Amounts are decimal text, because they have 64 bits.
 */
import { idempotent, query, stream } from '../../../kernel/xstate.ts';

/** Who makes groups: this agent by itself, or systemd when it is asked. */
export type CgroupDriver = 'cgroupfs' | 'systemd';

/** What a group is held to. What is absent stays as it is. */
export interface CgroupResources {
  /** 2 to 262144; version 2 gets the weight that means the same. */
  readonly cpuShares?: string;
  /** Microseconds a period; -1: as much as there is. */
  readonly cpuQuotaUs?: string;
  readonly cpuPeriodUs?: string;
  readonly memoryBytes?: string;
  /** A group that uses more than `memoryBytes` already is held to what it uses. */
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

/** Sent once for each change between working and failing; `message` is empty when it works. `group`: who asked. */
export type CgroupsHeld = { readonly type: 'cgroups.held'; readonly group: string; readonly message: string };

type Nothing = Record<string, never>;

export const cgroupOperations = {
  /** Folders of the group that are not there; empty when the group exists in every hierarchy that counts. */
  'cgroup.missing': query<{ path: string }, { missing: readonly string[] }>(),
  /** Makes the group where it is missing, with all groups above it, and holds it to `resources`. */
  'cgroup.ensure': idempotent<DesiredCgroup, null>(),
  /** Fails with code `ENOENT` when there is no such group. */
  'cgroup.update': idempotent<DesiredCgroup, null>(),
  /** Holds existing groups to their resources, now and each period. */
  'cgroup.hold': stream<{ group: string; desired: readonly DesiredCgroup[]; periodMs: number }, CgroupsHeld>(),
  /**
   * Kills what still runs in the groups, then removes them and all groups below. No group is done, too. Refuses what is
   * not below `within`, and the root group as `within`: a wrong path must not end the machine.
   */
  'cgroup.destroy': idempotent<{ driver: CgroupDriver; paths: readonly string[]; within: string }, null>(),
  /** Groups of pods right below `parents`, with the uid that their name says. */
  'cgroup.listPods': query<
    { driver: CgroupDriver; parents: readonly string[] },
    { pods: readonly { uid: string; path: string }[] }
  >(),
  /** Bytes that the group uses now, and of the containers by id that have one right below it what those use. */
  'cgroup.memoryUsage': query<
    { path: string; containers: readonly string[] },
    { bytes: string; containers: Readonly<Record<string, string>> }
  >(),
  /** The group of this process. Fails where CPU and memory are counted in different ones. */
  'cgroup.own': query<Nothing, { path: string }>(),
  /**
   * Keeps processes in the group `path`, which is made: this agent with `oomScoreAdj`, or every process of the system
   * that is still in the root group, without the kernel's own and the first one. Now and each period.
   */
  'cgroup.gather': stream<
    { path: string; who: 'kubelet' | 'system'; oomScoreAdj: number; periodMs: number },
    CgroupsHeld
  >(),
};
