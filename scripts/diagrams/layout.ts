/**
 * The layout of a chart: sizes follow from the text, positions from ELK's layered layout.
 *
 * It runs when the project is built; neither the daemon nor the browser contains a layout engine. The same chart always
 * gets the same positions.
 */
import { createRequire } from 'node:module';
import type { ELK, ElkExtendedEdge, ElkNode } from 'elkjs/lib/elk-api.js';
import type { Chart, ChartEdge, ChartLine, ChartState } from './chart.ts';

/** The package is CommonJS, but its types declare a default export; `require` returns the actual one. */
const Elk = createRequire(import.meta.url)('elkjs/lib/elk.bundled.js') as new () => ELK;

/** The width of one character relative to the font size, in the widest of the common monospace fonts. */
const MONO_ADVANCE = 0.61;
const TITLE_ADVANCE = 0.62;
export const TITLE_PX = 13;
export const TEXT_PX = 11;
export const LINE_PX = 15;
export const HEADER_PX = 26;
const PADDING_PX = 12;
const SIDE_PX = 16;
/** Longer lines are cut, because a chart has no room for sentences. */
const TEXT_MAX_CHARS = 48;

type Options = Readonly<Record<string, string>>;

const ROOT_OPTIONS: Options = {
  'elk.json.shapeCoords': 'ROOT',
  'elk.json.edgeCoords': 'ROOT',
  'elk.randomSeed': '1',
  'elk.padding': '[top=8,left=8,bottom=8,right=8]',
};
const LAYERED: Options = {
  'elk.algorithm': 'layered',
  'elk.direction': 'DOWN',
  'elk.hierarchyHandling': 'INCLUDE_CHILDREN',
  'elk.edgeRouting': 'ORTHOGONAL',
  'elk.spacing.nodeNode': '28',
  'elk.spacing.edgeNode': '18',
  'elk.spacing.edgeEdge': '14',
  'elk.spacing.edgeLabel': '4',
  'elk.layered.spacing.nodeNodeBetweenLayers': '30',
  'elk.layered.spacing.edgeNodeBetweenLayers': '16',
  'elk.layered.spacing.edgeEdgeBetweenLayers': '14',
  'elk.layered.nodePlacement.strategy': 'BRANDES_KOEPF',
  'elk.layered.nodePlacement.bk.fixedAlignment': 'BALANCED',
};

/** Compound states as columns side by side: one below the other, the phases of a long start would be a thin tower. */
const COLUMNS: Options = { ...LAYERED, 'elk.direction': 'RIGHT', 'elk.hierarchyHandling': 'SEPARATE_CHILDREN' };
/** Regions that have no edges between them. */
const PACKED: Options = {
  'elk.algorithm': 'rectpacking',
  'elk.hierarchyHandling': 'SEPARATE_CHILDREN',
  'elk.aspectRatio': '1.8',
  'elk.spacing.nodeNode': '14',
};
/** For edges that keep their direction when the layout breaks cycles. */
const DOWNWARD: Options = { 'elk.layered.priority.direction': '10' };

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}
export interface Point {
  readonly x: number;
  readonly y: number;
}
export interface PlacedEdge {
  readonly edge: ChartEdge | undefined;
  readonly points: readonly (readonly Point[])[];
  readonly label: Box | undefined;
}
export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly boxes: ReadonlyMap<string, Box>;
  readonly edges: readonly PlacedEdge[];
}

export const initialDot = (state: string): string => `${state}#initial`;
export const shortened = (text: string): string =>
  text.length > TEXT_MAX_CHARS ? `${text.slice(0, TEXT_MAX_CHARS - 1)}…` : text;

/** The lines inside a state, as they are shown. */
export const shownLines = (state: ChartState): ChartLine[] =>
  state.lines.map((l) => ({ ...l, text: shortened(l.text) }));

export async function layOut(chart: Chart): Promise<Layout> {
  const initials: ElkExtendedEdge[] = [];
  const root = nodeOf(chart.root, initials, chart.edges);
  const order = definitionOrder(chart.root);
  const edges = chart.edges.map((edge, index) => elkEdge(edge, index, order));
  const graph = {
    id: '#chart',
    layoutOptions: { ...LAYERED, ...ROOT_OPTIONS },
    children: [root],
    edges: [...edges, ...initials],
  };
  const placed = (await new Elk().layout(graph)) as ElkNode;
  const boxes = new Map<string, Box>();
  collectBoxes(placed, boxes);
  const placedEdges = (placed.edges ?? []).map((edge, index) => placedEdge(edge, chart.edges[index]));
  return { width: placed.width ?? 0, height: placed.height ?? 0, boxes, edges: placedEdges };
}

