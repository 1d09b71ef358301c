/**
 * The states of a chart and which of them are active, for the kernel and for read models, so that read models need not
 * know XState. Machines and ports never use this.
 */
import type { AnyStateNode } from 'xstate';

export type { AnyStateMachine, AnyStateNode } from 'xstate';

/** The active states of an actor, from its snapshot; `undefined` for an actor without a chart. */
export const stateNodesOf = (snapshot: unknown): readonly AnyStateNode[] | undefined =>
  (snapshot as { readonly _nodes?: readonly AnyStateNode[] } | undefined)?._nodes;

/** The state and all its descendants. */
export const statesBelow = (node: AnyStateNode): AnyStateNode[] => [
  node,
  ...Object.values(node.states).flatMap(statesBelow),
];
