/**
 * The outbox: the operations in progress, and when each may start.
 *
 * Owns: the table of outstanding requests and their numbers.
 * Invariants:
 *   E1 no request reaches the world before the turn that made it is written; `once` and `idempotent` wait until it is
 *      durable.
 *   E2 a request has at most one result; a late, second or cancelled result is dropped before it reaches the journal.
 *   E3 leaving the invoking state aborts the request, after the turn that records it is written.
 */
import type { AnyActorRef } from 'xstate';
import type { Address } from './address.ts';
import { addressOf } from './address.ts';
import type { JsonEvent, PlainError } from './json.ts';
import type { OperationClass } from './operation.ts';

export interface EffectRequest {
  readonly id: number;
  readonly at: Address;
  readonly name: string;
  readonly class: OperationClass;
  readonly input: unknown;
}

export type EffectResult = { readonly output: unknown } | { readonly error: PlainError };

/** Performs requests: the kernel's only access to the world. Returns a function that cancels. */
export interface Performer {
  perform(
    request: EffectRequest & { readonly resume: boolean },
    settle: (result: EffectResult) => void,
    emit: (event: JsonEvent) => void,
  ): () => void;
}

interface Outstanding {
  readonly request: EffectRequest;
  readonly actor: AnyActorRef;
  resume: boolean;
  cancel: (() => void) | undefined;
}

export class Outbox {
  nextId = 1;
  private readonly outstanding = new Map<number, Outstanding>();
  private readonly byActor = new Map<AnyActorRef, number>();
  private waiting: number[] = [];
  private aborting: (() => void)[] = [];

  /** Records a request of this turn and assigns its number. */
  request(actor: AnyActorRef, name: string, cls: OperationClass, input: unknown, id = this.nextId++): EffectRequest {
    const request = { id, at: addressOf(actor), name, class: cls, input };
    this.outstanding.set(id, { request, actor, resume: false, cancel: undefined });
    this.byActor.set(actor, id);
    this.waiting.push(id);
    return request;
  }

  /** After a restore, registers a request that an earlier incarnation made. */
  reattach(actor: AnyActorRef, name: string, cls: OperationClass, input: unknown, id: number): void {
    this.request(actor, name, cls, input, id);
    this.outstanding.get(id)!.resume = true;
  }

  actorOf(id: number): AnyActorRef | undefined {
    return this.outstanding.get(id)?.actor;
  }

  requestOf(id: number): EffectRequest | undefined {
    return this.outstanding.get(id)?.request;
  }

  settled(actor: AnyActorRef): void {
    const id = this.byActor.get(actor);
    if (id === undefined) return;
    this.byActor.delete(actor);
    this.outstanding.delete(id);
  }

  /** Returns the number of the cancelled request if it was still open. */
  cancelled(actor: AnyActorRef): number | undefined {
    const id = this.byActor.get(actor);
    if (id === undefined) return undefined;
    const cancel = this.outstanding.get(id)?.cancel;
    this.settled(actor);
    this.waiting = this.waiting.filter((waiting) => waiting !== id);
    if (cancel) this.aborting.push(cancel);
    return id;
  }

  abort(): void {
    const cancels = this.aborting;
    this.aborting = [];
    for (const cancel of cancels) cancel();
  }

  /** Takes the requests of this turn out of the waiting list, in order. */
  takeWaiting(): EffectRequest[] {
    const ids = this.waiting.sort((a, b) => a - b);
    this.waiting = [];
    return ids.flatMap((id) => this.outstanding.get(id)?.request ?? []);
  }

  /** Hands one request to the performer, unless it was cancelled while it waited. */
  begin(id: number, performer: Performer, settle: (r: EffectResult) => void, emit: (e: JsonEvent) => void): void {
    const open = this.outstanding.get(id);
    if (open) open.cancel = performer.perform({ ...open.request, resume: open.resume }, settle, emit);
  }

  list(): EffectRequest[] {
    return [...this.outstanding.values()].map((open) => open.request).sort((a, b) => a.id - b.id);
  }

  cancelAll(): void {
    this.abort();
    for (const open of this.outstanding.values()) open.cancel?.();
  }
}
