/** The vocabulary of a pod's machine: its events, its operations, its actions. The chart is in `pod.ts`. */
import { type AnyActorRef, line, now, type PlainError, pick, random, setup, to } from '../../kernel/xstate.ts';
import type { PodRuntimeStatus } from '../operations/cri.ts';
import { operations } from '../operations/index.ts';
import { type EventText, killMessages, podEvents } from '../reasons.ts';
import { containerMachine } from './container.ts';
import { retryDelay } from './container-policy.ts';
import type { ContainerOrder } from './container-setup.ts';
import {
  type ContainerReport,
  type ContainerView,
  type Ended,
  eventRecorded,
  type GarbageWanted,
  type ImageReport,
  type PodMessage,
  type RuntimeMessage,
  type StatusMessage,
} from './messages.ts';
import {
  allGone,
  anyAlive,
  anyReadySandbox,
  changedFacts,
  containerInput,
  impossibility,
  isOver,
  isRegularTurn,
  lacksSandbox,
  membersOf,
  mergedKill,
  nextAttempt,
  nextToStop,
  ordered,
  type PodContext,
  type PodInput,
  permission,
  podOrName,
  refOf,
  sandboxPlan,
  statusOf,
  strangerInput,
  strangersOf,
  turnsOf,
  unmountable,
  wantedOf,
} from './pod-policy.ts';
import { emptyRuntime, garbageOf, imagesOf, joined, slimmed } from './runtime-facts.ts';

type Event =
  | PodMessage
  | RuntimeMessage
  | ContainerReport
  | ImageReport
  | GarbageWanted
  | Ended
  | { readonly type: 'look' }
  | { readonly type: 'container.respawn'; readonly name: string };

export const podSetup = setup({
  types: { input: {} as PodInput, context: {} as PodContext, events: {} as Event },
  actors: {
    container: containerMachine,
    ...pick(
      operations,
      'cri.podStatus',
      'cri.runPodSandbox',
      'cri.stopPodSandbox',
      'cri.removePodSandbox',
      'cri.removeContainer',
      'host.preparePod',
      'host.removePod',
    ),
  },
  guards: {
    isHeld: ({ context }) => context.held,
    isUnheard: ({ context }) => context.runtime === null && !context.mustLook,
    mustLook: ({ context }) => context.runtime === null,
    isUnclaimed: ({ context }) => context.pod === null,
    isKilled: ({ context }) => context.kill !== null,
    isDeleted: ({ context }) => context.pod?.metadata.deletionTimestamp !== undefined,
    isOver: ({ context }) => isOver(context),
    isOverAndStill: ({ context }) => isOver(context) && !anyAlive(context) && !anyReadySandbox(context),
    isBlocked: ({ context }) => impossibility(context) !== null || unmountable(context).length > 0,
    hasSandbox: ({ context }) => sandboxPlan(context) === 'use',
    /** A sandbox that vanished is replaced, too: what ran in order before runs in order again. */
    mustReplace: ({ context }) =>
      sandboxPlan(context) === 'replace' || (sandboxPlan(context) === 'create' && context.initialised),
    isFinished: ({ context }) => sandboxPlan(context) === 'finished',
    lacksSandbox: ({ context }) => lacksSandbox(context),
    hasTurn: ({ context }) => turnsOf(context).length > 0,
    isFresh: ({ context }) => context.looked,
    isQueueEmpty: ({ context }) => context.queue.length === 0,
    noneRuns: ({ context }) =>
      Object.values(context.containers).every(({ view }) => view.phase === 'waiting' || view.phase === 'ended'),
    allGone: ({ context }) => allGone(context),
    isFreshAndStopped: ({ context }) => context.looked && !anyAlive(context) && !anyReadySandbox(context),
    isEmpty: ({ context }) => !context.runtime?.sandboxes.length && !context.runtime?.containers.length,
    isFreshAndEmpty: ({ context }) =>
      context.looked &&
      (context.runtime?.sandboxes.length ?? 0) === 0 &&
      (context.runtime?.containers.length ?? 0) === 0,
    mustRemove: ({ context }) => context.kill?.remove === true || context.pod === null,
  },
  delays: { wait: (args) => Math.max(0, args.context.untilMs - now(args)) },
});

const s = podSetup;
type Enqueue = Parameters<Parameters<typeof s.enqueueActions>[0]>[0]['enqueue'];

