/**
 * `memory_manager_state`: the NUMA nodes of containers' memory in the kubelet's format, derived from the grants of
 * `allocation`. Pure. Upstream: memorymanager/state/checkpoint.go and policy_static.go (validateState).
 */

import { isObject } from '../../../kernel/xstate.ts';
import type { MemoryBlock, MemoryBlocks } from '../operations/grants.ts';
import type { MemoryManagerSettings } from '../settings/node-settings.ts';
import {
  CORRUPTED,
  checksumOf,
  decoded,
  goField,
  goList,
  goMap,
  goPointer,
  goStruct,
  sortedEntries,
} from './checkpoint.ts';
import { type MachineMemory, type MemoryTable, machineMemory } from './memory-state.ts';

/** Kubelets since 1.36 print the type with its number, and read the older name as well. */
const TYPE = 'state.MemoryManagerCheckpoint';
const NUMBERED_TYPE = 'state.MemoryManagerCheckpointV1';

/** Amounts are whole bytes: text here, numbers with all digits in the file. */
interface Table {
  readonly total: string;
  readonly systemReserved: string;
  readonly allocatable: string;
  readonly reserved: string;
  readonly free: string;
}

interface NodeState {
  readonly numberOfAssignments: number;
  readonly memoryMap: Readonly<Record<string, Table>>;
  readonly cells: readonly number[];
}

export interface MemoryState {
  readonly policyName: string;
  /** By id of the NUMA node. */
  readonly machineState: Readonly<Record<string, NodeState>>;
  /** By uid of a pod. */
  readonly entries: Readonly<Record<string, MemoryBlocks>>;
}

const inText = ({ total, systemReserved, allocatable, reserved, free }: MemoryTable): Table => ({
  total: String(total),
  systemReserved: String(systemReserved),
  allocatable: String(allocatable),
  reserved: String(reserved),
  free: String(free),
});

const stateOfMachine = (machine: MachineMemory): MemoryState['machineState'] =>
  Object.fromEntries(
    [...machine].map(([id, { assignments, tables, cells }]) => [
      String(id),
      {
        numberOfAssignments: assignments,
        memoryMap: Object.fromEntries([...tables].map(([type, table]) => [type, inText(table)])),
        cells,
      },
    ]),
  );

/** Without a memory manager the policy is `None`, and no memory is recorded. */
export const memoryState = (
  policyName: string,
  manager: MemoryManagerSettings | undefined,
  entries: MemoryState['entries'],
): MemoryState => ({
  policyName,
  machineState: manager === undefined ? {} : stateOfMachine(machineMemory(manager, Object.values(entries))),
  entries,
});

const printedTable = ({ total, systemReserved, allocatable, reserved, free }: Table): string =>
  goStruct(
    goField('TotalMemSize', 'uint64', total),
    goField('SystemReserved', 'uint64', systemReserved),
    goField('Allocatable', 'uint64', allocatable),
    goField('Reserved', 'uint64', reserved),
    goField('Free', 'uint64', free),
  );

const printedNode = ({ numberOfAssignments, memoryMap, cells }: NodeState): string =>
  goStruct(
    goField('NumberOfAssignments', 'int', String(numberOfAssignments)),
    goField(
      'MemoryMap',
      'map[v1.ResourceName]*state.MemoryTable',
      goMap(sortedEntries(memoryMap).map(([type, table]) => [type, goPointer(printedTable(table))])),
    ),
    goField('Cells', '[]int', goList(cells.map(String))),
  );

const printedBlock = ({ numaAffinity, type, size }: MemoryBlock): string =>
  goStruct(
    goField('NUMAAffinity', '[]int', goList(numaAffinity.map(String))),
    goField('Type', 'v1.ResourceName', type),
    goField('Size', 'uint64', size),
  );

const printedBlocks = (blocks: MemoryBlocks): string =>
  goMap(sortedEntries(blocks).map(([container, list]) => [container, goList(list.map(printedBlock))]));

const checksum = ({ policyName, machineState, entries }: MemoryState, type = TYPE): number =>
  checksumOf(
    type,
    goStruct(
      goField('PolicyName', 'string', policyName),
      goField(
        'MachineState',
        'state.NUMANodeMap',
        goMap(Object.entries(machineState).map(([id, node]) => [Number(id), goPointer(printedNode(node))])),
      ),
      goField(
        'Entries',
        'state.ContainerMemoryAssignments',
        goMap(sortedEntries(entries).map(([uid, blocks]) => [uid, printedBlocks(blocks)])),
      ),
      goField('Checksum', 'checksum.Checksum', '0'),
    ),
  );

