/**
 * Compares two starts: the duration of each phase, phases that only one start has, why one was slower or failed, and
 * the first decision that differs. Pure.
 *
 * Decisions are compared separately for each region of each actor's chart, because the order between regions depends on
 * the world. There is no difference if one journal only ends earlier. Times, numbers and payloads are not compared;
 * `replay` does that for one journal.
 */
import { duration } from '../../visualizer/words.ts';
import { table } from '../printable.ts';
import {
  describeFailedStart,
  describeTimeToGoal,
  type FailedStart,
  failedStart,
  signed,
  type TimeToGoal,
  timeToGoal,
} from './diff-cause.ts';
import { phaseName, startupPhases, startupTime } from './startup-time.ts';
import { actorName, type Moment, type Story } from './story.ts';

interface ComparedPhase {
  readonly name: string;
  /** Absent if this start did not have the phase. */
  readonly aMs?: number;
  readonly bMs?: number;
  readonly onlyIn?: 'a' | 'b';
}

interface DifferingDecision {
  readonly actor: string;
  /** The state that the region entered. */
  readonly a: string;
  readonly b: string;
  /** Numbers of the records. */
  readonly an: number;
  readonly bn: number;
  readonly aAtMs: number;
  readonly bAtMs: number;
}

export interface Comparison {
  readonly a: string;
  readonly b: string;
  readonly aTotalMs: number;
  readonly bTotalMs: number;
  readonly phases: readonly ComparedPhase[];
  readonly firstDifference: DifferingDecision | null;
  /** The causes of the difference in time to a common goal. */
  readonly time?: TimeToGoal;
  /** How the start failed; absent if it did not. */
  readonly aFailure?: FailedStart;
  readonly bFailure?: FailedStart;
  /** The record at which the comparison ends, if one of the journals continues after it. */
  readonly endsBefore?: number;
  /** True if both have the same phases and no decision differs. */
  readonly same: boolean;
}

export function compare(a: Story, b: Story): Comparison {
  const [inA, inB] = [timesOf(a), timesOf(b)];
  const phases = aligned([...inA.keys()], [...inB.keys()]).map((name) =>
    comparedPhase(name, inA.get(name), inB.get(name)),
  );
  const firstDifference = firstDifferenceOf(a, b);
  const time = timeToGoal(a, b);
  const [aFailure, bFailure] = [failedStart(a, b), failedStart(b, a)];
  return {
    a: a.header.incarnation,
    b: b.header.incarnation,
    aTotalMs: startupTime(a).totalMs,
    bTotalMs: startupTime(b).totalMs,
    phases,
    firstDifference,
    ...(time ? { time } : {}),
    ...endOf(a, b),
    ...(aFailure ? { aFailure } : {}),
    ...(bFailure ? { bFailure } : {}),
    same: firstDifference === null && phases.every(({ onlyIn }) => onlyIn === undefined),
  };
}

function endOf(a: Story, b: Story): Pick<Comparison, 'endsBefore'> {
  const ends = [a.endsBefore, b.endsBefore].filter((n) => n !== undefined);
  return ends.length === 0 ? {} : { endsBefore: Math.min(...ends) };
}

function comparedPhase(name: string, aMs: number | undefined, bMs: number | undefined): ComparedPhase {
  const onlyIn = bMs === undefined ? 'a' : 'b';
  return {
    name,
    ...(aMs === undefined ? {} : { aMs }),
    ...(bMs === undefined ? {} : { bMs }),
    ...(aMs === undefined || bMs === undefined ? { onlyIn } : {}),
  };
}

/** Milliseconds in each phase, over all visits. The phases in which a start ends have no duration. */
function timesOf(story: Story): Map<string, number> {
  const times = new Map<string, number>();
  const goals = new Set(startupTime(story).phases.flatMap(({ name, tookMs }) => (tookMs === undefined ? [name] : [])));
  for (const visit of startupPhases(story)) {
    const name = phaseName(visit);
    const took = goals.has(name) ? 0 : (visit.left ?? story.ended) - visit.entered;
    times.set(name, (times.get(name) ?? 0) + took);
  }
  return times;
}

