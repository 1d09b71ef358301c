/**
 * The witness: sees everything that actors do during a turn and turns it into records.
 *
 * Owns: the numbers of records, the addresses of living actors, what changed in this turn and who heard what last.
 * Hears: XState's inspection events (the only tap for derived traffic), log lines, requests.
 * Invariants: W1 a message that did not come through the journal is refused. W2 every derived record names the record
 * that caused it. W3 what XState says of an operation's own actor is not a message: the request and its result are.
 */
import type { AnyActorRef, InspectionEvent } from 'xstate';
import { type Address, addressOf } from './address.ts';
import { digest } from './digest.ts';
import { type JsonEvent, type PlainError, toPlainError } from './json.ts';
import { isEffectLogic } from './operation.ts';
import type { EndRecord, JournalRecord, KernelRecord, LogLevel, StateRecord } from './records.ts';

export type Unnumbered<R> = R extends JournalRecord ? Omit<R, 'n'> : never;
export type Draft = Unnumbered<KernelRecord>;

interface SaidLine {
  readonly text: string;
  readonly fields?: Readonly<Record<string, unknown>>;
}

export class Witness {
  /** Number of the next record. */
  n = 0;
  /** While a checkpoint is restored, nothing is news. */
  restoring = false;
  readonly actors = new Map<Address, AnyActorRef>();
  private readonly shown = new Map<AnyActorRef, string>();
  private readonly changed = new Map<AnyActorRef, unknown>();
  private readonly heard = new Map<AnyActorRef, number>();
  private records: KernelRecord[] = [];
  /** The event that this turn delivers from outside; its delivery is not a message. */
  private delivering: object | undefined;
  private speaker: AnyActorRef | undefined;
  private readonly onActor: ((address: Address, machine: string) => void) | undefined;

  constructor(onActor?: (address: Address, machine: string) => void) {
    this.onActor = onActor;
  }

  record(draft: Draft): number {
    const n = this.n++;
    this.records.push({ n, ...draft });
    return n;
  }

  /** Delivers an event from outside: the input's own record stands for it. */
  deliver(actor: AnyActorRef | undefined, event: JsonEvent): void {
    if (!actor) return;
    this.delivering = event;
    actor.send(event);
    this.delivering = undefined;
  }

  /** Closes the turn and hands out its records. */
  endTurn(turn: number, armed: EndRecord['armed']): readonly KernelRecord[] {
    this.recordStates();
    this.record({ k: 'end', turn, digest: digest(this.changed), ...(armed ? { armed } : {}) });
    return this.forgetTurn();
  }

  /** After a restore: what actors show now is known already. */
  settleRestored(): void {
    this.restoring = false;
    this.forgetTurn();
    for (const actor of this.actors.values()) this.shown.set(actor, shownState(actor.getSnapshot()));
  }

  /** Of a turn that threw only what began it is kept. */
  keepInput(): void {
    const derived = this.records.splice(1);
    this.n -= derived.length;
    this.changed.clear();
    this.delivering = undefined;
    this.speaker = undefined;
  }

  private forgetTurn(): readonly KernelRecord[] {
    const records = this.records;
    this.records = [];
    this.changed.clear();
    this.heard.clear();
    return records;
  }

  /** The record that this actor heard last in this turn. */
  causeOf(actor: AnyActorRef | undefined): { cause?: number } {
    const cause = actor && this.heard.get(actor);
    return cause === undefined ? {} : { cause };
  }

  inspected(event: InspectionEvent): void {
    const actor = event.actorRef as AnyActorRef;
    if (event.type === '@xstate.event') {
      this.messageSeen(event.sourceRef as AnyActorRef | undefined, actor, event.event);
    } else if (event.type === '@xstate.snapshot') this.changed.set(actor, event.snapshot);
    else if (event.type === '@xstate.action' && event.action.type === 'xstate.log') this.speaker = actor;
  }

  private messageSeen(source: AnyActorRef | undefined, target: AnyActorRef, event: JsonEvent): void {
    const init = event.type === 'xstate.init';
    if (init) this.began(target);
    if (this.restoring) return;
    if (event === this.delivering || (init && !source)) {
      this.delivering = undefined;
      this.heard.set(target, this.n - 1);
      return;
    }
    if (!source) throw new Error(`${event.type} was sent to ${addressOf(target)} past the journal: use sendTo`);
    if (this.isFiringTimer(source, target, event)) return;
    if (isEffectLogic(logicOf(source))) this.heard.set(target, this.heard.get(source) ?? this.n - 1);
    else if (!isEffectLogic(logicOf(target))) this.recordMessage(source, target, event);
  }

  private began(actor: AnyActorRef): void {
    const address = addressOf(actor);
    this.actors.set(address, actor);
    const { id } = logicOf(actor) as { id?: string };
    if (id !== undefined) this.onActor?.(address, id);
  }

  private recordMessage(source: AnyActorRef, target: AnyActorRef, event: JsonEvent): void {
    const [from, to] = [addressOf(source), addressOf(target)];
    this.heard.set(target, this.record({ k: 'message', from, to, event: plain(event), ...this.causeOf(source) }));
  }

  /** The first message of a turn that a timer began is the timer itself. */
  private isFiringTimer(source: AnyActorRef, target: AnyActorRef, event: JsonEvent): boolean {
    const last = this.records.at(-1);
    if (last?.k !== 'timer' || last.event !== event.type || last.at !== addressOf(target)) return false;
    if (this.heard.size > 0) return false;
    this.heard.set(source, last.n).set(target, last.n);
    return true;
  }

  logged(level: LogLevel, said: SaidLine, root: AnyActorRef): void {
    this.record({ k: 'log', at: addressOf(this.speaker ?? root), level, ...said });
  }

  private recordStates(): void {
    for (const [actor, snapshot] of this.changed) {
      const { status } = snapshot as { status: string };
      if (!isEffectLogic(logicOf(actor))) this.recordState(actor, snapshot);
      if (status !== 'active') this.forget(actor);
    }
  }

  private recordState(actor: AnyActorRef, snapshot: unknown): void {
    const state = shownState(snapshot);
    if (this.shown.get(actor) === state) return;
    this.shown.set(actor, state);
    this.record({ k: 'state', at: addressOf(actor), ...stateOf(snapshot) });
  }

  private forget(actor: AnyActorRef): void {
    this.shown.delete(actor);
    const address = addressOf(actor);
    if (this.actors.get(address) === actor) this.actors.delete(address);
  }
}

const logicOf = (actor: AnyActorRef): object => (actor as unknown as { logic: object }).logic;

function stateOf(snapshot: unknown): Pick<StateRecord, 'value' | 'status' | 'error'> {
  const { value, status, error } = snapshot as { value: unknown; status: string; error?: PlainError };
  if (status === 'active') return { value };
  const ended = status as NonNullable<StateRecord['status']>;
  return ended === 'error' && error ? { value, status: ended, error } : { value, status: ended };
}

const shownState = (snapshot: unknown): string => {
  const { status, value } = snapshot as { status: string; value: unknown };
  return status + JSON.stringify(value);
};

/** An actor that could not begin sends its parent a thrown error, which JSON would turn into nothing. */
function plain(event: JsonEvent): JsonEvent {
  const { error } = event as { error?: unknown };
  return error instanceof Error ? { ...event, error: { ...toPlainError(error) } } : event;
}