const AMOUNTS = /"(total|systemReserved|allocatable|reserved|free|size)":"(\d+)"/g;

export function memoryStateText(state: MemoryState): string {
  const { policyName, machineState, entries } = state;
  const inOrder = <Value>(table: Readonly<Record<string, Value>>) => Object.fromEntries(sortedEntries(table));
  const nodes = Object.entries(machineState).map(([id, node]) => [id, { ...node, memoryMap: inOrder(node.memoryMap) }]);
  const pods = sortedEntries(entries).map(([uid, blocks]) => [uid, inOrder(blocks)]);
  const text = JSON.stringify({
    policyName,
    machineState: Object.fromEntries(nodes),
    ...(pods.length === 0 ? {} : { entries: Object.fromEntries(pods) }),
    checksum: checksum(state),
  });
  return text.replaceAll(AMOUNTS, '"$1":$2');
}

/** Why an existing file keeps the node from starting; empty if it does not. */
export function memoryStateProblem(text: string, policy: string): string {
  const state = read(text);
  if (typeof state === 'string') return state;
  return state.policyName === policy
    ? ''
    : `[memorymanager] configured policy ${JSON.stringify(policy)} differs from state checkpoint policy ` +
        JSON.stringify(state.policyName);
}

/** The memory blocks of containers that the file names, by pod uid. */
export function memoryEntries(text: string): MemoryState['entries'] {
  const state = read(text);
  return typeof state === 'string' ? {} : state.entries;
}

/** Upstream's error about a file of another machine or with other reservations; empty if it fits. */
export function memoryMismatch(text: string, manager: MemoryManagerSettings): string {
  const state = read(text);
  if (typeof state === 'string' || Object.keys(state.machineState).length === 0) return '';
  const expected = stateOfMachine(machineMemory(manager, []));
  const fixed = (nodes: MemoryState['machineState']): string =>
    JSON.stringify(
      sortedEntries(nodes).map(([id, { memoryMap }]) => [
        id,
        sortedEntries(memoryMap).map(([type, { total, systemReserved, allocatable }]) => [
          type,
          total,
          systemReserved,
          allocatable,
        ]),
      ]),
    );
  return fixed(expected) === fixed(state.machineState)
    ? ''
    : '[memorymanager] the expected machine state is different from the real one';
}

const BARE_AMOUNTS = /"(total|systemReserved|allocatable|reserved|free|size)"\s*:\s*(\d+)/g;

/** The content of the file, or why it cannot be used. */
function read(text: string): MemoryState | string {
  const found = decoded(text.replaceAll(BARE_AMOUNTS, '"$1":"$2"'), NUMBERED_TYPE);
  if ('error' in found) return found.error;
  const { policyName = '', machineState = {}, entries = {}, checksum: written = 0 } = found.value;
  if (typeof policyName !== 'string' || !isMachine(machineState) || !isEntries(entries)) return CORRUPTED;
  const state = { policyName, machineState, entries };
  return [0, checksum(state), checksum(state, NUMBERED_TYPE)].includes(Number(written)) ? state : CORRUPTED;
}

const isText = (value: unknown): value is string => typeof value === 'string';
const isIds = (value: unknown): value is readonly number[] =>
  Array.isArray(value) && value.every((id) => Number.isInteger(id));

const isTable = (value: unknown): boolean =>
  isObject(value) &&
  ['total', 'systemReserved', 'allocatable', 'reserved', 'free'].every((name) => isText(value[name]));

const isNode = (value: unknown): boolean =>
  isObject(value) &&
  typeof value['numberOfAssignments'] === 'number' &&
  isIds(value['cells']) &&
  isObject(value['memoryMap']) &&
  Object.values(value['memoryMap']).every(isTable);

const isMachine = (value: unknown): value is MemoryState['machineState'] =>
  isObject(value) && Object.values(value).every(isNode);

const isBlock = (value: unknown): boolean =>
  isObject(value) && isIds(value['numaAffinity']) && isText(value['type']) && isText(value['size']);

const isEntries = (value: unknown): value is MemoryState['entries'] =>
  isObject(value) &&
  Object.values(value).every(
    (blocks) => isObject(blocks) && Object.values(blocks).every((list) => Array.isArray(list) && list.every(isBlock)),
  );
