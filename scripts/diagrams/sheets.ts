/**
 * Splits a chart into sheets that fit a page. If the whole chart is too large, states are folded into cards, and the
 * content of each card has a sheet of its own.
 *
 * Pure, except for the layout. Invariants: no sheet is larger than a page; every state is on a sheet, and its content
 * is there or on a sheet of its own; every transition is on the sheet that shows both of its ends, and a transition
 * that leaves a sheet is also a line on it; the same chart gives the same sheets.
 */
import type { Chart, ChartEdge, ChartLine, ChartState } from './chart.ts';
import { type Layout, layOut } from './layout.ts';

/** In points: the size that a screen shows with readable text. */
export const [SHEET_WIDTH_MAX, SHEET_HEIGHT_MAX] = [1_600, 2_200] as const;
/** The labels of one arrow to or from a card; the sheet of the card has all of them. */
const CARD_LABELS_MAX = 6;

export interface Sheet {
  /** The file name without its extension: the machine, and the path to the state whose content the sheet shows. */
  readonly name: string;
  /** The sheet with the card of this one; undefined for the first sheet of a machine. */
  readonly parent: string | undefined;
  readonly chart: Chart;
  readonly layout: Layout;
}

interface Size {
  readonly width: number;
  readonly height: number;
}

/** The simplifications of a sheet compared with its chart. */
interface Simplified {
  /** The ids of states that are drawn as cards. */
  readonly folded: Set<string>;
  /** The ids of states with too many arrows: the transitions to them are written as lines. */
  readonly hubs: Set<string>;
}

export async function sheetsOf(chart: Chart): Promise<Sheet[]> {
  return await sheetsFrom(new Outline(chart), chart.root, undefined);
}

/**
 * The chart with the names of its sheets. An id of a state may be any text, so a sheet is named by the path to its
 * state.
 */
class Outline {
  readonly chart: Chart;
  readonly #names = new Map<string, string>();

  constructor(chart: Chart) {
    this.chart = chart;
    this.#name(chart.root, chart.machine);
  }

  #name(state: ChartState, name: string): void {
    this.#names.set(state.id, name);
    for (const child of state.children) this.#name(child, `${name}.${child.title}`);
  }

  nameOf(id: string): string {
    return this.#names.get(id)!;
  }

  titleOf(id: string): string {
    return this.nameOf(id).split('.').at(-1)!;
  }
}

async function sheetsFrom(outline: Outline, root: ChartState, parent: string | undefined): Promise<Sheet[]> {
  const name = outline.nameOf(root.id);
  const how: Simplified = { folded: new Set(), hubs: new Set() };
  let drawn = await drawing(outline, root, how);
  while (!fits(drawn.layout)) {
    if (!fold(root, drawn.layout, how.folded) && !addHub(drawn.chart, how.hubs)) {
      const { width, height } = drawn.layout;
      throw new Error(`the chart of ${name} fits no page: ${width} by ${height}`);
    }
    drawn = await drawing(outline, root, how);
  }
  drawn = await unfolded(outline, root, how, drawn);
  const sheets: Sheet[] = [{ name, parent, ...drawn }];
  for (const state of statesBelow(root)) {
    if (how.folded.has(state.id)) sheets.push(...(await sheetsFrom(outline, state, name)));
  }
  return sheets;
}

type Drawing = Pick<Sheet, 'chart' | 'layout'>;

async function drawing(outline: Outline, root: ChartState, how: Simplified): Promise<Drawing> {
  const chart = partOf(outline, root, how);
  return { chart, layout: await layOut(chart) };
}

/**
 * Unfolds the smallest cards again while there is room. Regions stay folded: they are read best as cards side by side.
 */
async function unfolded(outline: Outline, root: ChartState, how: Simplified, smallest: Drawing): Promise<Drawing> {
  const cards = statesBelow(root).filter(({ id, region }) => how.folded.has(id) && !region);
  const bySize = cards.toSorted((one, other) => statesBelow(one).length - statesBelow(other).length);
  let best = smallest;
  for (const { id } of bySize) {
    how.folded.delete(id);
    const next = await drawing(outline, root, how);
    if (fits(next.layout)) best = next;
    else how.folded.add(id);
  }
  return best;
}

const fits = ({ width, height }: Size): boolean => width <= SHEET_WIDTH_MAX && height <= SHEET_HEIGHT_MAX;

const areaOf = ({ width, height }: Size): number => width * height;

const statesBelow = (state: ChartState): ChartState[] =>
  state.children.flatMap((child) => [child, ...statesBelow(child)]);

/**
 * Folds the largest states that fit a page, until the rest probably fits, too. If no state fits a page, it folds the
 * smallest one, which contains no large state. False if there is nothing left to fold.
 */
