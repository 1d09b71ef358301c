/**
 * The states of a chart and which of them are active, for the kernel and for read models, so that read models need not
 * know XState. Machines and ports never use this.
 */
import { type AnyStateMachine, type AnyStateNode, getStateNodes } from 'xstate';

export type { AnyStateMachine, AnyStateNode } from 'xstate';

/** The active states of an actor, from its snapshot; `undefined` for an actor without a chart. */
export const stateNodesOf = (snapshot: unknown): readonly AnyStateNode[] | undefined =>
  (snapshot as { readonly _nodes?: readonly AnyStateNode[] } | undefined)?._nodes;

/** The state and all its descendants. */
export const statesBelow = (node: AnyStateNode): AnyStateNode[] => [
  node,
  ...Object.values(node.states).flatMap(statesBelow),
];

/** The machine of a snapshot, or `undefined` if the actor is no machine. */
export function machineOf(snapshot: unknown): AnyStateMachine | undefined {
  return (snapshot as { machine?: AnyStateMachine } | undefined)?.machine;
}

/** The active states of a state value, in the order of the definition: parents before children. */
export function activeStates(machine: AnyStateMachine, value: unknown): AnyStateNode[] {
  const nodes = new Set<AnyStateNode>(getStateNodes(machine.root, value as never));
  return [...nodes].sort((a, b) => a.order - b.order);
}
