/**
 * One container of a pod (`container-<name>`): from its definition to the running instance, and to its end.
 *
 * Decides: when to ask for the image, when to create, start, stop, wait and restart.
 * Owns: the instance it works on, its restart count, its crash-loop back-off.
 * Hears: `container.observed` (the newest instance in the runtime), `container.permitted` and `container.refused` (its
 *   turn), `container.configured`, `container.resized`, `container.counted`, `container.stop` and `container.turn` (its
 *   turn to stop) of its pod; `image.*` of `images` through its pod.
 * Asks: `cri.createContainer`, `cri.startContainer`, `cri.stopContainer`, `cri.execSync` and `probe.httpHook` for
 *   hooks, `host.terminationMessage`.
 * Sends: its pod every change; `eventRecorder` its events; `softState` restart counts and back-offs.
 * Invariants:
 *   T1 an instance that runs with the wanted definition is never touched.
 *   T2 nothing is created without the pod's permission; the permission is for one instance in one sandbox.
 *   T3 the answer to a call shows the instance; after a call whose outcome is unknown the runtime is inspected before
 *      the next try: an existing instance is adopted, never created twice.
 *   T4 between two starts the container waits for its back-off: 0, 10 s, 20 s, ... up to the maximum; an instance that
 *      ran for ten minutes resets it, and so do another image and other resources; a start that was cancelled with an
 *      earlier agent does not count.
 */
import { errorOf, line, outputOf } from '../../../../kernel/xstate.ts';
import { containerEvents, startErrorText, waitingReasons } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { isSame } from '../../../model/values/same.ts';
import { afterCall, type ContainerContext, formatPod, initialContext, SPAWNED, viewOf } from './container-policy.ts';
import {
  beginWait,
  configure,
  endWait,
  logImage,
  nextInstance,
  noteAfter,
  noteCount,
  noteFailure,
  noteImage,
  noteImageFailure,
  noteMaxBackoff,
  noteMessage,
  notePodIP,
  noteRefusal,
  noteResources,
  noteStart,
  noteStop,
  noteTurnToStop,
  observe,
  reportStopped,
  resetBackoff,
  restartFromScratch,
  retryStart,
  containerSetup as s,
  stopToReplace,
  stopUnknown,
  updateFromAnswer,
  updateInstance,
} from './container-setup.ts';
import { preStop, started, stopCall } from './hooks.ts';

/** How long the runtime may take to show the end of a stopped instance before the stop is repeated. */
const SHOW_END_MS = 2_000;
/** Bytes of a termination message, as upstream. */
const MESSAGE_MAX_BYTES = 4_096;

/** Ids would make each failure another event: the name of the container replaces its id. */
const nameForId = (context: ContainerContext, text: string): string =>
  context.id === '' || !hasBehavior(context, 'podLifeAsKubelet') ? text : text.replaceAll(context.id, context.name);

const recordFailed = {
  type: 'record',
  params: ({ context, event }: { context: ContainerContext; event: unknown }) =>
    containerEvents.failed(nameForId(context, startErrorText(errorOf(event).message))),
} as const;

/** A container that has just started has nothing to report to its pod. */
const reportWaiting = s.enqueueActions(({ context, event, enqueue }) => {
  const isNew = (event as { readonly type: string }).type === 'xstate.init';
  if (isNew && isSame(viewOf(context, 'waiting'), SPAWNED)) return;
  enqueue({ type: 'report', params: { phase: 'waiting' } });
});

const hasStartAnswer = ({ type }: { readonly type: string }): boolean => type === 'xstate.done.actor.start';

/** No call is in progress: another definition replaces the previous one at once. */
const onNewDefinition = {
  'container.configured': [
    { guard: 'isRedefined', target: 'image', actions: [configure, resetBackoff] },
    { actions: configure },
  ],
} as const;

const hasStarted = [
  s.assign({ failures: 0, reason: '', message: '' }),
  updateFromAnswer,
  { type: 'record', params: () => containerEvents.started() },
] as const;

