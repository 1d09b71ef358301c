/**
 * The view of pods: a list of all pods that the node has had, and the story of the chosen one: an answer in words,
 * lanes over time, the same lanes as text, and its events.
 */
import type { PodView } from '../actors/server/visualizer/protocol.ts';
import { arrange, byId, el } from './dom.ts';
import type { Lane, Segment } from './lanes.ts';
import { type PodEvent, podAnswer } from './pod-answer.ts';
import { walk } from './start.ts';
import type { Store } from './store.ts';
import { duration, sinceStart } from './words.ts';

/** The number of steps shown: of a pod that restarts for days, the last ones. */
const STEPS_MAX = 200;

export class PodsPane {
  readonly element = byId('pods', HTMLElement);
  private readonly filter = byId('pod-filter', HTMLInputElement);
  private readonly list = byId('pod-list', HTMLElement);
  private readonly story = byId('pod-story', HTMLElement);
  private readonly store: Store;
  /** The data that the story was written from. */
  private written = '';
  private isAsking = false;
  /** Rows by what they show. */
  private readonly rows = new Map<string, HTMLElement>();
  private readonly none = el('li', { class: 'empty' }, 'No pod.');
  private current: HTMLElement | null = null;

  constructor(store: Store) {
    this.store = store;
    this.filter.addEventListener('input', () => this.update());
    this.filter.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' || event.key === 'ArrowDown') this.focusList(event);
    });
    this.list.addEventListener('keydown', (event) => this.key(event));
  }

  get isOpen(): boolean {
    return this.store.view === 'pods';
  }

  /** Shows the newest pod if none was chosen, and takes the focus. */
  open(): void {
    this.store.show('pods');
    if (this.store.pod === undefined) this.store.choosePod(this.shown()[0]?.uid);
    this.update();
    this.list.querySelector<HTMLElement>('[aria-current=true]')?.focus();
  }

  update(): void {
    if (!this.isOpen) return;
    const shown = this.shown();
    const focused = this.list.contains(document.activeElement);
    const rows = shown.map((pod) => this.rowOf(pod));
    const known = new Set(rows);
    for (const [pod, row] of this.rows) if (!known.has(row)) this.rows.delete(pod);
    arrange(this.list, rows.length === 0 ? [this.none] : rows);
    const current = this.list.querySelector<HTMLElement>(`[data-uid=${JSON.stringify(this.store.pod ?? '')}]`);
    if (current !== this.current) this.current?.removeAttribute('aria-current');
    current?.setAttribute('aria-current', 'true');
    this.current = current;
    if (focused) current?.focus();
    if (this.store.pod === undefined && shown[0]) this.store.choosePod(shown[0].uid);
    if (!this.isAsking) void this.askStory();
  }

  /** The pods, newest first: a user who opens the view is interested in the newest. */
  private shown(): readonly PodView[] {
    const wanted = this.filter.value.trim().toLowerCase();
    return this.store.pods.filter((pod) => `${pod.pod} ${wordOf(pod)}`.toLowerCase().includes(wanted)).toReversed();
  }

  private rowOf(pod: PodView): HTMLElement {
    const row = this.rows.get(JSON.stringify(pod)) ?? this.row(pod);
    this.rows.set(JSON.stringify(pod), row);
    return row;
  }

  private row(pod: PodView): HTMLElement {
    const { seen, running, restarts, uid } = pod;
    const took = running === undefined ? '' : duration(running - seen);
    const times = restarts === 0 ? '' : `${restarts}×`;
    const name = pod.pod.slice(pod.pod.indexOf('/') + 1);
    const space = pod.pod.slice(0, pod.pod.indexOf('/'));
    const button = el(
      'button',
      { type: 'button', title: `${pod.pod}, ${wordOf(pod)}` },
      el('span', { class: 'dot', 'data-activity': activityOf(pod), 'aria-hidden': 'true' }),
      el('span', { class: 'name' }, name),
      el('span', { class: 'dim' }, space),
      el('span', { class: 'phase' }, wordOf(pod)),
      el('span', { class: 'dim' }, times),
      el('span', { class: 'took' }, took),
    );
    button.dataset['uid'] = uid;
    button.addEventListener('click', () => this.store.choosePod(uid));
    return el('li', {}, button);
  }

  private key(event: KeyboardEvent): void {
    const button = walk(this.list, event);
    if (button) this.store.choosePod(button.dataset['uid']);
  }

  private focusList(event: Event): void {
    this.list.querySelector<HTMLElement>('button')?.focus();
    event.preventDefault();
  }

  private async askStory(): Promise<void> {
    const { store } = this;
    const pod = store.pods.find(({ uid }) => uid === store.pod);
    if (!pod) return this.story.replaceChildren(el('p', { class: 'empty' }, 'Choose a pod.'));
    this.isAsking = true;
    const { moment } = store;
    const asked = { uid: pod.uid, ...(moment ? { at: moment.n } : {}) };
    const { pod: then = pod, lanes, events } = await store.ask('pod', asked).finally(() => (this.isAsking = false));
    if (pod.uid === store.pod) this.write(then, lanes, events);
    else void this.askStory();
  }

  private write(pod: PodView, lanes: readonly Lane[], events: readonly PodEvent[]): void {
    const { store } = this;
    // The story is only rewritten when something happened, so that it can be read.
    const written = JSON.stringify([pod, lanes.map(({ segments }) => segments.length), events.length, store.record]);
    if (written === this.written && this.story.contains(document.activeElement)) return;
    this.written = written;
    const answer = el('p', { class: `answer ${activityOf(pod)}` }, podAnswer(pod, lanes, events, store.now));
    const actor = el('button', { type: 'button' }, 'Show its actor');
    actor.addEventListener('click', () => {
      store.chooseActor(store.podAddress(pod.uid));
      store.show('actors');
    });
    const scroll = this.story.scrollTop;
    const focused = [...this.story.querySelectorAll('button')].findIndex((button) => button === document.activeElement);
    const picture =
      lanes.length === 0 ? [el('p', { class: 'dim' }, 'Its records are not kept any more.')] : [this.picture(lanes)];
    const head = el('div', { class: 'head' }, el('h3', { class: 'pod-name' }, pod.pod), actor);
    this.story.replaceChildren(head, answer, ...picture, ...this.texts(lanes, events));
    this.story.scrollTop = scroll;
    if (focused >= 0) this.story.querySelectorAll('button')[focused]?.focus();
  }

  /** For the eye; the text below it says the same. */
  private picture(lanes: readonly Lane[]): HTMLElement {
    const all = lanes.flatMap(({ segments }) => segments);
    const begin = Math.min(...all.map(({ from }) => from));
    const span = Math.max(1, Math.max(...all.map(({ to }) => to)) - begin);
    const rows = lanes.flatMap(({ address, segments }) => [
      el('span', { class: 'name' }, this.store.nameOf(address)),
      el('span', { class: 'lane' }, ...segments.map((segment) => bar(segment, begin, span))),
    ]);
    const scale = [
      el('span', {}),
      el(
        'span',
        { class: 'scale dim' },
        el('span', {}, `+${duration(begin - this.store.started)}`),
        el('span', {}, `+${duration(begin + span - this.store.started)}`),
      ),
    ];
    return el('div', { class: 'lanes', 'aria-hidden': 'true' }, ...rows, ...scale);
  }

  private texts(lanes: readonly Lane[], events: readonly PodEvent[]): HTMLElement[] {
    const steps = lanes
      .flatMap(({ address, segments }) => segments.map((segment) => ({ address, segment })))
      .toSorted((one, other) => one.segment.from - other.segment.from)
      .slice(-STEPS_MAX);
    return [
      el('h3', {}, 'Events'),
      events.length === 0
        ? el('p', { class: 'dim' }, 'None.')
        : el('ol', {}, ...events.map((event) => this.event(event))),
      el('h3', {}, 'Steps'),
      el('ol', {}, ...steps.map(({ address, segment }) => this.step(address, segment))),
    ];
  }

  private event({ n, t, type, reason, message }: PodEvent): HTMLElement {
    const style = type === 'Warning' ? 'error' : '';
    return this.line(n, t, el('span', { class: style }, reason), el('span', { class: 'what' }, message));
  }

  private step(address: string, { n, from, to, text, lasts, waitsFor }: Segment): HTMLElement {
    const took = lasts ? `for ${duration(to - from)} so far` : to === from ? '' : duration(to - from);
    const waits = waitsFor === undefined ? '' : `, waits for ${waitsFor}`;
    const what = [text, waits, took && `, ${took}`].join('');
    return this.line(n, from, el('span', {}, this.store.nameOf(address)), el('span', { class: 'what' }, what));
  }

  private line(n: number | undefined, t: number, ...parts: readonly HTMLElement[]): HTMLElement {
    const time = el('span', { class: 'dim' }, sinceStart(t, this.store.started));
    if (n === undefined) return el('li', {}, el('span', { class: 'line' }, time, ...parts));
    const button = el('button', { type: 'button', class: 'line', title: `Record ${n}` }, time, ...parts);
    button.addEventListener('click', () => this.store.chooseRecord(n));
    return el('li', {}, button);
  }
}

const wordOf = ({ phase, ready, gone }: PodView): string => {
  if (gone !== undefined) return 'gone';
  return phase === 'Running' && !ready ? 'Running, not ready' : phase;
};

function activityOf({ phase, ready, gone }: PodView): 'active' | 'waiting' | 'failed' | 'done' {
  if (phase === 'Failed') return 'failed';
  if (gone !== undefined || phase === 'Succeeded') return 'done';
  return phase === 'Running' && ready ? 'active' : 'waiting';
}

function bar({ from, to, text, activity, lasts, waitsFor }: Segment, begin: number, span: number): HTMLElement {
  const title = `${text}${waitsFor === undefined ? '' : `, waits for ${waitsFor}`}, ${duration(to - from)}`;
  const element = el('span', { class: `bar ${activity}${lasts ? ' lasts' : ''}`, title });
  element.style.left = `${((from - begin) / span) * 100}%`;
  element.style.width = `${((to - from) / span) * 100}%`;
  return element;
}
