/**
 * The actors of a pod's containers: when they start, what they report, when their containers may be created, and what
 * follows a crash. Part of the chart of `pod.ts`.
 *
 * Preparations for containers before they are created: variables from files in volumes, devices, sub-paths of volumes.
 *
 * Invariants: W1 variables come first, as they may name sub-paths. W2 a container is not created while it lacks a
 * variable, a sub-path or a prepared device; events have upstream's text, the log has the cause.
 * Upstream: devicemanager (callPreStartContainerIfNeeded).
 */
import { childIn, line, now, type OutputOf, outputOf, reapChild, to } from '../../../../kernel/xstate.ts';
import type { Operations } from '../../../model/operations/index.ts';
import type { KeptLog } from '../../../model/operations/logs.ts';
import type { UserMapping } from '../../../model/operations/users.ts';
import type { FileValues, Unprepared } from '../../../model/operations/volume.ts';
import { podEvents, waitingReasons } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { containerLogFolder, legacyLogName } from '../../../model/spec/paths.ts';
import { factsOf, hasBegunInSandbox, instancesOf, withContainer } from '../../../model/status/runtime-facts.ts';
import { isSame } from '../../../model/values/same.ts';
import { pickKeys, valueIn } from '../../../model/values/tables.ts';
import { pauseMs, RESPAWN_BACK_OFF } from '../../../model/values/time.ts';
import type { ContainerLogInput } from '../container/container-log.ts';
import { isCreated, SPAWNED } from '../container/container-policy.ts';
import { logFailure, noteFailure, record } from './pod-actions.ts';
import type { ContainerRecord, PodContext } from './pod-context.ts';
import { fileVariablesOf, permission, subPathsOf, usersPlace } from './pod-files.ts';
import { membersOf } from './pod-members.ts';
import { rememberPod } from './pod-node.ts';
import { applyRuntime, noteCallEnded, runtimeOf } from './pod-observation.ts';
import { addressesOf, containerInput, podOrName } from './pod-policy.ts';
import { applyChange, type Enqueue, podSetup as s, sendToContainer } from './pod-setup.ts';
import { isRegularTurn, membersToCreate, sandboxPlan } from './pod-start-order.ts';
import { volumesPlace } from './pod-volumes.ts';

/** The pause before the crashed actor of a log is replaced. */
const RESPAWN_MS = 60_000;

const idOf = (container: string): string => `log-${container}`;

/** By actor id, the log to follow. */
function wantedLogs(context: PodContext): Readonly<Record<string, ContainerLogInput>> {
  const { runtime, node } = context;
  const settings = node.containerLogs;
  if (settings === undefined) return {};
  const names = new Set((runtime?.containers ?? []).flatMap(({ metadata }) => metadata?.name ?? []));
  const entries = [...names].flatMap((name) => {
    const [newest] = instancesOf(runtime, name);
    if (newest?.state !== 'CONTAINER_RUNNING' || !newest.log_path.startsWith(`${node.podLogsDir}/`)) return [];
    const link = legacyLogName(podOrName(context), name, newest.id);
    const log: KeptLog = {
      ...settings,
      root: node.podLogsDir,
      path: newest.log_path,
      link: node.containerLogsDir === '' ? '' : `${node.containerLogsDir}/${link}`,
    };
    return [[idOf(name), { containerId: newest.id, log }] as const];
  });
  return Object.fromEntries(entries);
}

function logChanges(context: PodContext): {
  readonly stale: readonly string[];
  readonly missing: Readonly<Record<string, ContainerLogInput>>;
} {
  const desiredLogs = wantedLogs(context);
  const stale = Object.keys(context.logs).filter((id) => desiredLogs[id]?.containerId !== context.logs[id]);
  const missing = Object.entries(desiredLogs).filter(([id]) => context.logs[id] === undefined);
  return { stale, missing: Object.fromEntries(missing) };
}

