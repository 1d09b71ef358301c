/**
 * The actors as a tree, with the state of each.
 *
 * Each actor has a row, which is kept between updates; of a large tree only visible rows are elements. The tree has the
 * focus and names the chosen row (`aria-activedescendant`).
 */
import type { ActorView } from '../actors/server/visualizer/protocol.ts';
import { arrange, byId, closest, el, setAttributes, setText } from './dom.ts';
import type { Store } from './store.ts';
import { activityOf, innermostText, parentOf, stateText } from './words.ts';

const ROW_PX = 24;
/** A tree with at most this many rows has all of them as elements. */
const SMALL_ROWS = 60;
/** Rows kept beyond the visible ones, so that scrolling shows no gap. */
const SPARE_ROWS = 8;

interface Row {
  /** What it was written from. */
  written: readonly unknown[];
  readonly element: HTMLElement;
  readonly expander: HTMLElement;
  readonly dot: HTMLElement;
  readonly name: HTMLElement;
  readonly state: HTMLElement;
}

export class Tree {
  readonly element = byId('tree', HTMLElement);
  readonly filter = byId('filter', HTMLInputElement);
  private readonly store: Store;
  private readonly rows = new Map<string, Row>();
  private readonly spare: Row[] = [];
  private readonly folded = new Set<string>();
  private readonly parents = new Set<string>();
  private shown: string[] = [];
  private order: readonly string[] = [];
  /** The names and addresses that are in this order. */
  private sortedBy = '';
  private nextId = 0;
  private selected: HTMLElement | undefined;
  /** The actor that was scrolled to last; the user may have scrolled since. */
  private revealed = '';
  private isFiltering = false;
  /** Height and position of the visible part, stored because a query of the element would cause a layout. */
  private roomPx = 0;
  private topPx = 0;

  constructor(store: Store) {
    this.store = store;
    this.filter.addEventListener('input', () => this.update());
    this.filter.addEventListener('keydown', (event) => this.leaveFilter(event));
    this.element.addEventListener('keydown', (event) => this.key(event));
    this.element.addEventListener('click', (event) => this.clicked(event));
    this.element.addEventListener('scroll', () => {
      this.topPx = this.element.scrollTop;
      if (this.shown.length > SMALL_ROWS) this.drawRows();
    });
    new ResizeObserver(([tree]) => {
      this.roomPx = tree?.borderBoxSize[0]?.blockSize ?? 0;
      if (this.shown.length > SMALL_ROWS) this.drawRows();
    }).observe(this.element);
  }

  update(): void {
    const wanted = this.filter.value.trim().toLowerCase();
    const addresses = this.sorted();
    this.parents.clear();
    for (const address of addresses) this.parents.add(parentOf(address));
    const visible = wanted === '' ? undefined : this.matches(addresses, wanted);
    this.isFiltering = visible !== undefined;
    this.shown = addresses.filter((address) => (visible ? visible.has(address) : !this.isFolded(address)));
    this.reveal();
    this.drawRows();
  }

  /** Scrolls to the actor if it was chosen since. */
  private reveal(): void {
    const { actor = '' } = this.store;
    const at = this.shown.indexOf(actor);
    if (actor === this.revealed || at === -1 || this.roomPx === 0) return;
    this.revealed = actor;
    const [least, most] = [(at + 1) * ROW_PX - this.roomPx, at * ROW_PX];
    const wanted = Math.max(0, Math.min(most, Math.max(least, this.topPx)));
    if (wanted === this.topPx) return;
    // Before the rows exist, the element may be too low to scroll.
    this.element.style.paddingBottom = `${this.shown.length * ROW_PX}px`;
    this.element.scrollTop = wanted;
    this.topPx = wanted;
  }

  private drawRows(): void {
    const { length } = this.shown;
    const isSmall = length <= SMALL_ROWS;
    const first = isSmall ? 0 : Math.max(0, Math.min(length, Math.floor(this.topPx / ROW_PX)) - SPARE_ROWS);
    const last = isSmall ? length : Math.min(length, first + Math.ceil(this.roomPx / ROW_PX) + 2 * SPARE_ROWS);
    const visible = this.shown.slice(first, last);
    const inSight = new Set(visible);
    for (const [address, row] of this.rows) {
      if (inSight.has(address)) continue;
      this.rows.delete(address);
      this.spare.push(row);
    }
    arrange(
      this.element,
      visible.map((address) => this.row(address)),
    );
    const { style } = this.element;
    [style.paddingTop, style.paddingBottom] = [`${first * ROW_PX}px`, `${(length - last) * ROW_PX}px`];
    this.markChosen();
  }

  /** The actors by their visible names, children after their parents. */
  private sorted(): readonly string[] {
    const keys = [...this.store.actors.keys()].map((address) => [this.store.named(address), address] as const);
    const key = keys.flat().join('\n');
    if (key === this.sortedBy) return this.order;
    const steps = keys.map(([name, address]) => [name.split('/'), address] as const);
    this.sortedBy = key;
    this.order = steps.sort(([a], [b]) => compareSteps(a, b)).map(([, address]) => address);
    return this.order;
  }

