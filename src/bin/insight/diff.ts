/**
 * Compares two starts: the duration of each phase, phases that only one start has, why one was slower or failed, and
 * the first decision that differs. Pure.
 *
 * Decisions are compared separately for each region of each actor's chart, because the order between regions depends on
 * the world. There is no difference if one journal only ends earlier. Times, numbers and payloads are not compared;
 * `replay` does that for one journal.
 *
 * To explain why one start took longer, the time until both reached the same goal is divided along the chain of causes
 * of each start: the waits of one actor are summed by actor and operation. If both chains are complete, the differences
 * add up to the total difference.
 */
import { duration } from '../../visualizer/words.ts';
import { table } from '../printable.ts';
import { type CriticalChain, causesOf, criticalChain, type Goal } from './critical-chain.ts';
import { phaseName, startupPhases, startupTime } from './startup-time.ts';
import { actorName, type Moment, type Operation, type PodStory, type Story } from './story.ts';

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

/** The report shows this many parts; the JSON has all. */
const PARTS_SHOWN = 8;

interface Part {
  readonly actor: string;
  /** The awaited input: the answer of an operation, a timer, or an item of a stream. */
  readonly what: string;
  /** Absent if this start did not wait for it. */
  readonly aMs?: number;
  readonly bMs?: number;
  readonly changeMs: number;
  /** The record of `b` that ended the longest such wait. */
  readonly n?: number;
}

interface TimeToGoal {
  readonly goal: string;
  readonly aMs: number;
  readonly bMs: number;
  /** The parts whose time differs, the greatest difference first. */
  readonly parts: readonly Part[];
}

interface FailedStart {
  readonly phase?: string;
  readonly message: string;
  readonly n: number;
  readonly atMs: number;
  /** The operation that failed before the start failed. */
  readonly operation?: { readonly name: string; readonly actor: string; readonly n: number; readonly error: string };
  /** The end of the same operation in the other start. */
  readonly there?: { readonly end: Operation['end'] | 'open'; readonly n: number; readonly tookMs?: number };
}

/** Returns `undefined` if the starts reached no common goal. */
function timeToGoal(a: Story, b: Story): TimeToGoal | undefined {
  const goals = commonGoal(a, b);
  if (!goals) return undefined;
  const [chainA, chainB] = [criticalChain(a, goals.a), criticalChain(b, goals.b)];
  const [inA, inB] = [partsOf(chainA), partsOf(chainB)];
  const parts = [...new Map([...inB, ...inA])].map(([key, { actor, what }]): Part => {
    const [aMs, bMs] = [inA.get(key)?.ms, inB.get(key)?.ms];
    const times = { ...(aMs === undefined ? {} : { aMs }), ...(bMs === undefined ? {} : { bMs }) };
    const n = inB.get(key)?.n;
    return { actor, what, ...times, changeMs: (bMs ?? 0) - (aMs ?? 0), ...(n === undefined ? {} : { n }) };
  });
  const differing = parts.filter(({ changeMs }) => changeMs !== 0);
  return {
    goal: goals.name,
    aMs: chainA.totalMs,
    bMs: chainB.totalMs,
    parts: differing.toSorted((one, other) => Math.abs(other.changeMs) - Math.abs(one.changeMs)),
  };
}

interface Waited extends Pick<Part, 'actor' | 'what'> {
  readonly ms: number;
  readonly longest: number;
  readonly n: number;
}

function partsOf({ links }: CriticalChain): Map<string, Waited> {
  const parts = new Map<string, Waited>();
  for (const { actor, what, tookMs, n } of links) {
    const key = `${actor} ${what}`;
    const known = parts.get(key) ?? { ms: 0, longest: -1, n };
    const longest = tookMs > known.longest ? { longest: tookMs, n } : { longest: known.longest, n: known.n };
    parts.set(key, { actor, what, ms: known.ms + tookMs, ...longest });
  }
  return parts;
}

/**
 * The goal that both starts reached: of the pods that ran or became ready in both, the last one in `a`; without such a
 * pod, the first answer of healthz.
 */
