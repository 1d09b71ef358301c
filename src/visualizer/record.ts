/**
 * The inspector: the chosen record with its causes back to the first one, its consequences, the changes of its turn to
 * the context of its actor, and its full content.
 */
import type { ShownRecord } from '../actors/server/visualizer/protocol.ts';
import { byId, el, setText } from './dom.ts';
import { sequenceElement } from './sequence-view.ts';
import { refocus } from './start.ts';
import type { Store } from './store.ts';
import { duration, kindText, whoOf } from './words.ts';
import type { ContextChange, Inspection } from './worker/requests.ts';

export class RecordPane {
  readonly element = byId('record', HTMLElement);
  readonly body = byId('record-body', HTMLElement);
  private readonly title = byId('record-title', HTMLElement);
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  update(): void {
    const { record, inspection } = this.store;
    this.element.hidden = record === undefined;
    if (record === undefined) return;
    setText(this.title, `Record ${record}`);
    if (inspection?.shown.n !== record) {
      const text = this.store.moment === undefined ? 'This record is not kept here; the journal has it.' : '';
      this.body.replaceChildren(el('p', { class: 'dim' }, text));
      return;
    }
    const focused = [...this.body.querySelectorAll('button')].findIndex((button) => button === document.activeElement);
    this.body.replaceChildren(
      ...this.causes(inspection),
      ...this.consequences(inspection),
      ...this.changes(inspection),
      ...this.messages(inspection),
      el('h3', {}, 'Says'),
      el('pre', { class: 'json' }, JSON.stringify(inspection.shown.record, null, 2)),
    );
    refocus(this.body, focused);
  }

  private causes({ chain, more, forgotten }: Inspection): Node[] {
    const steps = chain.toReversed();
    const lost = forgotten === undefined ? '' : `Before it record ${forgotten}, which is not kept here.`;
    const note = more > 0 ? `${more} causes before these.` : lost;
    return [
      el('h3', {}, 'Because of'),
      el('ol', { class: 'chain' }, ...steps.map((shown, at) => this.step(shown, steps[at + 1]))),
      ...(note === '' ? [] : [el('p', { class: 'dim' }, note)]),
    ];
  }

  private consequences({ followed, shown }: Inspection): Node[] {
    if (followed.length === 0) return [el('p', { class: 'dim' }, 'Nothing followed from it.')];
    const count = followed.length === 1 ? '1 record followed' : `${followed.length} records followed`;
    const list = el('ol', { class: 'chain' });
    const details = el('details', { class: 'consequences' }, el('summary', {}, count), list);
    const fill = async (): Promise<void> => {
      const consequences = await this.store.ask('consequences', { n: shown.n });
      list.replaceChildren(...consequences.map((each) => this.step(each, undefined)));
    };
    details.addEventListener('toggle', () => void fill(), { once: true });
    return [details];
  }

  private changes({ changes, shown }: Inspection): Node[] {
    const name = this.store.nameOf(whoOf(shown));
    if (!changes) return [];
    if (changes.length === 0) return [el('p', { class: 'dim' }, `The turn changed nothing that ${name} remembers.`)];
    return [
      el('h3', {}, `Changed in the context of ${name}`),
      el('dl', { class: 'changes' }, ...changes.flatMap((change) => this.change(change))),
    ];
  }

  private change({ path, before, after }: ContextChange): Node[] {
    return [
      el('dt', {}, path),
      el(
        'dd',
        {},
        ...(before === undefined ? [] : [el('del', {}, this.store.named(before))]),
        ...(before === undefined || after === undefined ? [] : [' → ']),
        ...(after === undefined ? [] : [el('ins', {}, this.store.named(after))]),
      ),
    ];
  }

  private messages({ shown, messages, messagesInTurn: all }: Inspection): Node[] {
    const part = messages.length < all ? `, ${messages.length} of ${all}` : '';
    return [el('h3', {}, `Messages in turn ${shown.turn}${part}`), sequenceElement(this.store, messages)];
  }

  private step(shown: ShownRecord, cause: ShownRecord | undefined): HTMLElement {
    const { record, n, t } = shown;
    const later = cause && t > cause.t ? ` ${duration(t - cause.t)} later` : '';
    const button = el(
      'button',
      { type: 'button', 'aria-current': n === this.store.record ? 'true' : undefined },
      el('span', { class: `kind ${record.k}` }, kindText(record)),
      el('span', {}, `${this.store.nameOf(whoOf(shown))}: ${this.store.text(shown)}`),
      el('span', { class: 'dim' }, later),
    );
    button.addEventListener('click', () => this.store.chooseRecord(n));
    return el('li', {}, button);
  }
}
