/**
 * The current state of the start, a pod or a container: since when it lasts, what it waits for, and the decisions that
 * led to it. Pure.
 *
 * "Current" means the end of the journal. Records do not contain the deadlines of timers; this build learns them by
 * replaying the journal, and omits them if it cannot.
 */
import type { PendingTimer } from '../../kernel/clock.ts';
import { AGENT_PHASE } from '../../kernel/records.ts';
import { duration, eventText, innermostPaths } from '../../visualizer/words.ts';
import { table } from '../printable.ts';
import type { ClaimWait, Failed, PreviousEnd } from './causes.ts';
import { claimWait, describeFailed, describePreviousEnd, failedOf, isOfStart } from './causes.ts';
import { causesOf, podNamed } from './critical-chain.ts';
import { phaseName, startupPhases } from './startup-time.ts';
import type { ActorState, Moment, Operation, PodStory, Story } from './story.ts';
import { actorName, describeGaps, ROOT } from './story.ts';

/** The report shows this many decisions; older ones are in the journal. */
const DECISIONS_MAX = 8;
/** The report shows this many regions of one change. */
const REGIONS_MAX = 4;
interface ActiveSince {
  readonly actor: string;
  readonly state: string;
  readonly sinceMs: number;
  readonly forMs: number;
  /** The actor started in this state. */
  readonly isFirst?: boolean;
  readonly waitsFor?: string;
}

interface Wait {
  readonly actor: string;
  readonly kind: 'operation' | 'timer';
  readonly what: string;
  /** The endpoint, URL, image or path of the operation. */
  readonly target?: string;
  readonly sinceMs?: number;
  readonly forMs?: number;
  /** The deadline of the timer, in milliseconds after the start. */
  readonly dueMs?: number;
}

interface Decision {
  readonly n: number;
  readonly atMs: number;
  readonly actor: string;
  readonly what: string;
  /** The messages that the actor received, and the input that began the turn. */
  readonly because: readonly string[];
}

export interface Why {
  readonly incarnation: string;
  readonly subject: string;
  /** The first record that the journal still has; earlier facts have this number. */
  readonly begins: number;
  /** The journal has earlier records, which were not read. */
  readonly isPart?: boolean;
  readonly gaps: Story['gaps'];
  /** How the previous start ended; only in the answer about the whole start. */
  readonly previous?: PreviousEnd;
  /** The answer in one sentence. */
  readonly summary: string;
  /**
   * When the agent ended, in milliseconds after its start; the report describes that moment. Absent if it did not end,
   * or was killed.
   */
  readonly endedMs?: number;
  /** The time since the last record of a process that was killed. */
  readonly silentMs?: number;
  readonly states: readonly ActiveSince[];
  /** What the pod waits for about its ResourceClaims. */
  readonly claims?: ClaimWait;
  readonly waits: readonly Wait[];
  readonly failed: readonly Failed[];
  /** False if this build cannot replay the journal in time; then timers are unknown. */
  readonly timersKnown: boolean;
  readonly decisions: readonly Decision[];
}

/** The timers at the end of the journal; `undefined` if unknown. */
export type KnownTimers = readonly PendingTimer[] | undefined;

/** The subjects that `why` accepts. */
export const SUBJECT = /^(startup|pod\/[^/]+(\/[^/]+)?|(image|actor)\/.+)$/;

/** `subject` matches {@link SUBJECT}. A string is the reason why there is no answer. */
export function why(story: Story, subject: string, timers: KnownTimers): Why | string {
  if (subject === 'startup') return whyStartup(story, timers);
  const [kind, name = '', container] = subject.split('/');
  if (kind === 'image' || kind === 'actor') return whyActor(story, subject, timers);
  const pod = podNamed(story, name);
  return typeof pod === 'string' ? pod : whyPod(story, pod, container, timers);
}