function commonGoal(a: Story, b: Story): { readonly name: string; readonly a: Goal; readonly b: Goal } | undefined {
  for (const [reached, word] of [
    ['ready', 'Ready'],
    ['running', 'Running'],
  ] as const) {
    const pods = [...a.pods.values()].flatMap((pod) => {
      const same = [...b.pods.values()].find((other) => nameOf(other) === nameOf(pod));
      return pod[reached] && same?.[reached] ? [{ pod, mine: pod[reached], theirs: same[reached] }] : [];
    });
    const last = pods.toSorted((one, other) => other.mine.t - one.mine.t)[0];
    if (!last) continue;
    const name = `pod ${nameOf(last.pod)} is ${word}`;
    return { name, a: { name, n: last.mine.n }, b: { name, n: last.theirs.n } };
  }
  const name = 'healthz answers';
  return a.healthz && b.healthz && { name, a: { name, n: a.healthz.n }, b: { name, n: b.healthz.n } };
}

const nameOf = ({ namespace, name }: PodStory): string => `${namespace}/${name}`;

/** How a start failed, and the result of the failed operation in the other one. */
function failedStart(story: Story, other: Story): FailedStart | undefined {
  const { failure } = story;
  if (!failure) return undefined;
  const failed = failedOperation(story, failure.n);
  const facts = {
    ...(failure.phase === undefined ? {} : { phase: failure.phase }),
    message: failure.message,
    n: failure.n,
    atMs: (story.moments.get(failure.n)?.t ?? story.ended) - story.started,
  };
  if (!failed) return facts;
  const actor = askerOf(failed, story);
  const operation = { name: failed.name, actor, n: failed.n, error: failed.error ?? '' };
  const same = [...other.operations.values()].find(
    (each) => each.name === failed.name && askerOf(each, other) === actor,
  );
  if (!same) return { ...facts, operation };
  const took = same.ended === undefined ? {} : { tookMs: same.ended - same.began };
  return { ...facts, operation, there: { end: same.end ?? 'open', n: same.n, ...took } };
}

/** The failed operation among the causes of the failure; otherwise the last operation that failed before it. */
function failedOperation(story: Story, n: number): Operation | undefined {
  const failedBy = ({ k, request }: Moment): Operation | undefined => {
    const operation = k === 'result' && request !== undefined ? story.operations.get(request) : undefined;
    return operation?.end === 'failed' ? operation : undefined;
  };
  const among = (moments: readonly Moment[]): Operation | undefined =>
    moments.toReversed().flatMap((moment) => failedBy(moment) ?? [])[0];
  return among(causesOf(story, n)) ?? among([...story.moments.values()].filter((moment) => moment.n < n));
}

const askerOf = ({ at }: Operation, story: Story): string => actorName(at.slice(0, at.lastIndexOf('/')), story);

function describeTimeToGoal(time: TimeToGoal | undefined): string {
  if (time === undefined || time.parts.length === 0) return '';
  const { goal, aMs, bMs, parts } = time;
  const took = (ms: number | undefined): string => (ms === undefined ? '-' : duration(ms));
  const rows = parts
    .slice(0, PARTS_SHOWN)
    .map(({ actor, what, changeMs, ...of }) => [took(of.aMs), took(of.bMs), signed(changeMs), actor, what]);
  const right = (title: string) => ({ title, align: 'right' }) as const;
  const columns = [right('A'), right('B'), right('CHANGE'), { title: 'ACTOR' }, { title: 'WAITED FOR' }];
  const more = parts.length > PARTS_SHOWN ? `… ${parts.length - PARTS_SHOWN} smaller\n` : '';
  const head = `\n${goal} after ${duration(aMs)} in a, ${duration(bMs)} in b: where ${signed(bMs - aMs)} came from\n`;
  return `${head}${table(columns, rows)}${more}`;
}

const signed = (ms: number): string => (ms === 0 ? '' : `${ms < 0 ? '-' : '+'}${duration(Math.abs(ms))}`);

function describeFailedStart(side: 'a' | 'b', failed: FailedStart | undefined): string {
  if (!failed) return '';
  const { phase, message, n, atMs, operation, there } = failed;
  const other = side === 'a' ? 'b' : 'a';
  const took = there?.tookMs === undefined ? '' : ` after ${duration(there.tookMs)}`;
  const ends = { done: 'was answered', failed: 'failed, too,', cancelled: 'was cancelled', open: 'is not answered' };
  return [
    `\n${side} failed at +${duration(atMs)}${phase === undefined ? '' : ` in ${phase}`}: ${message} (record ${n})\n`,
    ...(operation ? [`  before it ${operation.name} of ${operation.actor} failed: ${operation.error}\n`] : []),
    ...(there ? [`  in ${other} it ${ends[there.end ?? 'open']}${took} (record ${there.n})\n`] : []),
    ...(operation && !there ? [`  ${other} does not ask for it\n`] : []),
  ].join('');
}
