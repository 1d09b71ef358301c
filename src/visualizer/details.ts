/** The chosen actor as text: its states, what it waits for and since when, its context. */
import type { ActorDetail, ActorView } from '../actors/server/visualizer/protocol.ts';
import { arrange, byId, el, setText } from './dom.ts';
import type { Store } from './store.ts';
import { changeText, duration, eventText, innermost, isAwaited, sinceStart } from './words.ts';
import type { HistoryEntry } from './worker/requests.ts';

export class Details {
  readonly element = byId('actor', HTMLElement);
  private readonly store: Store;
  private readonly head = el('div', {});
  private readonly context = el('pre', { class: 'json' });
  private readonly list = el('ol', { class: 'history' });
  private readonly foot = el('div', { hidden: true }, el('h3', {}, 'Has been in'), this.list);
  /** The entries of the history by their records, and the actor that they belong to. */
  private readonly entries = new Map<number, HTMLElement>();
  private entriesOf = '';
  private clocks: { readonly element: HTMLElement; readonly text: () => string }[] = [];

  constructor(store: Store) {
    this.store = store;
  }

  update(): void {
    const { actor = '', chosen, moment } = this.store;
    const view = this.store.actors.get(actor);
    this.clocks = [];
    if (!view) {
      this.element.replaceChildren(el('p', { class: 'empty' }, this.store.absence));
      return;
    }
    const detail = chosen?.detail ?? undefined;
    const known = detail?.actor.address === actor && detail.at === (moment?.n ?? detail.at) ? detail : undefined;
    this.head.replaceChildren(
      el('p', { class: 'address', title: actor }, this.store.named(actor)),
      el('p', { class: 'dim' }, `machine ${view.machine}, ${view.status}`),
      ...(view.error === undefined ? [] : [el('p', { class: 'error' }, view.error)]),
      ...this.states(view),
      ...this.waits(view, known),
      el('h3', {}, 'Context'),
    );
    setBlocks(this.context, this.contextText(known));
    this.updateHistory(actor, chosen?.history ?? []);
    arrange(this.element, [this.head, this.context, this.foot]);
    this.tick();
  }

  private contextText(known: ActorDetail | undefined): string {
    const { facts, moment } = this.store;
    if (known?.context !== undefined) return known.context;
    if (known) return known.actor.status === 'active' ? this.whyUnknown() : 'It has ended; its context is gone.';
    const isPast = moment !== undefined && !facts.runs;
    return isPast ? 'A running node shows its present only. Its journal has the past: press j.' : '';
  }

  private whyUnknown(): string {
    const { facts, moment, isRun } = this.store;
    const { recordedFrom, ranTo = -1 } = facts;
    if (recordedFrom !== undefined && (moment?.n ?? facts.n) >= recordedFrom)
      return `Not known: from record ${recordedFrom} on the machines do not run here, and no record has it.`;
    if (!isRun) return ranTo === -1 ? '… (the machines do not run yet)' : `… (the machines are at record ${ranTo})`;
    return 'Not kept: of so long a journal the page has no contexts of the middle.';
  }

  /** The states that the actor has been in, the newest first. Most entries exist already and stay. */
  private updateHistory(actor: string, entries: readonly HistoryEntry[]): void {
    const naming = `${actor} ${this.store.started}`;
    if (naming !== this.entriesOf) this.entries.clear();
    this.entriesOf = naming;
    const rows = entries.map((entry, at) => {
      const before = entries[at - 1]?.view.value;
      const row = this.entries.get(entry.n) ?? this.entry(entry, before);
      if (at > 0) this.entries.set(entry.n, row);
      return row;
    });
    arrange(this.list, rows.toReversed());
    this.foot.hidden = entries.length === 0;
  }

  private entry({ n, t, view }: HistoryEntry, before: unknown): HTMLElement {
    const ended = view.status === 'active' ? '' : `, ${view.status}`;
    const text = `${changeText(view.value, before)}${ended}`;
    const time = el('span', { class: 'dim' }, sinceStart(t, this.store.started));
    const button = el('button', { type: 'button', title: `Record ${n}: ${text}` }, time, ' ', text);
    button.addEventListener('click', () => this.store.chooseRecord(n));
    return el('li', {}, button);
  }

  tick(): void {
    for (const { element, text } of this.clocks) setText(element, text());
  }

  private clock(text: () => string): HTMLElement {
    const element = el('span', { class: 'since' });
    this.clocks.push({ element, text });
    return element;
  }

  private since(t: number): HTMLElement {
    return this.clock(() => `for ${duration(Math.max(0, this.store.now - t))}`);
  }

  private states(view: ActorView): Node[] {
    const rows = innermost(view.active).map((state) => {
      const waits = state.waitsFor === undefined ? [] : [el('span', { class: 'waits' }, `waits for ${state.waitsFor}`)];
      const path = el('code', {}, ...breakable(state.path || '(no states)'));
      return el('li', {}, path, ' ', this.since(state.since), ...waits);
    });
    return [el('h3', {}, 'State'), el('ul', { class: 'states' }, ...rows)];
  }

  private waits(view: ActorView, detail: ActorDetail | undefined): Node[] {
    const requests = view.requests.map((request) =>
      el(
        'li',
        {},
        isAwaited(request) ? 'answer to ' : 'listens to ',
        el('code', {}, request.name),
        ' ',
        this.since(request.since),
      ),
    );
    const timers = (detail?.timers ?? []).map(({ event, due }) =>
      el(
        'li',
        {},
        'timer ',
        el('code', {}, eventText(event)),
        ' ',
        this.clock(() => (due > this.store.now ? `in ${duration(due - this.store.now)}` : 'due')),
      ),
    );
    const all = [...requests, ...timers];
    return [el('h3', {}, 'Waits for'), all.length > 0 ? el('ul', {}, ...all) : el('p', { class: 'dim' }, 'nothing')];
  }
}

/** A path that may be broken after each step. */
const breakable = (path: string): (Node | string)[] =>
  path.split('.').flatMap((step, at) => (at === 0 ? [step] : ['.', el('wbr', {}), step]));

/** The number of lines of a context that are laid out together when they become visible. */
const BLOCK_LINES = 40;

/** Writes a long text in blocks; unchanged blocks are not touched. */
function setBlocks(element: HTMLElement, text: string): void {
  const lines = text.split('\n');
  const blocks: string[] = [];
  for (let at = 0; at < lines.length; at += BLOCK_LINES) {
    const isLast = at + BLOCK_LINES >= lines.length;
    blocks.push(`${lines.slice(at, at + BLOCK_LINES).join('\n')}${isLast ? '' : '\n'}`);
  }
  while (element.childElementCount > blocks.length) element.lastElementChild?.remove();
  while (element.childElementCount < blocks.length) element.append(el('span', { class: 'block' }));
  blocks.forEach((block, at) => setText(element.children[at] as Element, block));
}