/** Stops the actors of ended instances before new ones start: a new actor may have the same id. */
const superviseLogs = s.enqueueActions(({ context, enqueue }) => {
  const { stale, missing } = logChanges(context);
  if (stale.length > 0) {
    for (const id of stale) enqueue.stopChild(id);
    enqueue.assign({ logs: pickKeys(context.logs, (id) => !stale.includes(id)) });
    return;
  }
  for (const [id, input] of Object.entries(missing)) enqueue.spawnChild('containerLog', { id, input });
  const added = Object.entries(missing).map(([id, { containerId }]) => [id, containerId] as const);
  enqueue.assign({ logs: { ...context.logs, ...Object.fromEntries(added) } });
});

/** Keeps an actor for the log of each instance that runs. */
export const logging = s.createStateConfig({
  always: {
    guard: ({ context }) => {
      const { stale, missing } = logChanges(context);
      return stale.length > 0 || Object.keys(missing).length > 0;
    },
    actions: superviseLogs,
  },
});

export const reapLog = s.enqueueActions(({ event, enqueue }) => {
  const id = childIn(event);
  if (id.startsWith('log-')) reapChild(enqueue, id, { type: 'log.respawn', id }, RESPAWN_MS);
});

/** Forgets the actor, so that another one is spawned. */
export const respawnLog = s.assign({
  logs: ({ context, event }) => {
    if (event.type !== 'log.respawn') return context.logs;
    const { [event.id]: _crashed, ...logs } = context.logs;
    return logs;
  },
});

/**
 * Limit of containers that one turn starts, or permits to be created: a pod may have a thousand, and turns stay short.
 */
const CONTAINERS_PER_TURN = 40;

const membersWithoutActor = (context: PodContext) =>
  membersOf(podOrName(context)).filter(({ container }) => valueIn(context.containers, container.name) === undefined);

/** The container waits for its image, or for its start in the runtime. */
const isStarting = ({ view, request, isEarly }: ContainerRecord): boolean =>
  view.phase === 'waiting' && view.reason === '' && request === null && isEarly !== true;

/** The next containers of a large pod without an actor follow when no other one is starting. */
function startNextContainers(enqueue: Enqueue, context: PodContext): void {
  const count = membersOf(podOrName(context)).length;
  if (count <= CONTAINERS_PER_TURN || Object.keys(context.containers).length >= count) return;
  const [next] = membersWithoutActor(context).filter(
    ({ container }) => valueIn(context.crashes, container.name) === undefined,
  );
  if (next === undefined || Object.values(context.containers).some(isStarting)) return;
  enqueue.raise({ type: 'container.respawn', name: next.container.name }, { delay: 0, id: 'next-group' });
}

export const adoptContainers = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  if (context.stage !== 'sync') return;
  const facts = { ...context, initialised: context.initialised || hasStartedRegular(context) };
  const members = membersWithoutActor(context).slice(0, CONTAINERS_PER_TURN);
  const records = members.map(
    ({ container, kind }) => [container.name, { kind, view: SPAWNED, request: null }] as const,
  );
  const containers = { ...context.containers, ...Object.fromEntries(records) };
  applyChange(enqueue, context, { initialised: facts.initialised, containers }, now(args));
  for (const member of members) {
    const id = `container-${member.container.name}`;
    enqueue.spawnChild('container', { id, input: containerInput(facts, member, now(args)) });
  }
});

const hasStartedRegular = (context: PodContext): boolean =>
  sandboxPlan(context) === 'use' &&
  (context.pod?.spec.containers ?? []).some(({ name }) => hasBegunInSandbox(context.runtime, name));

/** Containers whose configuration was impossible are tried again: an object or a container of the pod has changed. */
function retryRefused(enqueue: Enqueue, { containers, node }: PodContext): void {
  if (!hasBehavior(node, 'syncsAsKubelet')) return;
  for (const [name, { view }] of Object.entries(containers)) {
    if (view.reason === waitingReasons.createContainerConfigError)
      sendToContainer(enqueue, name, { type: 'container.retry' });
  }
}

export const retryRefusedContainers = s.enqueueActions(({ context, enqueue }) => retryRefused(enqueue, context));

