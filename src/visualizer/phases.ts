/**
 * The start as bars over time: each phase of the root, when it began, how long it took, what it waited for.
 *
 * Bars never show a time that the daemon did not measure: an open phase ends at the daemon's clock. One that has been
 * open for long would make all others a line: its bar is cut and fades, and its number says how long it is.
 */
import type { FailureView, PhaseView } from '../actors/server/visualizer/protocol.ts';
import { byId, el, setText } from './dom.ts';
import type { Store } from './store.ts';
import { duration, stepRanges } from './words.ts';

/** How much longer than all that is over an open phase may make the picture. */
const OPEN_SHARE = 0.3;

const isFailed = ({ name }: PhaseView, { phase }: FailureView): boolean =>
  phase !== undefined && (name === phase || name.endsWith(`.${phase}`));

const shortName = (phase: PhaseView): string => phase.name.split('.').slice(-2).join('.');

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
    const phases = this.withFailed();
    const focused = [...this.list.querySelectorAll('button')].findIndex((button) => button === document.activeElement);
    const span = this.span(phases);
    const more = phases.length > this.list.children.length;
    this.list.replaceChildren(...phases.map((phase) => this.row(phase, span)));
    if (more) this.list.scrollTop = this.list.scrollHeight;
    if (focused !== -1) this.list.querySelectorAll('button')[focused]?.focus();
    this.markMoment(span);
    this.summarize(phases);
  }

  /** A phase that failed in the turn in which it began was never seen as a state: the failure itself tells of it. */
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

  private summarize(phases: readonly PhaseView[]): void {
    const { failure } = this.store.phases;
    this.summary.classList.toggle('error', failure !== undefined);
    if (failure) {
      setText(this.summary, `Starting failed${failure.phase ? ` in ${failure.phase}` : ''}: ${failure.message}`);
      return;
    }
    const open = phases.filter((phase) => phase.left === undefined);
    const waiting = open.findLast((phase) => phase.waitsFor !== undefined);
    const last = open.at(-1);
    if (waiting) setText(this.summary, `In ${shortName(waiting)}, waits for ${waiting.waitsFor}`);
    else if (last)
      setText(this.summary, `In ${shortName(last)}, ${duration(last.entered - this.store.started)} after start`);
    else setText(this.summary, phases.length > 0 ? 'Ended' : 'No phase yet');
  }

  /** Milliseconds from left to right. */
  private span(phases: readonly PhaseView[]): number {
    const { latest: now, started } = this.store;
    const past = Math.max(0, ...phases.map((phase) => (phase.left ?? phase.entered) - started));
    if (phases.every((phase) => phase.left !== undefined)) return Math.max(1, past);
    return Math.max(1, past === 0 ? now - started : Math.min(now - started, past * (1 + OPEN_SHARE)));
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
    const name = el('span', { class: 'name' }, shortName(phase));
    name.style.setProperty('--depth', String(phase.depth));
    const label = `${phase.name}, began ${duration(phase.entered - started)} after start, ${time}, ${waits}`;
    const button = el(
      'button',
      { type: 'button', 'aria-label': label, title: label },
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
