/** Beside the phases of a start: its slowest requests, and the chain of causes that led to each goal. */
import { byId, el, setText } from './dom.ts';
import type { Store } from './store.ts';
import { duration, WAITED_FOR } from './words.ts';
import type { StartView } from './worker/reports.ts';

/** Milliseconds between two reports of a running start. */
const AGAIN_MS = 2_000;
/** The same while a journal is read up to the end of its start. */
const READING_AGAIN_MS = 300;

type Chain = StartView['chains'][number];

export class StartReports {
  readonly blame = byId('blame-body', HTMLElement);
  readonly chain = byId('chain-body', HTMLElement);
  /** The critical chain that is shown, as stretches of time. */
  links: Chain['links'] = [];
  private readonly goals = byId('chain-goal', HTMLSelectElement);
  private readonly store: Store;
  private readonly onLinks: () => void;
  private view: StartView | null = null;
  private askedFor = '';
  private askedAt = 0;

  /** `onLinks`: another chain is shown. */
  constructor(store: Store, onLinks: () => void) {
    this.store = store;
    this.onLinks = onLinks;
    this.goals.addEventListener('input', () => this.showChain());
    for (const body of [this.blame, this.chain]) body.addEventListener('keydown', (event) => walk(body, event));
  }

  /** Requests the reports again while the start is not over and has new records. */
  update(): void {
    const { facts, view } = this.store;
    if (view !== 'start' || facts.n === -1) return;
    const start = `${facts.incarnation} ${facts.isReading}`;
    const asked = `${start} ${this.isOver && !facts.isReading ? '' : facts.n}`;
    if (asked === this.askedFor) return;
    const pauseMs = facts.isReading && !this.isOver ? READING_AGAIN_MS : AGAIN_MS;
    if (this.askedFor.startsWith(start) && performance.now() - this.askedAt < pauseMs) return;
    this.askedFor = asked;
    this.askedAt = performance.now();
    void this.store.ask('start', null).then(
      (start) => this.show(start),
      (error: Error) => this.blame.replaceChildren(el('p', { class: 'dim' }, error.message)),
    );
  }

  private get isOver(): boolean {
    return this.view?.time.complete === true && this.view.time.incarnation === this.store.facts.incarnation;
  }

  private show(view: StartView | null): void {
    this.view = view;
    if (!view) {
      const text = 'The beginning of this start is not kept here: open its journal (j).';
      this.blame.replaceChildren(el('p', { class: 'dim' }, text));
      this.chain.replaceChildren();
      return;
    }
    const focused = focusedIn(this.blame);
    this.blame.replaceChildren(this.slowest(view));
    refocus(this.blame, focused);
    const chosen = this.goals.value;
    this.goals.replaceChildren(...view.chains.map(({ goal }) => el('option', { value: goal }, this.store.named(goal))));
    if (view.chains.some(({ goal }) => goal === chosen)) this.goals.value = chosen;
    this.goals.hidden = view.chains.length === 0;
    this.showChain();
  }

  private slowest({ blame }: StartView): HTMLElement {
    const longest = Math.max(1, ...blame.slowest.map(({ tookMs }) => tookMs));
    const rows = blame.slowest.map(({ name, at, n, tookMs, end, error }) => {
      const asker = this.store.nameOf(at.slice(0, at.lastIndexOf('/')));
      const label = `${name} of ${asker} took ${duration(tookMs)}, ${end}${error === undefined ? '' : `: ${error}`}`;
      const bar = el('span', { class: `bar ${end === 'done' ? 'waiting' : end === 'open' ? 'open' : 'failed'}` });
      bar.style.width = `${(tookMs / longest) * 100}%`;
      const button = el(
        'button',
        { type: 'button', title: label },
        el('span', { class: 'took' }, duration(tookMs)),
        el('span', { class: 'lane' }, bar),
        el('span', { class: 'name' }, name),
        el('span', { class: 'dim' }, asker, end === 'done' ? '' : ` (${end})`),
      );
      button.addEventListener('click', () => this.store.chooseRecord(n));
      return el('li', {}, button);
    });
    return rows.length > 0 ? el('ol', { class: 'blamed' }, ...rows) : el('p', { class: 'dim' }, 'No request yet.');
  }

  private showChain(): void {
    const chain = this.view?.chains.find(({ goal }) => goal === this.goals.value) ?? this.view?.chains[0];
    this.links = chain?.links ?? [];
    this.onLinks();
    if (!chain) {
      this.chain.replaceChildren(el('p', { class: 'dim' }, 'No goal is reached yet.'));
      return;
    }
    const share = (ms: number): string => `${Math.round((ms / Math.max(1, chain.totalMs)) * 100)}%`;
    const { totalMs, workingMs, waitingMs } = chain;
    const [answers, others] = [workingMs, waitingMs].map((ms) => `${duration(ms)} (${share(ms)})`);
    const words = `${duration(totalMs)}: waited ${answers} for answers, ${others} for timers and events.`;
    const note = chain.whole ? words : `${words} The first causes are gone.`;
    const focused = focusedIn(this.chain);
    const summary = el('p', {});
    setText(summary, note);
    this.chain.replaceChildren(summary, el('ol', { class: 'links' }, ...chain.links.map((link) => this.link(link))));
    refocus(this.chain, focused);
  }

  private link({ n, kind, atMs, tookMs, actor, what, followed }: Chain['links'][number]): HTMLElement {
    const word = WAITED_FOR[kind];
    const text = this.store.named([what, ...followed.slice(-1)].join(' → '));
    const button = el(
      'button',
      { type: 'button', title: `${actor}: ${text}` },
      el('span', { class: 'at' }, `+${duration(atMs)}`),
      el('span', { class: `took ${word}` }, kind === 'start' ? '' : duration(tookMs)),
      el('span', { class: `word ${word}` }, word),
      el('span', { class: 'what' }, `${this.store.named(actor)}: ${text}`),
    );
    button.addEventListener('click', () => this.store.chooseRecord(n));
    return el('li', {}, button);
  }
}

/** Arrows go from one button of a list to the next. Returns the focused button, if the key was for the list. */
export function walk(body: HTMLElement, event: KeyboardEvent): HTMLElement | undefined {
  const buttons = [...body.querySelectorAll<HTMLElement>('button')];
  const at = buttons.findIndex((button) => button === document.activeElement);
  const moves: Readonly<Record<string, number>> = {
    ArrowDown: at + 1,
    ArrowUp: Math.max(0, at - 1),
    Home: 0,
    End: buttons.length - 1,
  };
  const to = moves[event.key];
  const button = to === undefined ? undefined : buttons[Math.min(to, buttons.length - 1)];
  if (!button || event.ctrlKey || event.metaKey || event.altKey) return undefined;
  button.focus();
  event.preventDefault();
  return button;
}

const focusedIn = (body: HTMLElement): number =>
  [...body.querySelectorAll('button')].findIndex((button) => button === document.activeElement);

/** Focuses the first line of the list if the user was waiting for the list. */
export function refocus(body: HTMLElement, at: number): void {
  const first = document.activeElement === body ? 0 : -1;
  body.querySelectorAll('button')[Math.max(at, first)]?.focus();
}
