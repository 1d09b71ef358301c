/**
 * The chart of the chosen actor's machine with its active states highlighted.
 *
 * The chart was drawn when the project was built; the page only colours it, by its own style. A large chart has several
 * sheets: a card of one sheet links to the next sheet, whose first title links back.
 */
import type { ActiveState, ActorView } from '../actors/server/visualizer/protocol.ts';
import { byId, closest, el, setText } from './dom.ts';
import type { Store } from './store.ts';
import { eventText, innermost, lastOf, stateText } from './words.ts';
import type { EdgeView, StepView } from './worker/requests.ts';

/** The length that fits into the narrowest card. */
const CARD_TEXT_MAX_CHARS = 10;
const ZOOM_STEP = 1.25;
const ZOOM_MIN = 0.2;
const ZOOM_MAX = 3;
/** The smallest scale at which a chart is fitted: its words must be readable. A larger chart is shown in part. */
const FIT_MIN = 0.8;

export class ChartView {
  readonly sheet = byId('sheet', HTMLElement);
  private readonly note = byId('chart-note', HTMLElement);
  private readonly decision = byId('decision', HTMLElement);
  private readonly store: Store;
  private readonly chartOf: (name: string) => Promise<SVGSVGElement | undefined>;
  private readonly charts = new Map<string, Promise<SVGSVGElement | undefined>>();
  private svg: SVGSVGElement | undefined;
  private machine = '';
  /** The sheet that is shown: the first sheet of the machine, or the sheet of one of its states. */
  private name = '';
  private activeIds: ReadonlySet<string> = new Set();
  private shownActor = '';
  /** The actor, the sheet and the step that are drawn. */
  private shownView: ActorView | undefined;
  private shownSheet: SVGSVGElement | undefined;
  private shownStep: readonly unknown[] = [];
  private zoom: number | undefined;

  /** `chartOf` gives a sheet of a machine's chart. */
  constructor(store: Store, chartOf: (name: string) => Promise<SVGSVGElement | undefined>) {
    this.store = store;
    this.chartOf = chartOf;
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
      this.svg = undefined;
      setText(this.note, '');
      this.sheet.replaceChildren(el('p', { class: 'empty' }, this.store.absence));
    } else if (actor.machine !== this.machine) void this.open(actor.machine);
    else this.showActive(actor);
  }

  /** Opens the sheet of the link that was clicked or chosen with Enter, and focuses the link that leads back. */
  private follow(event: Event): void {
    const link = closest<SVGAElement>(event, 'a');
    if (!link) return;
    event.preventDefault();
    const name = decodeURIComponent(link.href.baseVal).replace(/\.svg$/, '');
    void this.open(this.machine, name).then(() => this.svg?.querySelector('a')?.focus());
  }

  private async open(machine: string, name = machine): Promise<void> {
    this.machine = machine;
    this.name = name;
    const chart = this.charts.get(name) ?? this.chartOf(name);
    this.charts.set(name, chart);
    const svg = await chart;
    if (!svg) this.charts.delete(name);
    if (name !== this.name) return;
    this.svg = svg;
    this.zoom = undefined;
    this.shownActor = '';
    this.shownView = undefined;
    const absent = el('p', { class: 'empty' }, `There is no chart of ${name}: `, el('code', {}, HOW_TO_DRAW));
    this.sheet.replaceChildren(svg ?? absent);
    this.applyZoom();
    const actor = this.store.actors.get(this.store.actor ?? '');
    if (actor) this.showActive(actor);
  }

  private showActive(actor: ActorView): void {
    if (actor === this.shownView && this.svg === this.shownSheet) return;
    this.shownView = actor;
    this.shownSheet = this.svg;
    const active = new Set(actor.active.map((state) => state.id));
    const another = actor.address !== this.shownActor;
    const before = another ? active : this.activeIds;
    const drawn = new Set<string>();
    // A state that is entered now is animated; in the past, the animation would run at each step and redraw for
    // a second.
    const isPresent = this.store.moment === undefined;
    for (const state of this.svg?.querySelectorAll<SVGGElement>('.state') ?? []) {
      const ids = idsOf(state);
      for (const id of ids) drawn.add(id);
      state.classList.toggle('active', ids[0] !== undefined && active.has(ids[0]));
      state.classList.toggle('entered', isPresent && ids.some((id) => active.has(id) && !before.has(id)));
      if (ids.length > 1) writeCard(state, ids.slice(1), actor.active);
    }
    this.showStep();
    this.activeIds = active;
    this.shownActor = actor.address;
    const isFirst = this.svg !== undefined && this.name === this.machine;
    this.describe(actor, isFirst ? [...active].filter((id) => !drawn.has(id)) : []);
    if (another) this.show(innermost(actor.active).slice(0, 1));
    else if ([...active].some((id) => !before.has(id))) this.show(enteredLast(actor));
  }

  /** Highlights the edges that the actor took in its last step, and marks those whose guards refused. */
  showStep(): void {
    const step = this.store.chosen?.step;
    const drawn = [step, this.svg, this.store.naming];
    if (drawn.every((part, at) => part === this.shownStep[at])) return;
    this.shownStep = drawn;
    this.decision.replaceChildren(...decisionElements(this.store, step));
    const [before, after] = [new Set(step?.before), new Set(step?.after)];
    for (const edge of this.svg?.querySelectorAll<SVGGElement>('.edge[data-event]') ?? []) {
      const { source = '', target = '', event = '' } = edge.dataset;
      const types = event.split(' ');
      const own = step?.edges.filter(
        ({ source: from, targets, event: type }) => from === source && targets.includes(target) && types.includes(type),
      );
      // A running node does not report its transitions: they are derived from the states left and entered.
      const isPassed = step?.edges.length === 0 && before.has(source) && after.has(target) && !before.has(target);
      edge.classList.toggle('taken', isPassed || own?.some(({ result }) => result === 'taken') === true);
      edge.classList.toggle('refused', own?.some(({ result }) => result === 'no') === true);
    }
  }

  private describe(actor: ActorView, unknown: readonly string[]): void {
    const ended = actor.status === 'active' ? '' : ` (${actor.status})`;
    const now = `${stateText(actor.value)}${ended}`;
    const old = unknown.length > 0 ? `  The chart is older than the machine, run: ${HOW_TO_DRAW}` : '';
    setText(this.note, `${actor.machine}: ${now}${old}`);
    this.note.title = now.replaceAll(' | ', '\n');
    this.svg?.setAttribute('aria-label', `State chart of ${actor.machine}, now in ${now}`);
  }

  /** Brings the first of these states into sight. */
  private show(states: readonly ActiveState[]): void {
    const ids = new Set(states.map((state) => state.id));
    const drawn = [...(this.svg?.querySelectorAll<SVGGElement>('.state.active') ?? [])];
    const title = drawn.find((state) => idsOf(state).some((id) => ids.has(id)))?.querySelector('.title');
    // Scrolls when the page has been laid out: earlier, the query would cause a second layout.
    if (title) requestAnimationFrame(() => this.centre(title));
  }

  /** Scrolls the sheet and nothing around it. */
  private centre(element: Element): void {
    const [at, room] = [element.getBoundingClientRect(), this.sheet.getBoundingClientRect()];
    const left = at.left + at.width / 2 - room.left - room.width / 2;
    const top = at.top + at.height / 2 - room.top - room.height / 2;
    this.sheet.scrollBy({ left, top });
  }

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

