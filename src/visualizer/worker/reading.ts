/**
 * Reads a journal without its machines: the data for the page that follow from its records alone.
 *
 * Owns: a substitute for the kernel for read models: the clock and the turn of the records, the machine of each actor,
 * and the parts of a few contexts that records show, such as whether the node is Ready.
 * Invariants: everything read is shown, whatever follows; a record is shown only if its turn is complete; the machine
 * of an actor follows from its address; nothing is decided here, and data that no record has are absent until the
 * replay has reached the same turn ({@link RecordedKernel.ran}).
 */
import { KernelFeed, type ShownKernel, shown } from '../../actors/server/visualizer/feed.ts';
import { type Chart, type ChartNode, statesIn } from '../../actors/server/visualizer/phases.ts';
import type { DriverView, PhasesView, PodView, ShownRecord } from '../../actors/server/visualizer/protocol.ts';
import type { PendingTimer } from '../../kernel/clock.ts';
import { JournalError } from '../../kernel/journal/errors.ts';
import type { Journal, StoredCheckpoint } from '../../kernel/journal/reader.ts';
import { isObject, type JsonEvent } from '../../kernel/json.ts';
import type {
  GapRecord,
  HeaderRecord,
  JournalRecord,
  KernelRecord,
  MessageRecord,
  PersistedSnapshot,
  StateRecord,
} from '../../kernel/records.ts';
import type { RuntimeCondition } from '../../machines/model/operations/runtime.ts';
import { conditionError, runtimeDown } from '../../machines/model/status/runtime-errors.ts';
import { lastOf, parentOf } from '../words.ts';
import { MACHINES, type MachineTable, ROOT, type StateTable } from './chart-table.ts';

interface Machine extends Chart {
  readonly table: MachineTable;
}

const machines = new Map(Object.entries(MACHINES).map(([id, table]) => [id, machineOf(id, table)] as const));

const machineNamed = (id: string): Machine | undefined => machines.get(id);
const root = (): Machine | undefined => machineNamed(ROOT);

/** The machine of the logic of this name. */
const machineBySrc = ({ table }: Machine, src: string): Machine | undefined =>
  Object.hasOwn(table.actors, src) ? machineNamed(table.actors[src] ?? '') : undefined;

/**
 * The machine of a child: the one that its parent invokes under this id; else the only one whose chart has the child's
 * first states; of several such, the one whose name begins the id.
 */
function childOf(parent: Machine, id: string, value: unknown): Machine | undefined {
  const { actors, invoked } = parent.table;
  const byId = machineBySrc(parent, Object.hasOwn(invoked, id) ? (invoked[id] ?? '') : id);
  if (byId) return byId;
  const all = Object.keys(actors).flatMap((src) => {
    const machine = machineBySrc(parent, src);
    return machine ? [{ src, machine }] : [];
  });
  const fitting = all.filter(({ machine }) => statesIn(machine, value).unknown.length === 0);
  const some = fitting.length > 0 ? fitting : all;
  const named = some.find(({ src, machine }) => [src, machine.id].some((name) => id.startsWith(`${name}-`)));
  return (fitting.length === 1 ? fitting[0] : named)?.machine;
}

function machineOf(id: string, table: MachineTable): Machine {
  let order = 0;
  const nodeOf = (state: StateTable, path: readonly string[], parent: ChartNode | undefined): ChartNode => {
    const states: Record<string, ChartNode> = {};
    const own = { id: state.id ?? [id, ...path].join('.'), key: path.at(-1) ?? id, path, order: order++ };
    const node = { ...own, meta: state.meta, parent, states };
    for (const [key, below] of Object.entries(state.states ?? {})) states[key] = nodeOf(below, [...path, key], node);
    return node;
  };
  return { id, root: nodeOf(table.root, [], undefined), table };
}

/** The beginning of an actor, with its input. */
const BEGINS = 'xstate.init';

class RecordedKernel implements ShownKernel {
  now: number;
  n = 0;
  turn = 0;
  /** The actors with which the journal begins. */
  readonly addresses: string[] = [];
  readonly outbox = { list: (): readonly object[] => [] };
  readonly queueLength = 0;
  /** The kernel of the replay, when it has reached the same turn. */
  ran: ShownKernel | undefined;
  readonly timers = { list: (): readonly PendingTimer[] => this.ran?.timers.list() ?? [] };
  readonly #machines = new Map<string, Machine | undefined>();
  readonly #contexts = new Map<string, Readonly<Record<string, unknown>>>();
  readonly #values = new Map<string, unknown>();
  /** Actors that ended in the last turn. */
  readonly #ended = new Set<string>();

  constructor({ t }: HeaderRecord, checkpoint: StoredCheckpoint | undefined) {
    this.now = t;
    if (!checkpoint) return;
    const { state } = checkpoint;
    [this.now, this.n, this.turn] = [state.t, state.n, state.turn];
    this.#adopt(state.root, ROOT, root());
  }

