/**
 * The start as bars over time: each visit of each phase of the root, with its beginning, its duration and the reason of
 * its wait. The critical chain is a row of its own above the bars, and a line through the phases that it passed.
 *
 * Bars never show a time that the daemon did not measure: an open phase ends at the daemon's clock. A phase that has
 * been open for long would reduce all others to a line: its bar is cut and fades, and a number gives its duration.
 */
import type { FailureView, PhaseView } from '../actors/server/visualizer/protocol.ts';
import { answerOf, connectedAnswer, isGoal, phaseLabel } from './answer.ts';
import { byId, el, setText } from './dom.ts';
import { Ruler } from './ruler.ts';
import type { StartReports } from './start.ts';
import { walk } from './start.ts';
import type { Store } from './store.ts';
import { duration, stepRanges } from './words.ts';

/** The share by which an open phase may extend the picture beyond the phases that are over. */
const OPEN_SHARE = 0.3;

const isFailed = ({ name }: PhaseView, { phase }: FailureView): boolean =>
  phase !== undefined && (name === phase || name.endsWith(`.${phase}`));

export class PhaseBars {
  readonly list = byId('phase-list', HTMLElement);
  private readonly summary = byId('summary', HTMLElement);
  private readonly summaryRecord = byId('summary-record', HTMLButtonElement);
  private readonly store: Store;
  private readonly reports: StartReports;
  private readonly ruler: Ruler;
  /** The record that the summary is about. */
  private shownRecord: number | undefined;
  /** What the bars were drawn from. */
  private drawn: readonly unknown[] = [];

  constructor(store: Store, reports: StartReports) {
    this.store = store;
    this.reports = reports;
    this.ruler = new Ruler(() => this.update());
    this.summaryRecord.addEventListener('click', () => this.showRecord());
    this.list.addEventListener('keydown', (event) => {
      if (!this.ruler.key(event)) walk(this.list, event);
    });
    byId('phases-key', HTMLElement).append(
      ...(['working', 'waiting', 'idle', 'open', 'failed', 'goal', 'chain'] as const).map((style) =>
        el('span', {}, el('span', { class: `swatch ${style}`, 'aria-hidden': 'true' }), LEGEND[style]),
      ),
    );
  }

  /** Goes to the record of the first line, and focuses its causes. */
  showRecord(): void {
    if (this.shownRecord === undefined) return;
    this.store.chooseRecord(this.shownRecord);
    this.store.show('records');
  }

  /** Redraws everything if something changed since the last time. */
  update(): void {
    this.summarize();
    if (this.store.view !== 'start') return;
    const phases = this.withFailed();
    const { latest, started } = this.store;
    const isOpen = phases.some(({ left }) => left === undefined);
    const drawn = [this.store.phases, this.reports.links, this.ruler.shown, started, isOpen ? latest : 0];
    const isSame = drawn.every((part, at) => part === this.drawn[at]);
    this.drawn = drawn;
    if (isSame) return this.markMoment();
    const focused = [...this.list.querySelectorAll('button')].findIndex((button) => button === document.activeElement);
    this.ruler.span = this.span(phases);
    this.list.replaceChildren(this.ruler.element(), ...this.chainRow(), ...phases.map((phase) => this.row(phase)));
    if (focused !== -1) this.list.querySelectorAll('button')[focused]?.focus();
    this.drawLinks();
    this.markMoment();
  }

  /** The phases and the failed one: a phase that failed in the turn in which it began was never a recorded state. */
  private withFailed(): readonly PhaseView[] {
    const { phases, failure } = this.store.phases;
    if (failure?.phase === undefined || phases.some((phase) => isFailed(phase, failure))) return phases;
    const t = Math.max(this.store.started, ...phases.map((phase) => phase.left ?? phase.entered));
    const { n, phase } = failure;
    return [...phases, { id: phase, name: phase, depth: 0, entered: t, enteredBy: n, left: t, leftBy: n }];
  }

  /** A line through all bars at the chosen moment. */
  markMoment(): void {
    const { moment, started } = this.store;
    const share = moment ? this.ruler.shareOf(moment.t - started) : -1;
    this.list.classList.toggle('has-moment', share >= 0 && share <= 1);
    this.list.style.setProperty('--moment', `${share * 100}%`);
  }

  /** Called each second: only open bars have to grow. */
  tick(): void {
    if (this.store.phases.phases.some((phase) => phase.left === undefined)) this.update();
  }

  /** The first line. */
  summarize(): void {
    const { facts, phases, latest } = this.store;
    const { kind, text, n } = connectedAnswer(facts, answerOf(phases, latest));
    this.summary.className = kind;
    setText(this.summary, text);
    this.summaryRecord.hidden = n === undefined;
    this.shownRecord = n;
  }

