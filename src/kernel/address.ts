/**
 * Addresses: an actor's name is the path of ids from the root (`kubelet/pods/pod-<uid>/container-app`).
 *
 * Session ids come from a counter of the process, so they differ between a run and its replay; a path does not.
 */
import type { AnyActorRef } from 'xstate';

export type Address = string;

const known = new WeakMap<object, Address>();

/** The parent of an actor, which XState's types do not declare. */
export const parentActor = (actor: AnyActorRef): AnyActorRef | undefined =>
  (actor as AnyActorRef & { _parent?: AnyActorRef })._parent;

/** The address of the parent; empty for the root. */
export const parentOf = (address: Address): Address => address.slice(0, Math.max(0, address.lastIndexOf('/')));

export function addressOf(actor: AnyActorRef): Address {
  const cached = known.get(actor);
  if (cached !== undefined) return cached;
  const parent = parentActor(actor);
  const address = parent ? `${addressOf(parent)}/${actor.id}` : actor.id;
  known.set(actor, address);
  return address;
}
