/**
 * The messages of some records in order: a column for each actor, an arrow for each message. Everything outside of the
 * actors is one column, the world: the source of inputs, timers and answers, and the target of requests. The table of
 * records has the same in words.
 */
import type { ShownRecord } from '../actors/server/visualizer/protocol.ts';
import { el } from './dom.ts';
import type { Store } from './store.ts';
import { eventText, whoOf } from './words.ts';

export const WORLD = 'world';

export interface Arrow {
  readonly n: number;
  readonly from: string;
  readonly to: string;
  readonly text: string;
}

export interface Sequence {
  /** Addresses, and {@link WORLD}, in the order in which they appear. */
  readonly columns: readonly string[];
  readonly arrows: readonly Arrow[];
}

/** The columns and arrows of these records. Pure. */
export function sequenceOf(records: readonly ShownRecord[]): Sequence {
  const arrows = records.flatMap((shown) => arrowOf(shown) ?? []);
  return { columns: [...new Set(arrows.flatMap(({ from, to }) => [from, to]))], arrows };
}

function arrowOf(shown: ShownRecord): Arrow | undefined {
  const { n, record } = shown;
  const who = whoOf(shown);
  switch (record.k) {
    case 'in':
      return { n, from: WORLD, to: who, text: eventText(record.event.type) };
    case 'timer':
      return { n, from: WORLD, to: who, text: eventText(record.event) };
    case 'result':
      return { n, from: WORLD, to: who, text: `${record.name} ${record.error ? 'failed' : 'answered'}` };
    case 'message':
      return { n, from: record.from, to: record.to, text: eventText(record.event.type) };
    case 'effect':
      return { n, from: who, to: WORLD, text: record.name };
    default:
      return undefined;
  }
}

export function sequenceElement(store: Store, records: readonly ShownRecord[]): HTMLElement {
  const { columns, arrows } = sequenceOf(records);
  if (arrows.length === 0) return el('p', { class: 'dim' }, 'None.');
  const heads = columns.map((column) => el('span', { title: column }, store.nameOf(column)));
  const rows = arrows.map((arrow) => arrowElement(store, arrow, columns));
  const sheet = el('div', { class: 'sequence' }, el('div', { class: 'columns' }, ...heads), ...rows);
  sheet.style.setProperty('--columns', String(columns.length));
  return el('div', { class: 'sequence-sheet', tabindex: 0, role: 'group', 'aria-label': 'Messages' }, sheet);
}

function arrowElement(store: Store, { n, from, to, text }: Arrow, columns: readonly string[]): HTMLElement {
  const [a, b] = [columns.indexOf(from), columns.indexOf(to)];
  const direction = a === b ? 'self' : a < b ? 'right' : 'left';
  const label = `${store.nameOf(from)} to ${store.nameOf(to)}: ${store.named(text)}`;
  const chosen = n === store.record ? 'true' : undefined;
  const attributes = { type: 'button', class: direction, 'aria-label': label, title: label, 'aria-current': chosen };
  const button = el('button', attributes, el('span', {}, store.named(text)));
  button.style.setProperty('--first', String(Math.min(a, b)));
  button.style.setProperty('--span', String(Math.abs(a - b)));
  button.addEventListener('click', () => store.chooseRecord(n));
  return el('div', { class: 'arrow' }, button);
}
