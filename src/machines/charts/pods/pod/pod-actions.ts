/** The actions of a pod's machine: containers, configuration, sandbox, end. The chart is in `pod.ts`. */
import { errorIn, errorOf, line, now, outputOf, type PlainError, random, to } from '../../../../kernel/xstate.ts';
import { withAllocation } from '../../../model/allocation/request.ts';
import { claimRefusal } from '../../../model/dra/claims.ts';
import type { UserMapping } from '../../../model/operations/users.ts';
import { eventRecorded } from '../../../model/pods/event-messages.ts';
import {
  type EventText,
  killMessages,
  nodeRef,
  podEvents,
  podMessages,
  podReasons,
} from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { podDns } from '../../../model/spec/index.ts';
import { factsOf, hasBegunInSandbox, withContainer } from '../../../model/status/runtime-facts.ts';
import { pauseMs, RESPAWN_BACK_OFF } from '../../../model/values/back-off.ts';
import { isSame } from '../../../model/values/same.ts';
import { childIn, reapChild } from '../../children.ts';
import { isCreated, retryDelay, runsInOrder, SPAWNED } from '../container/container-policy.ts';
import type { ContainerOrder } from '../container/container-setup.ts';
import { containerInput, orphanInput, orphansOf } from './container-input.ts';
import { permission } from './pod-files.ts';
import {
  addressesOf,
  type ContainerRecord,
  graceLeft,
  membersOf,
  mergedKill,
  nextToStop,
  type PodContext,
  podOrName,
  refOf,
  wantedOf,
} from './pod-policy.ts';
import { type Enqueue, learn, noteActed, order, runtimeOf, podSetup as s, settle } from './pod-setup.ts';
import { impossibility, isRegularTurn, nextAttempt, sandboxPlan, turnsOf } from './pod-turns.ts';

// ---- containers -----------------------------------------------------------------------------------------------------

/**
 * How many containers one turn starts, or allows to be created: a pod may have a thousand, and turns must stay short.
 */
const GROUP = 40;

const missingMembers = (context: PodContext) =>
  membersOf(podOrName(context)).filter(({ container }) => context.containers[container.name] === undefined);

/** The container waits for its image, or for its start in the runtime. */
const isUnderWay = ({ view, request, isEarly }: ContainerRecord): boolean =>
  view.phase === 'waiting' && view.reason === '' && request === null && isEarly !== true;

/** The next containers of a large pod without an actor follow when no other one is starting. */
function beginNextGroup(enqueue: Enqueue, context: PodContext): void {
  const count = membersOf(podOrName(context)).length;
  if (count <= GROUP || Object.keys(context.containers).length >= count) return;
  const [next] = missingMembers(context).filter(({ container }) => context.crashes[container.name] === undefined);
  if (next === undefined || Object.values(context.containers).some(isUnderWay)) return;
  enqueue.raise({ type: 'container.respawn', name: next.container.name }, { delay: 0, id: 'next-group' });
}

export const adoptContainers = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  if (context.stage !== 'sync') return;
  const facts = { ...context, initialised: context.initialised || hasBegun(context) };
  const members = missingMembers(context).slice(0, GROUP);
  const records = members.map(
    ({ container, kind }) => [container.name, { kind, view: SPAWNED, request: null }] as const,
  );
  const containers = { ...context.containers, ...Object.fromEntries(records) };
  settle(enqueue, context, { initialised: facts.initialised, containers }, now(args));
  for (const member of members) {
    const id = `container-${member.container.name}`;
    enqueue.spawnChild('container', { id, input: containerInput(facts, member, now(args)) });
  }
});

const hasBegun = (context: PodContext): boolean =>
  sandboxPlan(context) === 'use' &&
  (context.pod?.spec.containers ?? []).some(({ name }) => hasBegunInSandbox(context.runtime, name));

/** Containers that still run under this pod's name get an actor, so that they can be stopped. */
const adoptOrphans = (enqueue: Enqueue, context: PodContext): Partial<PodContext> => {
  const names = orphansOf(context);
  for (const name of names) {
    enqueue.spawnChild('container', { id: `container-${name}`, input: orphanInput(context, name) });
  }
  const records = names.map((name) => [name, { kind: 'regular' as const, view: SPAWNED, request: null }]);
  return { containers: { ...context.containers, ...Object.fromEntries(records) } };
};