/** Changes what is known, and tells what follows from it: one assignment a step, and the status when it differs. */
function settle(enqueue: Enqueue, context: PodContext, change: Partial<PodContext>, nowMs: number): PodContext {
  const next = { ...context, ...change };
  const status = statusOf(next, nowMs);
  const isNew = JSON.stringify(status) !== JSON.stringify(context.status);
  enqueue.assign(isNew ? { ...change, status } : change);
  if (isNew && status !== null) {
    const { uid, name, namespace } = next;
    const message: StatusMessage = { type: 'status.changed', pod: { uid, name, namespace }, status };
    enqueue.sendTo(to('status'), message);
  }
  return { ...next, status };
}

const order = (enqueue: Enqueue, name: string, message: ContainerOrder): void =>
  enqueue.sendTo<AnyActorRef>(`container-${name}`, message);

export const change = (compute: (context: PodContext) => Partial<PodContext>) =>
  s.enqueueActions((args) => void settle(args.enqueue, args.context, compute(args.context), now(args)));

const SPAWNED: ContainerView = { phase: 'waiting', reason: '', message: '', restartCount: 0, ended: null };

// ---- what is observed -----------------------------------------------------------------------------------------------

function learn(enqueue: Enqueue, context: PodContext, seen: PodRuntimeStatus, nowMs: number, own = false): void {
  const runtime = joined(context.runtime, ordered(seen));
  const looked = own || context.looked;
  if (runtime === context.runtime) {
    if (looked !== context.looked) enqueue.assign({ looked });
    return;
  }
  settle(enqueue, context, { runtime, looked }, nowMs);
  tellCollectors(enqueue, context, runtime);
  for (const [name, facts] of changedFacts(context.runtime, runtime, Object.keys(context.containers))) {
    order(enqueue, name, { type: 'container.observed', facts });
  }
}

/** The collectors hear of a pod only what they did not know. */
function tellCollectors(enqueue: Enqueue, { uid, runtime }: PodContext, now: PodRuntimeStatus): void {
  const before = runtime ?? emptyRuntime(uid, '', '', 0);
  const isNew = (was: unknown, is: unknown): boolean => JSON.stringify(was) !== JSON.stringify(is);
  const garbage = garbageOf(uid, now);
  if (isNew(garbageOf(uid, before), garbage)) enqueue.sendTo(to('containerGC'), garbage);
  const images = imagesOf(uid, now);
  if (isNew(imagesOf(uid, before), images)) enqueue.sendTo(to('imageGC'), images);
}

/** A collector has lost what it was told. */
export const tellCollectorsAgain = s.enqueueActions(({ context, enqueue }) => {
  const { uid, runtime } = context;
  if (runtime !== null) tellCollectors(enqueue, { ...context, runtime: emptyRuntime(uid, '', '', 0) }, runtime);
});

/** Its own look began after its last call; what others saw counts only when they began to look later. */
export const learnFromLook = s.enqueueActions((args) => {
  const { output } = args.event as unknown as { output: PodRuntimeStatus };
  learn(args.enqueue, args.context, slimmed(output), now(args), true);
});

export const learnFromWatch = s.enqueueActions((args) => {
  const { event, context, enqueue } = args;
  if (event.type !== 'runtime.podChanged' || event.status.observedAtMs <= context.actedAtMs) return;
  learn(enqueue, context, event.status, now(args));
});

export const learnAbsence = s.enqueueActions((args) => {
  const { event, context, enqueue } = args;
  if (event.type !== 'runtime.absent' || context.runtime !== null) return;
  learn(enqueue, context, emptyRuntime(context.uid, context.name, context.namespace, event.observedAtMs), now(args));
});

/** What was seen before does not count any more; the world is looked at. */
const begin = (enqueue: Enqueue, nowMs: number, more: Partial<PodContext> = {}): void => {
  enqueue.assign({ ...more, actedAtMs: nowMs, looked: false });
  enqueue.raise({ type: 'look' });
};

export const lookNow = s.enqueueActions((args) => begin(args.enqueue, now(args)));

/** The same after a call of its own that succeeded. */
export const acted = s.enqueueActions((args) => begin(args.enqueue, now(args), { failures: 0 }));

// ---- containers -----------------------------------------------------------------------------------------------------

