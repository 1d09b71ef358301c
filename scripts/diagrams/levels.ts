/**
 * Divides a chart into drawings that a page holds: an overview, and one drawing for each state that it folds.
 *
 * Invariants: a chart that fits is one drawing; a drawing folds the largest states first and no more than it must, and
 * regions of one parallel state together; each transition is in a drawing: in the lowest that has both of its ends as
 * an edge, and where it leaves a drawing as a line of its state. Where nothing is left to fold, the edges to the states
 * that most edges end in become lines, state by state, until the drawing fits.
 */
import { type Chart, type ChartEdge, type ChartLine, type ChartState, distinct } from './chart.ts';
import { type Layout, layOut } from './layout.ts';

/** What a screen shows at a readable size with one scroll. */
export const DRAWING_MAX = { width: 1600, height: 2200 };

export interface Drawing {
  /** The name of its file without `.svg`: the machine, then the keys of the folded states that lead to it. */
  readonly name: string;
  readonly chart: Chart;
  readonly layout: Layout;
}

export async function drawingsOf(chart: Chart, name = chart.machine): Promise<Drawing[]> {
  const folded: ChartState[] = [];
  let shown = chart;
  let layout = await layOut(shown);
  const candidates = foldable(chart.root);
  while (!fits(layout) && candidates.length > 0) {
    const next = largest(candidates, layout);
    for (const state of next) candidates.splice(candidates.indexOf(state), 1);
    folded.push(...next);
    shown = withFolded(chart, folded, name);
    layout = await layOut(shown);
  }
  for (let target = crowded(shown); !fits(layout) && target !== undefined; target = crowded(shown)) {
    shown = withLines(shown, (edge) => edge.target === target);
    layout = await layOut(shown);
  }
  const below: Drawing[] = [];
  for (const state of folded) below.push(...(await drawingsOf(pageOf(chart, state, name), nameBelow(name, state))));
  return [{ name, chart: shown, layout }, ...below];
}

const fits = ({ width, height }: Layout): boolean => width <= DRAWING_MAX.width && height <= DRAWING_MAX.height;
const nameBelow = (name: string, state: ChartState): string => `${name}.${state.title}`;

/** The compound states right below a state; a parallel state stays, so that its regions are seen side by side. */
function foldable(state: ChartState): ChartState[] {
  const compounds = state.children.filter((child) => child.children.length > 0);
  return compounds.flatMap((child) => (child.kind === 'parallel' ? foldable(child) : [child]));
}

/** The largest of the states on a layout, and for a region those beside it. */
function largest(states: readonly ChartState[], { boxes }: Layout): ChartState[] {
  const area = ({ id }: ChartState): number => (boxes.get(id)?.width ?? 0) * (boxes.get(id)?.height ?? 0);
  const first = states.reduce((one, other) => (area(other) > area(one) ? other : one));
  return first.region ? states.filter((state) => state.region) : [first];
}

const within = (state: ChartState): ChartState[] => [state, ...state.children.flatMap(within)];

/** The chart with states as boxes without content; edges that end in a folded state end at its box. */
function withFolded(chart: Chart, folded: readonly ChartState[], name: string): Chart {
  const boxOf = new Map(folded.flatMap((state) => within(state).map(({ id }) => [id, state.id] as const)));
  const edges = new Map<string, ChartEdge>();
  for (const edge of chart.edges) {
    const source = boxOf.get(edge.source) ?? edge.source;
    const target = boxOf.get(edge.target) ?? edge.target;
    if (boxOf.has(source) && source === target) continue;
    const key = `${source} -> ${target}`;
    edges.set(key, { source, target, labels: distinct([...(edges.get(key)?.labels ?? []), ...edge.labels]) });
  }
  const fold = (state: ChartState): ChartState =>
    folded.includes(state) ? boxed(state, name) : { ...state, children: state.children.map(fold) };
  const root = fold(chart.root);
  const initial = (state: ChartState): ChartState => ({
    ...state,
    initial: state.initial === undefined ? undefined : (boxOf.get(state.initial) ?? state.initial),
    children: state.children.map(initial),
  });
  return { ...chart, root: initial(root), edges: [...edges.values()] };
}

function boxed(state: ChartState, name: string): ChartState {
  const inside = within(state).slice(1);
  const count: ChartLine = { text: `${inside.length} states`, event: undefined };
  const link = nameBelow(name, state);
  return { ...state, lines: [count], initial: undefined, children: [], link, inside: inside.map(({ id }) => id) };
}

/** A state as a chart of its own that leads back to the drawing above it. */
function pageOf(chart: Chart, state: ChartState, above: string): Chart {
  const inside = new Set(within(state).map(({ id }) => id));
  const whole = withLines(chart, ({ source, target }) => inside.has(source) && !inside.has(target));
  const root = within(whole.root).find(({ id }) => id === state.id) as ChartState;
  return {
    machine: chart.machine,
    root: { ...root, title: `${above.replaceAll('.', ' › ')} › ${state.title}`, link: above },
    edges: whole.edges.filter(({ source, target }) => inside.has(source) && inside.has(target)),
  };
}

/** The state that most edges end in, if there is one that several end in. */
function crowded({ edges }: Chart): string | undefined {
  const counts = new Map<string, number>();
  for (const { target } of edges) counts.set(target, (counts.get(target) ?? 0) + 1);
  const [most] = [...counts].sort(([, one], [, other]) => other - one);
  return most && most[1] > 1 ? most[0] : undefined;
}

/** The chart with some edges as lines of the states that they leave. */
function withLines(chart: Chart, isLine: (edge: ChartEdge) => boolean): Chart {
  const titles = new Map(within(chart.root).map(({ id, title }) => [id, title]));
  const written = chart.edges.filter(isLine);
  const linesOf = ({ target, labels }: ChartEdge): ChartLine[] =>
    labels.map((label) => ({ ...label, text: `${label.text} → ${titles.get(target) ?? target}`, target }));
  const withWays = (state: ChartState): ChartState => ({
    ...state,
    lines: [...state.lines, ...written.filter(({ source }) => source === state.id).flatMap(linesOf)],
    children: state.children.map(withWays),
  });
  return { ...chart, root: withWays(chart.root), edges: chart.edges.filter((edge) => !written.includes(edge)) };
}
