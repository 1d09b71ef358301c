/** The chosen record: why it happened, step by step back to its first cause, and all that it says. */
import type { ShownRecord } from '../actors/server/visualizer/protocol.ts';
import { causesOf } from './causes.ts';
import { byId, el, setText } from './dom.ts';
import { type Arrow, sequenceOf } from './sequence.ts';
import type { Store } from './store.ts';
import { duration, kindText, whoOf } from './words.ts';

/** Causes that are listed; a timer that runs for days has as many as there are records. */
const STEPS_MAX = 20;

export class RecordPane {
  readonly element = byId('record', HTMLElement);
  private readonly title = byId('record-title', HTMLElement);
  private readonly body = byId('record-body', HTMLElement);
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  update(): void {
    const { record } = this.store;
    this.element.hidden = record === undefined;
    if (record === undefined) return;
    const { chain, forgotten, effects } = causesOf(this.store.records, record);
    const chosen = chain.at(-1);
    setText(this.title, `Record ${record}`);
    if (!chosen) {
      this.body.replaceChildren(el('p', { class: 'dim' }, 'The daemon no longer holds it; the journal does.'));
      return;
    }
    const steps = chain.toReversed().slice(0, STEPS_MAX);
    const rest = chain.length > STEPS_MAX ? `${chain.length - STEPS_MAX} causes before` : '';
    const lost = forgotten === undefined ? rest : `record ${forgotten}, no longer held here`;
    this.body.replaceChildren(
      el('h3', {}, 'Because of'),
      el('ol', { class: 'chain' }, ...steps.map((shown, index) => this.step(shown, steps[index + 1]))),
      el('p', { class: 'dim' }, rest || lost),
      el('p', { class: 'dim' }, effects.size === 1 ? '1 record followed from it' : `${effects.size} records followed`),
      el('h3', {}, `Who told whom in turn ${chosen.turn}`),
      this.sequence(chosen),
      el('h3', {}, 'Says'),
      el('pre', { class: 'json' }, JSON.stringify(chosen.record, null, 2)),
    );
  }

  /** The turn of a record as arrows between columns; the table of events says the same in words. */
  private sequence({ turn }: ShownRecord): HTMLElement {
    const { columns, arrows } = sequenceOf(this.store.records.filter((shown) => shown.turn === turn));
    const heads = columns.map((column) => el('span', { title: column }, this.store.nameOf(column)));
    const rows = arrows.map((arrow) => this.arrow(arrow, columns));
    const sheet = el('div', { class: 'sequence' }, el('div', { class: 'columns' }, ...heads), ...rows);
    sheet.style.setProperty('--columns', String(columns.length));
    return el('div', { class: 'sequence-sheet' }, sheet);
  }

  private arrow({ n, from, to, text }: Arrow, columns: readonly string[]): HTMLElement {
    const [a, b] = [columns.indexOf(from), columns.indexOf(to)];
    const direction = a === b ? 'self' : a < b ? 'right' : 'left';
    const label = `${this.store.nameOf(from)} to ${this.store.nameOf(to)}: ${this.store.named(text)}`;
    const chosen = n === this.store.record ? 'true' : undefined;
    const attributes = { type: 'button', class: direction, 'aria-label': label, title: label, 'aria-current': chosen };
    const button = el('button', attributes, el('span', {}, this.store.named(text)));
    button.style.setProperty('--first', String(Math.min(a, b)));
    button.style.setProperty('--span', String(Math.abs(a - b)));
    button.addEventListener('click', () => this.store.chooseRecord(n));
    return el('div', { class: 'arrow' }, button);
  }

  private step(shown: ShownRecord, cause: ShownRecord | undefined): HTMLElement {
    const { record, n, t } = shown;
    const later = cause && t > cause.t ? ` ${duration(t - cause.t)} later` : '';
    const button = el(
      'button',
      { type: 'button', 'aria-current': n === this.store.record ? 'true' : undefined },
      el('span', { class: `kind ${record.k}` }, kindText(record)),
      `${this.store.nameOf(whoOf(shown))}: ${this.store.text(shown)}`,
      el('span', { class: 'dim' }, later),
    );
    button.addEventListener('click', () => this.store.chooseRecord(n));
    return el('li', {}, button);
  }
}
