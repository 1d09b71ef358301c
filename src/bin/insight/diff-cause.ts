/**
 * Why one start took longer than another, or failed while the other did not. Pure.
 *
 * The time until both reached the same goal is divided along the chain of causes of each start: the waits of one actor
 * are summed by actor and operation. If both chains are complete, the differences add up to the total difference.
 */
import { duration } from '../../visualizer/words.ts';
import { table } from '../printable.ts';
import { type CriticalChain, causesOf, criticalChain, type Goal } from './critical-chain.ts';
import { actorName, type Moment, type Operation, type PodStory, type Story } from './story.ts';

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

export interface TimeToGoal {
  readonly goal: string;
  readonly aMs: number;
  readonly bMs: number;
  /** The parts whose time differs, the greatest difference first. */
  readonly parts: readonly Part[];
}

export interface FailedStart {
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
export function timeToGoal(a: Story, b: Story): TimeToGoal | undefined {
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
export function failedStart(story: Story, other: Story): FailedStart | undefined {
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

export function describeTimeToGoal(time: TimeToGoal | undefined): string {
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

export const signed = (ms: number): string => (ms === 0 ? '' : `${ms < 0 ? '-' : '+'}${duration(Math.abs(ms))}`);

export function describeFailedStart(side: 'a' | 'b', failed: FailedStart | undefined): string {
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
