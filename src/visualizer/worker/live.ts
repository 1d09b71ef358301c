/**
 * The source of a page that a daemon serves: loads the current state, then receives every turn.
 *
 * Invariants: missed turns are fetched as far as the daemon still has them, the others are counted; after a restart
 * of the daemon, everything is loaded again. Earlier values of a context are only in the journal.
 */
import type {
  ActorDetail,
  HealthFacts,
  HelloMessage,
  PhasesView,
  PodView,
  RecordsView,
  ShownRecord,
  TreeView,
  TurnMessage,
} from '../../actors/server/visualizer/protocol.ts';
import type { KernelRecord } from '../../kernel/records.ts';
import { sizeText } from '../words.ts';
import { Model, type Source } from './model.ts';
import { range, START_RECORDS_MAX } from './record-pages.ts';
import type { HealthRow, HealthView } from './reports.ts';

const AGAIN_MS = 1_000;
/** The number of waiting inputs above which the queue counts as long; a burst of events is taken in a few turns. */
const QUEUE_GOOD_MAX = 100;

export interface LiveOptions {
  /** A model is there, or has news. */
  readonly onChange: () => void;
  readonly onModel: (model: Model) => void;
}

export class Live implements Source {
  model = new Model(true);
  readonly #options: LiveOptions;
  #tree: TreeView | undefined;
  #connection: 'connecting' | 'live' | 'lost' = 'connecting';
  #following: EventSource | undefined;
  #clock = { server: 0, page: 0 };
  #isClosed = false;

  constructor(options: LiveOptions) {
    this.#options = options;
  }

  /** Loads the present state and follows from there; retries for ever. */
  async load(): Promise<void> {
    this.#following?.close();
    if (this.#isClosed) return;
    try {
      const tree = await ask<TreeView>('../api/tree');
      const { last } = this.model.pages;
      const isSame = tree.incarnation === this.#tree?.incarnation && tree.n >= last;
      const seen = await recordsAfter(isSame ? last : -1, tree.n);
      this.#begin(tree, isSame, seen);
      this.#follow(tree.n);
    } catch {
      this.#setConnection('lost');
      setTimeout(() => void this.load(), AGAIN_MS);
    }
  }

  #begin(tree: TreeView, isSame: boolean, records: readonly ShownRecord[]): void {
    this.#tree = tree;
    this.#clock = { server: tree.now, page: performance.now() };
    if (!isSame) this.model = new Model(true);
    const { model } = this;
    model.root = tree.root;
    model.addActors(tree.actors);
    // The records that came after the tree was sent are sent again.
    model.take(records);
    model.past.adopt(tree.actors);
    model.changed.phases = true;
    model.changed.pods = true;
    if (!isSame) this.#options.onModel(model);
    this.#options.onChange();
  }

  #follow(after: number): void {
    const source = new EventSource(`../events?after=${after}`);
    this.#following = source;
    source.addEventListener('hello', (event: MessageEvent<string>) => this.#takeHello(JSON.parse(event.data)));
    source.addEventListener('turn', (event: MessageEvent<string>) => this.#takeTurn(JSON.parse(event.data)));
    source.addEventListener('error', () => {
      this.#setConnection('lost');
      if (source.readyState === EventSource.CLOSED) setTimeout(() => void this.load(), AGAIN_MS);
    });
  }

  #takeHello(hello: HelloMessage): void {
    this.#clock = { server: hello.now, page: performance.now() };
    this.#setConnection('live');
    if (!hello.resumed || hello.incarnation !== this.#tree?.incarnation) void this.load();
  }

  #takeTurn({ records }: TurnMessage): void {
    this.model.take(records);
    this.#options.onChange();
  }

  #setConnection(connection: 'live' | 'lost'): void {
    this.#connection = connection;
    this.#options.onChange();
  }

  facts(): ReturnType<Source['facts']> {
    const { incarnation = '', node = '', root = '' } = this.#tree ?? {};
    const now = this.#clock.server + performance.now() - this.#clock.page;
    return { connection: this.#connection, incarnation, node, root, now, runs: false, incarnations: [] };
  }

  phases = (): Promise<PhasesView> => ask('../api/phases');
  pods = (): Promise<readonly PodView[]> => ask('../api/pods');

  async health(): Promise<HealthView> {
    const facts = await ask<HealthFacts>('../api/health');
    const { pages } = this.model;
    const rows: HealthRow[] = [
      { name: 'inputs that wait', value: String(facts.queue), isBad: facts.queue > QUEUE_GOOD_MAX },
      { name: 'memory of the daemon', value: `${sizeText(facts.rssBytes)}, of it ${sizeText(facts.heapBytes)} heap` },
      { name: 'journal on disk', value: facts.journalBytes === undefined ? '' : sizeText(facts.journalBytes) },
      { name: 'actors', value: String(facts.actors) },
      { name: 'timers', value: String(facts.timers) },
      { name: 'requests under way', value: String(facts.requests) },
      { name: 'records kept by the page', value: `${pages.size}, ${sizeText(pages.packedBytes)} packed` },
      { name: 'records that are missing', value: String(pages.missed), isBad: pages.missed > 0 },
    ];
    const { turnsMs, drivers } = facts;
    return { rows: rows.filter(({ value }) => value !== ''), turnsMs, busiest: pages.busiest(), drivers };
  }

  detail(address: string, at: object | undefined): Promise<ActorDetail | null> {
    if (at) return Promise.resolve(null);
    return ask<ActorDetail>(`../api/actor?address=${encodeURIComponent(address)}`).catch(() => null);
  }

  changes = (): undefined => undefined;
  step = (): undefined => undefined;

  /** The report on the records that the page has; none if the daemon has dropped the beginning of the start. */
  async start(): ReturnType<Source['start']> {
    const { pages } = this.model;
    if (pages.row(0)?.n !== 0) return null;
    const { startView } = await import('./reports.ts');
    const shown = await pages.at(range(0, Math.min(pages.size, START_RECORDS_MAX)));
    const records = withoutHoles(shown).map(({ record }) => record);
    const [header] = records;
    if (header?.k !== 'header') return null;
    return startView({ header, checkpoint: undefined, checkpointAfter: () => undefined, records });
  }

  compare(): Promise<never> {
    return Promise.reject(new Error('a node that runs is compared by its journal: open that first'));
  }

  close(): void {
    this.#isClosed = true;
    this.#following?.close();
  }
}

/** As far as numbers go on without a hole. */
function withoutHoles<Shown extends { readonly n: number; readonly record: KernelRecord }>(
  shown: readonly Shown[],
): readonly Shown[] {
  const hole = shown.findIndex(({ n }, at) => n !== at);
  return hole === -1 ? shown : shown.slice(0, hole);
}

/** The daemon's records after one record up to another, in answers that cost the daemon little. */
async function recordsAfter(after: number, upto: number): Promise<readonly ShownRecord[]> {
  const found: ShownRecord[] = [];
  for (let last = after, isMore = true; isMore && last < upto; ) {
    const { records, more } = await ask<RecordsView>(`../api/records?after=${last}`);
    found.push(...records.filter(({ n }) => n <= upto));
    last = records.at(-1)?.n ?? upto;
    isMore = more;
  }
  return found;
}

async function ask<Answer>(path: string): Promise<Answer> {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return await answer.json();
}
