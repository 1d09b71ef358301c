/**
 * The first line of the page about a start, in words: ready, in progress, the reason of a wait, or the reason of a
 * failure. Pure.
 *
 * Durations are those of the journal's clock. A node is ready when the start has reached both of its ends (the loop
 * that synchronizes pods, and the server) and its Ready condition would be true.
 */
import type {
  CallView,
  FailureView,
  PhasesView,
  PhaseView,
  TroubleView,
} from '../actors/server/visualizer/protocol.ts';
import { duration } from './words.ts';
import type { Facts } from './worker/requests.ts';

export interface Answer {
  readonly kind: 'none' | 'starting' | 'waiting' | 'ready' | 'ended' | 'failed';
  readonly text: string;
  /** The record to look at first. */
  readonly n?: number;
}

/** The root's states of the start; those of subsystems do not count. */
const STARTUP = 'alive.startup.';
const GOALS: readonly string[] = ['startKubelet.kubeletRun.synchronizing', 'startKubelet.serving.blocked'];

export const isGoal = ({ name }: PhaseView): boolean => GOALS.some((goal) => name.endsWith(goal));

/** The name of a phase without the prefix that all have. */
export const phaseLabel = ({ name }: Pick<PhaseView, 'name'>): string =>
  name.startsWith(STARTUP) ? name.slice(STARTUP.length) : name;

/** The phases of the start; all phases of a machine without such names. */
export function startPhases(phases: readonly PhaseView[]): readonly PhaseView[] {
  const own = phases.filter(({ name }) => name.startsWith(STARTUP));
  return own.length > 0 ? own : phases;
}

export function answerOf(view: PhasesView, now: number): Answer {
  const phases = startPhases(view.phases);
  if (view.failure) return failed(view.failure, phases, view.started);
  const open = phases.filter(({ left }) => left === undefined);
  const goals = GOALS.map((goal) => phases.find(({ name }) => name.endsWith(goal)));
  const isReady = goals.every((goal) => goal !== undefined);
  const last = open.at(-1);
  if (!last) return ended(view, phases, isReady);
  if (isReady) return view.notReady === undefined ? ready(view, phases) : notReady(view, phases, now);
  const waiting = open.findLast(({ waitsFor }) => waitsFor !== undefined);
  if (waiting) return waits(waiting, view, now);
  const text = `Starting for ${duration(now - view.started)}: in ${phaseLabel(last)}`;
  return { kind: 'starting', text, n: last.enteredBy };
}

/**
 * The answer for the present connection. Without an open journal or a running agent it says so, because the answer may
 * be old.
 */
export function connectedAnswer({ connection, note }: Pick<Facts, 'connection' | 'note'>, answer: Answer): Answer {
  if (connection === 'failed') return { kind: 'failed', text: `Nothing is open: ${note}` };
  if (connection !== 'lost') return answer;
  const was = answer.kind === 'none' ? '' : `; when it was last there: ${lowered(answer.text)}`;
  return { ...answer, kind: 'waiting', text: `The agent does not answer${was}` };
}

/** An error may be long, and its cause is at its end: all of it is shown. */
function failed({ message, phase, n }: FailureView, phases: readonly PhaseView[], started: number): Answer {
  const at = Math.max(started, ...phases.map(({ entered, left }) => left ?? entered));
  const text = `Failed after ${duration(at - started)}${phase === undefined ? '' : ` in ${phase}`}: ${message}`;
  return { kind: 'failed', text, n };
}

function waits(waiting: PhaseView, { started, troubles = [], pending = [] }: PhasesView, now: number): Answer {
  const head = `Not ready for ${duration(now - started)}: ${phaseLabel(waiting)} waits for ${waiting.waitsFor}`;
  const trouble = troubles.findLast(({ t }) => t >= waiting.entered);
  const call = pending.find(({ t }) => t >= waiting.entered);
  const reasons = trouble ? [troubleText(trouble, now)] : [];
  const open = call ? [`${called(call)} has not answered${now > call.t ? ` for ${duration(now - call.t)}` : ''}`] : [];
  const why = [...reasons, ...open].join('; ') || `for ${duration(now - waiting.entered)}`;
  return { kind: 'waiting', text: `${head} (${why})`, n: (trouble ?? call)?.n ?? waiting.enteredBy };
}

const called = ({ name, target }: CallView): string => (target === undefined ? name : `${name} of ${target}`);

function troubleText(trouble: TroubleView, now: number): string {
  const count = trouble.times === 1 ? 'failed' : `failed ${trouble.times} times, the last time`;
  return `${called(trouble)} ${count} ${duration(now - trouble.t)} ago: ${trouble.message}`;
}

function ready(view: PhasesView, phases: readonly PhaseView[]): Answer {
  const goals = phases.filter(isGoal);
  const end = Math.max(...goals.map(({ entered }) => entered));
  const took = end - view.started;
  const trouble = view.troubles?.findLast(({ times, isStream }) => times > 1 || isStream);
  const but = trouble ? `; but ${troubleText(trouble, view.now)}` : '';
  const text = `Ready after ${duration(took)}${waitedText(view, phases, end)}${but}`;
  return { kind: 'ready', text, n: trouble?.n ?? goals.at(-1)?.enteredBy ?? 0 };
}

/** The start is over, but the API server or the network of pods is missing. */
function notReady(view: PhasesView, phases: readonly PhaseView[], now: number): Answer {
  const goals = phases.filter(isGoal);
  const took = Math.max(...goals.map(({ entered }) => entered)) - view.started;
  const trouble = view.troubles?.at(-1);
  const why = trouble ? ` (${troubleText(trouble, now)})` : '';
  const head = `Not ready for ${duration(now - view.started)}: started in ${duration(took)}, but ${view.notReady}`;
  return { kind: 'waiting', text: `${head}${why}`, n: trouble?.n ?? goals.at(-1)?.enteredBy ?? 0 };
}

/** The longest wait of a start, and its share. */
function waitedText({ started }: PhasesView, phases: readonly PhaseView[], end: number): string {
  const waits = phases
    .filter(({ waitsFor, entered }) => waitsFor !== undefined && entered < end)
    .map(({ waitsFor, entered, left = end }) => ({ waitsFor, ms: Math.min(left, end) - entered }));
  const longest = waits.reduce((one, other) => (other.ms > one.ms ? other : one), { waitsFor: '', ms: 0 });
  if (longest.ms <= 0) return '';
  const share = Math.round((longest.ms / (end - started)) * 100);
  return `, ${share}% of it waiting for ${longest.waitsFor} (${duration(longest.ms)})`;
}

function ended(view: PhasesView, phases: readonly PhaseView[], isReady: boolean): Answer {
  if (phases.length === 0) return { kind: 'none', text: 'No phase yet' };
  const last = phases.reduce((one, other) => ((other.left ?? 0) > (one.left ?? 0) ? other : one));
  const at = duration((last.left ?? last.entered) - view.started);
  const was = isReady
    ? `it was ${lowered(ready(view, phases).text)}`
    : `it was never ready, and last in ${phaseLabel(last)}`;
  return { kind: 'ended', text: `Ended after ${at}: ${was}`, ...(last.leftBy === undefined ? {} : { n: last.leftBy }) };
}

const lowered = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);
