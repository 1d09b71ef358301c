/**
 * The only access to XState. Machines import only this file and each other, so the library can be replaced in one
 * place, and constructs that machines must not use (promises, callbacks, wall clocks) are not exported. The other
 * functions that machines need are here too: log lines, siblings as targets, time, randomness, hashes, the result of a
 * child, and the replacement of a child that ended or crashed.
 *
 * XState types the events of `onDone` and `onError` only at the transition. A named action or guard sees the union of
 * all events and reads the result with `errorOf`, `errorIn` and `outputOf`.
 */
import { hash } from 'node:crypto';
import { type AnyActorRef, type EventObject, log, type MachineContext } from 'xstate';
import { parentActor } from './address.ts';
import type { PlainError } from './json.ts';
import { hostOf } from './operation.ts';
import type { LogLevel } from './records.ts';

interface Supervisor<Again> {
  stopChild(id: string): void;
  raise(event: Again, options: { readonly delay: number; readonly id: string }): void;
}

/** The id of the child that this event reports as ended or crashed. */
export const childIn = ({ type }: { readonly type: string }): string =>
  type.replace(/^xstate\.(?:done|error)\.actor\./, '');

/** Frees the id of a crashed child; `again` is raised after a pause, when a replacement may be spawned. */
export function reapChild<Again>(enqueue: Supervisor<Again>, id: string, again: Again, pauseMs: number): void {
  enqueue.stopChild(id);
  enqueue.raise(again, { delay: pauseMs, id: `respawn-${id}` });
}

export type { ActorRefFrom, AnyActorRef, AnyStateMachine, EventObject, MachineContext, SnapshotFrom } from 'xstate';
export {
  assign,
  enqueueActions,
  raise,
  sendParent,
  sendTo,
  setup,
  stateIn,
  stopChild,
} from 'xstate';
export type { SecretHandle } from './journal/secrets.ts';
export { isObject, type JsonEvent, type JsonObject, type PlainError } from './json.ts';
export type { InputOf, ItemOf, OperationTable, OutputOf } from './operation.ts';
export { idempotent, once, pick, query, stream } from './operation.ts';
export type { LogLevel } from './records.ts';
export { AGENT_PHASE, type AgentFault } from './records.ts';
export { messageOf, required } from './thrown.ts';

type Fields = Readonly<Record<string, unknown>>;
type Line = string | readonly [text: string, fields: Fields];
type LineOf<Context, Event> = (args: { context: Context; event: Event }) => Line;

/**
 * An action that writes one log line: a derived record of the journal, printed after the turn is committed. The
 * expression returns the text, or the text and its structured fields.
 */
export function line<Context extends MachineContext, Event extends EventObject, Params, Any extends EventObject>(
  level: LogLevel,
  content: Line | LineOf<Context, Event>,
) {
  return log<Context, Event, Params, Any>((args) => {
    const result = typeof content === 'function' ? content(args) : content;
    return typeof result === 'string' ? { text: result } : { text: result[0], fields: result[1] };
  }, level);
}

/** The log line of an `onError` transition, with the error as its only field. */
export const failureLine = <Context extends MachineContext, Event extends EventObject, Params, Any extends EventObject>(
  level: LogLevel,
  text: string,
) => line<Context, Event, Params, Any>(level, ({ event }) => [text, { err: errorOf(event).message }]);

/**
 * Target of a `sendTo`: the actor registered under this `systemId`.
 *
 * A subsystem has no address between a crash and its restart. Messages to it then go to the root, which ignores them:
 * the journal shows the lost messages, and periodic observation makes up for them.
 */
export function to(systemId: string) {
  return ({ system, self }: { system: { get(id: string): AnyActorRef | undefined }; self: AnyActorRef }): AnyActorRef =>
    system.get(systemId) ?? rootOf(self);
}

function rootOf(actor: AnyActorRef): AnyActorRef {
  let current = actor;
  for (;;) {
    const parent = parentActor(current);
    if (!parent) return current;
    current = parent;
  }
}

/** The time of this turn, in milliseconds since the epoch. Every actor of a turn sees the same value. */
export const now = (args: { system: object }): number => hostOf(args.system).now;

/** The next number of the kernel's seeded generator, in [0, 1). */
export const random = (args: { system: object }): number => hostOf(args.system).random();

/** SHA-256 of a text, in hexadecimal: a pure function of Node's that machines may call. */
export const sha256 = (text: string): string => hash('sha256', text, 'hex');

/** The error of an `onError` event. For transitions that no other event takes. */
export const errorOf = (event: unknown): PlainError => (event as { error: PlainError }).error;

/** As {@link errorOf}, for transitions that other events take as well. */
export const errorIn = (event: unknown): PlainError | undefined => (event as { error?: PlainError }).error;

/** The output of an `onDone` event. For transitions that no other event takes. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows which operation it invoked
export const outputOf = <Output>(event: unknown): Output => (event as { output: Output }).output;

/**
 * The types of a machine, for `types` of `setup`: `typed<{ context: Context; events: Event }>()`. XState reads only the
 * type of the value.
 */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the type argument is the declaration
export const typed = <Types>(): Types => ({}) as Types;

/** The arguments of the actions of a machine that enqueue, by the type of its `setup`. */
export type ActionArgsOf<Setup extends { readonly enqueueActions: (collect: never) => unknown }> = Parameters<
  Extract<Parameters<Setup['enqueueActions']>[0], (...args: never) => void>
>[0];

/** What such an action enqueues with. */
export type EnqueueOf<Setup extends { readonly enqueueActions: (collect: never) => unknown }> =
  ActionArgsOf<Setup> extends { readonly enqueue: infer Enqueue } ? Enqueue : never;

/** XState's events of operations and child actors, for machines that invoke something. */
export type Ended =
  | { readonly type: `xstate.done.actor.${string}`; readonly output: unknown; readonly actorId: string }
  | { readonly type: `xstate.error.actor.${string}`; readonly error: unknown; readonly actorId: string };
