/**
 * The rows of the table of records that are elements. A row whose record is not visible any more is reused for another
 * record: creating rows takes longer than rewriting them.
 */
import type { ShownRecord } from '../actors/server/visualizer/protocol.ts';
import { el, setAttributes, setText } from './dom.ts';
import type { Store } from './store.ts';
import { decoded, kindText, sinceStart, whoOf } from './words.ts';

const COLUMNS = ['number', 'time', 'kind', 'who', 'what', 'cause'] as const;

export class RecordRows {
  private readonly store: Store;
  private readonly rows = new Map<ShownRecord, HTMLElement>();
  /** Rows for the next records, the first one at the end. */
  private spares: HTMLElement[] = [];
  private naming = '';

  constructor(store: Store) {
    this.store = store;
  }

  /** `naming`: identifies the names that the texts of rows contain besides their records. */
  begin(naming: string): void {
    if (naming !== this.naming) this.rows.clear();
    this.naming = naming;
  }

  /** Only these records are in sight. */
  spare(visible: ReadonlySet<ShownRecord | undefined>): void {
    this.spares = [];
    for (const [shown, element] of this.rows) {
      if (visible.has(shown)) continue;
      this.rows.delete(shown);
      this.spares.push(element);
    }
    this.spares.reverse();
  }

  of(shown: ShownRecord): HTMLElement {
    const row = this.rows.get(shown) ?? this.written(this.spares.pop() ?? newRow(), shown);
    this.rows.set(shown, row);
    return row;
  }

  private written(row: HTMLElement, shown: ShownRecord): HTMLElement {
    const { n, t, cause, record } = shown;
    const texts: Readonly<Record<(typeof COLUMNS)[number], string>> = {
      number: String(n),
      time: sinceStart(t, this.store.started),
      kind: kindText(record),
      who: this.store.within(this.store.named(decoded(whoOf(shown)))),
      what: this.store.text(shown),
      cause: cause === undefined ? '' : String(cause),
    };
    COLUMNS.forEach((column, at) => {
      const cell = row.children[at] as Element;
      const style = column === 'kind' ? `kind ${record.k} ${record.k === 'log' ? record.level : ''}` : column;
      setAttributes(cell, { class: style, title: column === 'time' ? new Date(t).toISOString() : texts[column] });
      setText(cell, texts[column]);
    });
    row.id = `record-${n}`;
    row.dataset['n'] = String(n);
    return row;
  }
}

const newRow = (): HTMLElement => el('div', { role: 'row' }, ...COLUMNS.map(() => el('span', { role: 'gridcell' })));
