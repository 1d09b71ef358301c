/**
 * The last records as a table, the newest at the bottom.
 *
 * Only the rows in sight are elements, so 2,000 records cost as much as 40. The grid holds the focus; the chosen row is
 * named by `aria-activedescendant`. The chain of causes of the chosen record is lit, and what followed from it.
 */
import type { ShownRecord } from '../actors/server/visualizer/protocol.ts';
import { type Causes, causesOf } from './causes.ts';
import { byId, el, setAttributes, setText } from './dom.ts';
import type { Store } from './store.ts';
import { concerns, kindText, sinceStart, whoOf } from './words.ts';

const ROW_PX = 22;
/** Rows kept beyond the visible ones, so that scrolling shows no gap. */
const SPARE_ROWS = 8;

export class Events {
  readonly grid = byId('grid', HTMLElement);
  readonly search = byId('search', HTMLInputElement);
  private readonly rows = byId('rows', HTMLElement);
  private readonly own = byId('own', HTMLInputElement);
  private readonly follow = byId('follow', HTMLInputElement);
  private readonly note = byId('events-note', HTMLElement);
  private readonly store: Store;
  private shown: ShownRecord[] = [];
  private causes: Causes = causesOf([], -1);

  constructor(store: Store) {
    this.store = store;
    for (const input of [this.search, this.own, this.follow]) input.addEventListener('input', () => this.update());
    this.grid.addEventListener('scroll', () => this.scrolled());
    this.grid.addEventListener('keydown', (event) => this.key(event));
    this.rows.addEventListener('click', (event) => this.clicked(event));
    this.rows.addEventListener('dblclick', () => this.chooseActor());
    this.search.addEventListener('keydown', (event) => this.leaveSearch(event));
    new ResizeObserver(() => this.draw()).observe(this.grid);
  }

  toggleOwn(): void {
    this.own.checked = !this.own.checked;
    this.update();
  }

  toggleFollow(): void {
    this.follow.checked = !this.follow.checked;
    this.update();
  }

  /** Chooses the record that is so many rows away; without one chosen, from the newest. */
  step(rows: number): void {
    const found = this.shown.findIndex((shown) => shown.n === this.store.record);
    const at = found === -1 ? this.shown.length : found;
    this.chooseAt(Math.max(0, Math.min(this.shown.length - 1, at + rows)));
  }

  update(): void {
    const wanted = this.search.value.trim().toLowerCase();
    const { actor, record, records } = this.store;
    this.shown = records.filter(
      (shown) =>
        shown.record.k !== 'end' &&
        (!this.own.checked || concerns(shown, actor ?? '')) &&
        (wanted === '' || this.searchable(shown).includes(wanted)),
    );
    this.causes = causesOf(records, record ?? -1);
    this.rows.style.height = `${this.shown.length * ROW_PX}px`;
    setAttributes(this.grid, { 'aria-rowcount': this.shown.length + 1 });
    setText(this.note, `${this.shown.length} of the last ${records.length} records`);
    if (this.follow.checked) this.grid.scrollTop = this.grid.scrollHeight;
    this.draw();
  }

  private searchable(shown: ShownRecord): string {
    const { record } = shown;
    return `${kindText(record)} ${whoOf(shown)} ${this.who(shown)} ${this.store.text(shown)}`.toLowerCase();
  }

  private who(shown: ShownRecord): string {
    return this.store.named(whoOf(shown));
  }

  /** Brings the chosen record into sight. */
  reveal(): void {
    const at = this.shown.findIndex((shown) => shown.n === this.store.record);
    if (at === -1) return;
    const top = at * ROW_PX;
    const room = this.grid.clientHeight - this.rows.offsetTop;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + ROW_PX > this.grid.scrollTop + room) this.grid.scrollTop = top + ROW_PX - room;
    this.draw();
  }

  private draw(): void {
    const first = Math.max(0, Math.floor(this.grid.scrollTop / ROW_PX) - SPARE_ROWS);
    const count = Math.ceil(this.grid.clientHeight / ROW_PX) + 2 * SPARE_ROWS;
    const visible = this.shown.slice(first, first + count);
    this.rows.replaceChildren(...visible.map((shown, index) => this.row(shown, first + index)));
    const chosen = this.rows.querySelector('[aria-selected=true]');
    setAttributes(this.grid, { 'aria-activedescendant': chosen?.id });
  }

  private row(shown: ShownRecord, index: number): HTMLElement {
    const { n, t, turn, cause, record } = shown;
    const chosen = n === this.store.record;
    const because = !chosen && this.causes.chain.some((other) => other.n === n);
    const row = el(
      'div',
      { id: `record-${n}`, role: 'row', 'aria-rowindex': index + 2, 'aria-selected': String(chosen) },
      cell('number', String(n)),
      cell('time', sinceStart(t, this.store.started), new Date(t).toISOString()),
      cell(`kind ${record.k} ${record.k === 'log' ? record.level : ''}`, kindText(record)),
      cell('who', this.who(shown)),
      cell('what', this.store.text(shown)),
      cell('cause', cause === undefined ? '' : String(cause)),
    );
    row.dataset['n'] = String(n);
    row.classList.toggle('because', because);
    row.classList.toggle('followed', this.causes.effects.has(n));
    row.classList.toggle('turn', this.shown[index - 1]?.turn !== turn);
    row.style.top = `${index * ROW_PX}px`;
    return row;
  }

  private scrolled(): void {
    const end = this.grid.scrollHeight - this.grid.clientHeight;
    if (this.grid.scrollTop < end - 2 * ROW_PX) this.follow.checked = false;
    this.draw();
  }

  private clicked(event: MouseEvent): void {
    const n = (event.target as Element).closest<HTMLElement>('[role=row]')?.dataset['n'];
    if (n !== undefined) this.choose(Number(n));
  }

  private choose(n: number): void {
    this.follow.checked = false;
    this.store.chooseRecord(n);
  }

  private leaveSearch(event: KeyboardEvent): void {
    if (event.key === 'Escape') {
      this.search.value = '';
      this.update();
    } else if (event.key !== 'Enter' && event.key !== 'ArrowDown') return;
    this.grid.focus();
    event.preventDefault();
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { record } = this.store;
    const last = this.shown.length - 1;
    const found = this.shown.findIndex((shown) => shown.n === record);
    const at = found === -1 ? last + 1 : found;
    const page = Math.max(1, Math.floor(this.grid.clientHeight / ROW_PX) - 2);
    const to: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: last,
    };
    const index = to[event.key];
    if (index !== undefined) this.chooseAt(Math.max(0, Math.min(last, index)));
    else if (event.key === 'Enter') this.chooseActor();
    else if (event.key === 'c' && this.causes.chain.length > 1) this.choose(this.causes.chain.at(-2)?.n ?? -1);
    else return;
    event.preventDefault();
  }

  /** The actor that the chosen record is about. */
  private chooseActor(): void {
    const shown = this.shown.find(({ n }) => n === this.store.record);
    if (shown) this.store.chooseActor(whoOf(shown));
  }

  private chooseAt(index: number): void {
    const shown = this.shown[index];
    if (shown) this.choose(shown.n);
  }
}

function cell(name: string, text: string, title = text): HTMLElement {
  return el('span', { role: 'gridcell', class: name, title }, text);
}
