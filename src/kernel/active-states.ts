/**
 * For read models: which states of an actor's chart are active. Machines and ports never ask this; it exists so that
 * only the kernel has to know XState.
 */
import { type AnyStateMachine, type AnyStateNode, getStateNodes } from 'xstate';

export type { AnyStateMachine, AnyStateNode } from 'xstate';

/** The machine of a snapshot, or undefined when the actor is no machine. */
export function machineOf(snapshot: unknown): AnyStateMachine | undefined {
  return (snapshot as { machine?: AnyStateMachine } | undefined)?.machine;
}

/** The active states in the order of the definition: parents before children. */
export function activeStates(machine: AnyStateMachine, value: unknown): AnyStateNode[] {
  const nodes = new Set<AnyStateNode>(getStateNodes(machine.root, value as never));
  return [...nodes].sort((a, b) => a.order - b.order);
}
