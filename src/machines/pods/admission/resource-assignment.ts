/**
 * What the containers of one pod are given for themselves, container by container, as they begin: CPUs, then memory.
 * Pure. Invariant: a pod is given all of it or nothing.
 */
import {
  allocateCpus,
  type CpuManagerSettings,
  type CpuProgress,
  cpuHints,
  type ExclusiveCpus,
} from './cpu-manager.ts';
import { allocateMemory, type MemoryProgress, memoryHints } from './memory-manager.ts';
import type { MemoryBlocks, MemoryManagerSettings } from './memory-state.ts';
import type { NumaHint } from './numa.ts';
import type { Rejection } from './predicates.ts';
import { align, type ProviderHints, type TopologySettings } from './topology-manager.ts';
import type { ContainerWish } from './wishes.ts';

/** What of the node is given to single containers; absent: it is everybody's. */
export interface ResourceManagers {
  readonly cpuManager?: CpuManagerSettings;
  readonly memoryManager?: MemoryManagerSettings;
  /** What of it should come from the same place; absent: nothing has to. */
  readonly topology?: TopologySettings;
}

/** What a pod was given. */
export interface Holding {
  /** CPUs that are of its containers alone. */
  readonly cpus?: ExclusiveCpus;
  /** Memory that its containers have from chosen nodes. */
  readonly memory?: MemoryBlocks;
}

export type Assignment = Holding | Refused;

interface Progress {
  readonly cpu: CpuProgress;
  readonly memory: MemoryProgress;
}

const NOTHING: Progress = { cpu: { cpus: {}, reusable: [] }, memory: { blocks: {}, inits: [] } };

/** Nobody says where it should come from. */
const ANYWHERE: NumaHint = { nodes: null, preferred: false };

type Refused = { readonly rejection: Rejection };

export function assign(
  managers: ResourceManagers,
  wishes: readonly ContainerWish[],
  grants: readonly Holding[],
): Assignment {
  const ofPod = managers.topology?.scope === 'pod' ? hintFor(managers, grants, NOTHING, podWish(wishes)) : null;
  let progress = NOTHING;
  for (const wish of wishes) {
    const hint = ofPod ?? hintFor(managers, grants, progress, wish);
    if ('rejection' in hint) return hint;
    const step = give(managers, grants, progress, wish, hint);
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

type Wanted = Pick<ContainerWish, 'cpus' | 'memory'>;

function hintFor(
  { topology, cpuManager, memoryManager }: ResourceManagers,
  grants: readonly Holding[],
  { cpu, memory }: Progress,
  wanted: Wanted,
): NumaHint | Refused {
  if (topology === undefined) return ANYWHERE;
  const cpus: ProviderHints =
    cpuManager === undefined || wanted.cpus === undefined
      ? {}
      : { cpu: cpuHints(cpuManager, grants, cpu, wanted.cpus) };
  return align(topology, [
    cpus,
    memoryManager === undefined || wanted.memory === undefined
      ? {}
      : hintsOfMemory(memoryHints(memoryManager, grants, memory, wanted.memory), wanted.memory),
  ]);
}

/** Memory that cannot be had at all is not hinted about; giving it then says why. */
const hintsOfMemory = (hints: readonly NumaHint[], amounts: Readonly<Record<string, string>>): ProviderHints =>
  hints.length === 0 ? {} : Object.fromEntries(Object.keys(amounts).map((type) => [type, hints]));

/** What a pod has at once: its containers and sidecars together, or an init container with the sidecars before it. */
function podWish(wishes: readonly ContainerWish[]): Wanted {
  const most = (of: (wish: ContainerWish) => bigint): bigint => {
    let [running, peak] = [0n, 0n];
    for (const wish of wishes) {
      const sum = running + of(wish);
      if (!wish.isInit) running = sum;
      if (sum > peak) peak = sum;
    }
    return peak;
  };
  const types = [...new Set(wishes.flatMap(({ memory = {} }) => Object.keys(memory)))].toSorted();
  const cpus = most((wish) => BigInt(wish.cpus ?? 0));
  const memory = types.map((type) => [type, String(most((wish) => BigInt(wish.memory?.[type] ?? '0')))]);
  return {
    ...(cpus === 0n ? {} : { cpus: Number(cpus) }),
    ...(types.length === 0 ? {} : { memory: Object.fromEntries(memory) }),
  };
}

function give(
  { cpuManager, memoryManager }: ResourceManagers,
  grants: readonly Holding[],
  progress: Progress,
  wish: ContainerWish,
  hint: NumaHint,
): Progress | Refused {
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