/** The ids of a drawn state, and of the states inside its card. */
const idsOf = ({ dataset }: SVGGElement): readonly string[] => [
  dataset['id'] ?? '',
  ...(dataset['inside']?.split(' ') ?? []),
];

/** Writes into a card which of the states inside it are active, else how many it has. */
function writeCard(card: SVGGElement, inside: readonly string[], active: readonly ActiveState[]): void {
  const names = innermost(active).flatMap(({ id }) => (inside.includes(id) ? [id.slice(id.lastIndexOf('.') + 1)] : []));
  const text = names.length > 0 ? names.join(', ') : `${inside.length} states`;
  const note = card.querySelector('.note');
  if (!note) return;
  note.textContent = text.length > CARD_TEXT_MAX_CHARS ? `${text.slice(0, CARD_TEXT_MAX_CHARS - 1)}…` : text;
  note.setAttribute('aria-label', text);
}

function enteredLast(actor: ActorView): readonly ActiveState[] {
  const states = innermost(actor.active);
  const last = Math.max(...states.map((state) => state.since));
  return states.filter((state) => state.since === last);
}

const HOW_TO_DRAW = 'node scripts/generate-diagrams.ts';

const SIGNS = { taken: '✓ taken', no: '✗ guard says no', 'not reached': '· not asked' } as const;

/** The actor's decision in its last step: its event, the considered transitions, and their guards. */
function decisionElements(store: Store, step: StepView | null | undefined): Node[] {
  if (!step || step.edges.length === 0) return [];
  const record = el('button', { type: 'button' }, `record ${step.n}`);
  record.addEventListener('click', () => store.chooseRecord(step.n));
  const head = el('p', {}, 'Heard ', el('code', {}, store.named(eventText(step.event))), ' in ', record);
  return [head, el('ol', {}, ...step.edges.map((edge) => el('li', { class: styleOf(edge) }, ...edgeElements(edge))))];
}

const styleOf = ({ result }: EdgeView): string => (result === 'not reached' ? 'unasked' : result);

function edgeElements({ source, targets, event, guard, result }: EdgeView): (Node | string)[] {
  const to = targets.length === 0 ? 'stays' : `→ ${targets.map(shortState).join(', ')}`;
  const condition = guard === undefined ? '' : ` if ${guard}`;
  return [
    el('span', { class: 'result' }, SIGNS[result]),
    el(
      'span',
      {},
      el('code', {}, `${shortState(source)} ${to}`),
      el('span', { class: 'dim' }, ` on ${lastOf(eventText(event))}${condition}`),
    ),
  ];
}

/** Without the id of the machine. */
const shortState = (id: string): string => id.slice(id.indexOf('.') + 1);