function whyStartup(story: Story, timers: KnownTimers): Why {
  const visits = startupPhases(story);
  const open = visits.filter(({ left }) => left === undefined);
  const last = Math.max(-1, ...visits.map(({ leftBy }) => leftBy ?? -1));
  const shown = open.length > 0 ? open : visits.filter(({ leftBy }) => leftBy === last);
  const states = shown.map((visit) => ({
    actor: ROOT,
    state: phaseName(visit),
    sinceMs: visit.entered - story.started,
    forMs: (visit.left ?? story.ended) - visit.entered,
    ...(visit.waitsFor === undefined ? {} : { waitsFor: visit.waitsFor }),
  }));
  return {
    ...common(story, timers, isOfStart, (actor) => actor === ROOT),
    subject: 'startup',
    summary: startupSummary(story, states),
    states,
  };
}

function startupSummary(story: Story, states: readonly ActiveSince[]): string {
  const names = states.map(({ state }) => state).join(' and ');
  if (story.failure) {
    const { phase = names, message } = story.failure;
    return phase === AGENT_PHASE
      ? `The agent ended by a fault of its own: ${message}`
      : `Starting failed in ${phase}: ${message}`;
  }
  if (story.actors.get(ROOT)?.status !== 'active') return `The node stopped; starting had come to ${names}`;
  const waiting = states.filter(({ waitsFor }) => waitsFor !== undefined);
  if (waiting.length === 0) return `Starting is complete: ${names}`;
  return waiting
    .map(({ state, waitsFor, forMs }) => `${state} has waited ${duration(forMs)} for ${waitsFor}`)
    .join('; ');
}

function whyPod(story: Story, pod: PodStory, container: string | undefined, timers: KnownTimers): Why | string {
  const address = `${ROOT}/pods/pod-${pod.uid}`;
  const subject = container === undefined ? address : `${address}/container-${container}`;
  const isOwn = isWithin(subject);
  const states = statesWithin(story, subject);
  if (states.length === 0) return `pod ${pod.namespace}/${pod.name} has no container ${container} in this journal`;
  const waiting = claimWait(story, pod.uid, timers);
  const names = `${pod.namespace}/${pod.name}${container === undefined ? '' : `/${container}`}`;
  return {
    ...common(story, timers, isOwn, isOwn),
    subject: `pod ${names}`,
    summary: `${names} is ${pod.phase}${waiting?.text ?? ''}${reasonsOf(pod, container)}`,
    states,
    ...(waiting ? { claims: waiting.claims } : {}),
  };
}

/** Matches an actor and its descendants. */
const isWithin = (address: string) => (actor: string) => actor === address || actor.startsWith(`${address}/`);

const statesWithin = (story: Story, address: string) =>
  [...story.actors].flatMap(([actor, state]) => (isWithin(address)(actor) ? statesOf(story, actor, state) : []));

/** `image/REFERENCE`, or `actor/` with an address or a name as this and other commands print it. */
function whyActor(story: Story, subject: string, timers: KnownTimers): Why | string {
  const name = subject.slice(subject.indexOf('/') + 1);
  const actorPath = subject.startsWith('image/') ? `images/image-${name}` : name;
  const isSubject = (actor: string): boolean => [actor, actorName(actor, story)].includes(actorPath);
  const address = [...story.actors.keys()].find(isSubject);
  if (address === undefined) return `this journal has no ${subject.replace('/', ' ')}`;
  const isOwn = isWithin(address);
  const states = statesWithin(story, address);
  const now = states.filter(({ actor }) => actor === actorName(address, story));
  return {
    ...common(story, timers, isOwn, isOwn),
    subject: subject.replace('/', ' '),
    summary: `${name}: ${now.map(({ state, forMs }) => `${state} for ${duration(forMs)}`).join(', ')}`,
    states,
  };
}

interface ContainerStatus {
  readonly name: string;
  readonly state?: { readonly waiting?: Reason; readonly terminated?: Terminated };
  readonly lastState?: { readonly terminated?: Terminated };
}
interface Reason {
  readonly reason?: string;
  readonly message?: string;
}

type Terminated = Reason & { readonly exitCode: number };

