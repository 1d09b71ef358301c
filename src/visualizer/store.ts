/**
 * The state of the page: the data from the worker, and the choices of the user.
 *
 * Hears: the notices of the worker, which has the records. Owns: the present actors, the chosen moment, and the answers
 * about the choice. Views read it; once a frame they are notified which parts changed.
 */
import type { ActorDetail, ActorView, PhasesView, PodView, ShownRecord } from '../actors/server/visualizer/protocol.ts';
import { keepNewest } from '../kernel/keep-newest.ts';
import type { Link } from './link.ts';
import { decoded, lastOf, namesIn, recordText } from './words.ts';
import type { Facts, Found, HistoryEntry, Inspection, Moment, Notice, Opening, StepView } from './worker/requests.ts';

/** The limit of names of pods; names of pods that are long gone are dropped. */
const NAMES_MAX = 20_000;
/** Milliseconds between two requests for the chosen actor while it is busy. */
const DETAIL_PAUSE_MS = 250;
/** Milliseconds to wait for the data about a chosen record, so that a step is drawn only once: two frames. */
const ANSWER_MS = 32;

export type Part =
  | 'facts'
  | 'actors'
  | 'records'
  | 'phases'
  | 'pods'
  | 'detail'
  | 'inspection'
  | 'choice'
  /** Another record is chosen; the data about it are not known yet. */
  | 'record'
  | 'moment'
  | 'clock';

export const VIEWS = ['start', 'actors', 'pods', 'records', 'compare', 'health'] as const;
export type View = (typeof VIEWS)[number];

const NOTHING: Facts = {
  connection: 'connecting',
  incarnation: '',
  node: '',
  root: '',
  started: 0,
  t: 0,
  now: 0,
  n: -1,
  turn: -1,
  records: 0,
  missed: 0,
  runs: false,
  incarnations: [],
};

/** The answers about the chosen actor. */
export interface Chosen {
  readonly detail: ActorDetail | null;
  readonly step: StepView | null;
  readonly history: readonly HistoryEntry[];
}

export class Store {
  facts: Facts = NOTHING;
  phases: PhasesView = { started: 0, now: 0, phases: [] };
  /** The pods as they are now, in the order in which they were seen. */
  pods: readonly PodView[] = [];
  found: Found = { search: 0, found: 0, scanned: 0, isDone: true };
  /** The end of the turn of the chosen record: everything is shown as it was then. */
  moment: Moment | undefined;
  view: View = 'start';
  actor: string | undefined;
  record: number | undefined;
  /** Actors whose messages are shown as a sequence; if empty, those of the chosen actor. */
  readonly sequenced = new Set<string>();
  /** Uid of the pod whose story is shown. */
  pod: string | undefined;
  chosen: Chosen | undefined;
  inspection: Inspection | undefined;
  /** The position of a record among the results of a search. */
  row: { readonly search: number; readonly n: number; readonly at: number } | undefined;
  private link!: Link;
  private readonly present = new Map<string, ActorView>();
  private past: ReadonlyMap<string, ActorView> | undefined;
  private readonly names = new Map<string, string>();
  private readonly listeners: ((parts: ReadonlySet<Part>) => void)[] = [];
  private readonly changed = new Set<Part>();
  private receivedAt = 0;
  private detailAsked = false;
  /** Counts the moments that the user chose: a step that was requested before the last one is dropped. */
  private choices = 0;
  private travelling: Promise<void> = Promise.resolve();

  /** Begins to ask this worker. */
  connect(link: Link): void {
    this.link = link;
    setInterval(() => this.mark('clock'), 1_000);
  }

  get ask(): Link['ask'] {
    return this.link.ask.bind(this.link);
  }

  /** Opens another journal; rejects with the reason if it cannot be opened. */
  async open(opening: Opening): Promise<void> {
    await this.ask('open', opening);
  }

  /** Reports that the first view of the page cannot be opened. */
  fail(why: string): void {
    this.facts = { ...NOTHING, connection: 'failed', note: why };
    this.mark('facts', 'phases');
  }

  /** Notifies once per frame of the changed parts. */
  listen(listener: (parts: ReadonlySet<Part>) => void): void {
    this.listeners.push(listener);
  }

  private mark(...parts: readonly Part[]): void {
    if (this.changed.size === 0) requestAnimationFrame(() => this.notify());
    for (const part of parts) this.changed.add(part);
  }

  private notify(): void {
    const parts = new Set(this.changed);
    this.changed.clear();
    for (const listener of this.listeners) listener(parts);
  }

  get root(): string {
    return this.facts.root;
  }

  get started(): number {
    return this.phases.started || this.facts.started;
  }

