/**
 * The duration of a start: the phases of the supervisor in order, and when the goals were reached. Pure.
 *
 * Shares refer to the time until the last phase of the start. The phases of the two halves of `startKubelet` overlap,
 * so shares may add up to more than 100 %.
 */
import type { PhaseView } from '../../actors/server/visualizer/protocol.ts';
import { duration } from '../../visualizer/words.ts';
import { table } from '../printable.ts';
import type { Story } from './story.ts';

interface TimedPhase {
  readonly name: string;
  readonly steps?: string;
  readonly waitsFor?: string;
  /** Milliseconds after the start of the incarnation. */
  readonly enteredMs: number;
  /** Absent for a phase in which the start ends. */
  readonly tookMs?: number;
  readonly share?: number;
  /** The phase had not ended at the end of the journal. */
  readonly open: boolean;
}

export interface StartupTime {
  readonly incarnation: string;
  readonly totalMs: number;
  readonly complete: boolean;
  /** Why the start failed. */
  readonly failure?: string;
  /** The phase that failed; it may have begun and ended within one turn. */
  readonly failedIn?: string;
  readonly healthzMs?: number;
  readonly synchronizingMs?: number;
  readonly firstPod?: { readonly name: string; readonly runningMs: number };
  readonly phases: readonly TimedPhase[];
}

const PREFIX = 'alive.startup.';
const SYNCHRONIZING = 'startKubelet.kubeletRun.synchronizing';
/** The two states in which the start ends; the node stays in them until it stops. */
const GOALS: readonly string[] = [SYNCHRONIZING, 'startKubelet.serving.blocked'];

export const phaseName = ({ name }: Pick<PhaseView, 'name'>): string =>
  name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name;

/** The visits of the phases of the start, without states of subsystems. */
export const startupPhases = ({ phases }: Story): readonly PhaseView[] =>
  phases.filter(({ name }) => name.startsWith(PREFIX));

/** The phase in which a start with run-once ends, when the last pod has its result. */
const RUN_ONCE = 'runOnce.pods';

const isGoal = (visit: PhaseView): boolean => GOALS.includes(phaseName(visit));

export function startupTime(story: Story): StartupTime {
  const visits = startupPhases(story);
  const since = (t: number): number => t - story.started;
  const synchronizing = visits.find((visit) => phaseName(visit) === SYNCHRONIZING);
  const [pod] = [...story.pods.values()]
    .flatMap(({ namespace, name, running }) => (running ? [{ name: `${namespace}/${name}`, running }] : []))
    .sort((a, b) => a.running.n - b.running.n);
  const reached = visits.filter(isGoal);
  const once = visits.find((visit) => phaseName(visit) === RUN_ONCE && visit.left !== undefined);
  const goals = [...reached.map(({ entered }) => entered), once?.left ?? 0, story.healthz?.t ?? story.started];
  const complete = (reached.length === GOALS.length || once !== undefined) && !failedBy(story, Math.max(...goals));
  const end = complete ? Math.max(...goals) : lastEnd(visits, story);
  const totalMs = since(end);
  return {
    incarnation: story.header.incarnation,
    totalMs,
    complete,
    ...(story.failure ? { failure: story.failure.message } : {}),
    ...(story.failure?.phase ? { failedIn: story.failure.phase } : {}),
    ...(story.healthz ? { healthzMs: since(story.healthz.t) } : {}),
    ...(synchronizing ? { synchronizingMs: since(synchronizing.entered) } : {}),
    ...(pod ? { firstPod: { name: pod.name, runningMs: since(pod.running.t) } } : {}),
    phases: visits.map((visit) => timed(visit, story, totalMs)),
  };
}

/**
 * A failure within this time after the goals still belongs to the start, because servers listen only after the phases.
 */
const FAILS_WITHIN_MS = 10_000;

const failedBy = ({ failure }: Story, goal: number): boolean =>
  failure !== undefined && failure.t <= goal + FAILS_WITHIN_MS;

/** The maximum time after a start in which its first pod is expected. */
const FIRST_POD_MAX_MS = 600_000;

/** Whether the report on the start is final: no later record changes it. */
export function isStartReported(story: Story): boolean {
  const { complete, totalMs, firstPod } = startupTime(story);
  const reportsMs = firstPod === undefined ? FIRST_POD_MAX_MS : FAILS_WITHIN_MS;
  return complete && story.ended - story.started > totalMs + reportsMs;
}

/** A failed start ends with its last phase; a start that still waits ends with the journal. */
const lastEnd = (visits: readonly PhaseView[], { started, ended }: Story): number =>
  Math.max(started, ...visits.map(({ left }) => left ?? ended));

function timed(visit: PhaseView, { started, ended }: Story, totalMs: number): TimedPhase {
  const { steps, waitsFor } = visit;
  const took = isGoal(visit) ? undefined : (visit.left ?? ended) - visit.entered;
  return {
    name: phaseName(visit),
    ...(steps === undefined ? {} : { steps }),
    ...(waitsFor === undefined ? {} : { waitsFor }),
    enteredMs: visit.entered - started,
    ...(took === undefined ? {} : { tookMs: took, share: totalMs > 0 ? took / totalMs : 0 }),
    open: visit.left === undefined && took !== undefined,
  };
}

export function describeStartupTime(time: StartupTime): string {
  const { healthzMs, synchronizingMs, firstPod } = time;
  const goals = [
    ...(healthzMs === undefined ? [] : [`${duration(healthzMs)} to healthz`]),
    ...(synchronizingMs === undefined ? [] : [`${duration(synchronizingMs)} to synchronizing`]),
    ...(firstPod ? [`${duration(firstPod.runningMs)} to the first pod running (${firstPod.name})`] : []),
  ];
  const head = time.complete ? 'Startup finished' : time.failure === undefined ? 'Startup goes on' : 'Startup failed';
  const reason =
    time.complete || time.failure === undefined ? '' : `${time.failedIn ? `${time.failedIn}: ` : ''}${time.failure}\n`;
  const rows = time.phases.map(({ name, enteredMs, tookMs, share, open, waitsFor }) => [
    `+${duration(enteredMs)}`,
    tookMs === undefined ? 'reached' : duration(tookMs),
    share === undefined ? '' : `${(share * 100).toFixed(1)}%`,
    name,
    `${waitsFor ?? ''}${open ? ' (still)' : ''}`,
  ]);
  const columns = [
    { title: 'AT', align: 'right' },
    { title: 'TOOK', align: 'right' },
    { title: 'SHARE', align: 'right' },
    { title: 'PHASE' },
    { title: 'WAITED FOR' },
  ] as const;
  const first = `${head} after ${duration(time.totalMs)}${goals.length > 0 ? `: ${goals.join(', ')}` : ''}`;
  return `${first}\n${reason}\n${table(columns, rows)}`;
}
