/**
 * What pods were given of this node, as it is kept between starts. Amounts are decimal text: bytes, or whole units.
 *
 * Upstream: pkg/kubelet/allocation/state, cm/cpumanager/state, cm/memorymanager/state, cm/devicemanager/checkpoint.
 */
import type { QOSClass, ResourceRequirements } from '../api/pod.ts';
import type { DeviceResponse } from './devices.ts';

/** Ids, ascending. */
export type NumaSet = readonly number[];

/** By container, a list of CPUs such as `1-2,5`. */
export type ExclusiveCpus = Readonly<Record<string, string>>;

/** Bytes of one resource that come from these nodes. */
export interface MemoryBlock {
  readonly numaAffinity: NumaSet;
  readonly type: string;
  readonly size: string;
}

/** By container. */
export type MemoryBlocks = Readonly<Record<string, readonly MemoryBlock[]>>;

/** What a container holds of one resource. */
export interface DeviceHolding {
  /** Ids by NUMA node, `-1` where there is none, as upstream keeps them. */
  readonly nodes: Readonly<Record<string, readonly string[]>>;
  /** What the plugin said that the container needs; `null` while it was not asked. */
  readonly response: DeviceResponse | null;
}

/** By container and resource. */
export type DeviceHoldings = Readonly<Record<string, Readonly<Record<string, DeviceHolding>>>>;

/** What a pod was given. */
export interface Holding {
  /** CPUs that are of its containers alone. */
  readonly cpus?: ExclusiveCpus;
  /** Memory that its containers have from chosen nodes. */
  readonly memory?: MemoryBlocks;
  readonly devices?: DeviceHoldings;
}

/** By name of the resource. */
type Amounts = Readonly<Record<string, string>>;

/** A port of the node that a container takes. */
export interface HostPort {
  readonly ip: string;
  readonly protocol: string;
  readonly port: number;
}

/** What a pod holds while it is on the node. */
export interface PodDemand {
  readonly requests: Amounts;
  readonly ports: readonly HostPort[];
  readonly qos: QOSClass;
  /** `null`: it has none, and no other pod's is lower. */
  readonly priority: number | null;
  /** Static, mirror, or of a critical priority: never evicted for want of resources. */
  readonly isCritical: boolean;
}

/** What a resize may change: resources by container, and of the pod as a whole under the empty name. */
export type Allocation = Readonly<Record<string, ResourceRequirements>>;

/** What a pod was given, for the next incarnation. */
export interface Grant extends Holding {
  readonly demand: PodDemand;
  readonly allocation: Allocation;
  /** The pod is over: it holds nothing any more. */
  readonly ended?: true;
}