export const adoptContainers = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const pod = podOrName(context);
  const facts = { ...context, initialised: context.initialised || hasBegun(context) };
  const members = membersOf(pod).filter(({ container }) => context.containers[container.name] === undefined);
  const records = members.map(({ container, kind }) => [container.name, { kind, view: SPAWNED, wish: null }] as const);
  const containers = { ...context.containers, ...Object.fromEntries(records) };
  settle(enqueue, context, { initialised: facts.initialised, containers }, now(args));
  for (const member of members) {
    const id = `container-${member.container.name}`;
    enqueue.spawnChild('container', { id, input: containerInput(facts, member, now(args)) });
  }
});

const hasBegun = (context: PodContext): boolean =>
  sandboxPlan(context) === 'use' &&
  (context.pod?.spec.containers ?? []).some(({ name }) =>
    (context.runtime?.containers ?? []).some(({ metadata }) => metadata?.name === name),
  );

/** What the runtime still runs under this pod's name gets an actor, so that it can be stopped. */
const adoptStrangers = (enqueue: Enqueue, context: PodContext): Partial<PodContext> => {
  const names = strangersOf(context);
  for (const name of names) {
    enqueue.spawnChild('container', { id: `container-${name}`, input: strangerInput(context, name) });
  }
  const records = names.map((name) => [name, { kind: 'regular' as const, view: SPAWNED, wish: null }]);
  return { containers: { ...context.containers, ...Object.fromEntries(records) } };
};

export const noteContainer = s.enqueueActions((args) => {
  const { event, context, enqueue } = args;
  if (event.type !== 'container.changed') return;
  const record = context.containers[event.name];
  if (!record) return;
  const wish = event.view.phase === 'waiting' ? null : record.wish;
  const containers = { ...context.containers, [event.name]: { ...record, view: event.view, wish } };
  const nowMs = now(args);
  settle(enqueue, context, event.look ? { containers, actedAtMs: nowMs } : { containers }, nowMs);
  if (event.look) enqueue.raise({ type: 'look' });
});

export const noteWish = s.enqueueActions(({ event, context, enqueue }) => {
  if (event.type !== 'container.wanted') return;
  const record = context.containers[event.name];
  if (!record) return;
  enqueue.assign({ containers: { ...context.containers, [event.name]: { ...record, wish: event.wish } } });
});

export const forwardImage = s.enqueueActions(({ event, context, enqueue }) => {
  if (event.type === 'images.started') {
    for (const name of Object.keys(context.containers)) order(enqueue, name, event);
  } else if (event.type === 'image.ready' || event.type === 'image.failed') {
    if (context.containers[event.container]) order(enqueue, event.container, event as never);
  }
});

export const beginWriting = s.assign({
  writing: ({ context }) => turnsOf(context).map(({ container }) => container.name),
});

/** The files are there: those whose turn it is may be created. */
export const permit = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const members = turnsOf(context).filter(({ container }) => context.writing.includes(container.name));
  const containers = { ...context.containers };
  for (const member of members) {
    const { name } = member.container;
    containers[name] = { ...containers[name]!, wish: null };
    const answer = permission(context, member);
    if ('error' in answer) order(enqueue, name, { type: 'container.refused', ...answer.error });
    else order(enqueue, name, { type: 'container.permitted', ...answer });
  }
  const initialised = context.initialised || isRegularTurn(members);
  enqueue.assign({ containers, initialised, writing: [] });
});

/** An actor of a container crashed: it starts again from what the runtime shows. */
const RESPAWN_BASE_MS = 1_000;
const RESPAWN_MAX_MS = 60_000;

export const buryContainer = s.enqueueActions(({ event, context, enqueue }) => {
  if (!event.type.startsWith('xstate.error.actor.container-')) return;
  const id = event.type.slice('xstate.error.actor.'.length);
  const name = id.slice('container-'.length);
  enqueue.stopChild(id);
  const { [name]: record, ...containers } = context.containers;
  if (!record) return;
  const crashes = context.crashes[name] ?? 0;
  enqueue.assign({ containers, crashes: { ...context.crashes, [name]: crashes + 1 } });
  const delay = Math.min(RESPAWN_MAX_MS, RESPAWN_BASE_MS * 2 ** crashes);
  enqueue.raise({ type: 'look' });
  enqueue.raise({ type: 'container.respawn', name }, { delay, id: `respawn-${name}` });
});

// ---- configuration, sandbox -----------------------------------------------------------------------------------------

