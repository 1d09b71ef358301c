/** Small sentences for machines: how to say something to a person, and how to name a sibling actor. */
import { type AnyActorRef, type EventObject, log, type MachineContext } from 'xstate';
import { hostOf } from './operation.ts';
import type { LogLevel } from './records.ts';

type Fields = Readonly<Record<string, unknown>>;
type Line = string | readonly [text: string, fields: Fields];
type LineOf<Context, Event> = (args: { context: Context; event: Event }) => Line;

/**
 * An action that writes one line for people: a derived record of the journal, printed after the turn is committed.
 * The expression returns the text, or the text and its structured fields.
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

/**
 * Target of a `sendTo`: the actor registered under this `systemId`.
 *
 * A subsystem that is between a crash and its next start has no address. Its messages then go to the root, which
 * ignores them: the journal shows what was missed, and periodic observation makes it right.
 */
export function to(systemId: string) {
  return ({ system, self }: { system: { get(id: string): AnyActorRef | undefined }; self: AnyActorRef }): AnyActorRef =>
    system.get(systemId) ?? rootOf(self);
}

function rootOf(actor: AnyActorRef): AnyActorRef {
  let current = actor;
  for (;;) {
    const parent = (current as AnyActorRef & { _parent?: AnyActorRef })._parent;
    if (!parent) return current;
    current = parent;
  }
}

/** The time of this turn, in milliseconds since the epoch. Every actor of a turn sees the same value. */
export const now = (args: { system: unknown }): number => hostOf(args.system as never).now;

/** The next number of the kernel's seeded generator, in [0, 1). */
export const random = (args: { system: unknown }): number => hostOf(args.system as never).random();
