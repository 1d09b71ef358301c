/**
 * Resources granted to pods, in the form stored between starts. Amounts are decimal text: bytes, or whole units.
 *
 * Upstream: pkg/kubelet/allocation/state, cm/cpumanager/state, cm/memorymanager/state, cm/devicemanager/checkpoint.
 */
import type { QOSClass, ResourceRequirements } from '../api/pod.ts';
import type { DeviceResponse } from './devices.ts';

/** Ids of NUMA nodes, ascending. */
export type NumaSet = readonly number[];

/** Exclusive CPUs by container: a list such as `1-2,5`. */
export type ExclusiveCpus = Readonly<Record<string, string>>;

/** Bytes of one resource from these NUMA nodes. */
export interface MemoryBlock {
  readonly numaAffinity: NumaSet;
  readonly type: string;
  readonly size: string;
}

export type MemoryBlocks = Readonly<Record<string, readonly MemoryBlock[]>>;

export interface DeviceHolding {
  /** Ids by NUMA node, `-1` for no node, as upstream stores them. */
  readonly nodes: Readonly<Record<string, readonly string[]>>;
  /** The plugin's response for the container; `null` while the plugin was not called. */
  readonly response: DeviceResponse | null;
}

/** Devices by container and resource. */
export type DeviceHoldings = Readonly<Record<string, Readonly<Record<string, DeviceHolding>>>>;

/** The exclusive resources of a pod. */
export interface Holding {
  /** Exclusive CPUs of its containers. */
  readonly cpus?: ExclusiveCpus;
  /** Memory of its containers from assigned NUMA nodes. */
  readonly memory?: MemoryBlocks;
  readonly devices?: DeviceHoldings;
}

/** Amounts by name of the resource. */
type Amounts = Readonly<Record<string, string>>;

export interface HostPort {
  readonly ip: string;
  readonly protocol: string;
  readonly port: number;
}

/** The resources of the node that a pod holds. */
export interface PodDemand {
  readonly requests: Amounts;
  readonly ports: readonly HostPort[];
  readonly qos: QOSClass;
  /** `null`: the pod has no priority, which is the lowest. */
  readonly priority: number | null;
  /** Static, mirror, or of a critical priority: never evicted because of a shortage. */
  readonly isCritical: boolean;
}

/** Resources that a resize may change, by container; resources of the whole pod have an empty name. */
export type Allocation = Readonly<Record<string, ResourceRequirements>>;

/** A pod's grant, for the next incarnation. */
export interface Grant extends Holding {
  readonly demand: PodDemand;
  readonly allocation: Allocation;
  /** The pod has ended and holds nothing. */
  readonly ended?: true;
}
