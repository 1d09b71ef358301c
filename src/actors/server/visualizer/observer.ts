/**
 * The read model of the visualizer, derived from a kernel's records: its actors and the start of its root.
 *
 * Owns: the actors with their active states and open requests, the phases of the root, pending and failing calls.
 * Hears: `onTurn` of a kernel, from its first turn or from any later one.
 * Invariants: it never sends, never writes, never delays a turn for a reader; all its data are bounded.
 */
import { type Address, parentOf } from '../../../kernel/address.ts';
import { memberOf } from '../../../kernel/json.ts';
import { keepNewest } from '../../../kernel/keep-newest.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { EffectRecord, InRecord, KernelRecord, StateRecord } from '../../../kernel/records.ts';
import { type CauseSource, entryArming, History, type SeenTurn, streamError, streamOf } from './history.ts';
import { type Chart, type ChartNode, failureIn, Phases, statesIn } from './phases.ts';
import { Claims, Pods } from './pods.ts';
import type {
  ActiveState,
  ActorView,
  CallView,
  FailureView,
  NamedUid,
  RequestView,
  ShownRecord,
  StatesView,
  TroubleView,
} from './protocol.ts';
import { shortText } from './trim.ts';

const SHOWN_MAX = 20;
const MESSAGE_MAX_CHARS = 500;
const TARGET_MAX_CHARS = 200;
/** Fields of an input that name the request's subject, the most specific first. */
const TARGETS = ['endpoint', 'server', 'url', 'path', 'file', 'kubeconfig', 'socket', 'directory'] as const;

/**
 * Pending operations, and those whose last answer was an error: the reasons of a slow start. A stream, which never
 * answers, counts as failing while its last report is a failure.
 *
 * Invariants: operations that succeeded, were cancelled, or whose actor is gone are forgotten; of either kind at most
 * {@link SHOWN_MAX} are reported, and as many errors are kept.
 */
class Calls {
  private readonly open = new Map<number, CallView>();
  private readonly streams = new Map<number, CallView>();
  /** By actor and operation, the newest last. */
  private readonly failed = new Map<string, TroubleView>();

  /** `t` is the time of the record's turn. */
  take(record: KernelRecord, t: number): void {
    if (record.k === 'effect') this.begin(record, t);
    else if (record.k === 'in') this.handleInput(record, t);
    else if (record.k === 'cancel') this.cancel(record.id);
    else if (record.k === 'state' && record.status !== undefined) this.forget(record.at);
    else if (record.k === 'result') this.settle(record);
  }

  /** The oldest first. */
  pending(): readonly CallView[] {
    return [...this.open.values()].slice(0, SHOWN_MAX);
  }

  /** The newest is the last. */
  troubles(): readonly TroubleView[] {
    return [...this.failed.values()];
  }

  private begin({ id, n, at, name, class: kind, input }: EffectRecord, t: number): void {
    const target = targetOf(input);
    const calls = kind === 'stream' ? this.streams : this.open;
    calls.set(id, { n, t, at: parentOf(at), name, ...(target === undefined ? {} : { target }) });
  }

  private cancel(id: number): void {
    this.open.delete(id);
    this.streams.delete(id);
  }

  private handleInput(record: InRecord, t: number): void {
    const id = streamOf(record);
    const stream = id === undefined ? undefined : this.streams.get(id);
    if (stream) this.end({ ...stream, n: record.n, t }, streamError(record), true);
  }

  private settle({ id, n, t, name, at, error }: KernelRecord & { readonly k: 'result' }): void {
    const target = (this.open.get(id) ?? this.streams.get(id))?.target;
    this.cancel(id);
    this.end({ n, t, at: parentOf(at), name, ...(target === undefined ? {} : { target }) }, error?.message);
  }

  /** The call has succeeded, or has failed again. */
  private end(call: CallView, error: string | undefined, isStream = false): void {
    const key = `${call.at} ${call.name}`;
    const times = (this.failed.get(key)?.times ?? 0) + 1;
    this.failed.delete(key);
    if (error === undefined) return;
    const message = shortText(error, MESSAGE_MAX_CHARS);
    this.failed.set(key, { ...call, message, times, ...(isStream ? { isStream } : {}) });
    keepNewest(this.failed, SHOWN_MAX);
  }

  private forget(actor: string): void {
    for (const [key, { at }] of this.failed) if (at === actor || at.startsWith(`${actor}/`)) this.failed.delete(key);
  }
}

function targetOf(input: unknown): string | undefined {
  const named = TARGETS.map((name) => memberOf(input, name));
  const target = named.find((value): value is string => typeof value === 'string' && value !== '');
  return target === undefined ? undefined : shortText(target, TARGET_MAX_CHARS);
}

