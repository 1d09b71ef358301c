/**
 * Answers the requests of the page from the model of the open start, and reports changes.
 *
 * Invariants: each request is answered, if necessary with an error; a notice has all changes since the one before, and
 * follows it after {@link NOTICE_MS} at the earliest, except for the first rows of a search; lists for the page have a
 * limit.
 */
import type { ShownRecord } from '../../actors/server/visualizer/protocol.ts';
import { whoOf } from '../words.ts';
import { Live } from './live.ts';
import { Model, podStory, type Source } from './model.ts';
import type { Content } from './node/fs.ts';
import { type Loading, Opened, servedFiles } from './opened.ts';
import { lastIndexWhere } from './past.ts';
import { expressionsOf } from './query.ts';
import { type Row, range } from './record-pages.ts';
import type { Group, Inspection, Moment, Notice, Opening, RequestName, Requests } from './requests.ts';
import { FIRST_ROWS, groupsOf } from './search.ts';

/** Between two notices: three frames. */
const NOTICE_MS = 50;
/** The pause while a long journal is read, when the page is busy. */
const READING_NOTICE_MS = 500;
/** Records after which a journal is a long one. */
const LONG_RECORDS = 5_000;
/** The number of listed causes; a timer that recurs for days has as many as there are records. */
const CHAIN_MAX = 20;
const FOLLOWED_MAX = 5_000;
const CONSEQUENCES_MAX = 40;
/** How long the reading of a journal waits for answers. */
const ANSWER_MAX_MS = 500;
/** How long it waits for the next request after an answer: the page requests its data in a few steps. */
const QUESTION_PAUSE_MS = 40;
const CHECK_MS = 4;
const ROWS_MAX = 500;
const HISTORY_MAX = 200;
/** The limit of arrows around a record in its inspector; a turn in which thirty pods start has hundreds. */
const TURN_ARROWS_MAX = 40;
/** The limit of arrows of a sequence between chosen actors: some screens. */
const ARROWS_MAX = 200;

type Asked<Name extends keyof Requests> = Parameters<Requests[Name]>[0];

export class PageAnswers implements Requests {
  readonly #loading: Loading;
  readonly #post: (notice: Notice) => void;
  #model = new Model(true);
  #source: Source | undefined;
  #isNew = true;
  /** The next notice. */
  #due: ReturnType<typeof setTimeout> | undefined;
  /** Questions without an answer. */
  #open = 0;
  /** The number of requested searches: an outdated search is not begun. */
  #searches = 0;
  /** The search of which the page has the first rows. */
  #begunSearch = -1;
  #answeredAt = Number.NEGATIVE_INFINITY;

  constructor(loading: Loading, post: (notice: Notice) => void) {
    this.#loading = loading;
    this.#post = post;
  }

  /** Answers one question. */
  async answer(name: RequestName, asked: unknown): Promise<unknown> {
    this.#open++;
    try {
      return await (this[name] as (asked: unknown) => Promise<unknown>).call(this, asked);
    } finally {
      this.#open--;
      this.#answeredAt = performance.now();
    }
  }

