/** The chosen moment: steps by record and by turn, and a slider over all records. */
import { byId, setAttributes, setText } from './dom.ts';
import type { Store } from './store.ts';
import { sinceStart } from './words.ts';

/** The number of columns in the picture of pauses between records. */
const BINS = 240;

export class Travel {
  readonly slider = byId('scrub', HTMLInputElement);
  private readonly picture = byId('pauses', HTMLCanvasElement);
  private readonly text = byId('moment-text', HTMLElement);
  private readonly back = byId('moment', HTMLButtonElement);
  private readonly store: Store;
  /** The longest time between two records, in each column. */
  private pauses: readonly number[] = [];
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
    new ResizeObserver(() => this.paint()).observe(this.picture);
  }

  /** One request at a time: a slider moves faster than requests are answered. */
  private scrub(): void {
    const isAsking = this.wanted !== undefined;
    this.wanted = Number(this.slider.value);
    if (!isAsking) void this.follow();
  }

  private async follow(): Promise<void> {
    while (this.wanted !== undefined) {
      const wanted = this.wanted;
      await this.store.travel(async () => {
        const n = await this.store.ask('near', { n: wanted, by: 'record', steps: 0 });
        return wanted >= this.store.facts.n ? undefined : n;
      });
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
    this.draw();
  }

  /** Draws the time between records, so that waits are visible on a slider of records. */
  private draw(): void {
    const { facts } = this.store;
    const state = `${facts.incarnation} ${Math.floor(facts.records / 500)} ${facts.isReading}`;
    if (state === this.drawn || facts.n === -1) return;
    this.drawn = state;
    void this.load();
  }

  private async load(): Promise<void> {
    this.pauses = await this.store.ask('pauses', { bins: BINS });
    this.paint();
  }

  private paint(): void {
    const { picture, pauses } = this;
    const ratio = devicePixelRatio;
    picture.width = picture.clientWidth * ratio;
    picture.height = picture.clientHeight * ratio;
    const context = picture.getContext('2d');
    if (!context) return;
    context.fillStyle = getComputedStyle(picture).color;
    const longest = Math.max(1, ...pauses);
    const width = picture.width / pauses.length;
    pauses.forEach((ms, at) => {
      // The scale is logarithmic, so that a wait of a start is visible beside an idle hour.
      const height = (Math.log1p(ms) / Math.log1p(longest)) * picture.height;
      context.fillRect(at * width, picture.height - height, Math.max(1, width - ratio), height);
    });
  }
}