export const noteContainer = s.enqueueActions((args) => {
  const { event, context, enqueue } = args;
  if (event.type !== 'container.changed') return;
  const { name, inspect, seen, view } = event;
  const record = context.containers[name];
  const isChange = inspect || seen !== undefined || record?.begins === true || !isSame(record?.view, view);
  if (!record || !isChange) return;
  const request = view.phase === 'waiting' ? null : record.request;
  const containers = { ...context.containers, [name]: { ...record, view, request, begins: false } };
  const acted = inspect || seen !== undefined ? { actedAtMs: now(args) } : {};
  if (seen) learn(args, withContainer(runtimeOf(context), seen), { containers, ...acted }, name);
  else settle(enqueue, context, { containers, ...acted }, now(args));
  beginNextGroup(enqueue, { ...context, containers });
  if (inspect) enqueue.raise({ type: 'inspection.due' });
  else if (seen) noteActed(args);
});

export const noteRequest = s.enqueueActions(({ event, context, enqueue }) => {
  if (event.type !== 'container.wanted') return;
  const record = context.containers[event.name];
  if (!record) return;
  const containers = { ...context.containers, [event.name]: { ...record, request: event.request } };
  enqueue.assign({ containers });
  beginNextGroup(enqueue, { ...context, containers });
});

export const beginWriting = s.assign({
  writing: ({ context }) =>
    turnsOf(context)
      .slice(0, GROUP)
      .map(({ container }) => container.name),
});

export const noteUsers = s.assign({
  users: ({ event }) => outputOf<UserMapping>(event),
});

/** The files exist: containers whose turn it is may be created. */
export const checkPermission = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const members = turnsOf(context).filter(({ container }) => context.writing.includes(container.name));
  const containers = { ...context.containers };
  const actuated = { ...context.actuated };
  const made: string[] = [];
  for (const member of members) {
    const { name } = member.container;
    const answer = permission(context, member);
    const restartCount = containers[name]?.request?.restartCount ?? 0;
    const isMade = isCreated({ facts: factsOf(context.runtime, name), restartCount });
    containers[name] = { ...containers[name]!, request: null, begins: !('error' in answer) };
    if (!isMade && context.allocation?.[name] !== undefined) actuated[name] = context.allocation[name];
    if (!isMade && !('error' in answer)) made.push(name);
    if ('error' in answer) order(enqueue, name, { type: 'container.refused', ...answer.error });
    else order(enqueue, name, { type: 'container.permitted', podIP: addressesOf(context)[0] ?? '', ...answer });
  }
  const initialised = context.initialised || isRegularTurn(members);
  if (context.resize !== null)
    enqueue.sendTo(to('softState'), { type: 'softState.resized', uid: context.uid, actuated });
  enqueue.assign({
    containers,
    initialised,
    writing: [],
    unbound: {},
    unread: {},
    fileValues: {},
    unprepared: {},
    actuated: context.actuated === null ? null : actuated,
    ...createdWith(context, made),
  });
});

/**
 * Exclusive CPUs with which instances are created: such an instance needs no update, unless an earlier agent created
 * it.
 */
function createdWith({ cpus, node, createdWith: before }: PodContext, names: readonly string[]): Partial<PodContext> {
  if (cpus === null || !hasBehavior(node, 'resourcesAsKubelet')) return {};
  const own = names.flatMap((name) =>
    cpus.exclusive[name] === undefined ? [] : [[name, cpus.exclusive[name]] as const],
  );
  return own.length === 0 ? {} : { createdWith: { ...before, ...Object.fromEntries(own) } };
}

/** The actor of a container crashed: it is restarted from the state of the runtime. */
export const reapContainer = s.enqueueActions(({ event, context, enqueue }) => {
  const id = childIn(event);
  const name = id.replace(/^container-/, '');
  const { [name]: record, ...containers } = context.containers;
  if (name === id) return;
  if (!record) return enqueue.stopChild(id);
  const crashes = context.crashes[name] ?? 0;
  enqueue.assign({ containers, crashes: { ...context.crashes, [name]: crashes + 1 } });
  const delay = pauseMs(RESPAWN_BACK_OFF, crashes);
  enqueue.raise({ type: 'inspection.due' });
  reapChild(enqueue, id, { type: 'container.respawn', name }, delay);
});

// ---- configuration, sandbox -----------------------------------------------------------------------------------------

export const configure = s.enqueueActions((args) => {
  const { event, context, enqueue } = args;
  if (event.type !== 'pod.configured') return;
  const pod = withAllocation(event.pod, context.allocation);
  settle(enqueue, context, { pod, asked: event.pod }, now(args));
  for (const member of membersOf(pod)) {
    const { name } = member.container;
    if (!context.containers[name]) continue;
    const wanted = wantedOf(pod, member);
    const before = context.pod && membersOf(context.pod).find(({ container }) => container.name === name);
    if (before && JSON.stringify(wantedOf(context.pod, before)) === JSON.stringify(wanted)) continue;
    order(enqueue, name, { type: 'container.configured', wanted });
  }
});