  /** Resolves when no request is open and the last answer was a while ago, or after a timeout. */
  async #answered(): Promise<void> {
    const endMs = performance.now() + ANSWER_MAX_MS;
    const isBusy = (): boolean => this.#open > 0 || performance.now() < this.#answeredAt + QUESTION_PAUSE_MS;
    while (isBusy() && performance.now() < endMs) await new Promise((resolve) => setTimeout(resolve, CHECK_MS));
  }

  async open(opening: Opening): Promise<null> {
    if (opening.from === 'daemon') await this.#live();
    else {
      // Loads in parallel with the files; a failure is reported by the opening below.
      this.#loading.journals().catch(() => undefined);
      const files = opening.from === 'files' ? opening.files : await servedFiles();
      await this.#openFiles(files, opening.incarnation);
    }
    return null;
  }

  async #live(): Promise<void> {
    const live = new Live({
      onChange: () => this.#changed(),
      onModel: (model) => this.#show(live, model),
    });
    this.#show(live, live.model);
    await live.load();
  }

  async #openFiles(files: ReadonlyMap<string, Content>, incarnation: string | undefined): Promise<void> {
    const journals = await this.#loading.journals();
    const opened = journals.openJournal(files, incarnation);
    const model = new Model(false);
    const source = new Opened(journals, opened, model);
    this.#show(source, model);
    const answering = { onProgress: () => this.#changed(), answers: () => this.#answered() };
    void source.run(this.#loading.machines, answering);
  }

  #show(source: Source, model: Model): void {
    if (source !== this.#source) this.#source?.close();
    this.#source = source;
    this.#model = model;
    this.#begunSearch = -1;
    this.#isNew = true;
    this.#changed();
  }

  #changed(pauseMs?: number): void {
    if (this.#due !== undefined && pauseMs === undefined) return;
    clearTimeout(this.#due);
    const isLong = this.#source?.facts().isReading && this.#model.pages.size > LONG_RECORDS;
    this.#due = setTimeout(() => void this.#notify(), pauseMs ?? (isLong ? READING_NOTICE_MS : NOTICE_MS));
  }

  async #notify(): Promise<void> {
    this.#due = undefined;
    const source = this.#source;
    if (!source) return;
    const model = this.#model;
    const { phases, pods } = model.changed;
    Object.assign(model.changed, { phases: false, pods: false });
    const { searchId } = model;
    const [newPhases, newPods, first] = await Promise.all([
      phases ? source.phases().catch(() => undefined) : undefined,
      pods ? source.pods().catch(() => undefined) : undefined,
      this.#firstRows(model),
    ]);
    if (model !== this.#model) return;
    // Another notice may have been sent in the meantime: the first one sent starts over.
    const isNew = this.#isNew;
    this.#isNew = false;
    void model.search.go(() => this.#changed());
    const { actors, gone } = model.past.takeChanged();
    this.#post({
      facts: this.#facts(source),
      ...(isNew ? { isNew } : {}),
      ...(actors.length > 0 ? { actors } : {}),
      ...(gone.length > 0 ? { gone } : {}),
      ...(newPhases ? { phases: newPhases } : {}),
      ...(newPods ? { pods: newPods } : {}),
      found: { ...this.#found(), ...(first && searchId === model.searchId ? { first } : {}) },
    });
  }

  /** Once for each search that has found something. */
  async #firstRows({ pages, search, searchId }: Model): Promise<readonly ShownRecord[] | undefined> {
    if (searchId === this.#begunSearch || search.found.length === 0) return undefined;
    this.#begunSearch = searchId;
    return search.first.length > 0 ? [...search.first] : pages.at(search.found.slice(0, FIRST_ROWS));
  }

  #facts(source: Source): Notice['facts'] {
    const { pages, turn, t, started } = this.#model;
    return { ...source.facts(), started, t, n: pages.last, turn, records: pages.size, missed: pages.missed };
  }

  #found(): NonNullable<Notice['found']> {
    const { search, searchId } = this.#model;
    const { found, scanned, isDone, query } = search;
    const error = query.error === undefined ? {} : { error: query.error };
    return { search: searchId, found: found.length, scanned, isDone, ...error };
  }

  /** The page gets the first rows at once, and further ones with the next notice. */
  async search({ text, actor }: Asked<'search'>): Promise<number> {
    const asked = ++this.#searches;
    const expressions = await expressionsOf(text);
    if (asked !== this.#searches) return this.#model.searchId;
    const search = this.#model.newSearch(text, actor, expressions);
    let isReported = false;
    const onProgress = (): void => {
      const isFirst = !isReported && (search.found.length > 0 || search.isDone);
      isReported ||= isFirst;
      this.#changed(isFirst ? 0 : undefined);
    };
    if (search.isDone) onProgress();
    void search.go(onProgress);
    return this.#model.searchId;
  }

  async rows({ search, from, to }: Asked<'rows'>): Promise<readonly ShownRecord[]> {
    if (search !== this.#model.searchId) return [];
    return this.#model.pages.at(this.#model.search.found.slice(from, Math.min(to, from + ROWS_MAX)));
  }

  async rowOf({ search, n }: Asked<'rowOf'>): Promise<number> {
    const {
      pages,
      searchId,
      search: { found },
    } = this.#model;
    if (search !== searchId) return 0;
    const index = pages.indexOf(n);
    const at = lastIndexWhere(found, (each) => each < index) + 1;
    return at === found.length ? Math.max(0, found.length - 1) : at;
  }

  async groups({ search, by }: Asked<'groups'>): Promise<readonly Group[]> {
    const { pages, searchId, search: current } = this.#model;
    return search === searchId ? groupsOf(pages, current.found, by) : [];
  }

  async near({ n, by, steps }: Asked<'near'>): Promise<number> {
    const { pages } = this.#model;
    const at = Math.min(pages.indexOf(n), pages.size - 1);
    const row = pages.row(at);
    if (!row) return n;
    if (by === 'turn') {
      const first = pages.firstWhere((other) => other.turn >= row.turn + steps);
      return pages.row(Math.min(first, pages.size - 1))?.n ?? n;
    }
    let found = at;
    for (let left = Math.abs(steps); left > 0; left--) {
      let next = found + Math.sign(steps);
      if (pages.row(next)?.kind === 'end') next += Math.sign(steps);
      if (!pages.row(next)) break;
      found = next;
    }
    return pages.row(found)?.n ?? n;
  }

  async inspect({ n }: Asked<'inspect'>): Promise<Inspection | null> {
    const { pages } = this.#model;
    const index = pages.indexOf(n);
    const shown = pages.row(index)?.n === n ? await pages.get(index) : undefined;
    if (!shown) return null;
    const { numbers, forgotten } = this.#chain(shown);
    const followed = pages.followers(n, FOLLOWED_MAX);
    const changes = this.#source?.changes(whoOf(shown), shown.turn);
    return {
      shown,
      chain: await this.#records(numbers.slice(-CHAIN_MAX)),
      more: Math.max(0, numbers.length - CHAIN_MAX),
      ...(forgotten === undefined ? {} : { forgotten }),
      followed,
      ...(await this.#messagesAround(shown.turn, index)),
      ...(changes ? { changes } : {}),
    };
  }

  async #messagesAround(turn: number, index: number): Promise<Pick<Inspection, 'messages' | 'messagesInTurn'>> {
    const { pages } = this.#model;
    const [from, to] = pages.boundsOf(turn);
    const all = [...range(from, to)].filter((at) => !NO_ARROWS.has(pages.row(at)?.kind ?? ''));
    const first = Math.max(0, lastIndexWhere(all, (at) => at <= index) + 1 - TURN_ARROWS_MAX / 2);
    const messages = await pages.at(all.slice(first, first + TURN_ARROWS_MAX));
    return { messages, messagesInTurn: all.length };
  }

  /** A request of its own: the records are far apart and rarely viewed. */
  async consequences({ n }: Asked<'consequences'>): Promise<readonly ShownRecord[]> {
    return this.#records(this.#model.pages.followers(n, CONSEQUENCES_MAX));
  }

  #chain({ n }: ShownRecord): { readonly numbers: readonly number[]; readonly forgotten?: number } {
    const { pages } = this.#model;
    const numbers: number[] = [];
    for (let at = n; at !== -1; ) {
      const cause = pages.causeOf(at);
      if (cause === undefined) return { numbers: numbers.toReversed(), forgotten: at };
      numbers.push(at);
      at = cause;
    }
    return { numbers: numbers.toReversed() };
  }

  #records(numbers: readonly number[]): Promise<ShownRecord[]> {
    const { pages } = this.#model;
    return pages.at(numbers.map((n) => pages.indexOf(n)));
  }

  async pauses({ bins }: Asked<'pauses'>): Promise<readonly number[]> {
    return this.#model.pages.pauses(bins);
  }

  async moment({ n, since }: Asked<'moment'>): Promise<Moment | null> {
    const { past } = this.#model;
    const end = this.#model.endOf(n);
    if (!end) return null;
    if (since === undefined) return { ...end, isWhole: true, actors: past.allAt(end.n), gone: [] };
    return { ...end, isWhole: false, ...past.between(since, end.n) };
  }

  async detail({ address, at }: Asked<'detail'>) {
    const source = this.#source;
    if (!source) return null;
    if (at === undefined) return source.detail(address, undefined);
    const end = this.#model.endOf(at);
    const view = end && this.#model.past.at(address, end.n);
    if (!view) return null;
    const known = await source.detail(address, { view, turn: end.turn, n: end.n });
    if (known || this.#hasRecordAfter(address, end.n)) return known;
    // The actor has not changed since, so its present state is also the state at the moment.
    const now = await source.detail(address, undefined);
    return now && { ...now, at: end.n };
  }

  #hasRecordAfter(address: string, n: number): boolean {
    const { pages } = this.#model;
    const isLater = (row: Row): boolean => row.n > n && row.who === address;
    return pages.indexesNaming((name) => name === address, isLater).length > 0;
  }

  async history({ address, at = Number.POSITIVE_INFINITY }: Asked<'history'>) {
    const { pages, past } = this.#model;
    const last = at === Number.POSITIVE_INFINITY ? at : (this.#model.endOf(at)?.n ?? at);
    const own = past.history(address).filter(({ n }) => n >= 0 && n <= last);
    const moves = own.filter(
      ({ view }, i) => view.value !== own[i - 1]?.view?.value || view.status !== own[i - 1]?.view?.status,
    );
    return moves.slice(-HISTORY_MAX).map(({ n, view: { value, status } }) => {
      return { n, t: pages.row(pages.indexOf(n))?.t ?? 0, view: { value, status } };
    });
  }

  async step({ address, at = Number.POSITIVE_INFINITY }: Asked<'step'>) {
    const { pages, past } = this.#model;
    const end = at === Number.POSITIVE_INFINITY ? { turn: this.#model.turn } : this.#model.endOf(at);
    const known = end && this.#source?.step(address, end.turn);
    if (known) {
      const records = await pages.turn(known.turn);
      const received = records.find((shown) => whoOf(shown) === address) ?? records[0];
      return { ...known, n: received?.n ?? -1 };
    }
    const upTo = at === Number.POSITIVE_INFINITY ? at : (this.#model.endOf(at)?.n ?? at);
    const moves = past.history(address).filter(({ n }) => n <= upTo);
    const last = moves.at(-1);
    if (!last || last.n < 0) return null;
    const before = moves.findLast(({ view }) => view !== last.view && view?.value !== last.view.value)?.view;
    const [received] = (await pages.turn(pages.row(pages.indexOf(last.n))?.turn ?? 0)).filter(
      (shown) => whoOf(shown) === address,
    );
    const ids = (states: readonly { readonly id: string }[] = []): string[] => states.map(({ id }) => id);
    return {
      n: received?.n ?? last.n,
      event: '',
      edges: [],
      before: ids(before?.active),
      after: ids(last.view.active),
    };
  }

  async pod({ uid, at }: Asked<'pod'>) {
    const pods = (await this.#source?.pods()) ?? [];
    const pod = pods.find((each) => each.uid === uid);
    const timersAt = async (address: string, n: number) => (await this.detail({ address, at: n }))?.timers ?? [];
    return podStory(this.#model, { uid, pod, at, timersAt });
  }

  async between({ actors, at }: Asked<'between'>): Promise<readonly ShownRecord[]> {
    const { pages } = this.#model;
    const chosen = new Set(actors);
    const isBetween = ({ kind, who, from }: Row): boolean => {
      if (kind !== 'message') return chosen.has(who);
      return chosen.size === 1 ? chosen.has(who) || chosen.has(from) : chosen.has(who) && chosen.has(from);
    };
    const isArrow = (row: Row): boolean => !NO_ARROWS.has(row.kind) && isBetween(row);
    const indexes = pages.indexesNaming((name) => chosen.has(name), isArrow);
    const after = at === undefined ? pages.size : pages.indexOf(at + 1);
    const end = indexes.findIndex((index) => index >= after);
    const last = end === -1 ? indexes.length : end;
    const from = Math.max(0, Math.min(last - ARROWS_MAX / 2, indexes.length - ARROWS_MAX));
    return pages.at(indexes.slice(from, from + ARROWS_MAX));
  }

  start = async () => (await this.#source?.start()) ?? null;

  async compare({ with: other }: Asked<'compare'>) {
    if (!this.#source) throw new Error('nothing is open');
    return this.#source.compare(other);
  }

  async health() {
    if (!this.#source) throw new Error('nothing is open');
    return this.#source.health();
  }
}

/** Record kinds without a message. */
const NO_ARROWS: ReadonlySet<string> = new Set(['state', 'log', 'end', 'header', 'cancel']);
