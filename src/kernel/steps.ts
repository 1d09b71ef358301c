/**
 * For read models: which states and transitions of charts a run goes through. Machines and ports never ask this; it
 * exists so that only the kernel has to know XState.
 */
import type { AnyActorRef, AnyStateMachine, AnyStateNode, AnyTransitionDefinition, InspectionEvent } from 'xstate';
import { type Address, addressOf } from './address.ts';
import { machinesOf } from './atomic.ts';
import { statesBelow } from './state-nodes.ts';

export type { AnyStateNode, AnyTransitionDefinition } from 'xstate';

/** One step of an actor: the states that are active after it, and the transitions that led there. */
export interface Step {
  readonly address: Address;
  readonly machine: AnyStateMachine;
  readonly states: readonly AnyStateNode[];
  readonly transitions: readonly AnyTransitionDefinition[];
  /** The event that the actor received. */
  readonly event: { readonly type: string };
  /** After the step. */
  readonly snapshot: object;
  /** The last step of what it heard: the snapshot is the actor's from here on. */
  readonly isSettled: boolean;
}

interface Snapshot {
  readonly machine?: AnyStateMachine;
  readonly _nodes?: readonly AnyStateNode[];
}

/** `undefined` of what is no step of a machine. */
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

/** A chart as it is defined: every state, parents before children, and every transition in the order of its states. */
export interface Chart {
  readonly id: string;
  readonly states: readonly AnyStateNode[];
  readonly transitions: readonly AnyTransitionDefinition[];
}

/** The charts of a machine and of every machine that it can start, in the order of their ids. */
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
