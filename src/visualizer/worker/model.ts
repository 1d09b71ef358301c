/**
 * The model of one start for the page: its records, its actors at any moment, the results of a search, and the story of
 * one pod: its lanes, its events, and its state at a moment.
 *
 * Hears: records in order, from a source, which has everything else.
 */
import { Claims, nextTryOf, Pods } from '../../actors/server/visualizer/pods.ts';
import type {
  ActorDetail,
  ActorView,
  PhasesView,
  PodView,
  ShownRecord,
  TimerView,
} from '../../actors/server/visualizer/protocol.ts';
import { keepNewest } from '../../kernel/keep-newest.ts';
import { podLanes } from '../lanes.ts';
import { podEvents } from '../pod-answer.ts';
import { namesIn } from '../words.ts';
import { Past } from './past.ts';
import { type Expressions, queryOf } from './query.ts';
import { RecordPages, type Row } from './record-pages.ts';
import type { Comparison, HealthView, StartView } from './reports.ts';
import type { ContextChange, Facts, Other, PodStory, StepView } from './requests.ts';
import { Search } from './search.ts';

/** Kinds of records that tell of a pod. */
const OF_PODS: ReadonlySet<string> = new Set(['state', 'log', 'message', 'effect']);

interface Asked {
  readonly uid: string;
  /** As it is now. */
  readonly pod: PodView | undefined;
  /** The record of the moment; undefined: now. */
  readonly at: number | undefined;
  readonly timersAt: (address: string, n: number) => Promise<readonly TimerView[]>;
}

export async function podStory(model: Model, { uid, pod, at, timersAt }: Asked): Promise<PodStory> {
  const { pages, root, t } = model;
  const address = `${root}/pods/pod-${uid}`;
  const last = at ?? Number.POSITIVE_INFINITY;
  const own = [address, `${root}/draManager/prepare-${uid}`, `${root}/draManager/release-${uid}`];
  const isOwn = (name: string): boolean => own.includes(name) || name.startsWith(`${address}/`) || name === pod?.pod;
  const isWanted = ({ kind, n }: Row): boolean => n <= last && OF_PODS.has(kind);
  const records = await pages.at(pages.indexesNaming(isOwn, isWanted));
  const until = Math.min(pod?.gone ?? Number.POSITIVE_INFINITY, model.endOf(Math.min(last, pages.last))?.t ?? t);
  const then = at === undefined ? undefined : podThen(uid, records, root);
  const claims = then?.claims && { ...then.claims, ...nextTryOf(await timersAt(address, last)) };
  return {
    ...(then ? { pod: { ...then, ...(claims ? { claims } : {}) } } : {}),
    lanes: podLanes(address, records, until),
    events: pod ? podEvents(pod, records) : [],
  };
}

/** The pod as these records leave it. */
function podThen(uid: string, records: readonly ShownRecord[], root: string): PodView | undefined {
  const [pods, claims] = [new Pods(), new Claims()];
  for (const { record, t } of records) {
    pods.take(record, t, root);
    claims.take(record, t, root);
  }
  const wait = claims.waitOf(uid);
  const pod = pods.list().find((each) => each.uid === uid);
  return pod && wait ? { ...pod, claims: wait } : pod;
}

/** The limit of pages after those of the start: 204,800 records, about 10 MB packed. */
const LIVE_PAGES_MAX = 800;
/** The same for an opened journal: 1,024,000 records, which take some 430 MB with their actors. */
const OPENED_PAGES_MAX = 4_000;
/** The limit of names of pods; names of pods that are long gone are dropped. */
const NAMES_MAX = 20_000;

