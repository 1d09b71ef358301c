/**
 * The coverage of states and transitions of the charts by a set of journals.
 *
 * Invariant: the replay by this build's machines counts, so transient states count too, and a journal counts up to its
 * first difference.
 */
import {
  type AnyStateNode,
  type AnyTransitionDefinition,
  type Chart,
  chartsOf,
  type Step,
  transitionsOf,
} from '../../kernel/steps.ts';
import type { kubeletMachine } from '../../machines/startup/kubelet.ts';
import { eventText } from '../../visualizer/words.ts';
import { table } from '../printable.ts';

/** A line of a chart: a state, or a transition below its state. */
export interface CoveredLine {
  readonly text: string;
  readonly kind: 'state' | 'transition';
  /** The number of steps in this state, or of uses of the transition. */
  readonly times: number;
}

export interface CoveredChart {
  readonly machine: string;
  readonly lines: readonly CoveredLine[];
}

export interface Share {
  readonly reached: number;
  readonly known: number;
}

export class Coverage {
  readonly #charts: readonly Chart[];
  readonly #times = new Map<AnyStateNode | AnyTransitionDefinition, number>();

  constructor(root: typeof kubeletMachine) {
    this.#charts = chartsOf(root);
  }

  readonly take = ({ states, transitions }: Step): void => {
    for (const each of [...states, ...transitions]) this.#times.set(each, (this.#times.get(each) ?? 0) + 1);
  };

  charts(): CoveredChart[] {
    return this.#charts.map(({ id, states }) => ({
      machine: id,
      lines: states.flatMap((node) => this.#linesOf(node)),
    }));
  }

  /** A state that is entered and left in one step is visible only in its transition. */
  #linesOf(node: AnyStateNode): CoveredLine[] {
    const name = node.path.join('.') || node.machine.id;
    const transitions = transitionsOf(node).map((transition): CoveredLine => {
      const times = this.#times.get(transition) ?? 0;
      return { text: `${name}: ${describeTransition(transition)}`, kind: 'transition', times };
    });
    const exits = transitions.reduce((sum, { times }) => sum + times, 0);
    return [{ text: name, kind: 'state', times: this.#times.get(node) ?? exits }, ...transitions];
  }
}

function describeTransition(transition: AnyTransitionDefinition): string {
  const targets = (transition.target ?? []).map(({ path }) => path.join('.'));
  return `${describeEvent(transition)}${targets.length === 0 ? '' : ` → ${targets.join(', ')}`}`;
}

/** `EVENT [GUARD]` of a transition; `always` for a transition that needs no event. */
export function describeEvent({ eventType, guard }: AnyTransitionDefinition): string {
  const name = guardName(guard);
  return `${eventType === '' ? 'always' : eventText(eventType)}${name === '' ? '' : ` [${name}]`}`;
}

/** Inline guards have no name. */
function guardName(guard: unknown): string {
  if (guard === undefined) return '';
  const { type, name } = guard as { readonly type?: string; readonly name?: string };
  return type ?? (typeof guard === 'string' ? guard : name === '' || name === 'guard' ? 'guard' : (name ?? 'guard'));
}

export function shareOf(charts: readonly CoveredChart[], kind: CoveredLine['kind']): Share {
  const lines = charts.flatMap((chart) => chart.lines).filter((line) => line.kind === kind);
  return { reached: lines.filter(({ times }) => times > 0).length, known: lines.length };
}

const percentOf = ({ reached, known }: Share): number => (known === 0 ? 100 : (100 * reached) / known);

/** The share of states and transitions together, which `--at-least` compares. */
export function totalPercent(charts: readonly CoveredChart[]): number {
  const [states, transitions] = [shareOf(charts, 'state'), shareOf(charts, 'transition')];
  return percentOf({ reached: states.reached + transitions.reached, known: states.known + transitions.known });
}

export function describeCoverage(charts: readonly CoveredChart[], showsMissing: boolean): string {
  const rows = [...charts.map((chart) => rowOf(chart.machine, [chart])), rowOf('all', charts)];
  const columns = [{ title: 'MACHINE' }, { title: 'STATES', align: 'right' }, { title: 'TRANSITIONS', align: 'right' }];
  const missing = charts.flatMap(({ machine, lines }) =>
    lines.filter(({ times }) => times === 0).map(({ kind, text }) => `${machine}: ${kind} ${text}\n`),
  );
  return `${table(columns as never, rows)}${showsMissing ? `\nNot reached:\n${missing.join('')}` : ''}`;
}

const rowOf = (name: string, charts: readonly CoveredChart[]): string[] => [
  name,
  ...(['state', 'transition'] as const).map((kind) => describeShare(shareOf(charts, kind))),
];

const describeShare = (share: Share): string => `${share.reached} of ${share.known} (${percentOf(share).toFixed(0)}%)`;

/** LCOV; `fileOf` names the listing of a chart, which {@link listingOf} makes. States are its functions. */
export const lcovOf = (charts: readonly CoveredChart[], fileOf: (machine: string) => string): string =>
  charts.map((chart) => lcovRecord(chart, fileOf(chart.machine))).join('');

function lcovRecord({ lines }: CoveredChart, file: string): string {
  const numbered = lines.map((line, index) => ({ ...line, number: index + 1 }));
  const states = numbered.filter(({ kind }) => kind === 'state');
  const reached = (of: readonly CoveredLine[]): number => of.filter(({ times }) => times > 0).length;
  return [
    'TN:',
    `SF:${file}`,
    ...states.map(({ number, text }) => `FN:${number},${text}`),
    ...states.map(({ times, text }) => `FNDA:${times},${text}`),
    `FNF:${states.length}`,
    `FNH:${reached(states)}`,
    ...numbered.map(({ number, times }) => `DA:${number},${times}`),
    `LF:${numbered.length}`,
    `LH:${reached(numbered)}`,
    'end_of_record\n',
  ].join('\n');
}

/** The chart as text; its lines are those that {@link lcovOf} refers to. */
export const listingOf = ({ lines }: CoveredChart): string => lines.map(({ text }) => `${text}\n`).join('');
