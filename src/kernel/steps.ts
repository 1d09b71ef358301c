/**
 * The machines of a chart, their states and which of them are active, for the kernel and for read models. Also the
 * steps of a run, and the transitions that an actor could have taken on an event, with the results of their guards.
 *
 * This file keeps XState inside the kernel; machines and ports never use it.
 */
import {
  type AnyActorRef,
  type AnyMachineSnapshot,
  type AnyStateMachine,
  type AnyStateNode,
  type AnyTransitionDefinition,
  and,
  type InspectionEvent,
} from 'xstate';
import { type Address, addressOf } from './address.ts';

export type { AnyStateMachine, AnyStateNode, AnyTransitionDefinition } from 'xstate';

/** The active states of an actor, from its snapshot; `undefined` for an actor without a chart. */
export const stateNodesOf = (snapshot: unknown): readonly AnyStateNode[] | undefined =>
  (snapshot as { readonly _nodes?: readonly AnyStateNode[] } | undefined)?._nodes;

export const statesBelow = (node: AnyStateNode): AnyStateNode[] => [
  node,
  ...Object.values(node.states).flatMap(statesBelow),
];

/** Every machine reachable from this one, by id, itself included. */
export function machinesOf(machine: AnyStateMachine, found = new Map<string, AnyStateMachine>()) {
  if (found.has(machine.id)) return found;
  found.set(machine.id, machine);
  for (const logic of Object.values(machine.implementations.actors ?? {})) {
    if (isMachine(logic)) machinesOf(logic, found);
  }
  return found;
}

export function isMachine(logic: unknown): logic is AnyStateMachine {
  return typeof logic === 'object' && logic !== null && 'implementations' in logic && 'root' in logic;
}

/** One step of an actor: the states that are active after it, and the transitions that led there. */
export interface Step {
  readonly address: Address;
  readonly machine: AnyStateMachine;
  readonly states: readonly AnyStateNode[];
  readonly transitions: readonly AnyTransitionDefinition[];
  /** The event that the actor received. */
  readonly event: { readonly type: string };
  /** The snapshot after the step. */
  readonly snapshot: object;
  /** Whether this is the last step of the actor's reaction to the event. */
  readonly isSettled: boolean;
}

interface Snapshot {
  readonly machine?: AnyStateMachine;
  readonly _nodes?: readonly AnyStateNode[];
}

/** The step in an inspection event; `undefined` if it is no step of a machine. */
export function stepIn(event: InspectionEvent): Step | undefined {
  if (event.type !== '@xstate.microstep' && event.type !== '@xstate.snapshot') return undefined;
  const { machine, _nodes: states } = event.snapshot as Snapshot;
  if (!machine || !states) return undefined;
  const isSettled = event.type === '@xstate.snapshot';
  return {
    address: addressOf(event.actorRef as AnyActorRef),
    machine,
    states,
    transitions: isSettled ? [] : event._transitions,
    event: event.event,
    snapshot: event.snapshot,
    isSettled,
  };
}

/** A chart as defined: every state, parents before children, and every transition in the order of the states. */
export interface Chart {
  readonly id: string;
  readonly states: readonly AnyStateNode[];
  readonly transitions: readonly AnyTransitionDefinition[];
}

/** The charts of a machine and of every machine that it can start, ordered by id. */
export function chartsOf(root: AnyStateMachine): Chart[] {
  const machines = [...machinesOf(root).values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  return machines.map(({ id, root: top }) => {
    const states = statesBelow(top);
    return { id, states, transitions: states.flatMap(transitionsOf) };
  });
}

export const transitionsOf = ({ transitions, always = [] }: AnyStateNode): AnyTransitionDefinition[] => [
  ...[...transitions.values()].flat(),
  ...always,
];

/** A transition that an actor could have taken on an event. */
interface Candidate {
  readonly transition: AnyTransitionDefinition;
  /**
   * Whether its guard passes in the snapshot; absent if an earlier guard passed, so that this one was not evaluated.
   */
  readonly passes?: boolean;
}

/** The candidates of each active state for the event, in XState's order of evaluation. */
export function candidatesOf(snapshot: object, event: { readonly type: string }): Candidate[] {
  const { _nodes: nodes = [] } = snapshot as Partial<AnyMachineSnapshot>;
  const found = new Map<AnyTransitionDefinition, Candidate>();
  const leaves = nodes.filter((node) => !nodes.some((other) => other.parent === node));
  for (const leaf of leaves) {
    for (let node: AnyStateNode | undefined = leaf; node; node = node.parent) {
      const candidates = candidatesIn(node, snapshot as AnyMachineSnapshot, event);
      for (const candidate of candidates) {
        if (!found.has(candidate.transition)) found.set(candidate.transition, candidate);
      }
      if (candidates.some(({ passes }) => passes)) break;
    }
  }
  return [...found.values()];
}

function candidatesIn(node: AnyStateNode, snapshot: AnyMachineSnapshot, event: { readonly type: string }): Candidate[] {
  const transitions = node.transitions.get(event.type) ?? node.transitions.get('*') ?? [];
  let isTaken = false;
  return transitions.map((transition) => {
    if (isTaken) return { transition };
    isTaken = passes(transition, snapshot, event);
    return { transition, passes: isTaken };
  });
}

/** Evaluates the guard with XState itself: `and` of one guard accepts every form of a guard. */
function passes({ guard }: AnyTransitionDefinition, snapshot: AnyMachineSnapshot, event: object): boolean {
  if (!guard) return true;
  const condition = and([guard as never]) as unknown as {
    check(snapshot: object, args: object, params: unknown): boolean;
  };
  try {
    return condition.check(snapshot, { context: snapshot.context, event }, condition);
  } catch {
    return false;
  }
}

/** The name of a guard, or the text of an inline one. */
export function guardName({ guard }: AnyTransitionDefinition): string | undefined {
  if (!guard) return undefined;
  if (typeof guard === 'string') return guard;
  if (typeof guard === 'object') return (guard as { readonly type: string }).type;
  const named = guard as { readonly guards?: readonly unknown[]; readonly name: string };
  const inner = named.guards?.map((one) => guardName({ guard: one } as AnyTransitionDefinition) ?? '?');
  if (inner) return `${named.name || 'all of'}(${inner.join(', ')})`;
  // An inline function has the name of its property.
  return named.name === '' || named.name === 'guard' ? 'its condition holds' : named.name;
}
