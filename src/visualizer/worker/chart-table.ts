/**
 * The charts of all machines as plain values, for a page that shows a journal before the machines are loaded. The
 * page's bundle has the values in place of this file.
 */
import { isNamed } from '../../actors/server/visualizer/phases.ts';
import { memberOf } from '../../kernel/json.ts';
import type { AnyStateMachine, AnyStateNode } from '../../kernel/steps.ts';
import { chartsOf } from '../../kernel/steps.ts';
import { kubeletMachine } from '../../machines/startup/kubelet.ts';

export interface StateTable {
  /** Absent: the machine's id with the path. */
  readonly id?: string;
  readonly meta?: { readonly steps?: unknown; readonly waitsFor?: unknown };
  readonly states?: Readonly<Record<string, StateTable>>;
}

export interface MachineTable {
  readonly root: StateTable;
  /** By the name of its logic, the machine of a child. */
  readonly actors: Readonly<Record<string, string>>;
  /** By its id, the name of the logic of a child that a state invokes under another id. */
  readonly invoked: Readonly<Record<string, string>>;
}

export const ROOT: string = kubeletMachine.id;

export const MACHINES: Readonly<Record<string, MachineTable>> = Object.fromEntries(
  chartsOf(kubeletMachine).map(({ id, states }) => [id, tableOf(id, states)]),
);

function tableOf(id: string, states: readonly AnyStateNode[]): MachineTable {
  const [root] = states;
  if (!root) throw new Error(`${id} has no state`);
  const logics = Object.entries(root.machine.implementations.actors ?? {});
  const actors = Object.fromEntries(logics.flatMap(([src, logic]) => (isMachine(logic) ? [[src, logic.id]] : [])));
  const invokes = states.flatMap(({ invoke }) => invoke.map(({ id: own, src }) => [own, src] as const));
  const invoked = Object.fromEntries(
    invokes.filter(([own, src]) => typeof src === 'string' && own !== src && Object.hasOwn(actors, src)),
  ) as Readonly<Record<string, string>>;
  return { root: stateOf(root, id), actors, invoked };
}

function isMachine(logic: unknown): logic is AnyStateMachine {
  return memberOf(logic, 'root') !== undefined;
}

function stateOf(node: AnyStateNode, machine: string): StateTable {
  const states = Object.entries(node.states).map(([key, child]) => [key, stateOf(child, machine)]);
  const { steps, waitsFor } = (node.meta ?? {}) as NonNullable<StateTable['meta']>;
  return {
    ...(node.id === [machine, ...node.path].join('.') ? {} : { id: node.id }),
    ...(isNamed(node) ? { meta: { steps, waitsFor } } : {}),
    ...(states.length > 0 ? { states: Object.fromEntries(states) } : {}),
  };
}
