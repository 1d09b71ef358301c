/**
 * What the page knows: the actors, the last records, the phases, and what the person has chosen.
 *
 * Owns: the connection to the daemon. It loads the present, then gets every turn; when turns were missed or the daemon
 * was restarted it loads the present again. Of a journal it loads all, once. Views read it and are notified once a
 * frame which parts changed. While a record is chosen, the actors are shown as they were after its turn: see `past.ts`.
 */
import type {
  ActorDetail,
  ActorView,
  HelloMessage,
  NamedUid,
  PhasesView,
  PodView,
  RecordsView,
  ShownRecord,
  TreeView,
  TurnMessage,
} from '../actors/server/visualizer/protocol.ts';
import { Past } from './past.ts';
import { type Source, servedSource } from './source.ts';
import { concerns, lastOf, recordText, whoOf } from './words.ts';

/** Milliseconds between two looks at the chosen actor's context while it is busy. */
const DETAIL_PAUSE_MS = 250;

export type Part = 'actors' | 'records' | 'phases' | 'pods' | 'detail' | 'choice' | 'moment' | 'connection' | 'clock';

export class Store {
  incarnation = '';
  node = '';
  root = '';
  turn = -1;
  /** Why what is shown is not all of a journal. */
  note: string | undefined;
  private live = true;
  private recordsMax = 0;
  /** As they are now; {@link actors} are as they were at the moment that is looked at. */
  private readonly present = new Map<string, ActorView>();
  private past: Past | undefined;
  private readonly names = new Map<string, string>();
  records: ShownRecord[] = [];
  phases: PhasesView = { started: 0, now: 0, phases: [] };
  /** As they are now, in the order in which they were seen. */
  pods: readonly PodView[] = [];
  /** Uid of the one whose story is shown. */
  pod: string | undefined;
  detail: ActorDetail | undefined;
  connection: 'connecting' | 'live' | 'lost' | 'journal' = 'connecting';
  actor: string | undefined;
  record: number | undefined;
  private readonly listeners: ((parts: ReadonlySet<Part>) => void)[] = [];
  private readonly changed = new Set<Part>();
  private following: EventSource | undefined;
  private readonly source: Source;
  private clock = { server: 0, page: 0 };
  private detailAsked = false;

  constructor(source: Source = servedSource) {
    this.source = source;
  }

  /** Notifies once a frame of what changed. */
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

  /** The kernel's clock now, whatever the browser's own clock says. */
  get now(): number {
    return this.moment?.t ?? this.latest;
  }

  /** The same whatever moment is looked at. */
  get latest(): number {
    return this.live ? this.clock.server + performance.now() - this.clock.page : this.clock.server;
  }

  /** The end of the turn of the chosen record, if it is held: all that is shown is as it was then. */
  get moment(): ShownRecord | undefined {
    return this.past?.moment;
  }

  /** The actors now, or as they were at the moment that is looked at. */
  get actors(): ReadonlyMap<string, ActorView> {
    return this.past?.actors ?? this.present;
  }

  /** The records up to the moment that is looked at. */
  get recordsSoFar(): readonly ShownRecord[] {
    return this.past?.records ?? this.records;
  }

  /** Why there is no actor to show. */
  get absence(): string {
    if (this.actor === undefined) return 'Choose an actor.';
    return `${this.nameOf(this.actor)} is not there at this moment.`;
  }

  /** The last step of an address, with a name in place of a uid. */
  nameOf(address: string): string {
    return this.named(decoded(lastOf(address)));
  }

  /** A text with names of actors, in which every uid that has a name is that name. */
  named(text: string): string {
    return this.names.size === 0 ? text : text.replaceAll(UID, (uid) => this.names.get(uid) ?? uid);
  }

  get started(): number {
    return this.phases.started;
  }

  // ---- choosing -----------------------------------------------------------------------------------------------------

  /** An actor that is not there cannot be chosen; before the tree is loaded it may be one. */
  chooseActor(address: string | undefined): void {
    const loaded = this.root !== '';
    if (address === this.actor || (loaded && !this.isKnown(address ?? ''))) return;
    this.actor = address;
    this.detail = undefined;
    this.mark('choice', 'detail');
    if (loaded) this.askDetail();
  }

  private isKnown(address: string): boolean {
    return this.present.has(address) || this.actors.has(address);
  }

  /** Shows the story of a pod. */
  choosePod(uid: string | undefined): void {
    if (uid === this.pod) return;
    this.pod = uid;
    this.mark('pods', 'choice');
  }

  /** The actor of a pod, which may be gone. */
  podAddress(uid: string): string {
    return `${this.root}/pods/pod-${uid}`;
  }

  /** Goes to the moment after the turn of a record, or back to the present. */
  chooseRecord(n: number | undefined): void {
    if (n === this.record) return;
    this.record = n;
    this.look();
    this.mark('choice');
    if (this.root !== '') this.askDetail();
  }

  private look(): void {
    const chosen = this.record === undefined ? undefined : this.records.find((record) => record.n === this.record);
    this.past = chosen && new Past(chosen.turn, this.records, this.present);
    this.mark('moment', 'actors');
  }

  // ---- the daemon ---------------------------------------------------------------------------------------------------

  async start(): Promise<void> {
    setInterval(() => this.mark('clock'), 1_000);
    await this.load();
  }

  /** Loads the present and follows from there. */
  private async load(): Promise<void> {
    this.following?.close();
    try {
      const tree = await this.source.tree();
      const seen = await this.source.records();
      this.take(tree, seen);
      await Promise.all([this.loadPhases(), this.loadPods()]);
      if (tree.live) this.follow(tree.n);
      else this.connected('journal');
      this.askDetail();
    } catch {
      this.lost();
      setTimeout(() => void this.load(), 1_000);
    }
  }