function fold(root: ChartState, layout: Layout, folded: Set<string>): boolean {
  const open = (state: ChartState): ChartState[] =>
    state.children.filter((child) => child.children.length > 0 && !folded.has(child.id));
  const all = (state: ChartState): ChartState[] => open(state).flatMap((child) => [child, ...all(child)]);
  const area = ({ id }: ChartState): number => areaOf(layout.boxes.get(id)!);
  const largestFirst = all(root).toSorted((one, other) => area(other) - area(one));
  const pages = largestFirst.filter(({ id }) => fits(layout.boxes.get(id)!));
  const candidates = pages.length > 0 ? pages : largestFirst.slice(-1);
  const inside = new Set<string>();
  let left = areaOf(layout);
  for (const state of candidates.filter(({ id }) => !inside.has(id))) {
    for (const { id } of statesBelow(state)) {
      folded.delete(id);
      inside.add(id);
    }
    folded.add(state.id);
    left -= area(state);
    if (left <= SHEET_WIDTH_MAX * SHEET_HEIGHT_MAX) break;
  }
  return candidates.length > 0;
}

/** Replaces the arrows to the state that has the most of them with lines. False if no state has more than one. */
function addHub({ edges }: Chart, hubs: Set<string>): boolean {
  const byTarget = [...Map.groupBy(edges, ({ target }) => target)];
  const [busiest] = byTarget.toSorted(([, one], [, other]) => other.length - one.length);
  if (busiest === undefined || busiest[1].length < 2) return false;
  hubs.add(busiest[0]);
  return true;
}

/** The chart of one state: the folded states are cards, and the edges are those that begin on the sheet. */
function partOf(outline: Outline, root: ChartState, { folded, hubs }: Simplified): Chart {
  const shown = new Map<string, string>();
  showIn(root, folded, shown);
  const lines = new Map<string, ChartLine[]>();
  const edges = new Map<string, ChartEdge>();
  for (const { source, target, labels } of outline.chart.edges) {
    const [from, to] = [shown.get(source), shown.get(target)];
    if (from === undefined || (from === to && folded.has(from))) continue;
    const isLine = to === undefined || (hubs.has(to) && from !== to);
    const before = from === source ? '' : `${outline.titleOf(source)}: `;
    const after = to === target && !isLine ? '' : ` → ${outline.titleOf(target)}`;
    const named = labels.map((label) => ({ ...label, text: `${before}${label.text}${after}`, target }));
    if (isLine) lines.set(from, [...(lines.get(from) ?? []), ...named]);
    else join(edges, from, to, named);
  }
  const { machine } = outline.chart;
  const drawn = [...edges.values()].map((edge) => (isOfCard(edge, folded) ? shortened(edge) : edge));
  return { machine, root: withCards(outline, root, folded, lines), edges: drawn };
}

/** For each state on the sheet or inside its cards: the state on the sheet that represents it. */
function showIn(state: ChartState, folded: ReadonlySet<string>, into: Map<string, string>): void {
  into.set(state.id, state.id);
  for (const child of state.children) {
    if (!folded.has(child.id)) showIn(child, folded, into);
    else for (const { id } of [child, ...statesBelow(child)]) into.set(id, child.id);
  }
}

function join(edges: Map<string, ChartEdge>, source: string, target: string, labels: readonly ChartLine[]): void {
  const key = `${source} -> ${target}`;
  const known = edges.get(key)?.labels ?? [];
  const added = labels.filter(({ text }) => !known.some((label) => label.text === text));
  edges.set(key, { source, target, labels: [...known, ...added] });
}

const isOfCard = ({ source, target }: ChartEdge, folded: ReadonlySet<string>): boolean =>
  folded.has(source) || folded.has(target);

function shortened(edge: ChartEdge): ChartEdge {
  const left = edge.labels.length - CARD_LABELS_MAX;
  if (left <= 1) return edge;
  const rest: ChartLine = { text: `and ${left} more`, event: undefined };
  return { ...edge, labels: [...edge.labels.slice(0, CARD_LABELS_MAX), rest] };
}

function withCards(
  outline: Outline,
  state: ChartState,
  folded: ReadonlySet<string>,
  lines: ReadonlyMap<string, readonly ChartLine[]>,
): ChartState {
  const leaving = lines.get(state.id) ?? [];
  if (folded.has(state.id)) {
    const inside = statesBelow(state).map(({ id }) => id);
    const count: ChartLine = { text: `${inside.length} states`, event: undefined };
    const card = { sheet: outline.nameOf(state.id), inside };
    return { ...state, lines: [count, ...leaving.slice(0, CARD_LABELS_MAX)], children: [], card };
  }
  const children = state.children.map((child) => withCards(outline, child, folded, lines));
  return { ...state, lines: [...state.lines, ...leaving], children };
}
