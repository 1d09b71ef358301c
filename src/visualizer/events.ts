/**
 * The records as a table, the newest at the bottom: all records, or the results of a search.
 *
 * Only visible rows are elements, and only visible records are requested from the worker, so a million records cost as
 * much as 40. The grid has the focus; the chosen row is named by `aria-activedescendant`. The causes and the
 * consequences of the chosen record are highlighted.
 */
import type { ShownRecord } from '../actors/server/visualizer/protocol.ts';
import { arrange, byId, closest, el, paced, setAttributes, setText } from './dom.ts';
import { RecordRows } from './record-rows.ts';
import { sequenceElement } from './sequence-view.ts';
import type { Store } from './store.ts';
import { whoOf } from './words.ts';
import type { Group, GroupBy } from './worker/requests.ts';

const ROW_PX = 22;
/** Rows drawn beyond the visible ones, so that scrolling shows no gap, and rows requested ahead of scrolling. */
const [SPARE_ROWS, AHEAD_ROWS] = [8, 60];
/** The maximum height that browsers lay out. With more rows, scrolling is scaled. */
const HEIGHT_MAX_PX = 8_000_000;
/** The number of records that are kept here; others are requested again. */
const LOADED_MAX = 2_000;
/** Milliseconds between two searches while the user types. */
const TYPING_MS = 40;

export class Events {
  readonly grid = byId('grid', HTMLElement);
  readonly search = byId('search', HTMLInputElement);
  readonly group = byId('group', HTMLSelectElement);
  private readonly rows = byId('rows', HTMLElement);
  private readonly groups = byId('groups', HTMLElement);
  private readonly own = byId('own', HTMLInputElement);
  private readonly follow = byId('follow', HTMLInputElement);
  private readonly note = byId('events-note', HTMLElement);
  private readonly nothing = byId('nothing', HTMLElement);
  private readonly store: Store;
  /** Records by their position among the matches, for the search {@link loadedFor}. */
  private readonly loaded = new Map<number, ShownRecord>();
  private loadedFor = -1;
  private readonly drawn: RecordRows;
  private asked = '';
  private chosenAt = -1;
  /** The request for the position of the chosen record, and its key. */
  private located: Promise<void> = Promise.resolve();
  private locatedFor = '';
  private isLocated = false;
  /** The search in the field: until its first rows are drawn, the grid is busy. */
  private wanted = -1;
  private grouped = '';
  private isDrawing = false;
  /** Height and position of the visible part, stored because a query of the grid would cause a layout. */
  private roomPx = 0;
  private topPx = 0;
  private heightPx = -1;
  /** The chosen record is kept visible: the user has not scrolled since. */
  private isKept = false;

  constructor(store: Store) {
    this.store = store;
    this.drawn = new RecordRows(store);
    this.search.addEventListener(
      'input',
      paced(() => this.ask(), TYPING_MS),
    );
    this.own.addEventListener('input', () => this.ask());
    this.follow.addEventListener('input', () => this.update());
    this.group.addEventListener('input', () => void this.showGroups());
    this.grid.addEventListener('scroll', () => this.scrolled());
    for (const type of ['wheel', 'pointerdown', 'touchmove'])
      this.grid.addEventListener(type, () => (this.isKept = false), { passive: true });
    this.grid.addEventListener('keydown', (event) => void this.key(event));
    this.rows.addEventListener('click', (event) => this.clicked(event));
    this.rows.addEventListener('dblclick', () => this.chooseActor());
    this.search.addEventListener('keydown', (event) => this.leaveSearch(event));
    new ResizeObserver(([grid]) => {
      this.roomPx = grid?.contentRect.height ?? 0;
      if (this.isKept) this.reveal();
      this.draw();
    }).observe(this.grid);
  }

  /** Restores a search from the address of the page. */
  restore(text: string, group: string): void {
    this.search.value = text;
    this.setGroup(group);
    this.ask();
  }

  toggleOwn(): void {
    this.own.checked = !this.own.checked;
    this.ask();
  }

