/** The charts of {@link MACHINES}, and the machine of an actor by where it is. */
import { type Chart, type ChartNode, statesIn } from '../../actors/server/visualizer/phases.ts';
import { MACHINES, type MachineTable, ROOT, type StateTable } from './chart-table.ts';

export interface Machine extends Chart {
  readonly table: MachineTable;
}

const machines = new Map(Object.entries(MACHINES).map(([id, table]) => [id, machineOf(id, table)] as const));

const machineNamed = (id: string): Machine | undefined => machines.get(id);
export const root = (): Machine | undefined => machineNamed(ROOT);

/** The machine of the logic of this name. */
export const machineBySrc = ({ table }: Machine, src: string): Machine | undefined =>
  Object.hasOwn(table.actors, src) ? machineNamed(table.actors[src] ?? '') : undefined;

/**
 * The machine of a child: that which its parent invokes under this id, else the only one whose chart has its first
 * states, else of several such that whose name the id begins with.
 */
export function childOf(parent: Machine, id: string, value: unknown): Machine | undefined {
  const { actors, invoked } = parent.table;
  const byId = machineBySrc(parent, Object.hasOwn(invoked, id) ? (invoked[id] ?? '') : id);
  if (byId) return byId;
  const all = Object.keys(actors).flatMap((src) => {
    const machine = machineBySrc(parent, src);
    return machine ? [{ src, machine }] : [];
  });
  const fitting = all.filter(({ machine }) => statesIn(machine, value).unknown.length === 0);
  const some = fitting.length > 0 ? fitting : all;
  const named = some.find(({ src, machine }) => [src, machine.id].some((name) => id.startsWith(`${name}-`)));
  return (fitting.length === 1 ? fitting[0] : named)?.machine;
}

function machineOf(id: string, table: MachineTable): Machine {
  let order = 0;
  const nodeOf = (state: StateTable, path: readonly string[], parent: ChartNode | undefined): ChartNode => {
    const states: Record<string, ChartNode> = {};
    const own = { id: state.id ?? [id, ...path].join('.'), key: path.at(-1) ?? id, path, order: order++ };
    const node = { ...own, meta: state.meta, parent, states };
    for (const [key, below] of Object.entries(state.states ?? {})) states[key] = nodeOf(below, [...path, key], node);
    return node;
  };
  return { id, root: nodeOf(table.root, [], undefined), table };
}
