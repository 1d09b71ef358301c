/**
 * Operations that measure the usage of this machine. Implemented by `src/actors/stats`.
 *
 * Only measurements that machines use for decisions are here; statistics for clients (/stats/summary, metrics) go from
 * port to port and never through a machine. Amounts are decimal text in bytes, inodes or processes.
 */
import { query, stream } from '../../../kernel/xstate.ts';

export interface StatsPlace {
  readonly nodeName: string;
  readonly rootDir: string;
  readonly podLogsDir: string;
  /** The cgroup of all pods; empty without one. */
  readonly podsCgroup: string;
  /** Empty: not configured. */
  readonly systemCgroups: { readonly kubelet: string; readonly runtime: string; readonly misc: string };
}

export type EvictionSignal =
  | 'allocatableMemory.available'
  | 'containerfs.available'
  | 'containerfs.inodesFree'
  | 'imagefs.available'
  | 'imagefs.inodesFree'
  | 'memory.available'
  | 'nodefs.available'
  | 'nodefs.inodesFree'
  | 'pid.available';

export interface SignalObservation {
  readonly available: string;
  readonly capacity: string;
}

/** Observations by signal; failed ones are absent. */
export type Observations = Readonly<Partial<Record<EvictionSignal, SignalObservation>>>;

/** An amount as a quantity (`100Mi`), or a share of the capacity between 0 and 1. */
export type ThresholdValue = { readonly quantity: string } | { readonly share: number };

export interface EvictionThreshold {
  readonly signal: EvictionSignal;
  readonly value: ThresholdValue;
  /** 0 for a hard threshold. */
  readonly graceMs: number;
  readonly minReclaim: ThresholdValue | null;
}

/** The file systems of images and of the writable layers of containers. */
export interface DiskLayout {
  /** Images are on a file system of their own. */
  readonly dedicatedImageFs: boolean;
  /** Images and writable layers are on different file systems. */
  readonly splitContainerFs: boolean;
}

export interface DiskUse {
  readonly bytes: string;
  readonly inodes: string;
}

/** The usage of one pod; `null` if unknown. */
export interface PodUse {
  readonly uid: string;
  readonly workingSetBytes: string | null;
  readonly processes: string | null;
  readonly containers: readonly {
    readonly name: string;
    readonly workingSetBytes: string | null;
    readonly rootfs: DiskUse | null;
    readonly logs: DiskUse | null;
  }[];
  readonly volumes: Readonly<Record<string, DiskUse>>;
}

/** Local storage limits of a pod, as quantities (`1Gi`). */
export interface StorageLimits {
  /** Limits of volumes by name. */
  readonly emptyDirs: Readonly<Record<string, string>>;
  readonly pod: string | null;
  /** Limits of containers by name. */
  readonly containers: Readonly<Record<string, string>>;
}

export interface StorageExceeded {
  readonly kind: 'emptyDir' | 'pod' | 'container';
  /** The name of the volume or container; empty for the pod. */
  readonly name: string;
}

export const statsOperations = {
  'stats.diskLayout': query<{ place: StatsPlace }, DiskLayout>(),
  /** Observes every `periodMs`; emits when a threshold is crossed and when its minimum is reclaimed. */
  'stats.watchSignals': stream<
    { place: StatsPlace; thresholds: readonly EvictionThreshold[]; periodMs: number },
    | { readonly type: 'signals.changed'; readonly observations: Observations }
    | { readonly type: 'signals.failed'; readonly message: string }
  >(),
  /** Observes once; with the usage of every pod if `withPods`. */
  'stats.observe': query<
    { place: StatsPlace; withPods: boolean },
    { readonly observations: Observations; readonly pods: readonly PodUse[] }
  >(),
  /** Measures the folders of a pod every `periodMs`; emits when a limit is exceeded, and when it no longer is. */
  'stats.watchStorage': stream<
    {
      place: StatsPlace;
      pod: { readonly uid: string; readonly name: string; readonly namespace: string };
      limits: StorageLimits;
      /** Writable layers count for limits of containers: they are on the node's own file system. */
      countLayers: boolean;
      periodMs: number;
    },
    { readonly type: 'storage.changed'; readonly exceeded: StorageExceeded | null }
  >(),
};