  get isLive(): boolean {
    return this.facts.connection === 'live' || this.facts.connection === 'lost';
  }

  /** The kernel's clock at the chosen moment, independent of the browser's clock. */
  get now(): number {
    return this.moment?.t ?? this.latest;
  }

  /** The last turn, independent of the chosen moment. */
  get latest(): number {
    return this.isLive ? this.facts.now + performance.now() - this.receivedAt : this.facts.t;
  }

  /** The actors now, or at the chosen moment. */
  get actors(): ReadonlyMap<string, ActorView> {
    return this.past ?? this.present;
  }

  /** Why there is no actor to show. */
  get absence(): string {
    if (this.actor === undefined) return 'Choose an actor.';
    return `${this.nameOf(this.actor)} is not there at this moment.`;
  }

  /** The replay has reached the shown moment, or will not reach it. */
  get isRun(): boolean {
    const { ranTo } = this.facts;
    return ranTo === undefined || ranTo >= (this.moment?.n ?? this.facts.n);
  }

  /** The last step of an address, with a name instead of a uid. */
  nameOf(address: string): string {
    return this.named(decoded(lastOf(address)));
  }

  /** An address without the root, which all addresses have in common. */
  within(address: string): string {
    return address.startsWith(`${this.root}/`) ? address.slice(this.root.length + 1) : address;
  }

  /** Grows with the names that are known. */
  get naming(): number {
    return this.names.size;
  }

  /** A text with every uid of an actor replaced by its name, if that is known. */
  named(text: string): string {
    return namesIn(text, this.names);
  }

  /** One line that describes a record. */
  text({ record, was, request }: ShownRecord): string {
    return this.named(recordText(record, { before: was?.value, operation: request?.name }));
  }

  show(view: View): void {
    if (view === this.view) return;
    this.view = view;
    this.mark('choice', 'pods');
    this.askDetail();
  }

  /** Only an existing actor can be chosen; before the tree is loaded every address may be one. */
  chooseActor(address: string | undefined): void {
    const isKnown = this.present.has(address ?? '') || this.actors.has(address ?? '');
    if (address === this.actor || (this.present.size > 0 && !isKnown)) return;
    this.actor = address;
    this.chosen = undefined;
    this.mark('choice', 'detail');
    this.askDetail();
  }

  /** Adds the chosen actor to the sequence, or removes it. */
  toggleSequenced(): void {
    const { actor } = this;
    if (actor === undefined) return;
    if (!this.sequenced.delete(actor)) this.sequenced.add(actor);
    this.mark('choice', 'detail');
  }

  /** Shows the story of a pod. */
  choosePod(uid: string | undefined): void {
    if (uid === this.pod) return;
    this.pod = uid;
    this.mark('pods', 'choice');
  }

  /** The actor of a pod, which may have ended. */
  podAddress(uid: string): string {
    return `${this.root}/pods/pod-${uid}`;
  }

  /** Goes to the moment after the turn of a record, or back to the present; steps without an answer are dropped. */
  chooseRecord(n: number | undefined): void {
    this.choices++;
    this.goTo(n);
  }

  private goTo(n: number | undefined): void {
    if (n === this.record) return;
    this.record = n;
    if (this.facts.n === -1) return this.mark('record');
    const answered = this.askMoment();
    const late = setTimeout(() => this.mark('record'), ANSWER_MS);
    void answered.finally(() => {
      clearTimeout(late);
      this.mark('record');
    });
  }

  /** Asks for the moment and all that is shown of it. */
  private async askMoment(): Promise<void> {
    const n = this.record;
    if (n === undefined) {
      this.moment = undefined;
      this.past = undefined;
      this.inspection = undefined;
      this.row = undefined;
      this.mark('moment', 'actors', 'inspection', 'pods');
      this.askDetail();
      return;
    }
    const { past } = this;
    const since = past && this.moment ? { since: this.moment.n } : {};
    const { actor } = this;
    const { search } = this.found;
    const [moment, inspection, at, chosen] = await Promise.all([
      this.ask('moment', { n, ...since }),
      this.ask('inspect', { n }),
      this.ask('rowOf', { search, n }),
      actor !== undefined && this.view === 'actors' ? this.askChosen(actor, n) : undefined,
    ]);
    if (n !== this.record || past !== this.past) return;
    this.moment = moment ?? undefined;
    this.past = moment ? actorsOf(moment, past) : undefined;
    this.inspection = inspection ?? undefined;
    this.row = { search, n, at };
    this.mark('moment', 'actors', 'inspection', 'pods');
    if (!chosen || actor !== this.actor) return this.askDetail();
    this.chosen = chosen;
    this.mark('detail');
  }

