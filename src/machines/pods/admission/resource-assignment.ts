/**
 * What the containers of one pod are given for themselves, container by container, as they begin: CPUs, then memory.
 * Pure. Invariant: a pod is given all of it or nothing.
 */
import { allocateCpus, type CpuManagerSettings, type CpuProgress, type ExclusiveCpus } from './cpu-manager.ts';
import { allocateMemory, type MemoryProgress } from './memory-manager.ts';
import type { MemoryBlocks, MemoryManagerSettings } from './memory-state.ts';
import type { NumaHint } from './numa.ts';
import type { Rejection } from './predicates.ts';
import type { ContainerWish } from './wishes.ts';

/** What of the node is given to single containers; absent: it is everybody's. */
export interface ResourceManagers {
  readonly cpuManager?: CpuManagerSettings;
  readonly memoryManager?: MemoryManagerSettings;
}

/** What a pod was given. */
export interface Holding {
  /** CPUs that are of its containers alone. */
  readonly cpus?: ExclusiveCpus;
  /** Memory that its containers have from chosen nodes. */
  readonly memory?: MemoryBlocks;
}

export type Assignment = Holding | { readonly rejection: Rejection };

interface Progress {
  readonly cpu: CpuProgress;
  readonly memory: MemoryProgress;
}

const NOTHING: Progress = { cpu: { cpus: {}, reusable: [] }, memory: { blocks: {}, inits: [] } };

/** Nobody says where it should come from. */
const ANYWHERE: NumaHint = { nodes: null, preferred: false };

export function assign(
  managers: ResourceManagers,
  wishes: readonly ContainerWish[],
  grants: readonly Holding[],
): Assignment {
  let progress = NOTHING;
  for (const wish of wishes) {
    const step = give(managers, grants, progress, wish, ANYWHERE);
    if ('rejection' in step) return step;
    progress = step;
  }
  const { cpus } = progress.cpu;
  const { blocks } = progress.memory;
  return {
    ...(Object.keys(cpus).length === 0 ? {} : { cpus }),
    ...(Object.keys(blocks).length === 0 ? {} : { memory: blocks }),
  };
}

function give(
  { cpuManager, memoryManager }: ResourceManagers,
  grants: readonly Holding[],
  progress: Progress,
  wish: ContainerWish,
  hint: NumaHint,
): Progress | { readonly rejection: Rejection } {
  const cpu =
    cpuManager === undefined || wish.cpus === undefined
      ? progress.cpu
      : allocateCpus(cpuManager, grants, progress.cpu, wish, wish.cpus, hint.nodes);
  if ('rejection' in cpu) return cpu;
  const memory =
    memoryManager === undefined || wish.memory === undefined
      ? progress.memory
      : allocateMemory(memoryManager, grants, progress.memory, wish, wish.memory, hint);
  return 'rejection' in memory ? memory : { cpu, memory };
}
