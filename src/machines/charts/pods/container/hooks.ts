/**
 * The lifecycle hooks of a container, postStart and preStop, and the call that stops it, also in parallel to a hook.
 * Part of the chart of `container.ts`.
 *
 * Invariants: a container whose postStart hook runs is not shown as running, and one whose hook failed is killed; a
 * preStop hook never delays the stop call beyond the grace period, from which its time is subtracted, and may continue
 * until its container ends; a stopping container does not wait for its postStart hook; no hook runs twice for one
 * instance.
 */

import { errorOf, line, now, random, to } from '../../../../kernel/xstate.ts';
import { eventRecorded } from '../../../model/pods/pod-messages.ts';
import { containerEvents, killError, podEvents } from '../../../model/reasons/reasons.ts';
import { afterCall, podRefOf, retryDelay, stopSeconds } from './container-policy.ts';
import {
  endHook,
  endWait,
  failPostStart,
  hookRequest,
  leaveHook,
  logFallback,
  noteHookFailure,
  noteStop,
  observe,
  containerSetup as s,
  updateFromAnswer,
} from './container-setup.ts';

/** The pause before a failed stop is retried. */
const STOP_RETRY_MS = 1_000;

const logFailedKill = s.enqueueActions(({ context, event, enqueue }) => {
  enqueue(line('error', ['Kill container failed', { container: context.name, error: errorOf(event).message }]));
});

/** Reports why the pod does not end. */
const recordFailedKill = s.enqueueActions(({ context, event, enqueue }) => {
  const error = killError('KillContainer', context.name, errorOf(event).message);
  enqueue.sendTo(to('eventRecorder'), eventRecorded(podRefOf(context), podEvents.failedKillPod(error)));
});

const noteFailedKill = s.assign((args) => ({
  failures: args.context.failures + 1,
  untilMs: now(args) + retryDelay(args.context.failures, random(args)),
}));

/** Waits for the runtime to stop the instance, with grace period. */
const asking = s.createStateConfig({
  invoke: {
    id: 'stop',
    src: 'cri.stopContainer',
    input: ({ context }) => ({ containerId: context.id, timeoutSeconds: stopSeconds(context) }),
    onDone: { target: '#container.stopped', actions: updateFromAnswer },
    onError: [
      { guard: ({ event }) => errorOf(event).code === 'NOT_FOUND', target: '#container.stopped' },
      { guard: 'delaysEnd', target: 'delayed', actions: [logFailedKill, recordFailedKill, noteFailedKill] },
      { target: 'failed', actions: logFailedKill },
    ],
  },
});

const failed = s.createStateConfig({
  entry: { type: 'report', params: { phase: 'stopping', inspect: true } },
  after: { [STOP_RETRY_MS]: 'asking' },
});

/** The end of the pod waits for this container: each failure is an event, and the pauses get longer. */
const delayed = s.createStateConfig({
  entry: { type: 'report', params: { phase: 'stopping', inspect: true } },
  after: { wait: 'asking' },
});

export const stopCall = { asking, failed, delayed };

/** Waits for the postStart hook while the process runs. */
export const started = s.createStateConfig({
  entry: {
    type: 'report',
    params: ({ event }) => ({ phase: 'starting', ...afterCall({ event }) }),
  },
  initial: 'choosing',
  always: { guard: 'hasExited', target: 'exited' },
  on: {
    'container.observed': [{ guard: 'isLost', target: 'exited', actions: observe }, { actions: observe }],
    'container.stop': { target: 'stopping', actions: noteStop },
  },
  states: {
    choosing: {
      always: [
        { guard: 'postStartExecs', target: 'executing' },
        { guard: 'postStartGets', target: 'requesting' },
        { guard: 'postStartSleeps', target: 'sleeping' },
        { target: 'failed', actions: noteHookFailure },
      ],
    },
    executing: {
      invoke: {
        id: 'postStart',
        src: 'cri.execSync',
        input: ({ context }) => ({
          containerId: context.id,
          command: context.wanted.postStart?.kind === 'exec' ? context.wanted.postStart.command : [],
          timeoutSeconds: 0,
        }),
        onDone: [
          { guard: ({ event }) => event.output.exitCode === 0, target: '#container.running' },
          { target: 'failed', actions: noteHookFailure },
        ],
        onError: { target: 'failed', actions: noteHookFailure },
      },
    },
    requesting: {
      invoke: {
        id: 'postStart',
        src: 'probe.httpHook',
        input: ({ context }) => hookRequest(context.wanted.postStart, context.podIP),
        onDone: { target: '#container.running', actions: logFallback },
        onError: { target: 'failed', actions: noteHookFailure },
      },
    },
    sleeping: { after: { postStart: '#container.running' } },
    failed: {
      entry: { type: 'record', params: () => containerEvents.failedPostStartHook() },
      always: { target: '#container.stopping', actions: failPostStart },
    },
  },
});

const hookFailed = { type: 'record', params: () => containerEvents.failedPreStopHook() } as const;

/** The hook answered, within the grace period or later. */
const hookAnswered = [
  { guard: 'isOverdue', actions: endHook },
  { target: '.answered', actions: endHook },
] as const;

/** The hook runs alone until the grace period is over, then in parallel to the stop call. */
const hookBeforeStop = {
  initial: 'alone',
  exit: leaveHook,
  states: {
    alone: { exit: endWait, after: { grace: 'overdue' } },
    overdue: { initial: 'asking', states: stopCall },
    answered: { always: '#container.stopping.turn' },
  },
} as const;

export const preStop = s.createStateConfig({
  initial: 'choosing',
  states: {
    choosing: {
      always: [
        { guard: 'preStopExecs', target: 'executing' },
        { guard: 'preStopGets', target: 'requesting' },
        { guard: 'preStopSleeps', target: 'sleeping' },
        { target: '#container.stopping.turn', actions: hookFailed },
      ],
    },
    executing: {
      ...hookBeforeStop,
      invoke: {
        id: 'preStop',
        src: 'cri.execSync',
        input: ({ context }) => ({
          containerId: context.id,
          command: context.wanted.preStop?.kind === 'exec' ? context.wanted.preStop.command : [],
          timeoutSeconds: 0,
        }),
        onDone: hookAnswered,
        onError: hookAnswered,
      },
    },
    requesting: {
      ...hookBeforeStop,
      invoke: {
        id: 'preStop',
        src: 'probe.httpHook',
        input: ({ context }) => hookRequest(context.wanted.preStop, context.podIP),
        onDone: hookAnswered,
        onError: hookAnswered,
      },
    },
    sleeping: { exit: endWait, after: { preStop: '#container.stopping.turn' } },
  },
});
