/**
 * The memory and huge pages of each NUMA node, and the blocks that containers hold. Pure.
 *
 * Upstream: memorymanager/state. Invariant: the state is derived from the grants of pods, in their order, and from
 * nothing else.
 */
import type { MemoryBlock, MemoryBlocks, NumaSet } from '../operations/grants.ts';
import type { MachineInfo } from '../operations/host.ts';
import type { MemoryManagerSettings, NumaMemory } from '../settings/node-settings.ts';
import { mapValues } from '../values/tables.ts';
import { isSameSet } from './topology-manager.ts';

export interface MemoryTable {
  readonly total: bigint;
  readonly systemReserved: bigint;
  readonly allocatable: bigint;
  readonly reserved: bigint;
  readonly free: bigint;
}

export interface NodeMemory {
  /** How many blocks come from this node. */
  readonly assignments: number;
  readonly tables: ReadonlyMap<string, MemoryTable>;
  /** The node itself, and the nodes of its group. */
  readonly cells: NumaSet;
}

export type MachineMemory = ReadonlyMap<number, NodeMemory>;

const MEMORY = 'memory';

function emptyNode({ id, memory }: NumaMemory): NodeMemory {
  const huge = Object.entries(memory)
    .filter(([type]) => type !== MEMORY)
    .reduce((sum, [, { total }]) => sum + BigInt(total), 0n);
  const tables = Object.entries(memory).map(([type, { total, systemReserved }]) => {
    const rest = BigInt(total) - BigInt(systemReserved) - (type === MEMORY ? huge : 0n);
    const allocatable = rest > 0n ? rest : 0n;
    const amounts = { total: BigInt(total), systemReserved: BigInt(systemReserved), allocatable };
    return [type, { ...amounts, reserved: 0n, free: allocatable }] as const;
  });
  return { assignments: 0, tables: new Map(tables), cells: [id] };
}

/**
 * The remaining memory after these blocks. Blocks of nodes or resources that the machine no longer has do not count.
 */
export function machineMemory({ nodes }: MemoryManagerSettings, given: readonly MemoryBlocks[]): MachineMemory {
  const machine = new Map(nodes.map((node) => [node.id, emptyNode(node)]));
  for (const block of given.flatMap((blocks) => Object.values(blocks).flat())) occupy(machine, block);
  return machine;
}

/** Takes a block from its nodes in order, as much as each has. */
function occupy(machine: Map<number, NodeMemory>, { numaAffinity, type, size }: MemoryBlock): void {
  let remainingBytes = BigInt(size);
  for (const id of numaAffinity) {
    const node = machine.get(id);
    if (node === undefined) continue;
    const table = node.tables.get(type);
    const taken =
      table === undefined || table.free >= remainingBytes ? (table === undefined ? 0n : remainingBytes) : table.free;
    remainingBytes -= taken;
    const after = table && { ...table, reserved: table.reserved + taken, free: table.free - taken };
    machine.set(id, {
      assignments: node.assignments + 1,
      cells: numaAffinity,
      tables: after === undefined ? node.tables : new Map([...node.tables, [type, after]]),
    });
  }
}

/** True if these nodes may serve a container: a group only as a whole, and a node of a group not alone. */
export function isFree(machine: MachineMemory, nodes: NumaSet): boolean {
  return nodes.every((id) => {
    const { assignments = 0, cells = [] } = machine.get(id) ?? {};
    if (nodes.length === 1) return cells.length === 1;
    return assignments === 0 || (cells.length > 1 && isSameSet(cells, nodes));
  });
}

export const allocatableMemory = (settings: MemoryManagerSettings): readonly MemoryBlock[] =>
  [...machineMemory(settings, [])].flatMap(([id, { tables }]) =>
    [...tables].flatMap(([type, { allocatable }]) =>
      allocatable === 0n ? [] : [{ numaAffinity: [id], type, size: String(allocatable) }],
    ),
  );

const BYTES_PER_KIB = 1_024n;
const KIB_PER_MIB = 1_024;
const KIB_PER_GIB = 1_024 * 1_024;

/** As the API names it: `hugepages-2Mi`, `hugepages-1Gi`, `hugepages-64Ki`. */
export function hugePageResource(kib: number): string {
  if (kib % KIB_PER_GIB === 0) return `hugepages-${kib / KIB_PER_GIB}Gi`;
  return kib % KIB_PER_MIB === 0 ? `hugepages-${kib / KIB_PER_MIB}Mi` : `hugepages-${kib}Ki`;
}

/** Reserved bytes by NUMA node and resource. */
export type SystemReserved = ReadonlyMap<number, ReadonlyMap<string, bigint>>;

/** A machine without information about NUMA nodes is one node. */
export function numaNodesOf({ topology, memoryBytes, hugePageTotals }: MachineInfo) {
  if (topology.numaNodes.length === 0) return [{ id: 0, totals: { ...hugePageTotals, [MEMORY]: memoryBytes } }];
  return topology.numaNodes.map(({ id, memoryBytes: memory, hugePages }) => ({
    id,
    totals: {
      ...Object.fromEntries(
        hugePages.map(({ kib, count }) => [hugePageResource(kib), String(BigInt(kib) * BYTES_PER_KIB * BigInt(count))]),
      ),
      [MEMORY]: memory,
    },
  }));
}

export const memorySettings = (machine: MachineInfo, reserved: SystemReserved): MemoryManagerSettings => ({
  nodes: numaNodesOf(machine).map(({ id, totals }) => ({
    id,
    memory: mapValues(totals, (total, type) => ({ total, systemReserved: String(reserved.get(id)?.get(type) ?? 0n) })),
  })),
});
