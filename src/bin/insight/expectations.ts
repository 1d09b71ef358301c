/**
 * Whether the start in a journal meets the expectations of a file.
 *
 * Invariant: each expectation has one finding, in the order of the keys of the file.
 */
import { duration } from '../../visualizer/words.ts';
import type { Expectations, Forbidden, ForbiddenState } from './expectations-file.ts';
import { phaseName, startupPhases, startupTime } from './startup-time.ts';
import { actorName, type Story } from './story.ts';

/** `missing`: it did not happen. `late`: it took too long. `violated`: a forbidden state or failure occurred. */
export type Verdict = 'holds' | 'missing' | 'late' | 'violated';

export interface Finding {
  readonly kind: 'finished' | 'phase' | 'within' | 'longest' | 'never';
  readonly expected: string;
  readonly actual: string;
  readonly verdict: Verdict;
  /** The record that decided the finding, if there is one. */
  readonly n?: number;
}

/** The findings about one log. */
export interface ExpectedLog {
  readonly log: string;
  readonly code: number;
  readonly incarnation?: string;
  readonly findings?: readonly Finding[];
  /** The reason why there are no findings. */
  readonly error?: string;
}

export function findingsOf(expectations: Expectations, story: Story): Finding[] {
  const { finished, phases = [], within = {}, longest = {}, never = [] } = expectations;
  return [
    ...(finished === undefined ? [] : [whetherFinished(finished, story)]),
    ...inOrder(phases, story),
    ...Object.entries(within).map(([goal, ms]) => whetherWithin(goal, ms, story)),
    ...Object.entries(longest).map(([phase, ms]) => whetherShort(phase, ms, story)),
    ...never.map((forbidden) => whetherNever(forbidden, story)),
  ];
}

function whetherFinished(wanted: boolean, story: Story): Finding {
  const { complete, totalMs, failure, failedIn } = startupTime(story);
  const failed = failure === undefined ? 'it goes on' : `it failed${failedIn ? ` in ${failedIn}` : ''}: ${failure}`;
  const actual = complete ? `finished after ${duration(totalMs)}` : `${failed} (after ${duration(totalMs)})`;
  return {
    kind: 'finished',
    expected: wanted ? 'finished' : 'not finished',
    actual,
    verdict: complete === wanted ? 'holds' : 'missing',
  };
}

function inOrder(wanted: readonly string[], story: Story): Finding[] {
  const visits = startupPhases(story);
  let from = 0;
  return wanted.map((phase, at) => {
    const expected = at === 0 ? phase : `${phase} after ${wanted[at - 1]}`;
    const found = visits.findIndex((visit, index) => index >= from && phaseName(visit) === phase);
    const visit = visits[found];
    if (visit) {
      from = found + 1;
      const actual = `entered after ${duration(visit.entered - story.started)}`;
      return { kind: 'phase', expected, actual, verdict: 'holds' };
    }
    const wasEarlier = visits.some((each) => phaseName(each) === phase);
    return { kind: 'phase', expected, actual: wasEarlier ? 'entered before it' : 'not entered', verdict: 'missing' };
  });
}

function whetherWithin(goal: string, ms: number, story: Story): Finding {
  const expected = `${goal} within ${duration(ms)}`;
  const reached = reachedAt(goal, story);
  if (reached === undefined) return { kind: 'within', expected, actual: 'not reached', verdict: 'missing' };
  const { n } = reached;
  const took = reached.t - story.started;
  const actual = `after ${duration(took)}`;
  return {
    kind: 'within',
    expected,
    actual,
    verdict: took <= ms ? 'holds' : 'late',
    ...(n === undefined ? {} : { n }),
  };
}

function reachedAt(goal: string, story: Story): { readonly t: number; readonly n?: number } | undefined {
  if (goal === 'healthz') return story.healthz;
  const pods = [...story.pods.values()];
  if (goal === 'firstPod') return pods.flatMap(({ running }) => running ?? []).sort((a, b) => a.n - b.n)[0];
  if (goal.startsWith('pod/')) return pods.find(({ name }) => isNamed(name, goal.slice('pod/'.length)))?.ready;
  const { synchronizingMs } = startupTime(story);
  return synchronizingMs === undefined ? undefined : { t: story.started + synchronizingMs };
}

/** A static pod has the name of its manifest, or that name followed by the name of the node. */
const isNamed = (name: string, wanted: string): boolean => name === wanted || name.startsWith(`${wanted}-`);

function whetherShort(phase: string, ms: number, story: Story): Finding {
  const expected = `${phase} at most ${duration(ms)}`;
  const visits = startupPhases(story).filter((visit) => phaseName(visit) === phase);
  if (visits.length === 0) return { kind: 'longest', expected, actual: 'not entered', verdict: 'missing' };
  const took = visits.reduce((sum, { entered, left }) => sum + ((left ?? story.ended) - entered), 0);
  return { kind: 'longest', expected, actual: `took ${duration(took)}`, verdict: took <= ms ? 'holds' : 'late' };
}

const matches = (text: string, pattern: string): boolean =>
  pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : text === pattern;

function isActor(address: string, pattern: string, story: Story): boolean {
  const name = actorName(address, story);
  const [kind, pod = '', ...below] = name.split('/');
  const podName = pattern.split('/')[1] ?? '';
  const short = kind === 'pod' && isNamed(pod, podName) ? [kind, podName, ...below].join('/') : name;
  return [address, name, short].some((each) => matches(each, pattern));
}

function whetherNever(forbidden: Forbidden, story: Story): Finding {
  return 'operation' in forbidden ? whetherNeverFailed(forbidden.operation, story) : whetherNeverIn(forbidden, story);
}

function whetherNeverIn({ actor, state }: ForbiddenState, story: Story): Finding {
  const expected = `never ${actor} in ${state}`;
  const found = [...story.moments.values()].find(
    ({ k, actor: address, what, status }) =>
      k === 'state' &&
      isActor(address, actor, story) &&
      [status ?? '', ...what.split(' | ')].some((text) => isState(text, state)),
  );
  if (!found) return { kind: 'never', expected, actual: 'never', verdict: 'holds' };
  const actual = `${actorName(found.actor, story)} was in ${found.what} after ${duration(found.t - story.started)}`;
  return { kind: 'never', expected, actual, verdict: 'violated', n: found.n };
}

/** `failed` matches any state whose path ends with it. */
const isState = (path: string, wanted: string): boolean => matches(path, wanted) || path.endsWith(`.${wanted}`);

function whetherNeverFailed(operation: string, story: Story): Finding {
  const expected = `never a failed ${operation}`;
  const found = [...story.operations.values()].find(({ name, end }) => end === 'failed' && matches(name, operation));
  if (!found) return { kind: 'never', expected, actual: 'never', verdict: 'holds' };
  const actual = `${found.name} failed: ${found.error ?? ''}`;
  return { kind: 'never', expected, actual, verdict: 'violated', n: found.n };
}
