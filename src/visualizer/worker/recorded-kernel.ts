/**
 * Stands in for the kernel where the machines cannot go on: what a read model asks of one, from the records alone.
 *
 * Owns: the clock and the turn of the records, the machine of each actor, and of a few contexts what records say of
 * them: whether the node is Ready. Invariants: nothing is decided here; what no record says is absent.
 */
import type { ShownKernel } from '../../actors/server/visualizer/feed.ts';
import { statesIn } from '../../actors/server/visualizer/phases.ts';
import type { PendingTimer } from '../../kernel/clock.ts';
import { isObject, type JsonEvent, memberOf } from '../../kernel/json.ts';
import type { KernelRecord, MessageRecord } from '../../kernel/records.ts';
import { type AnyStateMachine, type AnyStateNode, machineOf } from '../../kernel/state-nodes.ts';
import { conditionError, runtimeDown } from '../../machines/charts/node/runtime-state.ts';
import type { RuntimeCondition } from '../../machines/model/operations/runtime.ts';
import { lastOf, parentOf } from '../words.ts';

/** The beginning of an actor, with its input. */
const BEGINS = 'xstate.init';

interface PersistedSnapshot {
  readonly value?: unknown;
  readonly context?: unknown;
  readonly children?: Readonly<Record<string, { readonly snapshot: PersistedSnapshot; readonly src: string }>>;
}

export class RecordedKernel implements ShownKernel {
  now: number;
  n: number;
  turn: number;
  readonly addresses: string[] = [];
  readonly timers = { list: (): readonly PendingTimer[] => [] };
  readonly outbox = { list: (): readonly object[] => [] };
  readonly queueLength = 0;
  readonly #root: AnyStateMachine;
  readonly #before: (address: string) => unknown;
  readonly #machines = new Map<string, AnyStateMachine | undefined>();
  readonly #contexts = new Map<string, Readonly<Record<string, unknown>>>();
  readonly #values = new Map<string, unknown>();

  /** Goes on after a turn; `before` has the snapshots that actors had then. */
  constructor(
    root: AnyStateMachine,
    { now, n, turn }: Pick<ShownKernel, 'now' | 'n' | 'turn'>,
    before: (address: string) => unknown,
  ) {
    this.#root = root;
    this.now = now;
    this.n = n;
    this.turn = turn;
    this.#before = before;
    for (const name of ['nodeStatus', 'clientCertificate', 'runtimeState']) {
      const context = memberOf(before(`${root.id}/${name}`), 'context');
      if (isObject(context)) this.#contexts.set(`${root.id}/${name}`, context);
    }
  }

  /** Takes the actors of a checkpoint, at any address that this build's charts still have. */
  adopt(saved: unknown, address = this.#root.id, machine: AnyStateMachine | undefined = this.#root): void {
    const { value, context, children } = saved as PersistedSnapshot;
    this.addresses.push(address);
    this.#machines.set(address, machine);
    this.#values.set(address, value);
    if (isObject(context)) this.#contexts.set(address, context);
    for (const [id, { snapshot, src }] of Object.entries(children ?? {})) {
      const logic: unknown = machine?.implementations.actors[src];
      if (snapshot.value !== undefined) this.adopt(snapshot, `${address}/${id}`, isMachine(logic) ? logic : undefined);
    }
  }

  /** Takes the records of one turn. */
  take(records: readonly KernelRecord[]): void {
    for (const record of records) {
      this.n = record.n + 1;
      if (record.k === 'end') this.turn = record.turn + 1;
      else if ('t' in record) this.now = record.t;
      if (record.k === 'message') this.#takeMessage(record);
      else if (record.k === 'state') this.#values.set(record.at, record.value);
    }
  }

  snapshotOf(address: string): unknown {
    const machine = this.#machineAt(address);
    const context = this.#contexts.get(address);
    return { ...(machine ? { machine } : {}), ...(context ? { context } : {}), value: this.#values.get(address) };
  }

  #takeMessage({ from, to, event }: MessageRecord): void {
    const root = this.#root.id;
    if (event.type === BEGINS) {
      const { uid, name, register } = (event['input'] ?? {}) as Readonly<Record<string, unknown>>;
      this.#contexts.set(to, { uid, name, register, node: null });
    } else if (to === `${root}/runtimeState`) this.#addToContext(to, runtimeErrors(event));
    else if (from !== `${root}/nodeStatus`) return;
    else if (event.type === 'node.known') this.#addToContext(from, { node: event['node'] });
    else if (event.type === 'node.gone') this.#addToContext(from, { node: null });
  }

  #addToContext(address: string, facts: object): void {
    this.#contexts.set(address, { ...this.#contexts.get(address), ...facts });
  }

  #machineAt(address: string): AnyStateMachine | undefined {
    if (!this.#machines.has(address)) {
      const parent = parentOf(address);
      const above = parent === '' ? undefined : this.#machineAt(parent);
      const found =
        machineOf(this.#before(address)) ??
        (parent === '' ? this.#root : above && childOf(above, lastOf(address), this.#values.get(address)));
      this.#machines.set(address, found);
    }
    return this.#machines.get(address);
  }
}

/** What an event tells `runtimeState` of the runtime and its network. */
function runtimeErrors(event: JsonEvent): object {
  if (event.type === 'runtime.statusChanged') {
    const conditions = event['conditions'] as readonly RuntimeCondition[];
    return {
      runtimeError: conditionError('RuntimeReady', conditions),
      networkError: conditionError('NetworkReady', conditions),
    };
  }
  if (event.type === 'runtime.statusFailed') return { runtimeError: runtimeDown(String(event['message'])) };
  if (event.type === 'pleg.healthy') return { plegError: '' };
  return event.type === 'pleg.unhealthy' ? { plegError: event['message'] } : {};
}

/**
 * The machine of an actor: that which its parent invokes under this id, else that whose name the id begins with, else
 * the only one whose chart has its state.
 */
function childOf(parent: AnyStateMachine, id: string, value: unknown): AnyStateMachine | undefined {
  const { actors } = parent.implementations;
  const invoked: unknown = actors[invokedAs(parent.root, id) ?? id];
  if (isMachine(invoked)) return invoked;
  const own = Object.values(actors).filter(isMachine);
  const named = own.find((machine) => id === machine.id || id.startsWith(`${machine.id}-`));
  const fitting = own.filter((machine) => statesIn(machine, value).unknown.length === 0);
  return named ?? (fitting.length === 1 ? fitting[0] : undefined);
}

const isMachine = (logic: unknown): logic is AnyStateMachine => memberOf(logic, 'root') !== undefined;

/** The name of the logic that a chart invokes under this id. */
function invokedAs(node: AnyStateNode, id: string): string | undefined {
  const own = node.invoke.find((each) => each.id === id)?.src;
  if (typeof own === 'string') return own;
  for (const child of Object.values(node.states)) {
    const found = invokedAs(child, id);
    if (found !== undefined) return found;
  }
  return undefined;
}