export const noteContainer = s.enqueueActions((args) => {
  const { event, context, enqueue } = args;
  if (event.type !== 'container.changed') return;
  const { name, inspect, seen, view } = event;
  const record = valueIn(context.containers, name);
  const isChange = inspect || seen !== undefined || record?.begins === true || !isSame(record?.view, view);
  if (!record || !isChange) return;
  const request = view.phase === 'waiting' ? null : record.request;
  const containers = { ...context.containers, [name]: { ...record, view, request, begins: false } };
  const acted = inspect || seen !== undefined ? { actedAtMs: now(args) } : {};
  if (seen) applyRuntime(args, withContainer(runtimeOf(context), seen), { containers, ...acted }, name);
  else applyChange(enqueue, context, { containers, ...acted }, now(args));
  startNextContainers(enqueue, { ...context, containers });
  if (view.phase === 'running' && record.view.phase !== 'running') retryRefused(enqueue, { ...context, containers });
  if (inspect) enqueue.raise({ type: 'inspection.due' });
  else if (seen) noteCallEnded(args);
});

/** The numbers of the logs of containers that the runtime does not know, as after a reboot that cleared its state. */
export const noteLogs = s.enqueueActions(({ context, event, enqueue }) => {
  const { nextLogs } = outputOf<OutputOf<Operations['host.preparePod']>>(event) ?? { nextLogs: {} };
  const pod = podOrName(context);
  const numbered = Object.entries(context.containers).flatMap(([name, { request, ...record }]) => {
    const restartCount = nextLogs[containerLogFolder(pod, name, context.node)];
    if (restartCount === undefined) return [];
    sendToContainer(enqueue, name, { type: 'container.counted', restartCount });
    const next = request && { ...request, restartCount: Math.max(request.restartCount, restartCount) };
    return [[name, { ...record, request: next }] as const];
  });
  if (numbered.length > 0) enqueue.assign({ containers: { ...context.containers, ...Object.fromEntries(numbered) } });
});

export const noteRequest = s.enqueueActions(({ event, context, enqueue }) => {
  if (event.type !== 'container.wanted') return;
  const record = valueIn(context.containers, event.name);
  if (!record) return;
  const containers = { ...context.containers, [event.name]: { ...record, request: event.request } };
  enqueue.assign({ containers });
  startNextContainers(enqueue, { ...context, containers });
});

export const beginWriting = s.assign({
  writing: ({ context }) =>
    membersToCreate(context)
      .slice(0, CONTAINERS_PER_TURN)
      .map(({ container }) => container.name),
});

/** Waits for user ids that no other pod has. */
export const mappingUsers = s.createStateConfig({
  invoke: {
    id: 'users',
    src: 'users.map',
    input: ({ context }) => usersPlace(context),
    onDone: { target: 'deciding', actions: s.assign({ users: ({ event }) => outputOf<UserMapping>(event) }) },
    onError: {
      target: 'backingOff',
      actions: [noteFailure, record((_, error) => podEvents.failedCreatePodSandBox(error.message))],
    },
  },
});

/** The files exist: containers whose turn it is may be created. */
export const permitContainers = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const members = membersToCreate(context).filter(({ container }) => context.writing.includes(container.name));
  const containers = { ...context.containers };
  const actuated = { ...context.actuated };
  const made: string[] = [];
  for (const member of members) {
    const { name } = member.container;
    const record = valueIn(containers, name);
    if (record === undefined) continue;
    const answer = permission(context, member);
    const restartCount = record.request?.restartCount ?? 0;
    const isMade = isCreated({ facts: factsOf(context.runtime, name), restartCount });
    containers[name] = { ...record, request: null, begins: !('error' in answer) };
    const granted = valueIn(context.allocation, name);
    if (!isMade && granted !== undefined) actuated[name] = granted;
    if (!isMade && !('error' in answer)) made.push(name);
    if ('error' in answer) sendToContainer(enqueue, name, { type: 'container.refused', ...answer.error });
    else
      sendToContainer(enqueue, name, { type: 'container.permitted', podIP: addressesOf(context)[0] ?? '', ...answer });
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
  const exclusiveCpus = names.flatMap((name) => {
    const own = valueIn(cpus.exclusive, name);
    return own === undefined ? [] : [[name, own] as const];
  });
  return exclusiveCpus.length === 0 ? {} : { createdWith: { ...before, ...Object.fromEntries(exclusiveCpus) } };
}