export const configure = s.enqueueActions((args) => {
  const { event, context, enqueue } = args;
  if (event.type !== 'pod.configured') return;
  settle(enqueue, context, { pod: event.pod }, now(args));
  for (const member of membersOf(event.pod)) {
    const { name } = member.container;
    if (!context.containers[name]) continue;
    const wanted = wantedOf(event.pod, member);
    const before = context.pod && membersOf(context.pod).find(({ container }) => container.name === name);
    if (before && JSON.stringify(wantedOf(context.pod, before)) === JSON.stringify(wanted)) continue;
    order(enqueue, name, { type: 'container.configured', wanted });
  }
});

export const record = (text: (context: PodContext, error: PlainError) => EventText) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    const { error } = event as unknown as { error: PlainError };
    enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text(context, error)));
  });

export const complain = (text: string) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    const { uid, namespace, name } = context;
    const { error } = event as unknown as { error: PlainError };
    enqueue(line('error', [text, { pod: `${namespace}/${name}`, uid, error: error.message }]));
  });

export const recordBlocked = s.enqueueActions(({ context, enqueue }) => {
  const problem = impossibility(context);
  const texts = [
    ...(problem === null ? [] : [podEvents.failedCreatePodSandBox(problem)]),
    ...unmountable(context).map(({ name, message }) => podEvents.failedMount(name, message)),
  ];
  for (const text of texts) enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
});

/** `reserved for` means that the runtime's books have this name already, from a call whose reply was lost. */
export const failed = s.assign((args) => {
  const { context, event } = args;
  const message = (event as unknown as { error?: PlainError }).error?.message ?? '';
  return {
    failures: context.failures + 1,
    untilMs: now(args) + retryDelay(context.failures, random(args)),
    attempt: message.includes('is reserved for') ? nextAttempt(context) + 1 : context.attempt,
    writing: [],
  };
});

/** The sandbox died: everything in it ends, and what ran in order before runs in order again. */
export const beginReplacing = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const graceSeconds = context.pod?.spec.terminationGracePeriodSeconds ?? 30;
  const containers = Object.fromEntries(
    Object.entries(context.containers).map(([name, each]) => {
      const runsAgain = each.view.phase === 'ended' && each.kind !== 'regular';
      return [name, runsAgain ? { ...each, view: SPAWNED } : each];
    }),
  );
  settle(enqueue, context, { containers, initialised: false, attempt: nextAttempt(context) }, now(args));
  for (const name of Object.keys(containers)) {
    const message = killMessages.stopping(name);
    order(enqueue, name, { type: 'container.stop', graceSeconds, message, after: 'restart' });
  }
});

// ---- ending ---------------------------------------------------------------------------------------------------------

/** A pod that ended by itself, or that is being deleted, is killed by nobody but itself. */
const BY_ITSELF = { graceSeconds: null, remove: false, verdict: null };

export const noteKill = s.enqueueActions((args) => {
  const { event, context, enqueue } = args;
  const kill = mergedKill(context, event.type === 'pod.kill' ? event : BY_ITSELF);
  const isShorter = context.kill !== null && kill.graceSeconds < context.kill.graceSeconds;
  settle(enqueue, context, { kill }, now(args));
  if (!isShorter) return;
  for (const [name, { view }] of Object.entries(context.containers)) {
    if (view.phase === 'stopping') order(enqueue, name, stopOrder(name, kill.graceSeconds));
  }
});

const stopOrder = (name: string, graceSeconds: number): ContainerOrder => ({
  type: 'container.stop',
  graceSeconds,
  message: killMessages.stopping(name),
  after: 'end',
});

/** Level-triggered: whoever should stop and does not yet stop is told to. */
export const stopContainers = s.enqueueActions(({ context, enqueue }) => {
  const adopted = adoptStrangers(enqueue, context);
  const next = { ...context, ...adopted };
  enqueue.assign(adopted);
  const strangers = strangersOf(context);
  for (const name of [...nextToStop(next), ...strangers]) {
    const phase = next.containers[name]?.view.phase;
    if (strangers.includes(name) || phase === 'waiting' || phase === 'running') {
      order(enqueue, name, stopOrder(name, context.kill?.graceSeconds ?? 1));
    }
  }
});

export const queueSandboxes = s.assign({
  queue: ({ context }) => (context.runtime?.sandboxes ?? []).map(({ id }) => id),
});

export const queueContainers = s.assign({
  queue: ({ context }) => (context.runtime?.containers ?? []).map(({ id }) => id),
});

export const dequeue = s.assign({ queue: ({ context }) => context.queue.slice(1) });
