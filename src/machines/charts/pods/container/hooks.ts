/**
 * The lifecycle hooks of a container, postStart and preStop, and the call that stops it, also in parallel to a hook.
 * Part of the chart of `container.ts`.
 *
 * Invariants: a container whose postStart hook runs is not shown as running, and one whose hook failed is killed; a
 * preStop hook never delays the stop call beyond the grace period, from which its time is subtracted, and may continue
 * until its container ends; a stopping container does not wait for its postStart hook; no hook runs twice for one
 * instance.
 */

import { errorIn, errorOf, line, now, type OutputOf, outputOf, random, to } from '../../../../kernel/xstate.ts';
import type { Operations } from '../../../model/operations/index.ts';
import { eventRecorded, type Hook } from '../../../model/pods/pod-messages.ts';
import { containerEvents, hookMessages, killError, killMessages, podEvents } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { urlOf } from '../prober/prober-policy.ts';
import {
  afterCall,
  type ContainerContext,
  formatPod,
  podRefOf,
  refOf,
  retryDelay,
  stopSeconds,
} from './container-policy.ts';
import { endWait, noteStop, observe, containerSetup as s, updateFromAnswer } from './container-setup.ts';

/** The call that runs a hook of the container. */
function hookRequest(hook: Hook | null, podIP: string) {
  if (hook?.kind !== 'httpGet') throw new Error(`no request in a hook of kind ${hook?.kind ?? 'none'}`);
  return { url: urlOf(hook, podIP), headers: hook.headers };
}

type HookEnd = { readonly error: string } | OutputOf<Operations['cri.execSync']>;

/** Why the postStart hook failed, from the result of the call; `null` if the hook cannot run at all. */
function hookMessage(context: ContainerContext, end: HookEnd | null): string {
  const { name, wanted } = context;
  const { postStart } = wanted;
  const pod = formatPod(context);
  const isAsKubelet = hasBehavior(context, 'hooksAsKubelet');
  if (postStart?.kind === 'unsupported' && isAsKubelet) return refusalOf(postStart, name, pod);
  if (end === null || postStart === null) return hookMessages.unsupported(name, pod);
  if (postStart.kind === 'httpGet')
    return hookMessages.http(postStart.path, name, pod, 'error' in end ? end.error : '');
  const command = postStart.kind === 'exec' ? postStart.command : [];
  if ('error' in end) return hookMessages.exec(command, name, pod, end.error, '');
  const output = end.stdout + end.stderr;
  const error = hookMessages.exited(command, end.exitCode, isAsKubelet ? end.stderr : output);
  return hookMessages.exec(command, name, pod, error, output);
}

const refusalOf = ({ path, error }: Hook & { readonly kind: 'unsupported' }, name: string, pod: string): string =>
  path === null ? hookMessages.cannotRun(error) : hookMessages.http(path, name, pod, error);

const preStopFailed = containerEvents.failedPreStopHook();

/** Stores how the postStart hook failed, for the event. */
const noteHookFailure = s.assign(({ context, event }) => {
  const error = errorIn(event);
  const output = outputOf<HookEnd | undefined>(event) ?? null;
  return { message: hookMessage(context, error ? { error: error.message } : output) };
});

const failPostStart = s.assign(({ context }) => ({
  stop: {
    graceSeconds: context.wanted.graceSeconds,
    message: killMessages.failedPostStartHook,
    after: 'exit' as const,
  },
}));

/** Logs that the server does not speak the protocol that the hook asks for. */
const logFallback = s.enqueueActions(({ context, event, enqueue }) => {
  const output = outputOf<{ fellBack: boolean }>(event);
  const hook = context.stop === null ? context.wanted.postStart : context.wanted.preStop;
  if (!output.fellBack || hook?.kind !== 'httpGet') return;
  const text = containerEvents.lifecycleHttpFallback(`${hook.host || context.podIP}:${hook.port}`);
  const ref = hasBehavior(context, 'podLifeAsKubelet') ? podRefOf(context) : refOf(context);
  enqueue.sendTo(to('eventRecorder'), eventRecorded(ref, text));
});

/** The preStop hook answered; a failure is recorded. */
const endHook = s.enqueueActions(({ event, enqueue }) => {
  const output = outputOf<{ exitCode?: number; fellBack?: boolean } | undefined>(event);
  if (output?.fellBack) enqueue(logFallback);
  if (output === undefined || (output.exitCode ?? 0) !== 0) enqueue({ type: 'record', params: preStopFailed });
  enqueue.assign({ hookBeganAtMs: 0 });
});

/** A hook that is still running when its container ends counts as failed. */
const leaveHook = s.enqueueActions(({ context, enqueue }) => {
  if (context.hookBeganAtMs !== 0) enqueue({ type: 'record', params: preStopFailed });
});

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
