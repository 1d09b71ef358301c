/**
 * The time scale above the phases, which selects the part of the start that is shown. Dragging measures a part and
 * enlarges it, as do keys and buttons.
 */
import { el } from './dom.ts';
import { duration } from './words.ts';

const ZOOM = 1.6;
/** Milliseconds of the shortest stretch: journals have no finer time. */
const SHORTEST_MS = 2;
/** Ticks that are tried, in milliseconds, until there are few enough. */
const TICKS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000,
  21_600_000, 86_400_000,
];
const TICK_MIN_PX = 76;
/** A tick nearer to the end has no room for its text. */
const TICK_TEXT_PX = 36;
/** The width of a lane before it is laid out. */
const LANE_PX = 400;
/** A pointer that moved less is a click. */
const DRAG_MIN_PX = 4;

export class Ruler {
  /** Milliseconds of the whole. */
  span = 1;
  private from = 0;
  private to: number | undefined;
  private readonly onChange: () => void;
  /** The width of the lane that was drawn last, stored because a query of the lane would cause a layout. */
  private widthPx = LANE_PX;
  private readonly sizes = new ResizeObserver(([lane]) => {
    const { width = 0 } = lane?.contentRect ?? {};
    if (width === 0 || width === this.widthPx) return;
    this.widthPx = width;
    this.onChange();
  });

  constructor(onChange: () => void) {
    this.onChange = onChange;
  }

  /** Names the stretch that is chosen. */
  get shown(): string {
    return `${this.from} ${this.to ?? ''} ${this.widthPx}`;
  }

  private get end(): number {
    return this.to ?? this.span;
  }

  private get length(): number {
    return Math.max(1, this.end - this.from);
  }

  /** The position of a time: 0 at the left, 1 at the right. */
  shareOf = (ms: number): number => (ms - this.from) / this.length;

  /** A bar for this period; undefined if it is not visible. A bar that continues beyond the picture is cut. */
  bar(from: number, took: number, style: string): HTMLElement | undefined {
    const [left, right] = [this.shareOf(from), this.shareOf(from + took)];
    if (right < 0 || left > 1) return undefined;
    const bar = el('span', { class: `bar ${style}${right > 1.0001 ? ' cut' : ''}` });
    bar.style.left = `${Math.max(0, left) * 100}%`;
    bar.style.width = `${(Math.min(1, right) - Math.max(0, left)) * 100}%`;
    return bar;
  }

  element(): HTMLElement {
    const ticksMax = Math.max(2, this.widthPx / TICK_MIN_PX);
    const every = TICKS_MS.find((ms) => this.length / ms <= ticksMax) ?? this.length;
    const lane = el('span', { class: 'lane ticks', title: 'Drag to show a stretch of time larger' });
    for (let at = Math.ceil(this.from / every) * every; at <= this.end; at += every) {
      const share = this.shareOf(at);
      const isCut = (1 - share) * this.widthPx < TICK_TEXT_PX;
      const tick = el('span', { class: 'tick' }, at === 0 ? '0' : isCut ? '' : duration(at));
      tick.style.left = `${share * 100}%`;
      lane.append(tick);
    }
    this.sizes.disconnect();
    this.sizes.observe(lane);
    lane.addEventListener('pointerdown', (event) => this.drag(lane, event));
    lane.addEventListener('dblclick', () => this.all());
    const tools = [
      this.tool('−', 'Show a longer stretch of time', () => this.zoom(1 / ZOOM)),
      this.tool('+', 'Show a shorter stretch of time', () => this.zoom(ZOOM)),
      this.tool('all', 'all of the start', () => this.all()),
    ];
    const columns = [el('span', { class: 'took' }, 'took'), el('span', { class: 'waits dim' }, 'waited for')];
    const cells = [el('span', { class: 'step' }), el('span', { class: 'name tools' }, ...tools), lane, ...columns];
    return el('li', { class: 'ruler' }, el('span', { class: 'row' }, ...cells));
  }

  private tool(text: string, label: string, run: () => void): HTMLElement {
    const button = el('button', { type: 'button', 'aria-label': label, title: label }, text);
    button.addEventListener('click', run);
    return button;
  }

  /** Left and right move along the enlarged time; `z` and `Z` zoom in and out. */
  key({ key, ctrlKey, metaKey, altKey }: KeyboardEvent): boolean {
    if (ctrlKey || metaKey || altKey) return false;
    const moves: Readonly<Record<string, () => void>> = {
      z: () => this.zoom(ZOOM),
      Z: () => this.zoom(1 / ZOOM),
      ArrowLeft: () => this.move(-0.25),
      ArrowRight: () => this.move(0.25),
    };
    const move = moves[key];
    move?.();
    return move !== undefined;
  }

  private show(from: number, to: number): void {
    const length = Math.max(SHORTEST_MS, to - from);
    this.from = Math.max(0, Math.min(from, this.span - length));
    this.to = Math.min(this.span, this.from + length);
    if (this.from === 0 && this.to >= this.span) this.to = undefined;
    this.onChange();
  }

  private all = (): void => this.show(0, this.span);
  private move = (share: number): void => this.show(this.from + share * this.length, this.end + share * this.length);

  private zoom(factor: number): void {
    const middle = (this.from + this.end) / 2;
    const half = this.length / factor / 2;
    this.show(middle - half, middle + half);
  }

  private drag(lane: HTMLElement, down: PointerEvent): void {
    const room = lane.getBoundingClientRect();
    const timeAt = (x: number): number =>
      this.from + (Math.max(0, Math.min(room.width, x - room.left)) / room.width) * this.length;
    const mark = el('span', { class: 'measure' });
    lane.append(mark);
    lane.setPointerCapture(down.pointerId);
    const stretch = ({ clientX }: PointerEvent): readonly [number, number] => {
      const [one, other] = [timeAt(down.clientX), timeAt(clientX)];
      return [Math.min(one, other), Math.max(one, other)];
    };
    const moved = (event: PointerEvent): void => {
      const [from, to] = stretch(event);
      mark.style.left = `${this.shareOf(from) * 100}%`;
      mark.style.width = `${this.shareOf(to) * 100 - this.shareOf(from) * 100}%`;
      mark.textContent = duration(to - from);
    };
    const ended = (event: PointerEvent): void => {
      lane.removeEventListener('pointermove', moved);
      mark.remove();
      if (Math.abs(event.clientX - down.clientX) >= DRAG_MIN_PX) this.show(...stretch(event));
    };
    lane.addEventListener('pointermove', moved);
    lane.addEventListener('pointerup', ended, { once: true });
  }
}
