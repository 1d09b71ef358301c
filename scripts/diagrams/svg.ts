/**
 * Writes a chart with its layout as SVG.
 *
 * Each state has `data-id` (its id in XState) and each edge has `data-source`, `data-target` and `data-event`, so that
 * a page can highlight active states without knowledge of the layout. A card has `data-inside` (the ids of the states
 * on its sheet) and a link to the file of that sheet, whose title links back. The file uses the colour scheme of the
 * reader; a page that embeds it replaces the style. It contains text, shapes and these links, but no scripts.
 */
import type { ChartState } from './chart.ts';
import {
  type Box,
  HEADER_PX,
  initialDot,
  type Layout,
  LINE_PX,
  type PlacedEdge,
  type Point,
  shortened,
  shownLines,
  TEXT_PX,
  TITLE_PX,
} from './layout.ts';
import type { Sheet } from './sheets.ts';

const CORNER_PX = 5;

const STYLE = `
  svg { --ink: #1c2024; --dim: #60646c; --line: #8b8d98; --box: #ffffff; --page: #fbfcfd; color: var(--ink) }
  @media (prefers-color-scheme: dark) {
    svg { --ink: #edeef0; --dim: #b0b4ba; --line: #696e77; --box: #18191b; --page: #111113 }
  }
  .sheet { fill: var(--page) }
  .box { fill: var(--box); stroke: var(--line) }
  .inner { fill: none; stroke: var(--line) }
  .region > .box { stroke-dasharray: 5 4 }
  .card > .box { stroke-width: 2 }
  .rule { stroke: var(--line); stroke-opacity: .4 }
  .edge path { fill: none; stroke: var(--line) }
  .dot, .edge .head { fill: var(--line) }
  .label { fill: var(--box); fill-opacity: .9 }
  text { fill: var(--ink); font: ${TEXT_PX}px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
  a .title { text-decoration: underline; text-underline-offset: 3px }
  .title { font: 600 ${TITLE_PX}px ui-sans-serif, system-ui, sans-serif }
  .note { fill: var(--dim) }
`;