function nodeOf(state: ChartState, initials: ElkExtendedEdge[], edges: readonly ChartEdge[]): ElkNode {
  const { width, height } = ownSize(state);
  if (state.children.length === 0) return { id: state.id, width, height };
  const children = state.children.map((child) => nodeOf(child, initials, edges));
  if (state.initial !== undefined) {
    const dot = initialDot(state.id);
    children.unshift({ id: dot, width: 10, height: 10 });
    initials.push({ id: `${dot} ->`, sources: [dot], targets: [state.initial], layoutOptions: DOWNWARD });
  }
  const layoutOptions = {
    ...arrangement(state, edges),
    'elk.padding': `[top=${height + PADDING_PX},left=${SIDE_PX},bottom=${SIDE_PX},right=${SIDE_PX}]`,
    'elk.nodeSize.constraints': 'MINIMUM_SIZE',
    'elk.nodeSize.minimum': `(${width},${height})`,
  };
  return { id: state.id, layoutOptions, children };
}

function arrangement(state: ChartState, edges: readonly ChartEdge[]): Options {
  if (!isSelfContained(state, edges)) return LAYERED;
  if (state.kind === 'parallel') return PACKED;
  const compounds = state.children.filter((child) => child.children.length > 0);
  return compounds.length > 1 && compounds.every((child) => isSelfContained(child, edges)) ? COLUMNS : LAYERED;
}

/** True if no edge crosses the border of a child: each child can then be laid out alone. */
function isSelfContained(state: ChartState, edges: readonly ChartEdge[]): boolean {
  return state.children.every((child) => {
    const inside = new Set(below(child));
    return edges.every(({ source, target }) => inside.has(source) === inside.has(target));
  });
}

/** The ids of all states inside a state, without its own. */
const below = (state: ChartState): string[] => state.children.flatMap((child) => [child.id, ...below(child)]);

/** The size that the title and the lines of a state need. */
function ownSize(state: ChartState): { width: number; height: number } {
  if (state.kind === 'history') return { width: 24, height: 24 };
  const lines = shownLines(state);
  const texts = lines.map((line) => line.text.length * TEXT_PX * MONO_ADVANCE);
  const width = Math.max(56, state.title.length * TITLE_PX * TITLE_ADVANCE, ...texts) + 2 * PADDING_PX;
  const height = HEADER_PX + (lines.length > 0 ? lines.length * LINE_PX + 8 : 0);
  return { width: Math.ceil(width), height: state.children.length > 0 ? height : height + 4 };
}

/** The number of each state in the definition. Authors write the usual path through a chart from top to bottom. */
function definitionOrder(state: ChartState, order = new Map<string, number>()): Map<string, number> {
  order.set(state.id, order.size);
  for (const child of state.children) definitionOrder(child, order);
  return order;
}

function elkEdge(edge: ChartEdge, index: number, order: ReadonlyMap<string, number>): ElkExtendedEdge {
  const width = Math.max(...edge.labels.map((label) => shortened(label.text).length)) * TEXT_PX * MONO_ADVANCE + 8;
  const label = { id: `label ${index}`, text: '-', width: Math.ceil(width), height: edge.labels.length * LINE_PX + 4 };
  return {
    id: `edge ${index}`,
    sources: [edge.source],
    targets: [edge.target],
    layoutOptions: (order.get(edge.source) ?? 0) < (order.get(edge.target) ?? 0) ? DOWNWARD : {},
    labels: [{ ...label, layoutOptions: { 'elk.edgeLabels.inline': 'true', 'elk.edgeLabels.placement': 'CENTER' } }],
  };
}

function collectBoxes(node: ElkNode, into: Map<string, Box>): void {
  into.set(node.id, boxOf(node));
  for (const child of node.children ?? []) collectBoxes(child, into);
}

const boxOf = ({ x = 0, y = 0, width = 0, height = 0 }: Partial<Box>): Box => ({ x, y, width, height });

function placedEdge(edge: ElkExtendedEdge, chartEdge: ChartEdge | undefined): PlacedEdge {
  const points = (edge.sections ?? []).map((section) => [
    section.startPoint,
    ...(section.bendPoints ?? []),
    section.endPoint,
  ]);
  const label = edge.labels?.[0];
  return { edge: chartEdge, points, label: label && boxOf(label) };
}
