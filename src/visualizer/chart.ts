/**
 * The chart of the chosen actor's machine with its active states lit.
 *
 * The chart is a drawing made when the project was built; here it is only coloured, by the page's own style. A large
 * chart has several drawings: a folded state is lit for all states inside it, and its link opens its own drawing.
 */
import type { ActiveState, ActorView, ShownRecord } from '../actors/server/visualizer/protocol.ts';
import { byId, el, setText } from './dom.ts';
import type { Store } from './store.ts';
import { concerns, eventHeard, innermost, stateText } from './words.ts';

const ZOOM_STEP = 1.25;
const ZOOM_MIN = 0.2;
const ZOOM_MAX = 3;
/** A chart that would be smaller than this to fit is shown in part: its words must be readable. */
const FIT_MIN = 0.8;

export class ChartView {
  readonly sheet = byId('sheet', HTMLElement);
  private readonly note = byId('chart-note', HTMLElement);
  private readonly store: Store;
  private readonly charts = new Map<string, Promise<SVGSVGElement | undefined>>();
  private svg: SVGSVGElement | undefined;
  private machine = '';
  /** The drawing of the machine that is open: the machine's name, or that of a folded state. */
  private drawing = '';
  private lit: ReadonlySet<string> = new Set();
  /** What was active before the last change. */
  private cameFrom: ReadonlySet<string> = new Set();
  private litActor = '';
  private zoom: number | undefined;

  constructor(store: Store) {
    this.store = store;
    byId('zoom-in', HTMLButtonElement).addEventListener('click', () => this.zoomBy(ZOOM_STEP));
    byId('zoom-out', HTMLButtonElement).addEventListener('click', () => this.zoomBy(1 / ZOOM_STEP));
    byId('zoom-fit', HTMLButtonElement).addEventListener('click', () => this.fit());
    this.sheet.addEventListener('click', (event) => this.follow(event));
    new ResizeObserver(() => this.applyZoom()).observe(this.sheet);
  }

  update(): void {
    const actor = this.store.actors.get(this.store.actor ?? '');
    if (!actor) {
      this.machine = '';
      this.drawing = '';
      this.svg = undefined;
      setText(this.note, '');
      this.sheet.replaceChildren(el('p', { class: 'empty' }, this.store.absence));
    } else if (actor.machine !== this.machine) {
      this.machine = actor.machine;
      void this.open(actor.machine);
    } else this.light(actor);
  }

  /** Opens the drawing that a link of this one leads to. */
  private follow(event: MouseEvent): void {
    const link = event.target instanceof Element ? event.target.closest('a')?.getAttribute('href') : undefined;
    if (!link?.endsWith('.svg')) return;
    event.preventDefault();
    void this.open(decodeURIComponent(link.slice(0, -'.svg'.length)));
  }

  private async open(drawing: string): Promise<void> {
    this.drawing = drawing;
    const chart = this.charts.get(drawing) ?? this.store.chart(drawing);
    this.charts.set(drawing, chart);
    const svg = await chart;
    if (!svg) this.charts.delete(drawing);
    if (drawing !== this.drawing) return;
    this.svg = svg;
    this.zoom = undefined;
    this.litActor = '';
    const absent = el('p', { class: 'empty' }, `There is no chart of ${drawing}: `, el('code', {}, HOW_TO_DRAW));
    this.sheet.replaceChildren(svg ?? absent);
    this.applyZoom();
    const actor = this.store.actors.get(this.store.actor ?? '');
    if (actor) this.light(actor);
  }

  private light(actor: ActorView): void {
    const active = new Set(actor.active.map((state) => state.id));
    const another = actor.address !== this.litActor;
    const before = another ? active : this.lit;
    for (const state of this.svg?.querySelectorAll<SVGGElement>('.state') ?? []) {
      const id = state.dataset['id'] ?? '';
      state.classList.toggle('active', active.has(id));
      state.classList.toggle('entered', active.has(id) && !before.has(id));
    }
    this.lightWay(actor, before, active);
    this.lit = active;
    this.litActor = actor.address;
    this.describe(actor, this.isStale(active));
    if (another) this.show(innermost(actor.active).slice(0, 1));
    else if ([...active].some((id) => !before.has(id))) this.show(enteredLast(actor));
  }

