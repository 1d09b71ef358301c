/**
 * Events that no active state of a machine takes, found by an index of types, so that XState does not ask every state.
 *
 * Invariant: what is called unhandled here, XState would answer with the same snapshot and no action. An event that a
 * state may take, by its type or a wildcard, whatever its guard says, is never called so; nor is one that XState
 * itself knows, nor any while a state with `always` is active, whose guard may read the event.
 */
import type { AnyMachineSnapshot, AnyStateMachine, AnyStateNode } from 'xstate';
import { stateNodesOf, statesBelow } from './state-nodes.ts';

/** Types in an index; those that carry the ids of actors are without end. */
const TYPES_MAX = 4_096;
const ALL: ReadonlySet<string> = new Set(['xstate.init', 'xstate.stop']);
/** Ends an actor that does not take it. */
const ERROR = 'xstate.error.actor';

/** Whether an event of this type leaves a snapshot as it is. */
export type IsUnhandled = (snapshot: AnyMachineSnapshot, type: string) => boolean;

export function unhandledBy(machine: AnyStateMachine): IsUnhandled {
  const nodes = statesBelow(machine.root);
  const eventless = new Set(nodes.filter(({ always }) => always !== undefined));
  const takers = new Map<string, ReadonlySet<AnyStateNode>>();
  const takersOf = (type: string): ReadonlySet<AnyStateNode> => {
    const known = takers.get(type);
    if (known) return known;
    if (takers.size === TYPES_MAX) takers.clear();
    const found = new Set(nodes.filter((node) => mayTake(node, type)));
    takers.set(type, found);
    return found;
  };
  return (snapshot, type) => {
    if (snapshot.status !== 'active' || ALL.has(type) || type.startsWith(ERROR)) return false;
    const taking = takersOf(type);
    const active = stateNodesOf(snapshot);
    return active !== undefined && active.every((node) => !taking.has(node) && !eventless.has(node));
  };
}

function mayTake({ transitions }: AnyStateNode, type: string): boolean {
  if (transitions.has(type)) return true;
  return [...transitions.keys()].some((descriptor) => {
    const wild = descriptor.indexOf('*');
    return wild !== -1 && type.startsWith(descriptor.slice(0, Math.max(0, wild - 1)));
  });
}