  /** Takes the actors of a checkpoint, at any address that this build's charts still have. */
  #adopt({ value, context, children }: PersistedSnapshot, address: string, machine: Machine | undefined): void {
    this.addresses.push(address);
    this.#machines.set(address, machine);
    this.#values.set(address, value);
    if (isObject(context)) this.#contexts.set(address, context);
    for (const [id, { snapshot, src }] of Object.entries(children ?? {})) {
      const below = machine && machineBySrc(machine, src);
      if (snapshot.value !== undefined) this.#adopt(snapshot, `${address}/${id}`, below);
    }
  }

  take(records: readonly KernelRecord[]): void {
    for (const address of this.#ended) this.#forget(address);
    this.#ended.clear();
    for (const record of records) {
      this.n = record.n + 1;
      if (record.k === 'end') this.turn = record.turn + 1;
      else if ('t' in record) this.now = record.t;
      if (record.k === 'message') this.#takeMessage(record);
      else if (record.k === 'state') this.#takeState(record);
    }
  }

  snapshotOf(address: string): unknown {
    const known = this.ran?.snapshotOf(address);
    if (known !== undefined) return known;
    const machine = this.#machineAt(address);
    const context = this.#contexts.get(address);
    return { ...(machine ? { machine } : {}), ...(context ? { context } : {}), value: this.#values.get(address) };
  }

  #takeState({ at, value, status }: StateRecord): void {
    this.#values.set(at, value);
    if (status === undefined) this.#ended.delete(at);
    else this.#ended.add(at);
  }

  #forget(address: string): void {
    for (const known of [this.#machines, this.#contexts, this.#values]) known.delete(address);
  }

  #takeMessage({ from, to, event }: MessageRecord): void {
    if (event.type === BEGINS) {
      const { uid, name, register } = (event['input'] ?? {}) as Readonly<Record<string, unknown>>;
      this.#contexts.set(to, { uid, name, register, node: null });
    } else if (to === `${ROOT}/runtimeState`) this.#addToContext(to, runtimeErrors(event));
    else if (from !== `${ROOT}/nodeStatus`) return;
    else if (event.type === 'node.known') this.#addToContext(from, { node: event['node'] });
    else if (event.type === 'node.gone') this.#addToContext(from, { node: null });
  }

  #addToContext(address: string, facts: object): void {
    this.#contexts.set(address, { ...this.#contexts.get(address), ...facts });
  }

  #machineAt(address: string): Machine | undefined {
    if (!this.#machines.has(address)) {
      const parent = parentOf(address);
      const above = parent === '' ? undefined : this.#machineAt(parent);
      const found = parent === '' ? root() : above && childOf(above, lastOf(address), this.#values.get(address));
      this.#machines.set(address, found);
    }
    return this.#machines.get(address);
  }
}

/** The errors of the runtime and its network in an event for `runtimeState`. */
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

export class Reading {
  /** Why it ended before the journal did. */
  error: string | undefined;
  readonly kernel: RecordedKernel;
  readonly #journal: Journal;
  readonly #onRecord: (record: JournalRecord) => void;
  readonly #feed: KernelFeed;
  private seen: readonly ShownRecord[] = [];

  /** `onRecord` gets each record when it is read. */
  constructor(journal: Journal, onRecord: (record: JournalRecord) => void = () => {}) {
    this.#journal = journal;
    this.#onRecord = onRecord;
    this.kernel = new RecordedKernel(journal.header, journal.checkpoint);
    const onSeen = ({ records }: { readonly records: readonly ShownRecord[] }) => (this.seen = records.map(shown));
    this.#feed = new KernelFeed({ now: () => this.kernel.now, onSeen });
  }

  /** Reads turn after turn and yields the records of each. */
  *run(): Generator<readonly ShownRecord[]> {
    try {
      for (const turn of this.#turns()) {
        this.kernel.take(turn);
        this.#feed.onTurn(turn, this.kernel);
        yield this.seen;
      }
    } catch (thrown) {
      this.error = thrown instanceof JournalError ? thrown.message : `the page failed: ${String(thrown)}`;
    }
  }

  /** The records of each turn, without marks of those that were left out, up to a gap. */
  *#turns(): Generator<readonly KernelRecord[]> {
    let turn: KernelRecord[] = [];
    for (const record of this.#journal.records) {
      if (record.k === 'gap') {
        if (this.#isBeforeAll(record)) continue;
        this.error = `it was suspended at record ${record.n} (${record.why}), and what was so after that is not known`;
        return;
      }
      this.#onRecord(record);
      if (record.k !== 'dropped') turn.push(record);
      if (record.k !== 'end') continue;
      yield turn;
      turn = [];
    }
  }

  /** A gap up to the checkpoint with which the journal begins. */
  #isBeforeAll({ upto }: GapRecord): boolean {
    return upto !== undefined && upto === this.#journal.checkpoint?.after;
  }

  phases = (): PhasesView => this.#feed.phases();
  pods = (): readonly PodView[] => this.#feed.podList();
  drivers = (): readonly DriverView[] => this.#feed.drivers();
}
