/**
 * Two starts side by side: the phases of both on one scale, aligned by state, the causes of the difference in time, and
 * the first decision that differs.
 */

import { messageOf } from '../kernel/thrown.ts';
import { byId, el } from './dom.ts';
import { refocus, walk } from './start.ts';
import type { Store } from './store.ts';
import { duration } from './words.ts';
import type { Content } from './worker/node/fs.ts';
import type { Comparison } from './worker/reports.ts';
import type { Other } from './worker/requests.ts';

/** Parts of the difference that are listed. */
const PARTS_MAX = 12;

export class ComparePane {
  readonly body = byId('compare-body', HTMLElement);
  private readonly others = byId('compare-with', HTMLSelectElement);
  private readonly store: Store;
  private askedFor = '';
  private offered = '';

  /** `choose` lets the user open files of another journal. */
  constructor(store: Store, choose: (take: (files: ReadonlyMap<string, Content>) => void) => void) {
    this.store = store;
    this.others.addEventListener('input', () => void this.compare(this.others.value || null));
    this.body.addEventListener('keydown', (event) => walk(this.body, event));
    byId('compare-open', HTMLButtonElement).addEventListener('click', () =>
      choose((files) => void this.compare(files)),
    );
  }

  /** Compares with the last good start before this one, once the view is open and the journal is read. */
  update(): void {
    const { facts, view } = this.store;
    if (view !== 'compare') return;
    const starts = facts.incarnations.filter((incarnation) => incarnation !== facts.incarnation);
    const offered = starts.join();
    if (offered !== this.offered) {
      this.offered = offered;
      const options = starts.toReversed().map((name) => el('option', { value: name }, `start ${name}`));
      this.others.replaceChildren(el('option', { value: '' }, 'the last good start'), ...options);
    }
    this.others.hidden = starts.length === 0;
    if (!facts.runs) return this.showNote('A node that runs is compared by its journal: press j to open it.');
    if (facts.isReading) return this.showNote('The journal is still being read.');
    if (starts.length === 0 && this.askedFor === '') {
      return this.showNote('This journal has one start. Open another journal to compare with.');
    }
    if (this.askedFor !== facts.incarnation && starts.length > 0) void this.compare(this.others.value || null);
  }

  private showNote(text: string): void {
    this.body.replaceChildren(el('p', { class: 'empty' }, text));
  }

  private async compare(other: Other): Promise<void> {
    this.askedFor = this.store.facts.incarnation;
    try {
      this.show(await this.store.ask('compare', { with: other }));
    } catch (error) {
      this.body.replaceChildren(el('p', { class: 'error' }, messageOf(error)));
    }
  }

  private show(comparison: Comparison): void {
    const { a, b, aTotalMs, bTotalMs } = comparison;
    const change = bTotalMs - aTotalMs;
    const words =
      change === 0 ? 'as long as' : `${duration(Math.abs(change))} ${change > 0 ? 'longer' : 'shorter'} than`;
    const head = `Start ${b} took ${duration(bTotalMs)}, ${words} start ${a} (${duration(aTotalMs)})${this.goalText(comparison)}.`;
    this.body.replaceChildren(
      el('p', { class: 'verdict' }, head),
      ...this.failures(comparison),
      ...this.attributed(comparison),
      ...this.decision(comparison),
      el('h3', {}, 'Phases of both'),
      el('p', { class: 'legend' }, ...[a, b].map((name, at) => legend(at === 0 ? 'a' : 'b', `start ${name}`))),
      this.phases(comparison),
    );
    refocus(this.body, -1);
  }

  /** How much later, or sooner, a goal after the start was reached. */
  private goalText({ time, aTotalMs, bTotalMs }: Comparison): string {
    const change = time ? time.bMs - time.aMs : 0;
    if (!time || change === bTotalMs - aTotalMs) return '';
    return `; ${this.store.named(time.goal)} ${duration(Math.abs(change))} ${change > 0 ? 'later' : 'sooner'}`;
  }

  private failures({ aFailure, bFailure, a, b }: Comparison): Node[] {
    return [[a, aFailure, false] as const, [b, bFailure, true] as const].flatMap(([name, failure, isShown]) => {
      if (!failure) return [];
      const { message, phase, n, operation } = failure;
      const before = operation ? ` Before it ${operation.name} of ${operation.actor} failed: ${operation.error}.` : '';
      const text = `Start ${name} failed${phase === undefined ? '' : ` in ${phase}`}: ${message}.${before}`;
      return [isShown ? this.toRecord(n, 'error', text) : el('p', { class: 'error' }, text)];
    });
  }