  /** The actors that match, and all above them. */
  private matches(addresses: readonly string[], wanted: string): Set<string> {
    const visible = new Set<string>();
    for (const address of addresses) {
      const actor = this.store.actors.get(address);
      const text = `${address} ${this.store.named(address)} ${actor?.machine} ${stateText(actor?.value)}`.toLowerCase();
      if (!text.includes(wanted)) continue;
      for (let at = address; at !== ''; at = parentOf(at)) visible.add(at);
    }
    return visible;
  }

  private isFolded(address: string): boolean {
    for (let at = parentOf(address); at !== ''; at = parentOf(at)) if (this.folded.has(at)) return true;
    return false;
  }

  private row(address: string): HTMLElement {
    const actor = this.store.actors.get(address) as ActorView;
    const row = this.rows.get(address) ?? this.newRow(address);
    const activity = address === this.store.root && this.store.phases.failure ? 'failed' : activityOf(actor);
    const open = this.isFiltering || !this.folded.has(address);
    const name = this.store.nameOf(address);
    const written = [actor, activity, open, name, this.parents.has(address)];
    if (written.every((part, at) => part === row.written[at])) return row.element;
    row.written = written;
    const inner = innermostText(actor.value);
    const state = actor.status === 'active' ? inner : [inner, actor.status].filter(Boolean).join(', ');
    setText(row.name, name);
    setText(row.state, state);
    setText(row.expander, this.parents.has(address) ? (open ? '▾' : '▸') : '');
    setAttributes(row.dot, { 'data-activity': activity });
    setAttributes(row.element, {
      'aria-label': `${name}, ${state}, ${activity}`,
      'aria-expanded': this.parents.has(address) ? String(open) : undefined,
    });
    return row.element;
  }

  /** Reuses the row of an actor that is gone: creating rows takes longer than rewriting them. */
  private newRow(address: string): Row {
    const depth = address.split('/').length;
    const row = this.spare.pop() ?? this.made();
    row.written = [];
    setAttributes(row.element, { 'aria-level': depth, 'aria-selected': 'false', title: address });
    row.element.dataset['address'] = address;
    row.element.style.setProperty('--depth', String(depth - 1));
    this.rows.set(address, row);
    return row;
  }

  private made(): Row {
    const expander = el('span', { class: 'expander', 'aria-hidden': 'true' });
    const dot = el('span', { class: 'dot', 'aria-hidden': 'true' });
    const state = el('span', { class: 'state' });
    const name = el('span', { class: 'name' });
    const attributes = { id: `actor-${this.nextId++}`, role: 'treeitem' };
    // The space separates name and state for screen readers, which read the row as one text.
    const element = el('div', attributes, expander, dot, name, ' ', state);
    return { element, expander, dot, name, state, written: [] };
  }

  private markChosen(): void {
    const { actor } = this.store;
    const chosen = actor === undefined ? undefined : this.rows.get(actor);
    if (this.selected && chosen?.element !== this.selected) this.selected.setAttribute('aria-selected', 'false');
    chosen?.element.setAttribute('aria-selected', 'true');
    this.selected = chosen?.element;
    setAttributes(this.element, { 'aria-activedescendant': chosen?.element.id });
  }

  private clicked(event: MouseEvent): void {
    const address = closest<HTMLElement>(event, '[role=treeitem]')?.dataset['address'];
    if (address === undefined) return;
    if (closest(event, '.expander')) this.fold(address, !this.folded.has(address));
    else this.store.chooseActor(address);
  }

  private fold(address: string, folded: boolean): void {
    if (folded) this.folded.add(address);
    else this.folded.delete(address);
    this.update();
  }

  private leaveFilter(event: KeyboardEvent): void {
    if (event.key === 'Escape') {
      this.filter.value = '';
      this.update();
    } else if (event.key !== 'Enter' && event.key !== 'ArrowDown') return;
    const { actor } = this.store;
    if (actor === undefined || !this.shown.includes(actor)) this.store.chooseActor(this.shown[0]);
    this.element.focus();
    event.preventDefault();
  }

  private key(event: KeyboardEvent): void {
    const actor = this.store.actor ?? '';
    const at = this.shown.indexOf(actor);
    const moves: Record<string, () => void> = {
      ArrowDown: () => this.choose(at + 1),
      ArrowUp: () => this.choose(at - 1),
      Home: () => this.choose(0),
      End: () => this.choose(this.shown.length - 1),
      ArrowRight: () => (this.folded.has(actor) ? this.fold(actor, false) : this.choose(at + 1)),
      ArrowLeft: () => this.outward(actor),
    };
    const move = moves[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    move();
    event.preventDefault();
  }

  private outward(actor: string): void {
    if (this.parents.has(actor) && !this.folded.has(actor)) this.fold(actor, true);
    else if (parentOf(actor) !== '') this.store.chooseActor(parentOf(actor));
  }

  private choose(index: number): void {
    const address = this.shown[Math.max(0, Math.min(index, this.shown.length - 1))];
    if (address !== undefined) this.store.chooseActor(address);
  }
}

function compareSteps(a: readonly string[], b: readonly string[]): number {
  const at = a.findIndex((step, index) => step !== b[index]);
  if (at === -1) return a.length - b.length;
  return b[at] === undefined || (a[at] ?? '') > b[at] ? 1 : -1;
}