/** The phases in the order of both starts: a phase that only `b` has follows its predecessor in `b`. */
function aligned(a: readonly string[], b: readonly string[]): string[] {
  const names = [...a];
  b.forEach((name, at) => {
    if (!names.includes(name)) names.splice(at === 0 ? 0 : names.indexOf(b[at - 1] ?? '') + 1, 0, name);
  });
  return names;
}

/** One region of an actor's chart entered another state. */
interface Step {
  readonly moment: Moment;
  readonly state: string;
}

function firstDifferenceOf(a: Story, b: Story): DifferingDecision | null {
  const [inA, inB] = [stepsOf(a), stepsOf(b)];
  const differences = [...inA].flatMap(([region, ours]) => {
    const theirs = inB.get(region) ?? [];
    const at = ours.findIndex(({ state }, i) => theirs[i] !== undefined && state !== theirs[i].state);
    const [one, other] = [ours[at], theirs[at]];
    return one && other ? [differing(a, b, one, other)] : [];
  });
  return differences.sort((one, other) => one.an - other.an)[0] ?? null;
}

/** The states of each region of each actor, in order. The order between regions is not significant. */
function stepsOf({ moments }: Story): Map<string, Step[]> {
  const before = new Map<string, ReadonlySet<string>>();
  const steps = new Map<string, Step[]>();
  for (const moment of moments.values()) {
    if (moment.k !== 'state') continue;
    const states = new Set(moment.what.split(' | '));
    for (const state of states) {
      if (before.get(moment.actor)?.has(state)) continue;
      const region = `${moment.actor} ${state.slice(0, Math.max(0, state.lastIndexOf('.')))}`;
      const known = steps.get(region);
      if (known) known.push({ moment, state });
      else steps.set(region, [{ moment, state }]);
    }
    before.set(moment.actor, states);
  }
  return steps;
}

const differing = (a: Story, b: Story, ours: Step, theirs: Step): DifferingDecision => ({
  actor: actorName(ours.moment.actor, a),
  a: ours.state,
  b: theirs.state,
  an: ours.moment.n,
  bn: theirs.moment.n,
  aAtMs: ours.moment.t - a.started,
  bAtMs: theirs.moment.t - b.started,
});

export function describeComparison(report: Comparison): string {
  const { a, b, aTotalMs, bTotalMs, phases } = report;
  const right = (title: string) => ({ title, align: 'right' }) as const;
  const took = (ms: number | undefined): string => (ms === undefined ? '-' : duration(ms));
  const rows = phases.map(({ name, aMs, bMs, onlyIn }) => [
    took(aMs),
    took(bMs),
    signed((bMs ?? 0) - (aMs ?? 0)),
    name,
    onlyIn === undefined ? '' : `only in ${onlyIn}`,
  ]);
  const total = [duration(aTotalMs), duration(bTotalMs), signed(bTotalMs - aTotalMs), 'total', ''];
  const head = `a: incarnation ${a}, b: incarnation ${b}\n\n`;
  const columns = [right('A'), right('B'), right('CHANGE'), { title: 'PHASE' }, { title: '' }];
  const failures = describeFailedStart('a', report.aFailure) + describeFailedStart('b', report.bFailure);
  const why = failures + describeTimeToGoal(report.time);
  return head + table(columns, [...rows, total]) + why + describeDifference(report);
}

function describeDifference({ firstDifference, same, endsBefore }: Comparison): string {
  if (firstDifference === null && endsBefore !== undefined)
    return `\nUp to record ${endsBefore} every actor decided the same; --whole compares what follows, too.\n`;
  if (same) return '\nEvery actor decided the same.\n';
  if (firstDifference === null) return '\nAs far as both go, every actor decided the same.\n';
  const { actor, a, b, an, bn, aAtMs, bAtMs } = firstDifference;
  return [
    `\nFirst decision that differs: ${actor}\n`,
    `  a  goes to ${a} (record ${an}, +${duration(aAtMs)})\n`,
    `  b  goes to ${b} (record ${bn}, +${duration(bAtMs)})\n`,
  ].join('');
}