  private take(tree: TreeView, seen: RecordsView): void {
    const { incarnation, node, root, turn, live, recordsMax, note } = tree;
    Object.assign(this, { incarnation, node, root, turn, live, recordsMax, note });
    this.clock = { server: tree.now, page: performance.now() };
    this.present.clear();
    for (const actor of tree.actors) this.meet(actor);
    this.records = [];
    // What came after the tree is sent again, with what it did to the actors.
    this.add(seen.records.filter(({ n }) => n <= tree.n));
    this.look();
    if (this.actor === undefined || !this.isKnown(this.actor)) this.actor = tree.root || undefined;
    this.mark('actors', 'records', 'choice');
  }

  private follow(after: number): void {
    const source = new EventSource(`/events?after=${after}`);
    this.following = source;
    source.addEventListener('hello', (event: MessageEvent<string>) => this.greeted(JSON.parse(event.data)));
    source.addEventListener('turn', (event: MessageEvent<string>) => this.heard(JSON.parse(event.data)));
    source.addEventListener('error', () => {
      this.lost();
      if (source.readyState === EventSource.CLOSED) setTimeout(() => void this.load(), 1_000);
    });
  }

  private lost(): void {
    this.connected('lost');
  }

  private connected(connection: Store['connection']): void {
    this.connection = connection;
    this.mark('connection');
  }

  private meet(actor: ActorView): void {
    this.present.set(actor.address, actor);
    const { uid, name } = actor.named ?? ({} as Partial<NamedUid>);
    if (uid !== undefined && name !== undefined) this.names.set(uid, name);
  }

  private greeted(hello: HelloMessage): void {
    this.clock = { server: hello.now, page: performance.now() };
    this.connected('live');
    if (!hello.resumed || hello.incarnation !== this.incarnation) void this.load();
  }

  private heard(message: TurnMessage): void {
    this.turn = message.turn;
    for (const address of message.gone) this.present.delete(address);
    for (const actor of message.actors) this.meet(actor);
    this.add(message.records);
    this.mark('records');
    if (message.actors.length > 0 || message.gone.length > 0) this.mark('actors');
    const { actor } = this;
    if (actor !== undefined && message.records.some((shown) => concerns(shown, actor))) this.askDetail();
    if (message.records.some((shown) => this.isOfStart(shown))) void this.loadPhases();
    if (message.records.some((shown) => this.isOfPods(shown))) void this.loadPods();
  }

  /** A status that changed, or a pod that ended. */
  private isOfPods({ record }: ShownRecord): boolean {
    if (record.k === 'log') return record.at === `${this.root}/status`;
    return record.k === 'state' && record.status !== undefined && record.at.startsWith(`${this.root}/pods/pod-`);
  }

  /** A change of the root's states, or of what the readiness of the node depends on. */
  private isOfStart(shown: ShownRecord): boolean {
    const { record } = shown;
    if (record.k === 'state' && record.at === this.root) return true;
    return [`${this.root}/nodeStatus`, `${this.root}/runtimeState`].includes(whoOf(shown));
  }

  private add(records: readonly ShownRecord[]): void {
    this.records.push(...records);
    this.records.splice(0, Math.max(0, this.records.length - this.recordsMax));
  }

  /** A sheet of a machine's chart, for this page alone; undefined: there is none. */
  chart(name: string): Promise<SVGSVGElement | undefined> {
    return this.source.chart(name);
  }

  /** One line that says what a record says. */
  text({ record, was, request }: ShownRecord): string {
    return this.named(recordText(record, { before: was?.value, operation: request?.name }));
  }

  private async loadPhases(): Promise<void> {
    this.phases = await this.source.phases().catch(() => this.phases);
    this.mark('phases');
  }

  private async loadPods(): Promise<void> {
    this.pods = await this.source.pods().catch(() => this.pods);
    this.mark('pods');
  }

  /** Loads the chosen actor; many wishes in a short time are one. */
  private askDetail(): void {
    if (this.detailAsked) return;
    this.detailAsked = true;
    const asked = this.detailAskedFor;
    void this.loadDetail().finally(() =>
      setTimeout(() => {
        this.detailAsked = false;
        if (asked !== this.detailAskedFor || this.stale) this.askDetail();
      }, DETAIL_PAUSE_MS),
    );
  }

  /** True when the chosen actor heard something after its details were loaded. */
  private get stale(): boolean {
    const { actor, detail } = this;
    if (actor === undefined || !detail || !this.live) return false;
    const last = this.records.findLast((shown) => concerns(shown, actor));
    return (last?.n ?? -1) > (detail.records.at(-1)?.n ?? -1);
  }

  /** A running daemon knows the present of an actor; of a journal any moment can be run again. */
  private get detailMoment(): number | undefined {
    return this.live ? undefined : this.moment?.n;
  }

  private get detailAskedFor(): string {
    return `${this.actor} ${this.detailMoment}`;
  }

  private async loadDetail(): Promise<void> {
    const asked = this.detailAskedFor;
    if (this.actor === undefined) return;
    const detail = await this.source.actor(this.actor, this.detailMoment).catch(() => undefined);
    if (asked !== this.detailAskedFor) return;
    this.detail = detail;
    this.mark('detail');
  }
}

/** The uid of a static pod, or of one that an API server named, in the id of an actor. */
const UID = /(?<=-)(?:[\da-f]{32}|[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12})/g;

function decoded(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}