  /** Moves by a number of records or turns from the chosen record, after the earlier steps. */
  step(by: 'record' | 'turn', steps: number): Promise<void> {
    return this.travel(() => {
      const from = this.record ?? this.facts.n + (by === 'record' ? 1 : 0);
      return this.ask('near', { n: from, by, steps });
    });
  }

  /** Goes to the record that the answer names, unless the user chooses a moment before the answer. */
  travel(ask: () => Promise<number | undefined>): Promise<void> {
    this.travelling = this.travelAfter(this.travelling, ask);
    return this.travelling;
  }

  private async travelAfter(before: Promise<void>, ask: () => Promise<number | undefined>): Promise<void> {
    const { choices } = this;
    await before.catch(() => undefined);
    const n = choices === this.choices ? await ask() : undefined;
    if (choices === this.choices) this.goTo(n);
  }

  /** Takes a report of the worker. */
  take({ facts, isNew, actors, gone, phases, pods, found }: Notice): void {
    const isMore = facts.n !== this.facts.n;
    const wasRun = this.isRun;
    this.facts = facts;
    this.receivedAt = performance.now();
    if (isNew) this.begin();
    for (const address of gone ?? []) this.present.delete(address);
    for (const actor of actors ?? []) this.addActor(actor);
    if (this.actor === undefined && facts.root !== '' && this.present.has(facts.root)) this.chooseActor(facts.root);
    if (phases) this.phases = phases;
    if (pods) this.pods = pods;
    const { search, first } = this.found;
    if (found?.search !== search || found.found !== this.found.found) this.row = undefined;
    // The first rows are sent once; another notice may follow before they are drawn.
    if (found) this.found = first && search === found.search ? { first, ...found } : found;
    this.mark('facts', 'records');
    if (actors || gone || isNew) this.mark('actors');
    if (phases || isNew) this.mark('phases');
    if (pods || isNew || isMore) this.mark('pods');
    const isKnown = this.isRun && !wasRun;
    if (this.record !== undefined && (this.moment ? isKnown : isMore)) void this.askMoment();
    if (isKnown || actors?.some(({ address }) => address === this.actor)) this.askDetail();
  }

  private begin(): void {
    this.present.clear();
    this.names.clear();
    this.past = undefined;
    this.moment = undefined;
    this.inspection = undefined;
    this.chosen = undefined;
    this.phases = { started: 0, now: 0, phases: [] };
    this.pods = [];
    this.mark('moment', 'choice', 'inspection', 'detail');
  }

  private addActor(actor: ActorView): void {
    this.present.set(actor.address, actor);
    if (actor.named) this.names.set(actor.named.uid, actor.named.name);
    keepNewest(this.names, NAMES_MAX);
  }

  /** Loads the chosen actor; many choices in a short time are one request. */
  private askDetail(): void {
    if (this.detailAsked || this.facts.n === -1 || this.view !== 'actors') return;
    this.detailAsked = true;
    const asked = this.askedFor;
    void this.loadDetail().finally(() => {
      const pause = this.moment || asked !== this.askedFor ? 0 : DETAIL_PAUSE_MS;
      setTimeout(() => {
        this.detailAsked = false;
        if (asked !== this.askedFor) this.askDetail();
      }, pause);
    });
  }

  /** The key of the answers about the choice: the actor, the moment, and the actor's last record. */
  private get askedFor(): string {
    const view = this.moment ? undefined : this.present.get(this.actor ?? '');
    return `${this.actor} ${this.moment?.n} ${view?.active.at(-1)?.since} ${view?.requests.length} ${view?.status} ${this.isRun}`;
  }

  private async loadDetail(): Promise<void> {
    const { actor, moment } = this;
    if (actor === undefined) return;
    const answers = await this.askChosen(actor, moment?.n);
    if (!answers || actor !== this.actor || moment !== this.moment) return;
    this.chosen = answers;
    this.mark('detail');
  }

  private async askChosen(address: string, at: number | undefined): Promise<Chosen | undefined> {
    const asked = { address, ...(at === undefined ? {} : { at }) };
    try {
      const questions = [this.ask('detail', asked), this.ask('step', asked), this.ask('history', asked)] as const;
      const [detail, step, history] = await Promise.all(questions);
      return { detail, step, history };
    } catch {
      return undefined;
    }
  }
}

/** The actors at a moment that is described by its differences to another moment. */
function actorsOf({ isWhole, actors, gone }: Moment, before: ReadonlyMap<string, ActorView> = new Map()) {
  const all = new Map(isWhole ? [] : before);
  for (const address of gone) all.delete(address);
  for (const view of actors) all.set(view.address, view);
  return all;
}