const waiting = s.createStateConfig({
  initial: 'image',
  on: {
    'container.observed': [
      { guard: ({ event }) => event.facts?.state === 'running', actions: updateInstance, target: '#container.running' },
      { actions: observe },
    ],
    'container.stop': [
      { guard: ({ event }) => event.after === 'end', target: '#container.ended', actions: noteStop },
      { guard: 'mustRestartFromScratch', target: '#container.waiting', reenter: true, actions: restartFromScratch },
    ],
    'container.resized': { actions: noteResources(true) },
  },
  states: {
    /** Waits for `images` to report that the image exists. */
    image: {
      meta: { waitsFor: 'its image' },
      entry: [reportWaiting, 'askImage'],
      on: {
        'image.ready': { target: 'turn', actions: noteImage },
        'image.failed': { target: 'imageFailed', actions: noteImageFailure },
        'images.started': { target: 'image', reenter: true },
        'container.configured': [
          { guard: 'isRedefined', target: 'image', reenter: true, actions: [configure, resetBackoff] },
          { actions: configure },
        ],
      },
    },
    /** Waits until requesting the image again can help. */
    imageFailed: {
      meta: { waitsFor: 'the next try to get its image' },
      entry: { type: 'report', params: { phase: 'waiting' } },
      after: { wait: 'image' },
      on: onNewDefinition,
    },
    /** Waits for the sandbox, and for the containers that start before this one. */
    turn: {
      meta: { waitsFor: 'the sandbox, and the containers that start before it' },
      entry: 'askTurn',
      on: {
        ...onNewDefinition,
        'container.permitted': [
          { guard: 'isCreated', target: 'starting', actions: [updateInstance, notePodIP] },
          { target: 'creating', actions: [notePodIP, logImage] },
        ],
        'container.refused': {
          target: 'failed',
          actions: [
            logImage,
            noteRefusal,
            { type: 'record', params: ({ event }) => containerEvents.failed(event.message) },
          ],
        },
      },
    },
    creating: {
      meta: { waitsFor: 'the runtime to create it' },
      invoke: {
        id: 'create',
        src: 'cri.createContainer',
        input: ({ event }) => {
          if (event.type !== 'container.permitted') throw new Error(`no permission in ${event.type}`);
          const { podSandboxId, config, sandboxConfig, secrets, written, words } = event;
          const values = {
            ...(secrets.length === 0 ? {} : { secrets }),
            ...(written.length === 0 ? {} : { written }),
            ...(words === undefined ? {} : { words }),
          };
          return { podSandboxId, config, sandboxConfig, ...values };
        },
        onDone: {
          target: 'starting',
          actions: [
            s.assign({
              id: ({ event }) => outputOf<{ containerId: string }>(event).containerId,
            }),
            { type: 'record', params: () => containerEvents.created() },
          ],
        },
        onError: {
          target: 'failed',
          actions: [noteFailure(waitingReasons.createContainerError), recordFailed],
        },
      },
      on: {
        'container.observed': { actions: observe },
        'container.stop': [
          { guard: ({ event }) => event.after === 'end', target: '#container.ended', actions: noteStop },
          { guard: 'isReset', target: 'image', actions: restartFromScratch },
          { target: 'image' },
        ],
      },
    },
    starting: {
      meta: { waitsFor: 'the runtime to start it' },
      entry: [noteStart, 'rememberStart'],
      invoke: {
        id: 'start',
        src: 'cri.startContainer',
        input: ({ context }) => ({ containerId: context.id }),
        onDone: [
          { guard: 'hasPostStart', target: '#container.started', actions: hasStarted },
          { target: '#container.running', actions: hasStarted },
        ],
        onError: {
          target: 'failed',
          actions: [noteFailure(waitingReasons.runContainerError), recordFailed],
        },
      },
      on: {
        'container.observed': { actions: observe },
        'container.stop': { target: '#container.stopping', actions: noteStop },
      },
    },
    /** A call failed: waits while the pod observes the outcome. */
    failed: {
      entry: { type: 'report', params: { phase: 'waiting', inspect: true } },
      after: { wait: '#container.deciding' },
      on: { ...onNewDefinition, 'container.retry': { guard: 'wasRefused', target: '#container.deciding' } },
    },
    /** Between two instances: the first restart is immediate. */
    between: { always: [{ guard: 'startsAtOnce', target: 'image' }, { target: 'backOff' }] },
    /** Waits for the end of the crash-loop back-off. */
    backOff: {
      meta: { waitsFor: 'the end of its crash-loop back-off' },
      entry: [
        { type: 'report', params: { phase: 'waiting' } },
        { type: 'record', params: ({ context }) => containerEvents.backOff(context.name, formatPod(context)) },
      ],
      after: { wait: 'image' },
      on: { ...onNewDefinition, 'container.resized': { target: 'image', actions: resetBackoff } },
    },
  },
});

const running = s.createStateConfig({
  entry: {
    type: 'report',
    params: ({ event }) => ({ phase: 'running', ...(hasStartAnswer(event) ? afterCall({ event }) : {}) }),
  },
  always: [
    { guard: 'hasExited', target: 'exited' },
    { guard: 'hasBecomeUnknown', target: 'stopping', actions: stopUnknown },
    { guard: 'isReplaced', target: 'stopping', actions: stopToReplace },
  ],
  on: {
    'container.observed': [{ guard: 'isLost', target: 'exited', actions: observe }, { actions: observe }],
    'container.configured': { actions: configure },
    'container.stop': { target: 'stopping', actions: noteStop },
  },
});