export function svgOf({ name: sheet, parent, chart, layout }: Sheet): string {
  const width = px(layout.width);
  const height = px(layout.height);
  const states: string[] = [];
  drawState(chart.root, layout, states, parent);
  // For a screen reader an image has no parts, so a chart with links is a group.
  const isLinked = states.some((shape) => shape.startsWith('<a '));
  const [name, machine] = [sheet, chart.machine].map(escaped);
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"`,
    `  role="${isLinked ? 'group' : 'img'}" aria-label="State chart of ${name}" data-machine="${machine}">`,
    `<title>State chart of ${name}</title>`,
    `<style>${STYLE}</style>`,
    `<rect class="sheet" width="${width}" height="${height}"/>`,
    ...states,
    ...layout.edges.flatMap(drawEdge),
    '</svg>',
  ].join('\n')}\n`;
}

/** `parent`: the sheet that the title links back to; undefined inside a sheet. */
function drawState(state: ChartState, layout: Layout, out: string[], parent: string | undefined, depth = 1): void {
  const box = layout.boxes.get(state.id) as Box;
  const classes = ['state', state.kind, ...(state.region ? ['region'] : []), ...(state.card ? ['card'] : [])].join(' ');
  const isOuter = state.children.length > 0;
  const inside = state.card ? ` data-inside="${escaped(state.card.inside.join(' '))}"` : '';
  out.push(`<g class="${classes}" data-id="${escaped(state.id)}" data-depth="${depth}"${inside}>`);
  if (state.waitsFor) out.push(`<title>${escaped(`waits for ${state.waitsFor}`)}</title>`);
  out.push(rect('box', box, state.kind === 'history' ? box.width / 2 : 6));
  if (state.kind === 'final') out.push(rect('inner', inset(box, 3), 4));
  const middle = px(box.x + box.width / 2);
  const x = isOuter ? px(box.x + 12) : middle;
  const anchor = isOuter ? '' : ' text-anchor="middle"';
  const way = parent ?? state.card?.sheet;
  const title = parent === undefined ? titleOf(state) : `‹ ${titleOf(state)}`;
  const titleY = state.kind === 'history' ? box.y + 16 : box.y + (state.lines.length > 0 || isOuter ? 18 : 19.5);
  out.push(linked(way, `<text class="title" x="${x}" y="${px(titleY)}"${anchor}>${escaped(title)}</text>`));
  drawLines(state, box, out);
  out.push('</g>');
  const dot = layout.boxes.get(initialDot(state.id));
  if (dot) out.push(`<circle class="dot" cx="${px(dot.x + 5)}" cy="${px(dot.y + 5)}" r="5"/>`);
  for (const child of state.children) drawState(child, layout, out, undefined, depth + 1);
}

const titleOf = ({ kind, title }: ChartState): string => (kind === 'history' ? (title === 'deep' ? 'H*' : 'H') : title);

const linked = (sheet: string | undefined, shape: string): string =>
  sheet === undefined ? shape : `<a href="${escaped(encodeURIComponent(sheet))}.svg">${shape}</a>`;

function drawLines(state: ChartState, box: Box, out: string[]): void {
  const lines = shownLines(state);
  if (lines.length === 0) return;
  const y = px(box.y + HEADER_PX);
  out.push(`<path class="rule" d="M${px(box.x)} ${y}H${px(box.x + box.width)}"/>`);
  for (const [index, { text, event, target }] of lines.entries()) {
    const way = target === undefined ? '' : ` data-target="${escaped(target)}"`;
    const data = event === undefined ? '' : ` data-event="${escaped(event)}"${way}`;
    const lineY = px(box.y + HEADER_PX + (index + 1) * LINE_PX);
    out.push(`<text class="note" x="${px(box.x + 12)}" y="${lineY}"${data}>${escaped(text)}</text>`);
  }
}

function drawEdge({ edge, points, label }: PlacedEdge): string[] {
  const shapes = points.flatMap((section) => [`<path d="${rounded(section)}"/>`, arrowHead(section)]);
  if (!edge) return ['<g class="edge initial">', ...shapes, '</g>'];
  const events = [...new Set(edge.labels.map((line) => line.event))].join(' ');
  const ends = `data-source="${escaped(edge.source)}" data-target="${escaped(edge.target)}"`;
  const out = [`<g class="edge" ${ends} data-event="${escaped(events)}">`, ...shapes];
  if (label) out.push(rect('label', inset(label, 1), 3));
  for (const [index, { text, event }] of label ? edge.labels.entries() : []) {
    const x = px((label as Box).x + 4);
    const y = px((label as Box).y + 1 + (index + 1) * LINE_PX - 3);
    out.push(`<text x="${x}" y="${y}" data-event="${escaped(event ?? '')}">${escaped(shortened(text))}</text>`);
  }
  return [...out, '</g>'];
}

/** A path through the points with rounded corners. */
function rounded(points: readonly Point[]): string {
  const parts = points.map((point, index) => {
    const before = points[index - 1];
    const after = points[index + 1];
    if (!before) return `M${px(point.x)} ${px(point.y)}`;
    if (!after) return `L${px(point.x)} ${px(point.y)}`;
    const from = towards(point, before);
    const to = towards(point, after);
    return `L${px(from.x)} ${px(from.y)}Q${px(point.x)} ${px(point.y)} ${px(to.x)} ${px(to.y)}`;
  });
  return parts.join('');
}

/** The point at the radius of a corner from `from` towards `to`, at most half-way. */
function towards(from: Point, to: Point): Point {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const part = Math.min(CORNER_PX, length / 2) / length;
  return { x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part };
}

function arrowHead(points: readonly Point[]): string {
  const end = points.at(-1) as Point;
  const before = points.at(-2) as Point;
  const length = Math.hypot(end.x - before.x, end.y - before.y) || 1;
  const dx = (end.x - before.x) / length;
  const dy = (end.y - before.y) / length;
  const left = `${px(end.x - 8 * dx - 3.5 * dy)} ${px(end.y - 8 * dy + 3.5 * dx)}`;
  const right = `${px(end.x - 8 * dx + 3.5 * dy)} ${px(end.y - 8 * dy - 3.5 * dx)}`;
  return `<path class="head" d="M${px(end.x)} ${px(end.y)}L${left}L${right}Z"/>`;
}

const inset = ({ x, y, width, height }: Box, by: number): Box => ({
  x: x + by,
  y: y + by,
  width: width - 2 * by,
  height: height - 2 * by,
});

const rect = (name: string, { x, y, width, height }: Box, radius: number): string =>
  `<rect class="${name}" x="${px(x)}" y="${px(y)}" width="${px(width)}" height="${px(height)}" rx="${px(radius)}"/>`;

/** One decimal is enough for the eye, and keeps the files equal on all machines. */
const px = (value: number): string => String(Math.round(value * 10) / 10);

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escaped = (text: string): string => text.replace(/[&<>"]/g, (char) => ENTITIES[char] as string);