  toggleFollow(): void {
    this.follow.checked = !this.follow.checked;
    this.update();
  }

  /** Sends the text of the field to the worker if it changed. */
  ask(): void {
    const { actor, facts } = this.store;
    const own = this.own.checked ? actor : undefined;
    const asked = `${this.search.value}\n${own}\n${facts.incarnation}`;
    if (asked === this.asked || facts.n === -1) return;
    this.asked = asked;
    void this.begin({ text: this.search.value.trim(), ...(own === undefined ? {} : { actor: own }) });
    this.search.dispatchEvent(new Event('change', { bubbles: true }));
  }

  private async begin(asked: { readonly text: string; readonly actor?: string }): Promise<void> {
    this.wanted = Number.POSITIVE_INFINITY;
    setAttributes(this.grid, { 'aria-busy': 'true' });
    this.wanted = await this.store.ask('search', asked);
    this.draw();
  }

  /** `reveals`: scrolls to the chosen record. */
  update(reveals = false): void {
    this.ask();
    const { found, facts } = this.store;
    if (found.search !== this.loadedFor) {
      this.loaded.clear();
      this.loadedFor = found.search;
      found.first?.forEach((shown, at) => this.loaded.set(at, shown));
      this.chosenAt = -1;
      void this.locate();
    }
    if (this.heightPx !== this.height) this.rows.style.height = `${this.height}px`;
    this.heightPx = this.height;
    setAttributes(this.grid, { 'aria-rowcount': found.found + 1 });
    const part = found.isDone ? '' : `, ${Math.round((found.scanned / Math.max(1, facts.records)) * 100)}% searched`;
    const missed = facts.missed > 0 ? `, ${facts.missed} missing` : '';
    setText(this.note, found.error ?? `${found.found} of ${facts.records} records${part}${missed}`);
    this.nothing.hidden = found.found > 0 || !found.isDone || found.error !== undefined || facts.records === 0;
    this.note.classList.toggle('error', found.error !== undefined);
    if (this.follow.checked && this.store.record === undefined) this.scrollTo(this.height + ROW_PX - this.roomPx);
    if (this.group.value !== '') void this.showGroups();
    if (reveals || this.isKept) this.reveal();
    else this.drawRows();
  }

  private get count(): number {
    return this.store.found.found;
  }

  private get height(): number {
    return Math.min(HEIGHT_MAX_PX, this.count * ROW_PX);
  }

  /** Rows for each pixel that is scrolled. */
  private get scale(): number {
    const room = this.roomPx;
    return this.height < HEIGHT_MAX_PX ? 1 : (this.count * ROW_PX - room) / (HEIGHT_MAX_PX - room);
  }

  private get firstInSight(): number {
    return Math.floor((this.topPx * this.scale) / ROW_PX);
  }

  /** Finds the position of the chosen record among the matches. */
  locate(): Promise<void> {
    const { record, found, facts } = this.store;
    // While a journal is being read, further records are found.
    const key = `${record} ${found.search} ${found.isDone} ${facts.n >= (record ?? -1)}`;
    if (key === this.locatedFor) return this.located;
    this.locatedFor = key;
    const { row } = this.store;
    const isKnown = row?.n === record && row?.search === found.search;
    this.isLocated = record === undefined || isKnown;
    if (record !== undefined && !isKnown) this.located = this.askRow(key, { search: found.search, n: record });
    else this.chosenAt = isKnown ? row.at : -1;
    return this.located;
  }

  private async askRow(key: string, asked: { readonly search: number; readonly n: number }): Promise<void> {
    const row = await this.store.ask('rowOf', asked);
    if (key !== this.locatedFor) return;
    this.chosenAt = row;
    this.isLocated = true;
  }

  /**
   * Scrolls to the chosen record, at once if its position is known: scrolling after other parts of the page have
   * changed would cause a second layout.
   */
  private reveal(): void {
    this.isKept = this.store.record !== undefined;
    const located = this.locate();
    if (this.isLocated) this.scrollToChosen();
    else void located.then(() => this.scrollToChosen());
  }