/** The instance ended: reads its termination message, and decides what follows. */
const exited = s.createStateConfig({
  initial: 'choosing',
  on: { 'container.stop': { guard: 'mustEndOrRunAgain', actions: noteStop } },
  states: {
    choosing: { always: [{ guard: 'hasUnreadMessage', target: 'reading' }, { target: 'decided' }] },
    /** Waits for the termination message. */
    reading: {
      invoke: {
        id: 'message',
        src: 'host.terminationMessage',
        input: ({ context }) => ({
          file: context.facts?.messageFile ?? '',
          logFile: context.facts?.messageLog || null,
          maxBytes: MESSAGE_MAX_BYTES,
        }),
        onDone: { target: 'decided', actions: noteMessage },
        onError: {
          target: 'decided',
          actions: line('warn', ({ context, event }) => [
            'Cannot read the termination message',
            { container: context.name, error: errorOf(event).message },
          ]),
        },
      },
    },
    decided: {
      always: [
        { guard: 'isBetweenInstances', target: '#container.waiting.between' },
        { guard: 'requestsRestartAll', target: 'asking' },
        { guard: 'mayStartAgain', target: '#container.waiting', actions: retryStart },
        { guard: 'mayRestart', target: '#container.waiting.between', actions: [nextInstance, 'remember'] },
        { target: '#container.ended' },
      ],
    },
    /** Waits for the pod, which observes this end too, to restart all containers, or to end. */
    asking: { on: { 'container.stop': { target: 'decided', actions: noteStop } } },
  },
});

const stopping = s.createStateConfig({
  entry: [
    { type: 'report', params: { phase: 'stopping' } },
    { type: 'record', params: ({ context }) => containerEvents.killing(context.stop?.message ?? '') },
  ],
  initial: 'choosing',
  always: { guard: 'hasExited', target: 'stopped' },
  on: {
    'container.observed': { actions: observe },
    'container.stop': [{ guard: 'isShorter', target: '.turn', actions: noteStop }, { actions: noteAfter }],
    'container.turn': { actions: noteTurnToStop },
  },
  states: {
    choosing: {
      always: [{ guard: 'hasPreStop', target: 'hook', actions: beginWait }, { target: 'turn' }],
    },
    /** Waits for the preStop hook, within the grace period; a longer hook continues during the stop call. */
    hook: preStop,
    /** Waits until the containers that stop before this one have stopped, within the grace period. */
    turn: {
      entry: beginWait,
      exit: endWait,
      always: { guard: 'mayStopNow', target: 'asking' },
      after: { grace: 'asking' },
    },
    ...stopCall,
  },
});

/** Waits until the runtime shows the end of the stopped instance. */
const stopped = s.createStateConfig({
  entry: reportStopped,
  always: { guard: 'hasExited', target: 'exited' },
  on: {
    'container.observed': [{ guard: 'isLost', target: 'exited', actions: observe }, { actions: observe }],
    'container.stop': { actions: noteStop },
  },
  initial: 'unseen',
  states: {
    unseen: {
      after: {
        [SHOW_END_MS]: { target: 'unseen', reenter: true, actions: 'logUnseen' },
        givenUp: { guard: 'neverRan', target: '#container.waiting', actions: restartFromScratch },
      },
    },
  },
});

/** The container has ended, and starts again only by an order of the pod. */
const ended = s.createStateConfig({
  entry: { type: 'report', params: { phase: 'ended' } },
  on: {
    'container.observed': [{ guard: 'mustStopAgain', target: 'stopping', actions: observe }, { actions: observe }],
    'container.stop': [
      { guard: 'isAlive', target: 'stopping', actions: noteStop },
      { guard: 'mustRunAgain', target: 'waiting', actions: [noteStop, nextInstance] },
      { actions: noteStop },
    ],
  },
});

export const containerMachine = s.createMachine({
  id: 'container',
  context: ({ input }) => initialContext(input),
  initial: 'deciding',
  on: {
    'container.configured': { actions: configure },
    'container.limited': { actions: noteMaxBackoff },
    'container.resized': { actions: noteResources(false) },
    'container.counted': { actions: noteCount },
  },
  states: {
    /** Decides by the instance in the runtime. */
    deciding: {
      always: [
        { guard: 'isDormant', target: 'ended' },
        { guard: 'isAsWanted', target: 'running', actions: updateInstance },
        { guard: 'isUnknown', target: 'stopping', actions: stopUnknown },
        { guard: 'isAlive', target: 'stopping', actions: [updateInstance, stopToReplace] },
        { guard: 'hasUnread', target: 'exited', actions: { type: 'report', params: { phase: 'waiting' } } },
        { guard: 'isBetween', target: 'waiting.between' },
        { guard: 'isOver', target: 'exited' },
        { target: 'waiting' },
      ],
    },
    waiting,
    started,
    running,
    exited,
    stopping,
    stopped,
    ended,
  },
});
