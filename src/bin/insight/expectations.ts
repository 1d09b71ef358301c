/**
 * Reads a file of expectations, and decides whether the start in a journal meets them.  Invariants: each expectation
 * has one finding, in the order of the keys of the file; a file with an unknown key or value is rejected, so that a
 * typing error never passes as an expectation that holds.
 */
import type { Json, JsonObject } from '../../kernel/json.ts';
import { duration } from '../../visualizer/words.ts';
import { millisecondsOf } from './log.ts';
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

/** `schema/expectations.schema.json` describes the file for editors. */
export interface Expectations {
  readonly finished?: boolean;
  /** Phases that the start enters, in this order; others may lie between them. */
  readonly phases?: readonly string[];
  /** By `healthz`, `synchronizing`, `firstPod` (Running) or `pod/NAME` (Ready): milliseconds after the start. */
  readonly within?: Readonly<Record<string, number>>;
  /** By phase, the maximum time in it over all visits, in milliseconds. */
  readonly longest?: Readonly<Record<string, number>>;
  readonly never?: readonly Forbidden[];
}

/** `actor`: an address, or `pod/NAME/CONTAINER`. */
interface ForbiddenState {
  readonly actor: string;
  readonly state: string;
}

/** A state of an actor, or an operation that fails. A name that ends in `*` matches all names with that prefix. */
type Forbidden = ForbiddenState | { readonly operation: string };

/** The file is malformed; the message is for its author. */
export class ExpectationsError extends Error {}

const KEYS = ['finished', 'phases', 'within', 'longest', 'never'];

export function expectationsIn(document: Json): Expectations {
  const file = objectIn(document, 'the file');
  refuseOthers(file, KEYS, 'the file');
  const { finished, phases, within, longest, never } = file;
  if (finished !== undefined && typeof finished !== 'boolean') throw new ExpectationsError('finished is true or false');
  return {
    ...(finished === undefined ? {} : { finished }),
    ...(phases === undefined ? {} : { phases: textsIn(phases, 'phases') }),
    ...(within === undefined ? {} : { within: timesIn(within, 'within', isGoal) }),
    ...(longest === undefined ? {} : { longest: timesIn(longest, 'longest', () => true) }),
    ...(never === undefined ? {} : { never: listIn(never, 'never').map(forbiddenIn) }),
  };
}

const GOALS = ['healthz', 'synchronizing', 'firstPod'];
const isGoal = (name: string): boolean => GOALS.includes(name) || /^pod\/./.test(name);

function objectIn(value: Json | undefined, what: string): JsonObject {
  if (typeof value === 'object' && value !== null && !isList(value)) return value;
  throw new ExpectationsError(`${what} is an object with names and values`);
}

const isList = (value: Json): value is readonly Json[] => Array.isArray(value);

function listIn(value: Json, what: string): readonly Json[] {
  if (isList(value)) return value;
  throw new ExpectationsError(`${what} is a list`);
}

function textsIn(value: Json, what: string): string[] {
  return listIn(value, what).map((item) => {
    if (typeof item === 'string') return item;
    throw new ExpectationsError(`${what} is a list of texts, and ${JSON.stringify(item)} is none`);
  });
}

function refuseOthers(value: object, known: readonly string[], what: string): void {
  const other = Object.keys(value).find((key) => !known.includes(key));
  if (other !== undefined)
    throw new ExpectationsError(`${what} has ${JSON.stringify(other)}; known are ${known.join(', ')}`);
}

function timesIn(value: Json, what: string, isKnown: (name: string) => boolean): Record<string, number> {
  const entries = Object.entries(objectIn(value, what)).map(([name, text]) => {
    if (!isKnown(name))
      throw new ExpectationsError(`${what} has ${JSON.stringify(name)}; known are ${GOALS.join(', ')}, pod/NAME`);
    const ms = typeof text === 'string' ? millisecondsOf(text) : undefined;
    if (ms === undefined)
      throw new ExpectationsError(`${what}.${name} is a time like 500ms or 1.5s, not ${JSON.stringify(text)}`);
    return [name, ms] as const;
  });
  return Object.fromEntries(entries);
}

function forbiddenIn(value: Json): Forbidden {
  const item = objectIn(value, 'each of never');
  refuseOthers(item, ['actor', 'state', 'operation'], 'an item of never');
  const { actor, state, operation } = item;
  const isState = typeof actor === 'string' && typeof state === 'string' && operation === undefined;
  if (isState) return { actor, state };
  if (typeof operation === 'string' && actor === undefined && state === undefined) return { operation };
  throw new ExpectationsError('each of never has actor and state, or operation');
}