export const record = (text: (context: PodContext, error: PlainError) => EventText) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    const error = errorOf(event);
    enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text(context, error)));
  });

/** Records that the resolver configuration of the pod is not quite the requested one. */
export const recordDns = s.enqueueActions(({ context, enqueue }) => {
  const { events, nodeEvents } = podDns(podOrName(context), context.node);
  for (const text of events) enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
  for (const text of nodeEvents) {
    enqueue.sendTo(to('eventRecorder'), eventRecorded(nodeRef(context.node.nodeName), text));
  }
});

export const complain = (text: string) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    const { uid, namespace, name } = context;
    const error = errorOf(event);
    enqueue(line('error', [text, { pod: `${namespace}/${name}`, uid, error: error.message }]));
  });

export const recordBlocked = s.enqueueActions(({ context, enqueue }) => {
  const problem = impossibility(context);
  if (problem === null) return;
  const isOfClaims = context.pod !== null && claimRefusal(context.pod) === problem;
  const text = podEvents[isOfClaims ? 'failedPrepareDynamicResources' : 'failedCreatePodSandBox'](problem);
  enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
});

/**
 * Records a failure. `reserved for` means that the runtime has this sandbox name already, from a call whose reply was
 * lost.
 */
export const failed = s.assign((args) => {
  const { context, event } = args;
  const message = errorIn(event)?.message ?? '';
  return {
    failures: context.failures + 1,
    untilMs: now(args) + retryDelay(context.failures, random(args)),
    attempt: message.includes('is reserved for') ? nextAttempt(context) + 1 : context.attempt,
    writing: [],
  };
});

/** The sandbox died: its containers end, and those that run in order run again. */
export const beginReplacing = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const graceSeconds = context.pod?.spec.terminationGracePeriodSeconds ?? 30;
  const containers = Object.fromEntries(
    Object.entries(context.containers).map(([name, each]) => {
      const runsAgain = each.view.phase === 'ended' && runsInOrder(each);
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

/** The kill of a pod that ended by itself, or that is being deleted. */
const BY_ITSELF = { graceSeconds: null, remove: false, verdict: null };

export const noteKill = s.enqueueActions((args) => {
  const { event, context, enqueue } = args;
  const kill = mergedKill(context, event.type === 'pod.kill' ? event : BY_ITSELF, now(args));
  const isNew = context.kill === null || kill.graceSeconds < context.kill.graceSeconds;
  if (kill.verdict?.reason === podReasons.preempting && context.kill?.verdict == null)
    enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), podEvents.preempting()));
  settle(enqueue, context, { kill }, now(args));
  if (!isNew) return;
  for (const [name, { view }] of Object.entries(context.containers)) {
    if (view.phase === 'stopping') order(enqueue, name, stopOrder(name, kill.graceSeconds));
  }
});

/** The pod has been active for too long: it fails, whatever its containers do. */
export const killOverdue = s.raise({
  type: 'pod.kill',
  graceSeconds: null,
  remove: false,
  verdict: { reason: podReasons.deadlineExceeded, message: podMessages.deadlineExceeded, published: 'always' },
});

/**
 * Upstream detects the exceeded deadline at each sync of an ending pod: twice before its containers stop, and twice
 * after.
 */
export const recordOverdue = s.enqueueActions(({ context, enqueue }) => {
  if (context.kill?.verdict?.reason !== podReasons.deadlineExceeded) return;
  enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), podEvents.deadlineExceeded()));
});

const stopOrder = (name: string, graceSeconds: number, turn: { awaitsTurn?: boolean } = {}): ContainerOrder => ({
  type: 'container.stop',
  graceSeconds,
  message: killMessages.stopping(name),
  after: 'end',
  ...turn,
});

/** Level-triggered: orders every container to stop that should, and passes the turn to waiting ones. */
export const stopContainers = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const graceSeconds = context.kill === null ? 1 : graceLeft(context.kill, now(args));
  const adopted = adoptOrphans(enqueue, context);
  const next = { ...context, ...adopted };
  enqueue.assign(adopted);
  const orphans = orphansOf(context);
  const turn = new Set(nextToStop(next));
  for (const name of new Set([...Object.keys(next.containers), ...orphans])) {
    const phase = next.containers[name]?.view.phase;
    if (orphans.includes(name) || phase === 'waiting' || phase === 'starting' || phase === 'running') {
      order(enqueue, name, stopOrder(name, graceSeconds, { awaitsTurn: !turn.has(name) && !orphans.includes(name) }));
    } else if (phase === 'stopping' && next.containers[name]?.kind === 'sidecar' && turn.has(name)) {
      order(enqueue, name, { type: 'container.turn' });
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
