/**
 * The actors at any kept record, derived from the records alone.
 *
 * Hears: all records in order. Each change of an actor is stored as its view from there on, so that the past is looked
 * up, not computed: a past moment costs one search for each running actor. Of the ended actors the last {@link
 * ENDED_MAX} are shown.
 */
import type { ActorView, RequestView, ShownRecord } from '../../actors/server/visualizer/protocol.ts';
import { parentOf } from '../words.ts';

/** The view of an actor from a record on. */
interface Change {
  readonly n: number;
  readonly view: ActorView;
}

const BEFORE_ALL = -1;
/** Ended actors that are still shown, so that a dead pod can be inspected. */
const ENDED_MAX = 200;

export class Past {
  private readonly changes = new Map<string, Change[]>();
  private readonly askers = new Map<number, string>();
  private touched = new Set<string>();
  /** Actors that ended, in that order. */
  private readonly ended = new Set<string>();
  private gone: string[] = [];

  /** Takes actors in their state after the last record; an actor without records was in this state all the time. */
  adopt(views: readonly ActorView[]): void {
    this.lastMoment = undefined;
    for (const view of views) {
      const changes = this.changes.get(view.address);
      if (changes) changes.push({ n: changes.at(-1)?.n ?? BEFORE_ALL, view });
      else this.changes.set(view.address, [{ n: BEFORE_ALL, view }]);
      this.touched.add(view.address);
      for (const request of view.requests) this.askers.set(request.id, view.address);
    }
  }

  /** Takes actors whose beginning is not among the records. */
  addActors(views: readonly ActorView[]): void {
    for (const view of views) this.unbegun.set(view.address, view);
  }

  private readonly unbegun = new Map<string, ActorView>();

  take(shown: ShownRecord): void {
    const { record, n } = shown;
    if (record.k === 'state') this.moved(shown);
    else if (record.k === 'effect') {
      const { id, name, class: cls } = record;
      const asker = parentOf(record.at);
      this.askers.set(id, asker);
      this.withRequests(asker, n, (open) => [...open, { id, name, class: cls, since: shown.t, n }]);
    } else if (record.k === 'result' || record.k === 'cancel') {
      const asker = this.askers.get(record.id);
      this.askers.delete(record.id);
      if (asker !== undefined) this.withRequests(asker, n, (open) => open.filter(({ id }) => id !== record.id));
    }
  }

  private moved({ record, n, active = [], begins, was }: ShownRecord): void {
    if (record.k !== 'state') return;
    const known = this.now(record.at);
    const first = this.unbegun.get(record.at);
    if (!known && was && first)
      this.set(record.at, BEFORE_ALL, { ...withoutError(first), status: 'active', ...was, requests: [] });
    const former = this.now(record.at) ?? first;
    const { value, status = 'active', error, at: address } = record;
    const open = known?.status === 'active' ? known.requests : this.waiting.get(address);
    const named = begins?.named ?? former?.named;
    const view: ActorView = {
      address,
      machine: begins?.machine ?? former?.machine ?? '',
      value,
      status,
      active,
      requests: status === 'active' ? (open ?? []) : [],
      ...(error ? { error: error.message } : {}),
      ...(named ? { named } : {}),
    };
    this.waiting.delete(address);
    this.set(address, n, view);
  }

  /** Requests of actors whose first state comes later in their turn. */
  private readonly waiting = new Map<string, readonly RequestView[]>();

  private withRequests(
    address: string,
    n: number,
    change: (open: readonly RequestView[]) => readonly RequestView[],
  ): void {
    const view = this.now(address);
    if (view?.status === 'active') this.set(address, n, { ...view, requests: change(view.requests) });
    else this.waiting.set(address, change(this.waiting.get(address) ?? []));
  }

  private set(address: string, n: number, view: ActorView): void {
    const known = this.changes.get(address);
    if (known) known.push({ n, view });
    else this.changes.set(address, [{ n, view }]);
    this.touched.add(address);
    this.ended.delete(address);
    if (n === BEFORE_ALL) this.lastMoment = undefined;
    if (view.status === 'active') return;
    this.ended.add(address);
    if (this.ended.size <= ENDED_MAX) return;
    const [oldest] = this.ended;
    if (oldest === undefined) return;
    this.ended.delete(oldest);
    this.touched.delete(oldest);
    this.gone.push(oldest);
  }