/** Ended actors that are still shown, so that a dead pod can be inspected. */
const ENDED_MAX = 200;
/** Characters of an error in the tree. */
const ERROR_MAX_CHARS = 500;

/** What the model reads of a kernel. */
export type ObservedKernel = Pick<Kernel, 'now' | 'n' | 'turn' | 'addresses' | 'snapshotOf'>;

interface ActiveSince {
  readonly state: ActiveState;
  readonly n: number;
}

interface Actor {
  readonly address: Address;
  readonly machine: Chart;
  value: unknown;
  status: ActorView['status'];
  error: string | undefined;
  named: NamedUid | undefined;
  active: Map<string, ActiveSince>;
  /** The values of `active`, as the endpoints show them. */
  states: readonly ActiveState[];
}

export class Observer implements CauseSource {
  incarnation = '';
  node = '';
  root: Address = '';
  n = -1;
  turn = -1;
  readonly phases = new Phases();
  readonly calls = new Calls();
  readonly pods = new Pods();
  readonly claims = new Claims();
  failure: FailureView | undefined;
  readonly history = new History(this);
  private readonly actors = new Map<Address, Actor>();
  private readonly requests = new Map<Address, Map<number, RequestView>>();
  private readonly askers = new Map<number, Address>();
  /** Addresses of ended actors, the oldest first. */
  private ended: Address[] = [];

  /** Adds one turn to the model. */
  observe(records: readonly KernelRecord[], kernel: ObservedKernel): SeenTurn {
    const t = kernel.now;
    if (this.n === -1) this.phases.started = t;
    if (this.n === -1 && records[0]?.k !== 'header') this.adopt(kernel, t);
    if (this.root === '') this.root = rootIn(records);
    this.turn = kernel.turn - 1;
    const touched = new Set<Address>();
    const shown = records.map((record) => {
      const view = { ...this.history.read(record, this.turn, t, this.root), ...this.requestIn(record) };
      if (record.k !== 'state') {
        this.take(record, t, kernel, touched);
        return view;
      }
      const [was, named] = [this.statesOf(record.at), this.actors.get(record.at)?.named];
      this.take(record, t, kernel, touched);
      return { ...this.withStates(view, record.at, was), ...this.beginning(record.at, was, named) };
    });
    this.n = records.at(-1)?.n ?? this.n;
    const turn = { n: this.n, turn: this.turn, t, records: shown, touched, gone: this.forgetEnded() };
    this.history.endTurn(turn);
    return turn;
  }

  /** Starts at any turn: a kernel restored from a checkpoint has its actors already. */
  private adopt(kernel: ObservedKernel, t: number): void {
    for (const address of kernel.addresses) {
      if (!address.includes('/')) this.root = address;
      const snapshot = kernel.snapshotOf(address);
      const machine = machineOf(snapshot);
      if (!machine) continue;
      const actor = newActor(address, machine);
      this.actors.set(address, actor);
      actor.named = namedUid(address, snapshot);
      this.enter(actor, memberOf(snapshot, 'value'), t, kernel.n - 1);
    }
  }

  private take(record: KernelRecord, t: number, kernel: ObservedKernel, touched: Set<Address>): void {
    this.calls.take(record, t);
    this.pods.take(record, t, this.root);
    this.claims.take(record, t, this.root);
    if (record.k === 'header') {
      this.incarnation = record.incarnation;
      this.node = record.node;
    } else if (record.k === 'state') {
      this.stateChanged(record, t, kernel);
      touched.add(record.at);
    } else if (record.k === 'effect') {
      this.requested(record, t);
      touched.add(parentOf(record.at));
    } else if (record.k === 'result' || record.k === 'cancel') {
      const asker = this.settled(record.id);
      if (asker !== undefined) touched.add(asker);
    } else this.failure ??= failureIn(record, this.root);
  }

  private statesOf(address: Address): StatesView | undefined {
    const actor = this.actors.get(address);
    return actor?.status === 'active' ? { value: actor.value, active: actor.states } : undefined;
  }

  private requestIn(record: KernelRecord): Pick<ShownRecord, 'request'> {
    const id = record.k === 'cancel' ? record.id : record.k === 'in' ? streamOf(record) : undefined;
    if (id === undefined) return {};
    const asker = this.askers.get(id);
    const request = asker === undefined ? undefined : this.requests.get(asker)?.get(id);
    return asker !== undefined && request ? { request: { asker, name: request.name } } : {};
  }

  private withStates(seen: ShownRecord, address: Address, was: StatesView | undefined): ShownRecord {
    const actor = this.actors.get(address);
    return { ...seen, ...(actor ? { active: actor.states } : {}), ...(was ? { was } : {}) };
  }

