/**
 * Converts the activity of actors during a turn into records.
 *
 * Owns: the numbers of records, the addresses of running actors, the changes of this turn and the last record that each
 * actor received.
 * Hears: XState's inspection events (the only source of derived traffic), log lines, requests.
 * Invariants: W1 a message that did not come through the journal is rejected. W2 every derived record names the record
 * that caused it. W3 XState's events about an operation's own actor are not messages: its request and result are
 * recorded instead.
 */
import type { AnyActorRef, InspectionEvent } from 'xstate';
import { type Address, addressOf } from './address.ts';
import { type Digested, digestOf } from './digest.ts';
import { type JsonEvent, type PlainError, toPlainError } from './json.ts';
import { isEffectLogic } from './operation.ts';
import type { EndRecord, JournalRecord, KernelRecord, LogLevel, StateRecord } from './records.ts';
import { stateNodesOf } from './steps.ts';

export type Unnumbered<R> = R extends JournalRecord ? Omit<R, 'n'> : never;
export type Draft = Unnumbered<KernelRecord>;

interface LoggedLine {
  readonly text: string;
  readonly fields?: Readonly<Record<string, unknown>>;
}

export interface ChangedActor {
  readonly address: Address;
  readonly before: Digested | undefined;
  readonly after: Digested;
}

type Snapshot = Digested & { readonly status: string; readonly value?: unknown };

/** The state of an actor after the last turn, with its recorded status and value. */
interface Shown {
  readonly snapshot: Snapshot;
  readonly state: string;
}

/** State values that are cached; all charts together have some thousand. */
const VALUES_MAX = 4_096;

export class TurnRecorder {
  /** Number of the next record. */
  n = 0;
  /** True while a checkpoint is restored: nothing is recorded then. */
  restoring = false;
  readonly actors = new Map<Address, AnyActorRef>();
  /** The actors that the last turn changed, in the order of its digests. */
  changedActors: readonly ChangedActor[] = [];
  private readonly shown = new Map<AnyActorRef, Shown>();
  private readonly changed = new Map<AnyActorRef, Snapshot>();
  private readonly lastReceived = new Map<AnyActorRef, number>();
  /** State values by their text: equal values become one object, which the journal stores and compares once. */
  private readonly values = new Map<string, unknown>();
  private records: KernelRecord[] = [];
  /** The event that this turn delivers from outside; its delivery is not a message. */
  private delivering: object | undefined;
  private sender: AnyActorRef | undefined;
  private readonly onActor: ((address: Address, machine: string) => void) | undefined;

  constructor(onActor?: (address: Address, machine: string) => void) {
    this.onActor = onActor;
  }

  record(draft: Draft): number {
    const n = this.n++;
    this.records.push({ n, ...draft });
    return n;
  }

  /** Delivers an event from outside; the input's own record stands for the message. */
  deliver(actor: AnyActorRef | undefined, event: JsonEvent): void {
    if (!actor) return;
    this.delivering = event;
    actor.send(event);
    this.delivering = undefined;
  }

  endTurn(turn: number, armed: EndRecord['armed']): readonly KernelRecord[] {
    const digest = this.recordStates();
    this.record({ k: 'end', turn, digest, ...(armed ? { armed } : {}) });
    return this.forgetTurn();
  }

  /** Takes the state of the restored actors as already recorded: it is no change of the next turn. */
  settleRestored(): void {
    this.restoring = false;
    this.forgetTurn();
    for (const actor of this.actors.values()) {
      const snapshot: Snapshot = actor.getSnapshot();
      this.shown.set(actor, { snapshot, state: stateText(snapshot) });
    }
  }

  /** Drops the records of a turn that threw, except its input. */
  keepInput(): void {
    const derived = this.records.splice(1);
    this.n -= derived.length;
    this.changed.clear();
    this.delivering = undefined;
    this.sender = undefined;
  }

  private forgetTurn(): readonly KernelRecord[] {
    const records = this.records;
    this.records = [];
    this.changed.clear();
    this.lastReceived.clear();
    return records;
  }

  /** The record that this actor received last in this turn. */
  causeOf(actor: AnyActorRef | undefined): { cause?: number } {
    const cause = actor && this.lastReceived.get(actor);
    return cause === undefined ? {} : { cause };
  }

  inspected(event: InspectionEvent): void {
    const actor = event.actorRef as AnyActorRef;
    if (event.type === '@xstate.event') {
      this.messageSeen(event.sourceRef as AnyActorRef | undefined, actor, event.event);
    } else if (event.type === '@xstate.snapshot') this.changed.set(actor, event.snapshot);
    else if (event.type === '@xstate.action' && event.action.type === 'xstate.log') this.sender = actor;
  }

