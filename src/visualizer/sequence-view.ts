/** Messages as arrows between columns, one column for each actor; the table of records has the same in words. */
import type { ShownRecord } from '../actors/server/visualizer/protocol.ts';
import { el } from './dom.ts';
import { type Arrow, sequenceOf } from './sequence.ts';
import type { Store } from './store.ts';

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