  private beginning(address: Address, was: object | undefined, knownAs: NamedUid | undefined): Partial<ShownRecord> {
    const actor = this.actors.get(address);
    if (!actor || (was && actor.named === knownAs)) return {};
    return { begins: { machine: actor.machine.id, ...(actor.named ? { named: actor.named } : {}) } };
  }

  private stateChanged(record: StateRecord, t: number, kernel: ObservedKernel): void {
    const former = this.actors.get(record.at);
    const restarted = former?.status !== 'active' && record.status === undefined;
    const snapshot = kernel.snapshotOf(record.at);
    const machine = machineOf(snapshot) ?? former?.machine;
    if (!machine) return;
    const actor = former && !restarted ? former : newActor(record.at, machine);
    this.actors.set(record.at, actor);
    actor.named ??= namedUid(record.at, snapshot) ?? former?.named;
    if (restarted) this.ended = this.ended.filter((address) => address !== record.at);
    actor.status = record.status ?? 'active';
    actor.error = record.error && shortText(record.error.message, ERROR_MAX_CHARS);
    this.enter(actor, record.value, t, record.n);
    if (actor.status !== 'active') this.ended.push(record.at);
  }

  private enter(actor: Actor, value: unknown, t: number, n: number): void {
    const { nodes, unknown } = statesIn(actor.machine, value);
    const before = actor.active;
    actor.value = value;
    actor.active = new Map(nodes.map((node) => [node.id, before.get(node.id) ?? { state: described(node, t), n }]));
    actor.states = Array.from(actor.active.values(), ({ state }) => state);
    if (actor.address === this.root) {
      const isActive = actor.status === 'active';
      this.phases.changed(isActive ? nodes : [], t, n, isActive ? unknown : []);
    }
  }

  private requested(record: EffectRecord, t: number): void {
    const asker = parentOf(record.at);
    const open = this.requests.get(asker) ?? new Map<number, RequestView>();
    this.requests.set(asker, open);
    this.askers.set(record.id, asker);
    open.set(record.id, { id: record.id, name: record.name, class: record.class, since: t, n: record.n });
  }

  private settled(id: number): Address | undefined {
    const asker = this.askers.get(id);
    if (asker === undefined) return undefined;
    this.askers.delete(id);
    const open = this.requests.get(asker);
    open?.delete(id);
    if (open?.size === 0) this.requests.delete(asker);
    return asker;
  }

  private forgetEnded(): Address[] {
    const gone = this.ended.splice(0, Math.max(0, this.ended.length - ENDED_MAX));
    for (const address of gone) this.actors.delete(address);
    return gone;
  }

  armedBy(address: Address, event: string): number | undefined {
    return entryArming(this.actors.get(address)?.active, event)?.n;
  }

  requestedBy(id: number): number | undefined {
    return this.requests.get(this.askers.get(id) ?? '')?.get(id)?.n;
  }

  views(): ActorView[] {
    return [...this.actors.keys()].sort().flatMap((address) => this.view(address) ?? []);
  }

  view(address: Address): ActorView | undefined {
    const actor = this.actors.get(address);
    if (!actor) return undefined;
    const { machine, value, status, error, named, states: active } = actor;
    const requests = [...(this.requests.get(address)?.values() ?? [])];
    const more = { ...(error === undefined ? {} : { error }), ...(named ? { named } : {}) };
    return { address, machine: machine.id, value, status, active, requests, ...more };
  }
}

/** Addresses contain uids; an actor whose context has the name of its uid is shown with it. */
function namedUid(address: Address, snapshot: unknown): NamedUid | undefined {
  const context = memberOf(snapshot, 'context');
  const [uid, name] = [memberOf(context, 'uid'), memberOf(context, 'name')];
  if (typeof uid !== 'string' || typeof name !== 'string' || uid === '' || name === '') return undefined;
  return address.endsWith(`-${uid}`) ? { uid, name } : undefined;
}

/** The machine of a snapshot, or `undefined` if the actor is no machine. */
const machineOf = (snapshot: unknown): Chart | undefined => memberOf(snapshot, 'machine') as Chart | undefined;

/** The address of a root that ended in its first turn and is no longer an actor. */
function rootIn(records: readonly KernelRecord[]): Address {
  const rootState = records.find((record) => record.k === 'state' && !record.at.includes('/'));
  return rootState?.k === 'state' ? rootState.at : '';
}

const newActor = (address: Address, machine: Chart): Actor => ({
  address,
  machine,
  value: undefined,
  status: 'active',
  error: undefined,
  named: undefined,
  active: new Map(),
  states: [],
});

function described({ id, path, meta }: ChartNode, since: number): ActiveState {
  const text = memberOf(meta, 'waitsFor');
  return { id, path: path.join('.'), since, ...(typeof text === 'string' ? { waitsFor: text } : {}) };
}