  private messageSeen(source: AnyActorRef | undefined, target: AnyActorRef, event: JsonEvent): void {
    const init = event.type === 'xstate.init';
    if (init) this.began(target);
    if (this.restoring) return;
    if (event === this.delivering || (init && !source)) {
      this.delivering = undefined;
      this.lastReceived.set(target, this.n - 1);
      return;
    }
    if (!source) throw new Error(`${event.type} was sent to ${addressOf(target)} past the journal: use sendTo`);
    if (this.isFiringTimer(source, target, event)) return;
    if (isEffectLogic(logicOf(source))) this.lastReceived.set(target, this.lastReceived.get(source) ?? this.n - 1);
    else if (!isEffectLogic(logicOf(target))) this.recordMessage(source, target, event);
  }

  private began(actor: AnyActorRef): void {
    const address = addressOf(actor);
    this.actors.set(address, actor);
    const { id } = logicOf(actor);
    if (id !== undefined) this.onActor?.(address, id);
  }

  private recordMessage(source: AnyActorRef, target: AnyActorRef, event: JsonEvent): void {
    const [from, to] = [addressOf(source), addressOf(target)];
    this.lastReceived.set(
      target,
      this.record({ k: 'message', from, to, event: plain(event), ...this.causeOf(source) }),
    );
  }

  /** Whether the message is the timer that started this turn: it is delivered as the first message. */
  private isFiringTimer(source: AnyActorRef, target: AnyActorRef, event: JsonEvent): boolean {
    const last = this.records.at(-1);
    if (last?.k !== 'timer' || last.event !== event.type || last.at !== addressOf(target)) return false;
    if (this.lastReceived.size > 0) return false;
    this.lastReceived.set(source, last.n).set(target, last.n);
    return true;
  }

  logged(level: LogLevel, line: LoggedLine, root: AnyActorRef): void {
    this.record({ k: 'log', at: addressOf(this.sender ?? root), level, ...line });
  }

  /** Records the states of all actors that changed; returns the digests. */
  private recordStates(): string {
    const changed: ChangedActor[] = [];
    let digests = '';
    for (const [actor, snapshot] of this.changed) {
      if (!isEffectLogic(logicOf(actor))) {
        const before = this.shown.get(actor)?.snapshot;
        const digest = before === snapshot ? '' : this.recordState(actor, snapshot);
        if (digest !== '') changed.push({ address: addressOf(actor), before, after: snapshot });
        digests += digest;
      }
      if (snapshot.status !== 'active') this.forget(actor);
    }
    this.changedActors = changed;
    return digests;
  }

  private recordState(actor: AnyActorRef, snapshot: Snapshot): string {
    const before = this.shown.get(actor);
    const state = before && isInSameState(before.snapshot, snapshot) ? before.state : stateText(snapshot);
    this.shown.set(actor, { snapshot, state });
    const isOther = state !== before?.state;
    if (isOther) this.record({ k: 'state', at: addressOf(actor), ...stateOf(snapshot, this.valueOf(state, snapshot)) });
    return digestOf(before?.snapshot, snapshot, isOther ? state : undefined);
  }

  private valueOf(state: string, { value }: Snapshot): unknown {
    if (this.values.has(state)) return this.values.get(state);
    if (this.values.size === VALUES_MAX) this.values.clear();
    this.values.set(state, value);
    return value;
  }

  private forget(actor: AnyActorRef): void {
    this.shown.delete(actor);
    const address = addressOf(actor);
    if (this.actors.get(address) === actor) this.actors.delete(address);
  }
}

const logicOf = (actor: AnyActorRef): { readonly id?: string } =>
  (actor as unknown as { logic: { readonly id?: string } }).logic;

function stateOf({ status, error }: Snapshot, value: unknown): Pick<StateRecord, 'value' | 'status' | 'error'> {
  if (status === 'active') return { value };
  const ended = status as NonNullable<StateRecord['status']>;
  return ended === 'error' && error ? { value, status: ended, error: error as PlainError } : { value, status: ended };
}

/** Compares by identity: XState reuses the list of active states until it changes. */
const isInSameState = (one: Snapshot, other: Snapshot): boolean =>
  one.status === other.status && stateNodesOf(one) !== undefined && stateNodesOf(one) === stateNodesOf(other);

const stateText = ({ status, value }: Snapshot): string => status + JSON.stringify(value);

/** An actor that could not start sends its parent a thrown error, which JSON would reduce to nothing. */
function plain(event: JsonEvent): JsonEvent {
  const { error } = event;
  return error instanceof Error ? { ...event, error: { ...toPlainError(error) } } : event;
}
