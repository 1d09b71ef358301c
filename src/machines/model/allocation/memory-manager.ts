/**
 * The memory manager's `Static` policy: assigns memory and huge pages of NUMA nodes to the containers of guaranteed
 * pods. Pure.
 *
 * Upstream: memorymanager/policy_static.go. Invariants: no NUMA node gives more than it has beyond its reservation; a
 * node serves containers alone or in one group with others, never both; memory of an init container is reused by later
 * containers.
 */

import type { Container, Pod } from '../api/pod.ts';
import type { MemoryBlock, MemoryBlocks, NumaSet } from '../operations/grants.ts';
import type { MemoryManagerSettings } from '../settings/node-settings.ts';
import { hasPodLevelResources, podQOS } from '../spec/qos.ts';
import { requestsOf } from '../spec/resources.ts';
import { wholeUnits } from '../values/quantity.ts';
import { valueIn } from '../values/tables.ts';
import { unexpected } from './device-manager.ts';
import { isFree, machineMemory, type NodeMemory } from './memory-state.ts';
import type { Rejection } from './request.ts';
import { contains, isNarrower, isSameSet, type NumaHint, subsetsOf } from './topology-manager.ts';

type Amounts = Readonly<Record<string, string>>;

const MEMORY = 'memory';
const isOfMemory = (name: string): boolean => name === MEMORY || name.startsWith('hugepages-');

/** Bytes by resource that a container gets from chosen nodes; `null` if its pod is not Guaranteed by its containers. */
export function pinnedMemory(pod: Pod, { resources }: Container): Amounts | null {
  if (podQOS(pod) !== 'Guaranteed' || hasPodLevelResources(pod.spec.resources)) return null;
  const amounts = Object.entries(requestsOf(resources)).filter(([name]) => isOfMemory(name));
  return Object.fromEntries(
    amounts.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([name, amount]) => [name, String(wholeUnits(amount))]),
  );
}

/** The memory of a pod so far, while its containers are assigned one after the other. */
export interface MemoryProgress {
  readonly blocks: MemoryBlocks;
  /** Init containers that have ended by then: their memory is reused. */
  readonly inits: readonly string[];
}

interface Granted {
  readonly memory?: MemoryBlocks;
}

/** The memory to choose from: the machine's memory, the blocks of other pods, and the blocks of the pod so far. */
interface MemoryInventory {
  readonly settings: MemoryManagerSettings;
  readonly grants: readonly Granted[];
  readonly progress: MemoryProgress;
}

interface MemoryRequest {
  readonly container: string;
  readonly isInit: boolean;
  /** Bytes by resource. */
  readonly memory: Amounts;
}

const machineOf = ({ settings, grants, progress: { blocks } }: MemoryInventory) =>
  machineMemory(settings, [...grants.flatMap(({ memory }) => (memory === undefined ? [] : [memory])), blocks]);

const reusableOf = ({ blocks, inits }: MemoryProgress, nodes: NumaSet, type: string): bigint =>
  inits
    .flatMap((init) => valueIn(blocks, init) ?? [])
    .filter((block) => block.type === type && isSameSet(block.numaAffinity, nodes))
    .reduce((sum, { size }) => sum + BigInt(size), 0n);

/** The sets of NUMA nodes that have these amounts, the narrowest first. */
export const memoryHints = (inventory: MemoryInventory, amounts: Amounts): readonly NumaHint[] =>
  hintsIn(machineOf(inventory), inventory.progress, entriesOf(amounts));

type Amount = readonly [type: string, size: bigint];
const entriesOf = (amounts: Amounts): readonly Amount[] =>
  Object.entries(amounts).map(([type, size]) => [type, BigInt(size)]);

type Machine = ReadonlyMap<number, NodeMemory>;

const sumOf = (machine: Machine, nodes: NumaSet, type: string, part: 'free' | 'allocatable'): bigint =>
  nodes.reduce((sum, node) => sum + (machine.get(node)?.tables.get(type)?.[part] ?? 0n), 0n);

/** A hint that names its nodes. */
interface PlacedHint extends NumaHint {
  readonly nodes: NumaSet;
}