  private scrollToChosen(): void {
    if (this.chosenAt === -1) return this.drawRows();
    this.follow.checked = false;
    // The head of the table takes one.
    const room = Math.max(1, Math.floor(this.roomPx / ROW_PX) - 1);
    const first = this.firstInSight;
    const wanted =
      this.chosenAt < first ? this.chosenAt : this.chosenAt >= first + room ? this.chosenAt - room + 1 : first;
    if (wanted !== first) this.scrollTo((wanted * ROW_PX) / this.scale);
    this.drawRows();
  }

  private scrollTo(topPx: number): void {
    const wanted = Math.max(0, Math.min(topPx, this.height + ROW_PX - this.roomPx));
    if (wanted === this.topPx || this.roomPx === 0) return;
    this.topPx = wanted;
    this.grid.scrollTop = wanted;
  }

  /** Draws once a frame, however often it is requested. */
  private draw(): void {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      this.drawRows();
    });
  }

  private drawRows(): void {
    if (this.roomPx === 0) return;
    this.drawn.begin(`${this.store.naming} ${this.store.started}`);
    const first = Math.max(0, this.firstInSight - SPARE_ROWS);
    const last = Math.min(this.count, first + Math.ceil(this.roomPx / ROW_PX) + 2 * SPARE_ROWS);
    const visible = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
    // If scrolling is scaled, visible rows are placed at the scroll position, not by their numbers.
    const shift = this.scale === 1 ? 0 : this.topPx - this.firstInSight * ROW_PX;
    const followed = new Set(this.store.inspection?.followed);
    const chain = new Set(this.store.inspection?.chain.map(({ n }) => n));
    this.drawn.spare(new Set(visible.map((index) => this.loaded.get(index))));
    const elements = visible.flatMap((index) => {
      const shown = this.loaded.get(index);
      return shown ? [this.row(shown, index, index * ROW_PX + shift, chain, followed)] : [];
    });
    arrange(this.rows, elements);
    const chosen = elements.find((element) => element.getAttribute('aria-selected') === 'true');
    setAttributes(this.grid, { 'aria-activedescendant': chosen?.id });
    const isWhole = visible.every((index) => this.loaded.has(index));
    const isBusy = this.loadedFor < this.wanted || (elements.length === 0 && !(isWhole && this.store.found.isDone));
    setAttributes(this.grid, { 'aria-busy': isBusy ? 'true' : undefined });
    if (!isWhole) void this.fetch(Math.max(0, first - AHEAD_ROWS), last + AHEAD_ROWS);
  }

  private async fetch(from: number, to: number): Promise<void> {
    const search = this.loadedFor;
    const records = await this.store.ask('rows', { search, from, to });
    if (search !== this.loadedFor || records.length === 0) return;
    if (this.loaded.size > LOADED_MAX) this.loaded.clear();
    let isNew = false;
    records.forEach((shown, i) => {
      if (this.loaded.get(from + i)?.n === shown.n) return;
      isNew = true;
      this.loaded.set(from + i, shown);
    });
    if (isNew) this.draw();
  }

  private row(
    shown: ShownRecord,
    index: number,
    top: number,
    chain: ReadonlySet<number>,
    followed: ReadonlySet<number>,
  ): HTMLElement {
    const { n, turn } = shown;
    const chosen = n === this.store.record;
    const row = this.drawn.of(shown);
    setAttributes(row, { 'aria-rowindex': index + 2, 'aria-selected': String(chosen) });
    row.classList.toggle('because', !chosen && chain.has(n));
    row.classList.toggle('followed', followed.has(n));
    row.classList.toggle('turn', this.loaded.get(index - 1)?.turn !== turn);
    if (row.style.top !== `${top}px`) row.style.top = `${top}px`;
    return row;
  }

  private scrolled(): void {
    this.topPx = this.grid.scrollTop;
    const end = this.grid.scrollHeight - this.grid.clientHeight;
    if (this.grid.scrollTop < end - 2 * ROW_PX) this.follow.checked = false;
    this.draw();
  }

  private clicked(event: MouseEvent): void {
    const n = closest<HTMLElement>(event, '[role=row]')?.dataset['n'];
    if (n !== undefined) this.choose(Number(n));
  }

  private choose(n: number): void {
    this.follow.checked = false;
    this.store.chooseRecord(n);
  }

  private leaveSearch(event: KeyboardEvent): void {
    if (event.key === 'Escape') {
      this.search.value = '';
      this.ask();
    } else if (event.key !== 'Enter' && event.key !== 'ArrowDown') return;
    this.ask();
    this.grid.focus();
    event.preventDefault();
  }

  private async key(event: KeyboardEvent): Promise<void> {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.count - 1;
    const at = this.chosenAt === -1 ? last + 1 : this.chosenAt;
    const page = Math.max(1, Math.floor(this.roomPx / ROW_PX) - 2);
    const to: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: last,
    };
    const index = to[event.key];
    const cause = this.store.inspection?.chain.at(-2);
    if (index !== undefined) {
      event.preventDefault();
      await this.chooseAt(Math.max(0, Math.min(last, index)));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      this.chooseActor();
    } else if (event.key === 'c' && cause) {
      event.preventDefault();
      this.choose(cause.n);
    }
  }

  /** The actor that the chosen record is about. */
  private chooseActor(): void {
    const shown = this.store.inspection?.shown;
    if (!shown) return;
    this.store.chooseActor(whoOf(shown));
    this.store.show('actors');
  }

  private async chooseAt(index: number): Promise<void> {
    this.chosenAt = index;
    const known = this.loaded.get(index);
    const shown = known ?? (await this.store.ask('rows', { search: this.loadedFor, from: index, to: index + 1 }))[0];
    if (shown) this.choose(shown.n);
  }

  private setGroup(by: string): void {
    this.group.value = by;
    this.groups.hidden = by === '';
    this.grid.hidden = by !== '';
  }

  private async showGroups(): Promise<void> {
    const by = this.group.value as GroupBy | 'sequence' | '';
    this.setGroup(by);
    this.search.dispatchEvent(new Event('change', { bubbles: true }));
    const { found, sequenced, actor, record } = this.store;
    const actors = sequenced.size > 0 ? [...sequenced] : [actor ?? ''];
    const asked = JSON.stringify([by, found.search, found.found, ...(by === 'sequence' ? [actors, record] : [])]);
    if (by === '' || asked === this.grouped) return;
    this.grouped = asked;
    if (by === 'sequence') return this.showSequence(actors);
    const groups = await this.store.ask('groups', { search: found.search, by });
    this.groups.replaceChildren(el('ol', {}, ...groups.map((group) => this.groupRow(group, by))));
  }

  /** Shows the messages between chosen actors and the world, around the chosen moment. */
  private async showSequence(actors: readonly string[]): Promise<void> {
    const { record } = this.store;
    const records = await this.store.ask('between', { actors, ...(record === undefined ? {} : { at: record }) });
    const names = actors.map((address) => this.store.nameOf(address)).join(', ');
    const hint = 'The key y adds the chosen actor, or takes it out.';
    const { scrollTop } = this.groups;
    this.groups.replaceChildren(
      el('p', { class: 'dim' }, `Of ${names}. ${hint}`),
      sequenceElement(this.store, records),
    );
    this.groups.scrollTop = scrollTop;
  }

  private groupRow({ key, count, first }: Group, by: GroupBy): HTMLElement {
    const label = `${this.store.named(key) || 'none'}, ${count} records`;
    const button = el(
      'button',
      { type: 'button', title: label },
      el('span', { class: 'count' }, String(count)),
      el('span', {}, this.store.named(key) || '(none)'),
    );
    button.addEventListener('click', () => {
      const term = by === 'what' ? '' : `${by}:${by === 'kind' || by === 'turn' ? key : JSON.stringify(key)}`;
      if (term !== '') this.search.value = `${this.search.value.trim()} ${term}`.trim();
      this.setGroup('');
      this.ask();
      this.choose(first);
    });
    return el('li', {}, button);
  }
}
