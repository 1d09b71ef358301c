/**
 * What the page knows: the actors, the last records, the phases, and what the person has chosen.
 *
 * Owns: the connection to the daemon. It loads the present, then hears every turn; when turns were missed or the daemon
 * was restarted it loads the present again. Views read it and are told once a frame which parts changed.
 */
import type {
  ActorDetail,
  ActorView,
  HelloMessage,
  PhasesView,
  RecordsView,
  ShownRecord,
  TreeView,
  TurnMessage,
} from '../actors/server/visualizer-protocol.ts';
import { concerns, recordText } from './words.ts';

/** Records on the page: as many as the daemon keeps. */
const RECORDS_MAX = 2_000;
/** Milliseconds between two looks at the chosen actor's context while it is busy. */
const DETAIL_PAUSE_MS = 250;

export type Part = 'actors' | 'records' | 'phases' | 'detail' | 'choice' | 'connection' | 'clock';

export class Store {
  incarnation = '';
  node = '';
  root = '';
  turn = -1;
  readonly actors = new Map<string, ActorView>();
  records: ShownRecord[] = [];
  /** The value of an actor's state before the `state` record of this number. */
  readonly before = new Map<number, unknown>();
  private readonly values = new Map<string, unknown>();
  phases: PhasesView = { started: 0, now: 0, phases: [] };
  detail: ActorDetail | undefined;
  connection: 'connecting' | 'live' | 'lost' = 'connecting';
  actor: string | undefined;
  record: number | undefined;
  private readonly listeners: ((parts: ReadonlySet<Part>) => void)[] = [];
  private readonly changed = new Set<Part>();
  private source: EventSource | undefined;
  private clock = { server: 0, page: 0 };
  private detailAsked = false;

  /** Tells once a frame what changed. */
  listen(listener: (parts: ReadonlySet<Part>) => void): void {
    this.listeners.push(listener);
  }

  private mark(...parts: readonly Part[]): void {
    if (this.changed.size === 0) requestAnimationFrame(() => this.tell());
    for (const part of parts) this.changed.add(part);
  }

  private tell(): void {
    const parts = new Set(this.changed);
    this.changed.clear();
    for (const listener of this.listeners) listener(parts);
  }

  /** The kernel's clock now, whatever the browser's own clock says. */
  get now(): number {
    return this.clock.server + performance.now() - this.clock.page;
  }

  get started(): number {
    return this.phases.started;
  }

  // ---- choosing -----------------------------------------------------------------------------------------------------

  /** An actor that is not there cannot be chosen; before the tree is loaded it may be one. */
  chooseActor(address: string | undefined): void {
    const loaded = this.root !== '';
    if (address === this.actor || (loaded && !this.actors.has(address ?? ''))) return;
    this.actor = address;
    this.detail = undefined;
    this.mark('choice', 'detail');
    if (loaded) this.askDetail();
  }

  chooseRecord(n: number | undefined): void {
    if (n === this.record) return;
    this.record = n;
    this.mark('choice');
  }

  // ---- the daemon ---------------------------------------------------------------------------------------------------

  async start(): Promise<void> {
    setInterval(() => this.mark('clock'), 1_000);
    await this.load();
  }

  /** Loads the present and follows from there. */
  private async load(): Promise<void> {
    this.source?.close();
    try {
      const [tree, seen] = await Promise.all([ask<TreeView>('/api/tree'), ask<RecordsView>('/api/records')]);
      this.take(tree, seen);
      await this.loadPhases();
      this.follow(Math.max(tree.n, seen.records.at(-1)?.n ?? -1));
      this.askDetail();
    } catch {
      this.lost();
      setTimeout(() => void this.load(), 1_000);
    }
  }

  private take(tree: TreeView, seen: RecordsView): void {
    Object.assign(this, { incarnation: tree.incarnation, node: tree.node, root: tree.root, turn: tree.turn });
    this.clock = { server: tree.now, page: performance.now() };
    this.actors.clear();
    for (const actor of tree.actors) this.actors.set(actor.address, actor);
    this.records = [];
    this.values.clear();
    this.before.clear();
    this.add(seen.records);
    if (this.actor === undefined || !this.actors.has(this.actor)) this.actor = tree.root || undefined;
    this.mark('actors', 'records', 'choice');
  }

  private follow(after: number): void {
    const source = new EventSource(`/events?after=${after}`);
    this.source = source;
    source.addEventListener('hello', (event: MessageEvent<string>) => this.greeted(JSON.parse(event.data)));
    source.addEventListener('turn', (event: MessageEvent<string>) => this.heard(JSON.parse(event.data)));
    source.addEventListener('error', () => {
      this.lost();
      if (source.readyState === EventSource.CLOSED) setTimeout(() => void this.load(), 1_000);
    });
  }

  private lost(): void {
    this.connection = 'lost';
    this.mark('connection');
  }

  private greeted(hello: HelloMessage): void {
    this.connection = 'live';
    this.clock = { server: hello.now, page: performance.now() };
    this.mark('connection');
    if (!hello.resumed || hello.incarnation !== this.incarnation) void this.load();
  }

  private heard(message: TurnMessage): void {
    this.turn = message.turn;
    for (const address of message.gone) {
      this.actors.delete(address);
      this.values.delete(address);
    }
    for (const actor of message.actors) this.actors.set(actor.address, actor);
    this.add(message.records);
    this.mark('records');
    if (message.actors.length > 0 || message.gone.length > 0) this.mark('actors');
    const { actor, root } = this;
    if (actor !== undefined && message.records.some((shown) => concerns(shown, actor))) this.askDetail();
    if (message.records.some(({ record }) => record.k === 'state' && record.at === root)) void this.loadPhases();
  }

  private add(records: readonly ShownRecord[]): void {
    for (const { n, record } of records) {
      if (record.k !== 'state') continue;
      if (this.values.has(record.at)) this.before.set(n, this.values.get(record.at));
      this.values.set(record.at, record.value);
    }
    this.records.push(...records);
    const old = this.records.splice(0, Math.max(0, this.records.length - RECORDS_MAX));
    for (const { n } of old) this.before.delete(n);
  }

  /** One line that says what a record says. */
  text({ n, record }: ShownRecord): string {
    return recordText(record, this.before.get(n));
  }

  private async loadPhases(): Promise<void> {
    this.phases = await ask<PhasesView>('/api/phases').catch(() => this.phases);
    this.mark('phases');
  }

  /** Loads the chosen actor; many wishes in a short time are one. */
  private askDetail(): void {
    if (this.detailAsked) return;
    this.detailAsked = true;
    const asked = this.actor;
    void this.loadDetail().finally(() =>
      setTimeout(() => {
        this.detailAsked = false;
        if (asked !== this.actor || this.stale) this.askDetail();
      }, DETAIL_PAUSE_MS),
    );
  }

  /** True when the chosen actor heard something after its details were loaded. */
  private get stale(): boolean {
    const { actor, detail } = this;
    if (actor === undefined || !detail) return false;
    const last = this.records.findLast((shown) => concerns(shown, actor));
    return (last?.n ?? -1) > (detail.records.at(-1)?.n ?? -1);
  }

  private async loadDetail(): Promise<void> {
    const { actor } = this;
    if (actor === undefined) return;
    const detail = await ask<ActorDetail>(`/api/actor?address=${encodeURIComponent(actor)}`).catch(() => undefined);
    if (actor !== this.actor) return;
    this.detail = detail;
    this.mark('detail');
  }
}

async function ask<Answer>(path: string): Promise<Answer> {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as Answer;
}
