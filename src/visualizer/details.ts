/** The chosen actor in words: its states, what it waits for and since when, what it remembers. */
import type { ActorDetail, ActorView } from '../actors/server/visualizer/protocol.ts';
import { byId, el, setText } from './dom.ts';
import type { Store } from './store.ts';
import { concerns, duration, eventText, innermost, isAwaited } from './words.ts';

export class Details {
  readonly element = byId('actor', HTMLElement);
  private readonly store: Store;
  private readonly context = el('pre', { class: 'json' });
  /** Texts that grow with the clock. */
  private clocks: { readonly element: HTMLElement; readonly text: () => string }[] = [];

  constructor(store: Store) {
    this.store = store;
  }

  update(): void {
    const { actor = '', detail } = this.store;
    const view = this.store.actors.get(actor);
    this.clocks = [];
    if (!view) {
      this.element.replaceChildren(el('p', { class: 'empty' }, this.store.absence));
      return;
    }
    const known = detail?.actor.address === actor && this.isOfMoment(detail) ? detail : undefined;
    setText(this.context, this.contextText(known));
    this.element.replaceChildren(
      el('p', { class: 'address', title: actor }, this.store.named(actor)),
      el('p', { class: 'dim' }, `machine ${view.machine}, ${view.status}`),
      ...(view.error === undefined ? [] : [el('p', { class: 'error' }, view.error)]),
      ...this.states(view),
      ...this.waits(view, known),
      el('h3', {}, 'Context'),
      this.context,
    );
    this.tick();
  }

  /** True also of what is known of the present, when the actor heard nothing since the moment that is looked at. */
  private isOfMoment({ at, actor }: ActorDetail): boolean {
    const { moment, records } = this.store;
    if (!moment || at === moment.n) return at === moment?.n;
    return at === undefined && !records.some((shown) => shown.n > moment.n && concerns(shown, actor.address));
  }

  private contextText(known: ActorDetail | undefined): string {
    if (known) return known.context ?? 'It has ended; its context is gone.';
    const isPast = this.store.moment !== undefined && this.store.connection !== 'journal';
    return isPast ? 'A node that runs tells its present only: statelet view shows what a journal remembers.' : '';
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
      return el('li', {}, el('code', {}, state.path || '(no states)'), ' ', this.since(state.since), ...waits);
    });
    return [el('h3', {}, 'State'), el('ul', {}, ...rows)];
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