  /**
   * Milliseconds from left to right: until the start was over or failed, or until now. The later life of the node is
   * not part of its start, so its bars are cut.
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

  /** The chain to the goal as one row of waits: for an answer, a timer, or an event. */
  private chainRow(): HTMLElement[] {
    const { links } = this.reports;
    if (links.length === 0) return [];
    const lane = el('span', { class: 'lane' });
    for (const { atMs, tookMs, kind, actor, what } of links) {
      const style = kind === 'operation' ? 'waiting' : 'idle';
      const title = `${actor}: ${this.store.named(what)}, ${duration(tookMs)}`;
      const bar = this.ruler.bar(atMs - tookMs, tookMs, style);
      if (bar) lane.append(bar);
      bar?.setAttribute('title', title);
    }
    const cells = [el('span', { class: 'step' }), el('span', { class: 'name' }, 'critical chain'), lane];
    return [el('li', { class: 'chain-row', 'aria-hidden': 'true' }, el('span', { class: 'row' }, ...cells))];
  }

  /** The chain as a line through the innermost phases that it went through. */
  drawLinks(): void {
    for (const line of this.list.querySelectorAll('.through')) line.remove();
    if (this.reports.links.length > 0 && !this.list.querySelector('.chain-row')) return this.update();
    const rows = [...this.list.querySelectorAll<HTMLElement>('li[data-entered]')];
    for (const { atMs, tookMs } of this.reports.links) {
      const [from, middle] = [atMs - tookMs, atMs - tookMs / 2];
      const row = rows.findLast(
        ({ dataset }) => Number(dataset['entered']) <= middle && middle <= Number(dataset['left']),
      );
      const line = tookMs > 0 && this.ruler.bar(from, tookMs, 'through');
      if (row && line) row.querySelector('.lane')?.append(line);
    }
  }

  private row(phase: PhaseView): HTMLElement {
    const { latest: now, started } = this.store;
    const { failure } = this.store.phases;
    const isReached = isGoal(phase) || (phase.left === undefined && phase.waitsFor === undefined);
    const took = Math.max(0, (phase.left ?? now) - phase.entered);
    const failed = failure !== undefined && isFailed(phase, failure);
    const style = failed ? 'failed' : isReached ? 'goal' : styleOf(phase);
    const from = phase.entered - started;
    const bar = this.ruler.bar(from, took, style);
    const verb = phase.left === undefined ? 'waits' : 'waited';
    const waited = phase.waitsFor === undefined ? '' : `${verb} for ${phase.waitsFor}`;
    const waits = failed ? `failed: ${failure.message}` : waited;
    // The head of the column already says that this is a wait.
    const waitText = waits === waited && phase.left !== undefined ? (phase.waitsFor ?? '') : waits;
    const isGoalReached = isReached && isGoal(phase) && !failed;
    const text = isGoalReached ? `reached after ${duration(from)}` : waitText;
    const name = nameElement(phase);
    name.style.setProperty('--depth', String(phase.depth));
    const time = duration(took);
    const steps = stepRanges(phase.steps ?? '');
    const label = `${[phase.name, ...(steps === '' ? [] : [steps])].join(', ')}, began ${duration(from)} after start, ${time}, ${waits || text}`;
    const button = el(
      'button',
      { type: 'button', title: label },
      el('span', { class: 'step' }, steps),
      name,
      el('span', { class: 'lane' }, ...(bar ? [bar] : [])),
      el('span', { class: 'took' }, isGoalReached && phase.left === undefined ? '' : time),
      el(
        'span',
        { class: failed ? 'waits error' : isReached || phase.left !== undefined ? 'waits dim' : 'waits' },
        text,
      ),
    );
    button.addEventListener('click', () => {
      this.store.chooseActor(this.store.root);
      this.store.chooseRecord(phase.enteredBy);
    });
    const row = el('li', {}, button);
    row.dataset['entered'] = String(from);
    row.dataset['left'] = String(from + took);
    return row;
  }
}

function styleOf({ left, waitsFor }: PhaseView): 'open' | 'waiting' | 'working' {
  if (left === undefined) return 'open';
  return waitsFor === undefined ? 'working' : 'waiting';
}

/** In a narrow place the last step of the name is sufficient. */
function nameElement(phase: PhaseView): HTMLElement {
  const label = phaseLabel(phase);
  const last = label.lastIndexOf('.') + 1;
  const parts = [el('span', { class: 'prefix' }, label.slice(0, last)), el('span', {}, label.slice(last))];
  return el('span', { class: 'name' }, ...parts);
}

const LEGEND = {
  working: 'worked',
  waiting: 'waited',
  idle: 'waited for a timer or an event',
  open: 'waits now',
  failed: 'failed',
  goal: 'goal reached',
  chain: 'critical chain',
} as const;