/** The requests of a model to the daemon, or to the replay of a journal. */
export interface Source {
  facts(): Pick<Facts, 'connection' | 'incarnation' | 'node' | 'root' | 'now' | 'runs' | 'incarnations'> &
    Partial<Pick<Facts, 'isReading' | 'note' | 'ranTo' | 'recordedFrom'>>;
  phases(): Promise<PhasesView>;
  pods(): Promise<readonly PodView[]>;
  /** The actor at the end of this turn; absent: now. */
  detail(
    address: string,
    at: { readonly view: ActorView; readonly turn: number; readonly n: number } | undefined,
  ): Promise<ActorDetail | null>;
  changes(address: string, turn: number): readonly ContextChange[] | undefined;
  step(address: string, turn: number): (Omit<StepView, 'n'> & { readonly turn: number }) | undefined;
  start(): Promise<StartView | null>;
  compare(other: Other): Promise<Comparison>;
  health(): Promise<HealthView>;
  close(): void;
}

export class Model {
  readonly pages: RecordPages;
  readonly past = new Past();
  readonly names = new Map<string, string>();
  started = 0;
  turn = -1;
  t = 0;
  search: Search;
  searchId = 0;
  /** Which parts have changed since the last notice. */
  readonly changed = { phases: true, pods: true };
  #root = '';

  constructor(isLive: boolean) {
    this.pages = new RecordPages(isLive ? LIVE_PAGES_MAX : OPENED_PAGES_MAX);
    this.search = new Search(this.pages, queryOf('', this));
  }

  get root(): string {
    return this.#root;
  }

  set root(address: string) {
    this.#root = address;
  }

  readonly named = (text: string): string => namesIn(text, this.names);

  take(records: readonly ShownRecord[]): void {
    const { last } = this.pages;
    const fresh = last === -1 ? records : records.filter(({ n }) => n > last);
    const [first, end] = [fresh[0], fresh.at(-1)];
    if (!first || !end) return;
    if (last === -1) this.started = first.t;
    const dropped = this.pages.append(fresh);
    for (const shown of fresh) {
      this.past.take(shown);
      const named = shown.begins?.named;
      if (named) this.names.set(named.uid, named.name);
      keepNewest(this.names, NAMES_MAX);
      if (isOfStart(shown, this.#root)) this.changed.phases = true;
      if (isOfPods(shown, this.#root)) this.changed.pods = true;
    }
    this.turn = end.turn;
    this.t = end.t;
    if (!dropped) return;
    this.past.forget(dropped.from, dropped.to);
    this.search.drop(dropped);
  }

  /** Updates actors from a daemon's views. */
  addActors(views: readonly ActorView[]): void {
    this.past.addActors(views);
    for (const { named } of views) if (named) this.names.set(named.uid, named.name);
  }

  endOf(n: number): { readonly n: number; readonly turn: number; readonly t: number } | undefined {
    const { pages } = this;
    const row = pages.row(pages.indexOf(n));
    if (!row) return undefined;
    const { n: end, turn, t } = pages.row(pages.firstWhere((other) => other.turn > row.turn) - 1) ?? row;
    return { n: end, turn, t };
  }

  newSearch(text: string, actor: string | undefined, expressions: Expressions | undefined): Search {
    this.search.end();
    const query = queryOf(text, this, expressions);
    const own = (who: string, from: string): boolean => actor === undefined || who === actor || from === actor;
    const mayMatch: typeof query.mayMatch = (row) => own(row.who, row.from) && query.mayMatch(row);
    this.search = new Search(this.pages, { ...query, mayMatch });
    this.searchId++;
    return this.search;
  }
}

/** Whether a record changes the root's states, or the readiness of the node. */
function isOfStart({ record }: ShownRecord, root: string): boolean {
  if (record.k === 'header' || record.k === 'result' || (record.k === 'effect' && record.class !== 'stream'))
    return true;
  if (record.k === 'state')
    return record.at === root || record.at === `${root}/nodeStatus` || record.at === `${root}/runtimeState`;
  return record.k === 'log' && record.at === root;
}

/** A status that changed, or a pod that ended. */
function isOfPods({ record }: ShownRecord, root: string): boolean {
  if (record.k === 'log') return record.at === `${root}/status`;
  return record.k === 'state' && record.status !== undefined && record.at.startsWith(`${root}/pods/pod-`);
}
