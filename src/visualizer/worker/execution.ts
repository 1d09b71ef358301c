/**
 * The replay of a journal in the worker: the same machines with the same inputs, turn by turn.
 *
 * Owns: the snapshot of each actor after each of its steps, by reference. Machines never mutate a context, they replace
 * its changed parts, so that all snapshots of a journal take little more memory than the last ones.
 * Invariants: nothing is performed; the decisions of the machines are compared with the journal, and the first
 * difference ends the replay: from that turn on contexts are unknown; of the middle of a long journal, past {@link
 * SNAPSHOTS_MAX}, the contexts are not kept.
 */
import { contextText } from '../../actors/server/visualizer/feed.ts';
import type { ActorDetail, ActorView } from '../../actors/server/visualizer/protocol.ts';
import { hidden, shortText } from '../../actors/server/visualizer/trim.ts';
import type { PendingTimer } from '../../kernel/clock.ts';
import { JournalError } from '../../kernel/journal/errors.ts';
import type { Journal } from '../../kernel/journal/reader.ts';
import { isObject, jsonText, memberOf } from '../../kernel/json.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { JournalRecord } from '../../kernel/records.ts';
import { NotReplayable, type ReplayReport, replaying } from '../../kernel/replay.ts';
import type { AnyTransitionDefinition, Step } from '../../kernel/steps.ts';
import { candidatesOf, guardName } from '../../kernel/steps.ts';
import { kubeletMachine } from '../../machines/startup/kubelet.ts';
import { lastIndexWhere } from './past.ts';
import type { ContextChange, EdgeView, StepView } from './requests.ts';

/** Snapshots that are kept, about 2 KB each: those of 250,000 records. */
const SNAPSHOTS_MAX = 150_000;
/** How many of them are of the start. */
const START_SNAPSHOTS = 50_000;

/** The state of an actor from the end of a turn on. */
interface TurnSnapshot {
  readonly turn: number;
  readonly snapshot: object;
  readonly timers: readonly PendingTimer[];
  /** The events of the actor in the turn, and the transitions that it took. */
  readonly steps: readonly Pick<Step, 'event' | 'transitions'>[];
}

export class Execution {
  report: ReplayReport | undefined;
  /** Why it ended before the journal did. */
  error: string | undefined;
  /** The record from which on contexts are unknown, because this build decides differently; undefined for none. */
  unknownFrom: number | undefined;
  /** The last record to which it has run. */
  ranTo: number;
  kernel: Kernel | undefined;
  readonly #journal: Journal;
  readonly #snapshots = new Map<string, TurnSnapshot[]>();
  /** The last turn whose contexts are known. */
  #lastTurn = -1;
  #lastRead = -1;
  #steps: Step[] = [];
  #count = 0;
  /** Turns in which changes of contexts are not kept. */
  #gap: { readonly from: number; readonly to: number } | undefined;

  constructor(journal: Journal) {
    this.#journal = journal;
    this.ranTo = (journal.checkpoint?.state.n ?? 0) - 1;
  }

  /** Runs turn after turn. */
  *run(): Generator<void> {
    const { header, checkpoint } = this.#journal;
    const run = replaying({
      machine: kubeletMachine,
      records: this.#records(),
      ...(checkpoint ? { from: { checkpoint: checkpoint.state, header } } : {}),
      onTurn: (_, kernel) => (this.kernel = kernel),
      onStep: (step) => this.#steps.push(step),
    });
    try {
      for (let next = run.next(); ; next = run.next()) {
        if (next.done) {
          this.report = next.value;
          this.unknownFrom = next.value.divergence?.n;
          return;
        }
        if (next.value && this.kernel) yield this.#ran(this.kernel);
      }
    } catch (thrown) {
      const isExpected = thrown instanceof JournalError || thrown instanceof NotReplayable;
      this.error = isExpected ? thrown.message : `the page failed: ${String(thrown)}`;
      this.unknownFrom = this.ranTo + 1;
    }
  }