function hintsIn(machine: Machine, progress: MemoryProgress, amounts: readonly Amount[]): readonly PlacedHint[] {
  const all = [...machine.keys()].toSorted((a, b) => a - b);
  const able = subsetsOf(all).filter((nodes) =>
    amounts.every(([type, size]) => sumOf(machine, nodes, type, 'allocatable') >= size),
  );
  const fewest = able[0]?.length ?? all.length;
  const has = (nodes: NumaSet): boolean =>
    amounts.every(([type, size]) => sumOf(machine, nodes, type, 'free') + reusableOf(progress, nodes, type) >= size);
  return able
    .filter((nodes) => isFree(machine, nodes) && has(nodes))
    .map((nodes) => ({ nodes, preferred: nodes.length === fewest }));
}

/** The best hint: a preferred one if there is any, then the one with the fewest nodes. */
function best(hints: readonly PlacedHint[]): PlacedHint | null {
  return hints.reduce<PlacedHint | null>((found, hint) => {
    if (found === null || (hint.preferred && !found.preferred)) return hint;
    return hint.preferred === found.preferred && isNarrower(hint.nodes, found.nodes) ? hint : found;
  }, null);
}

const NO_AFFINITY = 'failed to get the default NUMA affinity, no NUMA nodes with enough memory is available';
const NO_EXTENSION = 'failed to find NUMA nodes to extend the current topology hint';
const NOT_PREFERRED = 'failed to find the default preferred hint';
const NOT_EXTENDED = 'failed to find the extended preferred hint';
const VIOLATION = 'preferred hint violates NUMA node allocation';

/** The nodes for a container: the nodes of `hint`, or a larger set, or the reason why no nodes suffice. */
function choose(
  machine: Machine,
  progress: MemoryProgress,
  amounts: readonly Amount[],
  hint: NumaHint,
): { readonly nodes: NumaSet } | { readonly error: string } {
  const hints = hintsIn(machine, progress, amounts);
  let { nodes, preferred } = hint;
  if (nodes === null) {
    const bestHint = best(hints);
    if (bestHint === null) return { error: NO_AFFINITY };
    if (!bestHint.preferred && hint.preferred) return { error: NOT_PREFERRED };
    ({ nodes, preferred } = bestHint);
  }
  const narrow = nodes;
  if (!amounts.every(([type, size]) => sumOf(machine, narrow, type, 'free') >= size)) {
    const wider = best(hints.filter((each) => contains(each.nodes, narrow)));
    if (wider === null) return { error: NO_EXTENSION };
    if (!wider.preferred && preferred) return { error: NOT_EXTENDED };
    ({ nodes } = wider);
  }
  return isFree(machine, nodes) || nodes.length === 1 ? { nodes } : { error: VIOLATION };
}

export type MemoryStep = MemoryProgress | { readonly rejection: Rejection };

/** Memory for one container of a pod. */
export function allocateMemory(
  inventory: MemoryInventory,
  { container, isInit, memory }: MemoryRequest,
  hint: NumaHint,
): MemoryStep {
  const { progress } = inventory;
  const requested = entriesOf(memory);
  const answer = choose(machineOf(inventory), progress, requested, hint);
  if ('error' in answer) return { rejection: unexpected(`[memorymanager] ${answer.error}`) };
  const blocks = requested.map(([type, size]) => ({ numaAffinity: answer.nodes, type, size: String(size) }));
  return {
    blocks: { ...withoutReused(progress, blocks), [container]: blocks },
    inits: isInit ? [...progress.inits, container] : progress.inits,
  };
}

/**
 * Blocks that a container reuses from init containers are counted with that container, so that nothing is counted
 * twice.
 */
function withoutReused({ blocks, inits }: MemoryProgress, own: readonly MemoryBlock[]): MemoryBlocks {
  const rest = own.map((block) => ({ ...block, left: BigInt(block.size) }));
  const shrink = (block: MemoryBlock): MemoryBlock => {
    const reused = rest.find(
      ({ type, numaAffinity }) => type === block.type && isSameSet(numaAffinity, block.numaAffinity),
    );
    if (reused === undefined) return block;
    const size = BigInt(block.size);
    const taken = size < reused.left ? size : reused.left;
    reused.left -= taken;
    return { ...block, size: String(size - taken) };
  };
  const shrunk = inits.map((init) => [init, (valueIn(blocks, init) ?? []).map(shrink)] as const);
  return { ...blocks, ...Object.fromEntries(shrunk) };
}
