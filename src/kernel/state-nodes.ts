/** The states of a chart as XState has them. */
import type { AnyStateNode } from 'xstate';

/** The active states of an actor; `undefined` of one that has no chart. */
export const stateNodesOf = (snapshot: unknown): readonly AnyStateNode[] | undefined =>
  (snapshot as { readonly _nodes?: readonly AnyStateNode[] } | undefined)?._nodes;

/** The state itself, and all in it. */
export const statesBelow = (node: AnyStateNode): AnyStateNode[] => [
  node,
  ...Object.values(node.states).flatMap(statesBelow),
];