  /** A turn of changed machines may have more or fewer records: the journal determines where it ends. */
  *#records(): Generator<JournalRecord> {
    for (const record of this.#journal.records) {
      if (record.k === 'end') this.#lastRead = record.n;
      yield record;
    }
  }

  #ran(kernel: Kernel): void {
    if (this.#snapshots.size === 0) this.#adopt(kernel);
    this.#keep(kernel);
    this.#lastTurn = kernel.turn - 1;
    this.ranTo = this.#lastRead;
  }

  /** Takes the actors of a journal that begins with a checkpoint. */
  #adopt(kernel: Kernel): void {
    for (const address of kernel.addresses) {
      const snapshot = kernel.snapshotOf(address) as object;
      if (!this.#snapshots.has(address)) this.#snapshots.set(address, [{ turn: -1, snapshot, timers: [], steps: [] }]);
    }
  }

  #keep(kernel: Kernel): void {
    const byActor = Map.groupBy(this.#steps, ({ address }) => address);
    this.#steps = [];
    if (byActor.size === 0) return;
    const timers = Map.groupBy(kernel.timers.list(), ({ target }) => target);
    for (const [address, steps] of byActor) {
      const settled = steps.findLast(({ isSettled }) => isSettled) ?? steps.at(-1);
      if (!settled) continue;
      const kept = this.#snapshots.get(address) ?? [];
      this.#snapshots.set(address, kept);
      const taken = steps.map(({ event, transitions }) => ({ event, transitions }));
      kept.push({ turn: kernel.turn - 1, snapshot: settled.snapshot, timers: timers.get(address) ?? [], steps: taken });
      this.#count++;
    }
    if (this.#count > SNAPSHOTS_MAX) this.#thin();
  }

  /** Drops snapshots between the start and the newest ones, and actors that ended long ago. */
  #thin(): void {
    const turns = [...this.#snapshots.values()]
      .flatMap((kept) => kept.map(({ turn }) => turn))
      .toSorted((a, b) => a - b);
    const from = this.#gap?.from ?? turns[START_SNAPSHOTS];
    const to = turns[Math.floor((START_SNAPSHOTS + SNAPSHOTS_MAX) / 2)];
    if (from === undefined || to === undefined) return;
    this.#gap = { from, to };
    this.#count = 0;
    const living = new Set(this.kernel?.addresses);
    for (const [address, all] of this.#snapshots) {
      const last = all.findLastIndex(({ turn }) => turn <= to);
      const isOver = last === all.length - 1 && !living.has(address);
      const kept = all.filter(({ turn }, at) => turn <= from || (at >= last && !isOver));
      if (kept.length > 0) this.#snapshots.set(address, kept);
      else this.#snapshots.delete(address);
      this.#count += kept.length;
    }
  }

  /** The actor after a turn; `view` has everything but its context. */
  detail(view: ActorView, turn: number, at: number): ActorDetail {
    const kept = this.#snapshotAt(view.address, turn);
    const isKnown = kept !== undefined && view.status === 'active';
    const context = isKnown ? contextText(kept.snapshot) : undefined;
    const timers = (kept?.timers ?? []).map(({ due, event }) => ({ due, event: event.type }));
    return { actor: view, at, ...(context === undefined ? {} : { context }), timers };
  }

  /** The changes that a turn made to an actor's context. */
  changes(address: string, turn: number): readonly ContextChange[] | undefined {
    const [after, before] = [this.#snapshotAt(address, turn), this.#snapshotAt(address, turn - 1)];
    if (!after || after.turn !== turn) return after ? [] : undefined;
    return differences(contextOf(before), contextOf(after));
  }

  /** The last step of an actor up to a turn: its event, the transitions that it considered, and those that it took. */
  step(address: string, turn: number): (Omit<StepView, 'n'> & { readonly turn: number }) | undefined {
    if (turn > this.#lastTurn) return undefined;
    const kept = this.#snapshots.get(address) ?? [];
    const at = lastUpTo(kept, turn);
    const last = kept[at];
    const step = last?.steps.find(({ transitions }) => transitions.length > 0) ?? last?.steps[0];
    if (!last || !step) return undefined;
    const before = kept[at - 1]?.snapshot;
    const taken = last.steps.flatMap(({ transitions }) => transitions);
    return {
      turn: last.turn,
      event: step.event.type,
      edges: edgesOf(before, step.event, taken),
      before: activeIds(before),
      after: activeIds(last.snapshot),
    };
  }

  #snapshotAt(address: string, turn: number): TurnSnapshot | undefined {
    if (turn > this.#lastTurn) return undefined;
    if (this.#gap && turn > this.#gap.from && turn < this.#gap.to) return undefined;
    const kept = this.#snapshots.get(address) ?? [];
    return kept[lastUpTo(kept, turn)];
  }
}

const contextOf = (kept: TurnSnapshot | undefined): unknown => kept && hidden(memberOf(kept.snapshot, 'context'));

function activeIds(snapshot: object | undefined): string[] {
  const { _nodes: nodes = [] } = (snapshot ?? {}) as { readonly _nodes?: readonly { readonly id: string }[] };
  return nodes.map(({ id }) => id);
}

const lastUpTo = (kept: readonly TurnSnapshot[], turn: number): number =>
  lastIndexWhere(kept, (each) => each.turn <= turn);

/**
 * The transitions that an actor considered, with the results of their guards, as the page draws them. Pure. `before`:
 * the snapshot in which the event arrived; absent: the actor began with the event.
 */
function edgesOf(
  before: object | undefined,
  event: { readonly type: string },
  taken: readonly AnyTransitionDefinition[],
): EdgeView[] {
  const candidates = before ? candidatesOf(before, event) : [];
  const considered = candidates.map(({ transition, passes }) => {
    const result = taken.includes(transition) ? 'taken' : passes === undefined ? 'not reached' : 'no';
    return edge(transition, result);
  });
  const known = new Set(candidates.map(({ transition }) => transition));
  return [...considered, ...taken.filter((transition) => !known.has(transition)).map((each) => edge(each, 'taken'))];
}

function edge(transition: AnyTransitionDefinition, result: EdgeView['result']): EdgeView {
  const guard = guardName(transition);
  return {
    source: transition.source.id,
    targets: (transition.target ?? []).map(({ id }) => id),
    event: transition.eventType || 'always',
    ...(guard === undefined ? {} : { guard }),
    result,
  };
}

/** The number of members listed: more would not help a reader. */
const CHANGES_MAX = 100;
/** Characters of a member, before and after. */
const MEMBER_MAX_CHARS = 2_000;
/** Levels of nesting; differences below are shown as a whole. */
const DEPTH_MAX = 6;

/** The differences between two values of JSON, by path. Pure. */
export function differences(before: unknown, after: unknown): ContextChange[] {
  const found: ContextChange[] = [];
  collect(before, after, '', 0, found);
  return found;
}

function collect(before: unknown, after: unknown, path: string, depth: number, found: ContextChange[]): void {
  if (before === after || found.length >= CHANGES_MAX) return;
  if (isObject(before) && isObject(after) && depth < DEPTH_MAX) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    for (const name of names)
      collect(before[name], after[name], path === '' ? name : `${path}.${name}`, depth + 1, found);
    return;
  }
  const [was, is] = [jsonText(before), jsonText(after)];
  if (was !== is) found.push({ path, ...shortened('before', was), ...shortened('after', is) });
}

const shortened = (side: 'before' | 'after', text: string | undefined): Partial<ContextChange> =>
  text === undefined ? {} : { [side]: shortText(text, MEMBER_MAX_CHARS) };
