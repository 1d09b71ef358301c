/**
 * The start as bars over time: each phase of the root, when it began, how long it took, what it waited for.
 *
 * Bars never show a time that the daemon did not measure: an open phase ends at the daemon's clock. One that has been
 * open for long would make all others a line: its bar is cut and fades, and its number says how long it is.
 */
import type { FailureView, PhaseView } from '../actors/server/visualizer/protocol.ts';
import { answerOf, phaseLabel } from './answer.ts';
import { byId, el, setText } from './dom.ts';
import type { Store } from './store.ts';
import { duration, stepRanges } from './words.ts';

/** How much longer than all that is over an open phase may make the picture. */
const OPEN_SHARE = 0.3;

const isFailed = ({ name }: PhaseView, { phase }: FailureView): boolean =>
  phase !== undefined && (name === phase || name.endsWith(`.${phase}`));

export class PhaseBars {
  readonly element = byId('phases', HTMLElement);
  private readonly list = byId('phase-list', HTMLElement);
  private readonly summary = byId('summary', HTMLElement);
  private readonly summaryRecord = byId('summary-record', HTMLButtonElement);
  /** The record that the summary is about. */
  private shownRecord: number | undefined;
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
    this.summaryRecord.addEventListener('click', () => {
      if (this.shownRecord !== undefined) store.chooseRecord(this.shownRecord);
    });
  }

  toggle(): void {
    this.element.classList.toggle('folded');
  }

  update(): void {
    const phases = this.withFailed();
    const focused = [...this.list.querySelectorAll('button')].findIndex((button) => button === document.activeElement);
    const span = this.span(phases);
    const more = phases.length > this.list.children.length;
    this.list.replaceChildren(...phases.map((phase) => this.row(phase, span)));
    if (more) this.list.scrollTop = this.list.scrollHeight;
    if (focused !== -1) this.list.querySelectorAll('button')[focused]?.focus();
    this.markMoment(span);
    this.summarize();
  }

  /** A phase that failed in the turn in which it began was never seen as a state: only the failure shows it. */
  private withFailed(): readonly PhaseView[] {
    const { phases, failure } = this.store.phases;
    if (failure?.phase === undefined || phases.some((phase) => isFailed(phase, failure))) return phases;
    const t = Math.max(this.store.started, ...phases.map((phase) => phase.left ?? phase.entered));
    const { n, phase } = failure;
    return [...phases, { id: phase, name: phase, depth: 0, entered: t, enteredBy: n, left: t, leftBy: n }];
  }

  /** A line through all bars at the moment that is looked at. */
  private markMoment(span: number): void {
    const { moment, started } = this.store;
    this.list.classList.toggle('has-moment', moment !== undefined);
    const share = moment ? Math.min(1, Math.max(0, moment.t - started) / span) : 0;
    this.list.style.setProperty('--moment', `${share * 100}%`);
  }

  /** Called each second: only what is still open has to grow. */
  tick(): void {
    if (this.store.phases.phases.some((phase) => phase.left === undefined)) this.update();
  }

  private summarize(): void {
    const { kind, text, n } = answerOf(this.store.phases, this.store.latest);
    this.summary.className = kind;
    setText(this.summary, text);
    this.summaryRecord.hidden = n === undefined;
    this.shownRecord = n;
  }

  /**
   * Milliseconds from left to right: until starting was over, failed, or is now. What a node does after that, until it
   * ends, is not part of its start: its bars are cut.
   */
  private span(phases: readonly PhaseView[]): number {
    const { latest: now, started } = this.store;
    const ends = phases.map(({ entered, left, waitsFor }) => {
      if (waitsFor === undefined) return entered;
      return left ?? now;
    });
    const past = Math.max(1, ...ends.map((end) => end - started));
    const isOver = phases.every(({ left }) => left !== undefined);
    return isOver ? past : Math.max(past, Math.min(now - started, past * (1 + OPEN_SHARE)));
  }

  private row(phase: PhaseView, span: number): HTMLElement {
    const { latest: now, started } = this.store;
    const goal = phase.left === undefined && phase.waitsFor === undefined;
    const took = Math.max(0, (phase.left ?? now) - phase.entered);
    const from = (phase.entered - started) / span;
    const length = Math.min(took / span, 1 - from);
    const { failure } = this.store.phases;
    const failed = failure !== undefined && isFailed(phase, failure);
    const look = failed ? 'failed' : goal ? 'goal' : phase.left === undefined ? 'open' : '';
    const looks = [look, length < took / span ? 'cut' : ''];
    const bar = el('span', { class: `bar ${looks.join(' ')}` });
    bar.style.left = `${from * 100}%`;
    bar.style.width = `${length * 100}%`;
    const verb = phase.left === undefined ? 'waits' : 'waited';
    const waited = phase.waitsFor === undefined ? '' : `${verb} for ${phase.waitsFor}`;
    const waits = failed ? `failed: ${failure.message}` : waited;
    const time = duration(took);
    const name = el('span', { class: 'name' }, phaseLabel(phase));
    name.style.setProperty('--depth', String(phase.depth));
    const label = `${phase.name}, began ${duration(phase.entered - started)} after start, ${time}, ${waits}`;
    const button = el(
      'button',
      { type: 'button', title: label },
      el('span', { class: 'step' }, stepRanges(phase.steps ?? '')),
      name,
      el('span', { class: 'lane' }, bar),
      el('span', { class: 'took' }, time),
      el('span', { class: failed ? 'waits error' : phase.left === undefined ? 'waits' : 'waits dim' }, waits),
    );
    button.addEventListener('click', () => {
      this.store.chooseActor(this.store.root);
      this.store.chooseRecord(phase.enteredBy);
    });
    return el('li', {}, button);
  }
}
