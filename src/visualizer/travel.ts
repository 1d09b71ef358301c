/** The moment that is looked at: steps by record and by turn, and a slider over all records. */
import { byId, setAttributes, setText } from './dom.ts';
import type { Store } from './store.ts';
import { sinceStart } from './words.ts';

/** Columns of the picture of the records in time. */
const BINS = 240;

export class Travel {
  readonly slider = byId('scrub', HTMLInputElement);
  private readonly density = byId('density', HTMLCanvasElement);
  private readonly text = byId('moment-text', HTMLElement);
  private readonly back = byId('moment', HTMLButtonElement);
  private readonly store: Store;
  private drawn = '';
  private wanted: number | undefined;

  constructor(store: Store) {
    this.store = store;
    const steps = { 'turn-back': -1, 'turn-on': 1, 'record-back': -1, 'record-on': 1 } as const;
    for (const [id, step] of Object.entries(steps)) {
      const by = id.startsWith('turn') ? 'turn' : 'record';
      byId(id, HTMLButtonElement).addEventListener('click', () => void store.step(by, step));
    }
    this.back.addEventListener('click', () => store.chooseRecord(undefined));
    this.slider.addEventListener('input', () => this.scrub());
    new ResizeObserver(() => this.draw(true)).observe(this.density);
  }

  /** One question at a time: a slider moves faster than anything answers. */
  private scrub(): void {
    const isAsking = this.wanted !== undefined;
    this.wanted = Number(this.slider.value);
    if (!isAsking) void this.follow();
  }

  private async follow(): Promise<void> {
    while (this.wanted !== undefined) {
      const wanted = this.wanted;
      const n = await this.store.ask('near', { n: wanted, by: 'record', steps: 0 });
      this.store.chooseRecord(wanted >= this.store.facts.n ? undefined : n);
      await new Promise((resolve) => requestAnimationFrame(resolve));
      if (this.wanted === wanted) this.wanted = undefined;
    }
  }

  update(): void {
    const { facts, moment, started, record } = this.store;
    this.back.hidden = record === undefined;
    const turn = moment?.turn ?? facts.turn;
    const time = sinceStart(moment?.t ?? facts.t, started);
    const text = facts.n === -1 ? '' : `turn ${turn} of ${facts.turn}, ${time} s`;
    setText(this.text, text);
    setAttributes(this.slider, { max: Math.max(0, facts.n), 'aria-valuetext': text });
    const value = String(record ?? Math.max(0, facts.n));
    if (this.wanted === undefined && this.slider.value !== value) this.slider.value = value;
    this.draw(false);
  }

  /** For the eye: how many records each stretch has, by number, so that the slider lies on it. */
  private draw(isAnew: boolean): void {
    const { facts } = this.store;
    const state = `${facts.incarnation} ${Math.floor(facts.records / 500)} ${facts.isReading}`;
    if ((!isAnew && state === this.drawn) || facts.n === -1 || this.density.clientWidth === 0) return;
    this.drawn = state;
    void this.store.ask('density', { bins: BINS }).then((counts) => this.paint(counts));
  }

  private paint(counts: readonly number[]): void {
    const { density } = this;
    const ratio = devicePixelRatio;
    density.width = density.clientWidth * ratio;
    density.height = density.clientHeight * ratio;
    const context = density.getContext('2d');
    if (!context) return;
    context.fillStyle = getComputedStyle(density).color;
    const most = Math.max(1, ...counts);
    const width = density.width / counts.length;
    counts.forEach((count, at) => {
      // Logarithmic: a turn in an idle hour is seen beside a start.
      const height = count === 0 ? 0 : Math.max(ratio, (Math.log1p(count) / Math.log1p(most)) * density.height);
      context.fillRect(at * width, density.height - height, Math.max(1, width - ratio), height);
    });
  }
}
