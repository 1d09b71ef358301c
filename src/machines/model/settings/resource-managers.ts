/**
 * Settings of the managers of exclusive CPUs, memory and devices, derived once at startup.
 *
 * Upstream: cm/cpumanager, cm/memorymanager, cm/topologymanager.
 */
import type { NumaSet } from '../operations/grants.ts';
import type { MachineTopology } from '../operations/host.ts';

export type Cpu = MachineTopology['cpus'][number];

export interface CpuManagerSettings {
  readonly cpus: readonly Cpu[];
  /** Reserved CPUs: shared by pods, unless `isReservationStrict`, and never exclusive. */
  readonly reserved: readonly number[];
  /** `full-pcpus-only`: two containers never share a core. */
  readonly wholeCores: boolean;
  /** `strict-cpu-reservation`. */
  readonly isReservationStrict: boolean;
  /** `distribute-cpus-across-numa`. */
  readonly isDistributed?: boolean;
  /** `prefer-align-cpus-by-uncorecache`. */
  readonly isCacheAligned?: boolean;
  /** `distribute-cpus-across-cores`: the threads of a core go to different containers. */
  readonly isSpread?: boolean;
  /** `align-by-socket`: the CPUs of a container come from one socket, where one is enough. */
  readonly isSocketAligned?: boolean;
  /** CPUs are chosen as 0.2.0 chose them; absent: as the kubelet does. */
  readonly isAsReleased?: boolean;
}

/** Bytes of one NUMA node by resource: total, and reserved for the system. */
export interface NumaMemory {
  readonly id: number;
  readonly memory: Readonly<Record<string, { readonly total: string; readonly systemReserved: string }>>;
}

export interface MemoryManagerSettings {
  readonly nodes: readonly NumaMemory[];
}

export type TopologyPolicy = 'best-effort' | 'restricted' | 'single-numa-node';

export interface TopologySettings {
  readonly policy: TopologyPolicy;
  /** The unit of alignment: each container by itself, or all containers of a pod together. */
  readonly scope: 'container' | 'pod';
  /** Ids of the NUMA nodes of the machine. */
  readonly nodes: NumaSet;
  /** With `prefer-closest-numa-nodes`: by NUMA node, its distance to each of `nodes`, in order. */
  readonly distances?: readonly (readonly number[])[];
}

/** The resources that can be exclusive; absent: all are shared. */
export interface ResourceManagers {
  readonly cpuManager?: CpuManagerSettings;
  readonly memoryManager?: MemoryManagerSettings;
  /** How exclusive resources are aligned; absent: not at all. */
  readonly topology?: TopologySettings;
}