  /** Lights the edge that was just taken: from a state that was active to one that is, by an event that was heard. */
  private lightWay(actor: ActorView, before: ReadonlySet<string>, active: ReadonlySet<string>): void {
    const edges = [...(this.svg?.querySelectorAll<SVGGElement>('.edge[data-event]') ?? [])];
    // The record of what was heard may come after the state that it led to: look again until the next change.
    if ([...active].some((id) => !before.has(id)) || actor.address !== this.litActor) this.cameFrom = before;
    const heard = lastHeard(this.store.recordsSoFar, actor.address);
    for (const edge of edges) {
      const { source = '', target = '', event = '' } = edge.dataset;
      const events = event.split(' ');
      const taken = this.cameFrom.has(source) && active.has(target) && !this.cameFrom.has(target);
      edge.classList.toggle('taken', taken && events.some((type) => type === 'always' || heard.has(type)));
    }
  }

  /** Whether the machine is in a state that its chart lacks. Only the first drawing, with what it folds, has all. */
  private isStale(active: ReadonlySet<string>): boolean {
    if (!this.svg || this.drawing !== this.machine) return false;
    const drawn = new Set([...this.svg.querySelectorAll<SVGGElement>('.state')].flatMap(idsOf));
    return [...active].some((id) => !drawn.has(id));
  }

  private describe(actor: ActorView, stale: boolean): void {
    const ended = actor.status === 'active' ? '' : ` (${actor.status})`;
    const now = `${stateText(actor.value)}${ended}`;
    const old = stale ? `  The chart is older than the machine, run: ${HOW_TO_DRAW}` : '';
    setText(this.note, `${actor.machine}: ${now}${old}`);
    this.note.title = now.replaceAll(' | ', '\n');
    this.svg?.setAttribute('aria-label', `State chart of ${actor.machine}, now in ${now}`);
  }

  /** Brings the first of these states into sight. */
  private show(states: readonly ActiveState[]): void {
    const ids = new Set(states.map((state) => state.id));
    const drawn = [...(this.svg?.querySelectorAll<SVGGElement>('.state.active') ?? [])];
    const title = drawn.find((state) => idsOf(state).some((id) => ids.has(id)))?.querySelector('.title');
    if (title) this.centre(title);
  }

  /** Scrolls the sheet and nothing around it. */
  private centre(element: Element): void {
    const [at, room] = [element.getBoundingClientRect(), this.sheet.getBoundingClientRect()];
    const left = at.left + at.width / 2 - room.left - room.width / 2;
    const top = at.top + at.height / 2 - room.top - room.height / 2;
    this.sheet.scrollBy({ left, top });
  }

  // ---- zoom ---------------------------------------------------------------------------------------------------------

  zoomBy(factor: number): void {
    this.zoom = Math.min(ZOOM_MAX, Math.max(ZOOM_MIN, this.scale() * factor));
    this.applyZoom();
  }

  fit(): void {
    this.zoom = undefined;
    this.applyZoom();
  }

  private scale(): number {
    if (this.zoom !== undefined || !this.svg) return this.zoom ?? 1;
    const { width, height } = this.svg.viewBox.baseVal;
    const room = this.sheet.getBoundingClientRect();
    return Math.max(FIT_MIN, Math.min(1, (room.width - 32) / width, (room.height - 32) / height));
  }

  private applyZoom(): void {
    if (!this.svg) return;
    const { width, height } = this.svg.viewBox.baseVal;
    const scale = this.scale();
    this.svg.setAttribute('width', String(width * scale));
    this.svg.setAttribute('height', String(height * scale));
  }
}

/** The states that a box stands for: its own, and those that are folded into it. */
const idsOf = ({ dataset }: SVGGElement): string[] => [
  dataset['id'] ?? '',
  ...(dataset['inside']?.split(' ').filter(Boolean) ?? []),
];

function enteredLast(actor: ActorView): readonly ActiveState[] {
  const states = innermost(actor.active);
  const last = Math.max(...states.map((state) => state.since));
  return states.filter((state) => state.since === last);
}

const HOW_TO_DRAW = 'node scripts/generate-diagrams.ts';

/** Event types that the actor heard in its last turn. */
function lastHeard(records: readonly ShownRecord[], address: string): Set<string> {
  const turn = records.findLast((shown) => concerns(shown, address))?.turn;
  const heard = records.filter((shown) => shown.turn === turn && concerns(shown, address));
  return new Set(heard.flatMap(({ record }) => eventHeard(record) ?? []));
}