/** The actor of a container crashed: it is restarted from the state of the runtime. */
export const reapContainer = s.enqueueActions(({ event, context, enqueue }) => {
  const id = childIn(event);
  const name = id.replace(/^container-/, '');
  const { [name]: record, ...containers } = context.containers;
  if (name === id) return;
  if (!record) return enqueue.stopChild(id);
  const crashes = valueIn(context.crashes, name) ?? 0;
  enqueue.assign({ containers, crashes: { ...context.crashes, [name]: crashes + 1 } });
  const delay = pauseMs(RESPAWN_BACK_OFF, crashes);
  enqueue.raise({ type: 'inspection.due' });
  reapChild(enqueue, id, { type: 'container.respawn', name }, delay);
});

type Failures = Readonly<Record<string, Unprepared>>;

/** The errors for the statuses, by container; logs their causes. */
function errorsOf(enqueue: Enqueue, { namespace, name }: PodContext, text: string, failures: Failures) {
  const entries = Object.entries(failures);
  const pod = `${namespace}/${name}`;
  for (const [container, { message, why }] of entries)
    enqueue(line('warn', [text, { pod, container, message, err: why }]));
  return Object.fromEntries(entries.map(([container, { message }]) => [container, message]));
}

const noteVariables = s.enqueueActions(({ context, event, enqueue }) => {
  const { values, failed: failures } = outputOf<{ values: Readonly<Record<string, FileValues>>; failed: Failures }>(
    event,
  );
  enqueue.assign({
    fileValues: values,
    unread: errorsOf(enqueue, context, 'Cannot read the variables of a container', failures),
  });
});

const noteSubPaths = s.enqueueActions(({ context, event, enqueue }) => {
  const { failed: failures } = outputOf<{ failed: Failures }>(event);
  enqueue.assign({ unbound: errorsOf(enqueue, context, 'Cannot bind the sub-paths of a container', failures) });
});

/** Waits for these containers' variables from files in volumes. */
export const readingVariables = s.createStateConfig({
  always: { guard: 'lacksSandbox', target: 'deciding' },
  invoke: {
    id: 'variables',
    src: 'volume.readVariables',
    input: ({ context }) => ({ ...volumesPlace(context), variables: fileVariablesOf(context) }),
    onDone: { target: 'withVariables', actions: noteVariables },
    onError: { target: 'backingOff', actions: [noteFailure, logFailure('Cannot read variables from files')] },
  },
});

/** The variables are read: goes on to the other preparations of these containers. */
export const withVariables = s.createStateConfig({
  always: [
    { guard: 'hasDevices', target: 'preparingDevices' },
    { guard: 'hasSubPaths', target: 'bindingSubPaths' },
    { target: 'active', actions: [permitContainers, rememberPod] },
  ],
});

/** Waits for the sub-paths of these containers. */
export const bindingSubPaths = s.createStateConfig({
  always: { guard: 'lacksSandbox', target: 'deciding' },
  invoke: {
    id: 'subPaths',
    src: 'volume.bindSubPaths',
    input: ({ context }) => ({ ...volumesPlace(context), subPaths: subPathsOf(context) }),
    onDone: { target: 'active', actions: [noteSubPaths, permitContainers, rememberPod] },
    onError: { target: 'backingOff', actions: [noteFailure, logFailure('Cannot bind sub-paths')] },
  },
});

const noteUnprepared = s.assign({
  unprepared: ({ event }) => outputOf<{ failed: Record<string, string> }>(event).failed,
});

/** Waits for the plugins to prepare the devices of these containers. */
export const preparingDevices = s.createStateConfig({
  always: { guard: 'lacksSandbox', target: 'deciding' },
  invoke: {
    id: 'preStart',
    src: 'devices.preStartContainers',
    input: ({ context: { writing, devices } }) => ({
      containers: writing.flatMap((name) => {
        const ofContainer = valueIn(devices, name);
        return ofContainer ? [{ name, devices: ofContainer.ids }] : [];
      }),
    }),
    onDone: [
      { guard: 'hasSubPaths', target: 'bindingSubPaths', actions: noteUnprepared },
      { target: 'active', actions: [noteUnprepared, permitContainers, rememberPod] },
    ],
    onError: { target: 'backingOff', actions: [noteFailure, logFailure('Cannot prepare devices')] },
  },
});
