/**
 * The start as bars over time: each phase of the root, when it began, how long it took, what it waited for.
 *
 * Bars never show a time that the daemon did not measure: an open phase ends at the daemon's clock. A phase that is open
 * and waits for nothing is the goal of the start, and does not stretch the picture.
 */
import type { PhaseView } from '../actors/server/visualizer-protocol.ts';
import { byId, el, setText } from './dom.ts';
import type { Store } from './store.ts';
import { duration } from './words.ts';

/** Part of the width that is left for an open phase that is the goal. */
const GOAL_SHARE = 0.06;

export class PhaseBars {
  readonly element = byId('phases', HTMLElement);
  private readonly list = byId('phase-list', HTMLElement);
  private readonly summary = byId('summary', HTMLElement);
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  toggle(): void {
    this.element.classList.toggle('folded');
  }

  update(): void {
    const { phases } = this.store.phases;
    const focused = [...this.list.querySelectorAll('button')].findIndex((button) => button === document.activeElement);
    const span = this.span(phases);
    this.list.replaceChildren(...phases.map((phase) => this.row(phase, span)));
    if (focused !== -1) this.list.querySelectorAll('button')[focused]?.focus();
    this.summarize(phases);
  }

  /** Called each second: only what is still open has to grow. */
  tick(): void {
    if (this.store.phases.phases.some((phase) => phase.left === undefined)) this.update();
  }

  private summarize(phases: readonly PhaseView[]): void {
    const open = phases.filter((phase) => phase.left === undefined);
    const waiting = open.findLast((phase) => phase.waitsFor !== undefined);
    const last = open.at(-1);
    if (waiting) setText(this.summary, `In ${waiting.name}, waits for ${waiting.waitsFor}`);
    else if (last) setText(this.summary, `In ${last.name}, ${duration(last.entered - this.store.started)} after start`);
    else setText(this.summary, phases.length > 0 ? 'Ended' : 'No phase yet');
  }

  private span(phases: readonly PhaseView[]): number {
    const ends = phases.map((phase) => phase.left ?? (phase.waitsFor === undefined ? phase.entered : this.store.now));
    return Math.max(1, ...ends.map((end) => end - this.store.started));
  }

  private row(phase: PhaseView, span: number): HTMLElement {
    const { started, now } = this.store;
    const goal = phase.left === undefined && phase.waitsFor === undefined;
    const took = Math.max(0, (phase.left ?? now) - phase.entered);
    const share = (1 - GOAL_SHARE) / span;
    const from = (phase.entered - started) * share;
    const bar = el('span', { class: `bar ${goal ? 'goal' : phase.left === undefined ? 'open' : ''}` });
    bar.style.left = `${from * 100}%`;
    bar.style.width = `${(goal ? 1 - from : took * share) * 100}%`;
    const verb = phase.left === undefined ? 'waits' : 'waited';
    const waits = phase.waitsFor === undefined ? '' : `${verb} for ${phase.waitsFor}`;
    const time = goal ? `since +${duration(phase.entered - started)}` : duration(took);
    const name = el('span', { class: 'name' }, el('span', { class: 'step' }, phase.step ?? ''), phase.name);
    name.style.setProperty('--depth', String(phase.depth));
    const label = `${phase.name}, began ${duration(phase.entered - started)} after start, ${time}, ${waits}`;
    const button = el(
      'button',
      { type: 'button', 'aria-label': label, title: waits },
      name,
      el('span', { class: 'lane' }, bar),
      el('span', { class: 'took' }, time),
      el('span', { class: phase.left === undefined ? 'waits' : 'waits dim' }, waits),
    );
    button.addEventListener('click', () => {
      this.store.chooseActor(this.store.root);
      this.store.chooseRecord(phase.enteredBy);
    });
    return el('li', {}, button);
  }
}
