/** The health of the kernel and its journal: the queue, the durations of turns, memory, and the busiest actors. */
import { byId, el, paced } from './dom.ts';
import type { Store } from './store.ts';
import { decoded } from './words.ts';
import type { HealthView } from './worker/reports.ts';

/** Milliseconds between two questions. */
const ASK_MS = 1_000;

export class HealthPane {
  private readonly body = byId('health-body', HTMLElement);
  private readonly store: Store;
  private isAsking = false;
  /**
   * The request counts all records, so it is limited: while a journal is replayed, changes come many times a second.
   */
  readonly update = paced(() => this.ask(), ASK_MS);

  constructor(store: Store) {
    this.store = store;
  }

  private ask(): void {
    if (this.store.view !== 'health' || this.isAsking || this.store.facts.n === -1) return;
    this.isAsking = true;
    void this.store
      .ask('health', null)
      .then((view) => this.show(view))
      .catch((error: Error) => this.body.replaceChildren(el('p', { class: 'error' }, error.message)))
      .finally(() => (this.isAsking = false));
  }

  private show({ rows, turnsMs, busiest, drivers }: HealthView): void {
    const facts = rows.flatMap(({ name, value, isBad }) => [
      el('dt', {}, name),
      el('dd', { class: isBad ? 'error' : undefined }, value),
    ]);
    const most = Math.max(1, ...busiest.map(({ records }) => records));
    const actors = busiest.map(({ name, records }) => {
      const bar = el('span', { class: 'bar working' });
      bar.style.width = `${(records / most) * 100}%`;
      const button = el(
        'button',
        { type: 'button' },
        el('span', { class: 'took' }, String(records)),
        el('span', { class: 'lane' }, bar),
        el('span', { class: 'name' }, this.store.named(decoded(name))),
      );
      button.addEventListener('click', () => {
        this.store.chooseActor(name);
        this.store.show('actors');
      });
      return el('li', {}, button);
    });
    this.body.replaceChildren(
      el('dl', { class: 'facts' }, ...facts),
      ...(turnsMs && turnsMs.length > 0 ? turnPicture(turnsMs) : []),
      ...this.drivers(drivers),
      el('h3', {}, 'Actors with the most records'),
      el('ol', { class: 'blamed' }, ...actors),
    );
  }

  /** Drivers of dynamic resources, and the claims of pods that they prepare. */
  private drivers(drivers: HealthView['drivers']): Node[] {
    if (drivers.length === 0) return [];
    return [
      el('h3', {}, 'Resource drivers'),
      el('ul', { class: 'drivers' }, ...drivers.map((one) => this.driver(one))),
    ];
  }

  private driver({ driver, registrations, claims }: HealthView['drivers'][number]): HTMLElement {
    const listens = registrations.map(({ endpoint, service, isConnected }) =>
      el(
        'p',
        { class: isConnected ? 'dim' : 'error' },
        `${service} at ${endpoint}, ${isConnected ? 'listens' : 'does not listen'}`,
      ),
    );
    const none = registrations.length === 0 ? [el('p', { class: 'error' }, 'is not registered')] : [];
    const rows = claims.map(({ claim, pods, state, devices }) => {
      const text = `ResourceClaim ${claim}: ${STATES[state]}${devices.length === 0 ? '' : `, ${devices.join(', ')}`}`;
      return el('li', {}, text, ...pods.flatMap((uid) => [' ', this.pod(uid)]));
    });
    const list = rows.length === 0 ? [el('p', { class: 'dim' }, 'no claim')] : [el('ul', {}, ...rows)];
    return el('li', {}, el('strong', {}, driver), ...listens, ...none, ...list);
  }

  private pod(uid: string): HTMLElement {
    const name = this.store.pods.find((pod) => pod.uid === uid)?.pod ?? uid;
    const button = el('button', { type: 'button' }, name);
    button.addEventListener('click', () => {
      this.store.choosePod(uid);
      this.store.show('pods');
    });
    return button;
  }
}

const STATES = { prepared: 'prepared', unprepared: 'not prepared', ending: 'being taken back' } as const;

/** The last turns as columns; the text beside it says the same. */
function turnPicture(turnsMs: readonly number[]): Node[] {
  const sorted = turnsMs.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
  const longestMs = sorted.at(-1) ?? 0;
  const [half, most, longest] = [at(0.5), at(0.99), longestMs].map((ms) => `${ms.toFixed(2)} ms`);
  const words = `Of the last ${turnsMs.length} turns half took at most ${half}, 99% at most ${most}, the longest ${longest}.`;
  const columns = turnsMs.map((ms) => {
    const column = el('span', {});
    column.style.height = `${Math.max(2, (ms / Math.max(1, longestMs)) * 100)}%`;
    return column;
  });
  return [
    el('h3', {}, 'Time of turns'),
    el('p', {}, words),
    el('div', { class: 'turns', 'aria-hidden': 'true' }, ...columns),
  ];
}
