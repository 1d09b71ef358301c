/**
 * Makes every transition of a machine atomic.
 *
 * XState runs custom actions while a macrostep is still being computed, so a step that throws half-way leaves its first
 * effects behind and its children running. A step of a wrapped machine that throws has a single effect: the actor stops
 * with its children, and its parent receives `xstate.error.actor.<id>` with a plain error.
 */
import type { ActorScope, AnyEventObject, AnyMachineSnapshot, AnyStateMachine, AnyStateNode } from 'xstate';
import { enforceTime } from './clock.ts';
import { memberOf, toPlainError } from './json.ts';
import { isMachine, stateNodesOf, statesBelow } from './steps.ts';

type Scope = ActorScope<AnyMachineSnapshot, AnyEventObject>;
type Transition = (snapshot: AnyMachineSnapshot, event: AnyEventObject, scope: Scope) => AnyMachineSnapshot;
type Executable = Parameters<Scope['actionExecutor']>[0];

const wrapped = new WeakSet<AnyStateMachine>();

/** Wraps a machine and every machine it can invoke or spawn, once. */
export function makeAtomic(machine: AnyStateMachine): void {
  if (wrapped.has(machine)) return;
  wrapped.add(machine);
  const transition = machine.transition.bind(machine) as Transition;
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

function atomically(transition: Transition, snapshot: AnyMachineSnapshot, event: AnyEventObject, scope: Scope) {
  const actions: Executable[] = [];
  const deferred: (() => void)[] = [];
  const buffered: Scope = {
    ...scope,
    defer: (fn) => void deferred.push(fn),
    actionExecutor: (action) => void actions.push(withTime(action)),
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

/** A delay that is no number fails the step that computed it, and not only the timer. */
function withTime(action: Executable): Executable {
  const delay = memberOf(action.params, 'delay');
  if (typeof delay === 'number') enforceTime(delay, action.type);
  return action;
}

function failed(transition: Transition, snapshot: AnyMachineSnapshot, scope: Scope, thrown: unknown) {
  const stopped = transition(snapshot, { type: 'xstate.stop' }, scope);
  return { ...stopped, status: 'error', error: toPlainError(thrown) } as AnyMachineSnapshot;
}

const ALL: ReadonlySet<string> = new Set(['xstate.init', 'xstate.stop']);
/** This event stops an actor that does not handle it. */
const ERROR = 'xstate.error.actor';

/** Whether an event of this type leaves the snapshot unchanged. */
export type IsUnhandled = (snapshot: AnyMachineSnapshot, type: string) => boolean;

/**
 * Detects by an index of event types that no active state of a machine handles an event, so that XState need not ask
 * every state.
 *
 * Invariant: for an event reported as unhandled, XState would return the same snapshot and no action. Never reported:
 * an event that a state may handle, by type or wildcard, whatever its guard; an event of XState's own; any event while
 * a state with `always` is active, because its guard may read the event.
 */
export function unhandledBy(machine: AnyStateMachine): IsUnhandled {
  const nodes = statesBelow(machine.root);
  const eventless = new Set(nodes.filter(({ always }) => always !== undefined));
  const handlers = handlersIn(nodes);
  return (snapshot, type) => {
    if (snapshot.status !== 'active' || ALL.has(type) || type.startsWith(ERROR)) return false;
    const active = stateNodesOf(snapshot);
    if (active === undefined) return false;
    const exact = handlers.exact.get(type);
    if (active.some((node) => exact?.has(node) === true || eventless.has(node))) return false;
    return !handlers.wildcards.some(({ prefix, node }) => type.startsWith(prefix) && active.includes(node));
  };
}

interface Handlers {
  /** By the type of an event, the states that name it. */
  readonly exact: ReadonlyMap<string, ReadonlySet<AnyStateNode>>;
  /** States that handle every event whose type begins like this. */
  readonly wildcards: readonly { readonly prefix: string; readonly node: AnyStateNode }[];
}

function handlersIn(nodes: readonly AnyStateNode[]): Handlers {
  const described = nodes.flatMap((node) => [...node.transitions.keys()].map((type) => ({ type, node })));
  const exact = new Map<string, Set<AnyStateNode>>();
  for (const { type, node } of described) exact.set(type, (exact.get(type) ?? new Set()).add(node));
  const wildcards = described.flatMap(({ type, node }) => {
    const wildcard = type.indexOf('*');
    return wildcard === -1 ? [] : [{ prefix: type.slice(0, Math.max(0, wildcard - 1)), node }];
  });
  return { exact, wildcards };
}