  /** As the actor is after the last record. */
  now(address: string): ActorView | undefined {
    return this.changes.get(address)?.at(-1)?.view;
  }

  /** As the actor was after record `n`. */
  at(address: string, n: number): ActorView | undefined {
    const changes = this.changes.get(address) ?? [];
    return changes[lastUpTo(changes, n)]?.view;
  }

  /** All actors after record `n`, and the last ended ones; default: after the last record. */
  all(n = Number.POSITIVE_INFINITY): ActorView[] {
    const views: ActorView[] = [];
    const ended: Change[] = [];
    for (const changes of this.changes.values()) {
      const last = changes.at(-1);
      // Most actors of a long journal have ended before.
      const change = last !== undefined && last.n <= n ? last : changes[lastUpTo(changes, n)];
      if (!change) continue;
      if (change.view.status === 'active') views.push(change.view);
      else ended.push(change);
    }
    return [...views, ...newest(ended).map(({ view }) => view)];
  }

  /** The actors of the last requested moment: the next moment is described by its differences to it. */
  private lastMoment: { readonly n: number; readonly views: readonly ActorView[] } | undefined;

  /** As {@link all}, cached until another moment is requested. */
  allAt(n: number): readonly ActorView[] {
    if (this.lastMoment?.n !== n) this.lastMoment = { n, views: this.all(n) };
    return this.lastMoment.views;
  }

  /** The differences of the actors between record `n` and another record. */
  between(other: number, n: number): { readonly actors: readonly ActorView[]; readonly gone: readonly string[] } {
    const before = new Map(this.allAt(other).map((view) => [view.address, view]));
    const now = this.allAt(n);
    const actors = now.filter((view) => before.get(view.address) !== view);
    for (const { address } of now) before.delete(address);
    return { actors, gone: [...before.keys()] };
  }

  /** The views of an actor, the oldest first, each with the record of its beginning. */
  history(address: string): readonly Change[] {
    return this.changes.get(address) ?? [];
  }

  /** The actors that changed since the last call, and those no longer shown. */
  takeChanged(): { readonly actors: readonly ActorView[]; readonly gone: readonly string[] } {
    const actors = [...this.touched].flatMap((address) => this.now(address) ?? []);
    const { gone } = this;
    this.touched = new Set();
    this.gone = [];
    return { actors, gone: gone.filter((address) => this.now(address)?.status !== 'active') };
  }

  /** Forgets the changes between two dropped records, except the last one of an actor that lived on. */
  forget(from: number, to: number): void {
    this.lastMoment = undefined;
    for (const [address, changes] of this.changes) {
      const last = lastUpTo(changes, to);
      const isOver = last === changes.length - 1 && changes[last]?.view.status !== 'active';
      if (isOver && (changes[0]?.n ?? 0) >= from && !this.ended.has(address)) this.changes.delete(address);
      if (last <= 0) continue;
      const kept = changes.filter(({ n }, at) => n < from || at >= last);
      if (kept.length < changes.length && this.changes.has(address)) this.changes.set(address, kept);
    }
  }
}

function withoutError({ error: _error, ...view }: ActorView): ActorView {
  return view;
}

/** The last that ended, the newest first. */
function newest(ended: readonly Change[]): readonly Change[] {
  const numbers = Float64Array.from(ended, ({ n }) => n).sort();
  const from = numbers.at(-ENDED_MAX) ?? BEFORE_ALL;
  return ended
    .filter(({ n }) => n >= from)
    .toSorted((one, other) => other.n - one.n)
    .slice(0, ENDED_MAX);
}

/** Index of the last change up to record `n`; -1: none. */
const lastUpTo = (changes: readonly Change[], n: number): number => lastIndexWhere(changes, (each) => each.n <= n);

/**
 * The last index for which `isUpTo` is true, by binary search: it is true for a first part of the list only. -1 if it
 * is never true.
 */
export function lastIndexWhere<Item>(items: readonly Item[], isUpTo: (item: Item) => boolean): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const item = items[middle];
    if (item !== undefined && isUpTo(item)) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