/** The reasons in the pod's status why containers do not run. */
function reasonsOf({ status }: PodStory, container: string | undefined): string {
  const fields = ['initContainerStatuses', 'containerStatuses'] as const;
  const all = fields.flatMap((field) => (status[field] ?? []) as readonly ContainerStatus[]);
  const reasons = all
    .filter(({ name }) => container === undefined || name === container)
    .flatMap(({ name, state, lastState }) => {
      const { waiting, terminated } = state ?? {};
      const last = lastState?.terminated ? [`it last ended with ${endText(lastState.terminated)}`] : [];
      if (waiting?.reason) {
        const why = [waiting.reason, waiting.message].filter(Boolean).join(': ');
        return [`${name} waits: ${[why, ...last].join('; ')}`];
      }
      return terminated ? [`${name} ended with ${endText(terminated)}`] : [];
    });
  return reasons.length === 0 ? '' : `; ${reasons.join('; ')}`;
}

const endText = ({ exitCode, reason = 'no reason' }: Terminated): string => `${exitCode} (${reason})`;

/** One line for each region, because regions change independently. */
function statesOf(story: Story, actor: string, { value, status, began, since }: ActorState): ActiveSince[] {
  // An actor that was stopped by the end of the agent is described by its last state before.
  const isAsItWas = status === 'active' || (status === 'stopped' && endOf(story) !== undefined);
  return innermostPaths(value).map((path) => {
    const entered = since.get(path)?.t ?? story.started;
    return {
      actor: actorName(actor, story),
      state: isAsItWas ? path : `${path} (${status})`,
      sinceMs: entered - story.started,
      forMs: story.ended - entered,
      isFirst: entered === began,
    };
  });
}

/** The time at which the supervisor ended. */
function endOf({ actors }: Story): number | undefined {
  const root = actors.get(ROOT);
  return root === undefined || root.status === 'active'
    ? undefined
    : Math.max(...[...root.since.values()].map(({ t }) => t));
}

/** The time at which the supervisor began to stop its subsystems; `undefined` while it runs. */
function stopOf(story: Story): number | undefined {
  const ended = endOf(story);
  if (ended === undefined) return undefined;
  const stops = [...story.moments.values()].filter(
    ({ k, actor, text }) => k === 'state' && actor === ROOT && text.startsWith('stopping'),
  );
  return stops.at(-1)?.t ?? ended;
}

/** Whether the operation was requested as part of stopping. */
const isOfTheEnd = ({ began }: Operation, stopped: number | undefined): boolean =>
  stopped !== undefined && began >= stopped;

type Parts = 'incarnation' | 'begins' | 'gaps' | 'endedMs' | 'waits' | 'failed' | 'timersKnown' | 'decisions';

function common(
  story: Story,
  timers: KnownTimers,
  waits: (actor: string) => boolean,
  decides: (actor: string) => boolean,
): Pick<Why, Parts> {
  // Another actor pulls the image for the pod, and the pod waits for it.
  const isAwaited = (operation: Operation): boolean =>
    waits(asker(operation)) || causesOf(story, operation.n).some(({ actor }) => actor !== ROOT && waits(actor));
  const asker = ({ at }: Operation): string => at.slice(0, at.lastIndexOf('/'));
  const ended = endOf(story);
  const stopped = stopOf(story);
  const isOpen = ({ end, ended: left = 0 }: Operation): boolean =>
    end === undefined || (stopped !== undefined && left >= stopped);
  const open = [...story.operations.values()].filter(
    (operation) =>
      isOpen(operation) && operation.class !== 'stream' && isAwaited(operation) && !isOfTheEnd(operation, stopped),
  );
  const due = (timers ?? []).filter(({ target }) => waits(target));
  const decided = [...story.moments.values()].filter(
    ({ k, actor, status }) => (k === 'state' || k === 'effect') && status !== 'stopped' && decides(actor),
  );
  return {
    incarnation: story.header.incarnation,
    begins: story.begins,
    gaps: story.gaps,
    ...(ended === undefined ? {} : { endedMs: ended - story.started }),
    waits: [
      ...open.map((operation) => ({
        actor: actorName(asker(operation), story),
        kind: 'operation' as const,
        what: operation.name,
        ...(operation.target === undefined ? {} : { target: operation.target }),
        sinceMs: operation.began - story.started,
        forMs: (stopped ?? story.ended) - operation.began,
      })),
      ...due.map(({ target, event, due: at }) => ({
        actor: actorName(target, story),
        kind: 'timer' as const,
        what: eventText(event.type),
        dueMs: at - story.started,
      })),
    ],
    failed: failedOf(story, waits),
    timersKnown: timers !== undefined,
    decisions: decided.slice(-DECISIONS_MAX).map((moment) => decision(moment, story)),
  };
}

