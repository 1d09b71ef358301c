/**
 * Makes every transition of a machine atomic.
 *
 * XState runs custom actions while a macrostep is still being computed, so a step that throws half-way leaves its first
 * effects behind and its children running. Wrapped, a step that throws has no effect but one: the actor stops with its
 * children and its parent hears `xstate.error.actor.<id>` with a plain error.
 */
import type { ActorScope, AnyEventObject, AnyMachineSnapshot, AnyStateMachine } from 'xstate';
import { toPlainError } from './json.ts';
import { unhandledBy } from './unhandled.ts';

type Scope = ActorScope<AnyMachineSnapshot, AnyEventObject>;
type Transition = (snapshot: AnyMachineSnapshot, event: AnyEventObject, scope: Scope) => AnyMachineSnapshot;
type Executable = Parameters<Scope['actionExecutor']>[0];

const wrapped = new WeakSet<AnyStateMachine>();

/** Wraps a machine and every machine it can invoke or spawn, once. */
export function makeAtomic(machine: AnyStateMachine): void {
  if (wrapped.has(machine)) return;
  wrapped.add(machine);
  const transition = machine.transition.bind(machine) as unknown as Transition;
  const isUnhandled = unhandledBy(machine);
  (machine as { transition: unknown }).transition = (
    snapshot: AnyMachineSnapshot,
    event: AnyEventObject,
    scope: Scope,
  ) => (isUnhandled(snapshot, event.type) ? snapshot : atomically(transition, snapshot, event, scope));
  for (const logic of Object.values(machine.implementations.actors ?? {})) {
    if (isMachine(logic)) makeAtomic(logic);
  }
}

/** Every machine reachable from this one, by id, itself included. */
export function machinesOf(machine: AnyStateMachine, found = new Map<string, AnyStateMachine>()) {
  if (found.has(machine.id)) return found;
  found.set(machine.id, machine);
  for (const logic of Object.values(machine.implementations.actors ?? {})) {
    if (isMachine(logic)) machinesOf(logic, found);
  }
  return found;
}

function isMachine(logic: unknown): logic is AnyStateMachine {
  return typeof logic === 'object' && logic !== null && 'implementations' in logic && 'root' in logic;
}

function atomically(transition: Transition, snapshot: AnyMachineSnapshot, event: AnyEventObject, scope: Scope) {
  const actions: Executable[] = [];
  const deferred: (() => void)[] = [];
  const buffered: Scope = {
    ...scope,
    defer: (fn) => void deferred.push(fn),
    actionExecutor: (action) => void actions.push(action),
  };
  let next: AnyMachineSnapshot;
  try {
    next = transition(snapshot, event, buffered);
  } catch (thrown) {
    return failed(transition, snapshot, scope, thrown);
  }
  for (const action of actions) scope.actionExecutor(action);
  for (const fn of deferred) scope.defer(fn);
  return next;
}

function failed(transition: Transition, snapshot: AnyMachineSnapshot, scope: Scope, thrown: unknown) {
  const stopped = transition(snapshot, { type: 'xstate.stop' }, scope);
  return { ...stopped, status: 'error', error: toPlainError(thrown) } as unknown as AnyMachineSnapshot;
}