  private toRecord(n: number, style: string, ...content: readonly (Node | string)[]): HTMLElement {
    const button = el('button', { type: 'button', class: `row ${style}`, title: `Record ${n}` }, ...content);
    button.addEventListener('click', () => {
      this.store.chooseRecord(n);
      this.store.show('records');
    });
    return button;
  }

  /** The causes of the difference until the same goal, the greatest part first. */
  private attributed({ time, a, b }: Comparison): Node[] {
    if (!time) return [el('p', { class: 'dim' }, 'There is no goal that both came to.')];
    const whole = time.bMs - time.aMs;
    const named = time.parts.slice(0, PARTS_MAX);
    const sign = (ms: number): string => `${ms < 0 ? '−' : '+'}${duration(Math.abs(ms))}`;
    const rows = named.map(({ actor, what, aMs, bMs, changeMs, n }) => {
      const cells = [
        el('span', { class: `change ${changeMs > 0 ? 'slower' : 'faster'}` }, sign(changeMs)),
        el(
          'span',
          { class: 'dim' },
          `${aMs === undefined ? '–' : duration(aMs)} → ${bMs === undefined ? '–' : duration(bMs)}`,
        ),
        el('span', { class: 'what' }, `${this.store.named(actor)}: ${this.store.named(what)}`),
      ];
      return el('li', {}, n === undefined ? el('span', { class: 'row' }, ...cells) : this.toRecord(n, '', ...cells));
    });
    const explained = named.reduce((sum, { changeMs }) => sum + changeMs, 0);
    const percent = Math.round((explained / whole) * 100);
    const parts = named.length === 1 ? 'This part makes' : `These ${named.length} parts make`;
    const share = whole === 0 ? '' : ` ${parts} ${percent}% of the difference.`;
    const goal = this.store.named(time.goal);
    const head = `Until ${goal}: ${duration(time.aMs)} in ${a}, ${duration(time.bMs)} in ${b}.${share}`;
    return [el('h3', {}, 'Where the difference came from'), el('p', {}, head), el('ol', { class: 'parts' }, ...rows)];
  }

  private decision({ firstDifference, same, a, b }: Comparison): Node[] {
    const head = el('h3', {}, 'First decision that differs');
    if (!firstDifference) {
      const text = same ? 'Every actor decided the same.' : 'As far as both go, every actor decided the same.';
      return [head, el('p', {}, text)];
    }
    const { actor, bn, aAtMs, bAtMs } = firstDifference;
    const [inA, inB] = [`${a} (+${duration(aAtMs)})`, `${b} (+${duration(bAtMs)})`];
    const text = `${this.store.named(actor)} goes to ${firstDifference.a} in ${inA}, to ${firstDifference.b} in ${inB}.`;
    return [head, this.toRecord(bn, '', text)];
  }

  private phases({ phases, sides }: Comparison): HTMLElement {
    const longest = Math.max(1, ...phases.map(({ aMs = 0, bMs = 0 }) => Math.max(aMs, bMs)));
    const rows = phases.map(({ name, aMs, bMs }) => {
      const visit = sides.b.phases.find((phase) => phase.name.endsWith(name));
      const cells = [
        el('span', { class: 'name' }, name),
        el('span', { class: 'pair' }, bar('a', aMs, longest), bar('b', bMs, longest)),
        el(
          'span',
          { class: 'took' },
          `${aMs === undefined ? '–' : duration(aMs)} → ${bMs === undefined ? '–' : duration(bMs)}`,
        ),
      ];
      return el(
        'li',
        {},
        visit ? this.toRecord(visit.enteredBy, '', ...cells) : el('span', { class: 'row' }, ...cells),
      );
    });
    return el('ol', { class: 'compared' }, ...rows);
  }
}

const legend = (side: 'a' | 'b', text: string): HTMLElement =>
  el('span', {}, el('span', { class: `swatch ${side}`, 'aria-hidden': 'true' }), text);

function bar(side: 'a' | 'b', ms: number | undefined, longest: number): HTMLElement {
  const element = el('span', { class: `bar ${side}` });
  element.style.width = `${((ms ?? 0) / longest) * 100}%`;
  return el('span', { class: 'lane' }, element);
}