function decision(moment: Moment, story: Story): Decision {
  const causes = causesOf(story, moment.n).slice(0, -1).toReversed();
  const began = causes.findIndex(({ k }) => ['in', 'timer', 'result', 'header'].includes(k));
  const because = causes.filter((_, at) => at === 0 || at === began);
  return {
    n: moment.n,
    atMs: moment.t - story.started,
    actor: actorName(moment.actor, story),
    what: moment.k === 'effect' ? `asks for ${moment.what}` : moment.text,
    because: because.map((cause) => causeText(cause, moment.actor, story)),
  };
}

function causeText({ k, actor, what, text, cause }: Moment, handledBy: string, story: Story): string {
  const stream = k === 'in' && cause !== undefined ? story.moments.get(cause) : undefined;
  const from = stream?.k === 'effect' ? ` from ${stream.what}` : '';
  const described = k === 'in' || k === 'message' ? `${eventText(what)}${from}` : text;
  return actor === handledBy ? described : `${actorName(actor, story)}: ${described}`;
}

/** An actor enters all its regions when it starts; the first region describes it best. */
function shortened(states: string): string {
  const [first, ...others] = states.split(' | ');
  return others.length < REGIONS_MAX ? states : `${first} and ${others.length} other regions`;
}

export function describeWhy(report: Why): string {
  // A region in its initial state is omitted, unless it is the main region of its actor.
  const shown = report.states.filter(({ actor, isFirst }, row, all) => !isFirst || actor !== all[row - 1]?.actor);
  const states = shown.map(({ actor, state, sinceMs, forMs, waitsFor }, row) => [
    actor === shown[row - 1]?.actor ? '' : `  ${actor}`,
    state,
    `since +${duration(sinceMs)}`,
    `(${duration(forMs)})`,
    waitsFor === undefined ? '' : `waits for ${waitsFor}`,
  ]);
  const waits = report.waits.map(({ actor, kind, what, target, forMs, dueMs }) => [
    `  ${actor}`,
    kind,
    [what, target].filter(Boolean).join(' '),
    forMs === undefined ? `due at +${duration(dueMs ?? 0)}` : `for ${duration(forMs)}`,
  ]);
  const decisions = report.decisions.map(({ atMs, actor, what, because }) =>
    [`  +${duration(atMs)}  ${actor}: ${shortened(what)}\n`, ...because.map((cause) => `      ← ${cause}\n`)].join(''),
  );
  const plain = (rows: readonly string[][], width: number) =>
    table(
      Array.from({ length: width }, () => ({ title: '' })),
      rows,
    );
  const unknown = report.timersKnown
    ? ''
    : '  timers are not known: this build does not replay the journal, or not within seconds\n';
  const part = `Read from record ${report.begins} on, times count from there; --whole reads all.\n`;
  const beginning = `The journal begins with record ${report.begins}; times count from there.\n`;
  const gone = report.begins === 0 ? '' : report.isPart ? part : beginning;
  const { endedMs, silentMs } = report;
  const isOver = endedMs !== undefined || silentMs !== undefined;
  const ended = endedMs === undefined ? '' : `The agent ended at +${duration(endedMs)}; this is how it was then.\n`;
  const silent =
    silentMs === undefined
      ? ''
      : `The agent did not end in order: it was killed, ran out of memory, or its machine lost power after +${duration(silentMs)}; this is how it was then.\n`;
  const before = report.previous ? describePreviousEnd(report.previous) : '';
  const none = endedMs === undefined ? '  no operation and no timer\n' : '  no operation\n';
  return [
    `${report.summary}\n${gone}${describeGaps(report.gaps)}${ended}${silent}${before}`,
    `\n${isOver ? 'Then' : 'Now'}\n${plain(states, 5)}`,
    `\nOpen\n${waits.length === 0 ? none : plain(waits, 4)}${unknown}`,
    describeFailed(report.failed),
    `\nLast decisions\n${decisions.join('')}`,
  ].join('');
}
