/**
 * The lifecycle hooks of a container: what runs with its start and before its end. Part of the chart of `container.ts`.
 *
 * Invariants: a container whose postStart hook runs is not shown as running, and one whose hook failed is killed; a
 * preStop hook never delays the end beyond the grace, and its time is gone from it; a container that is to stop does
 * not wait for its postStart hook; no hook runs twice for one instance.
 */
import { containerEvents } from '../../reasons.ts';
import {
  endWait,
  failPostStart,
  hookRequest,
  noteHookFailure,
  noteStop,
  observe,
  containerSetup as s,
  sayFallback,
} from './container-setup.ts';

/** Waits for the hook that belongs to its start; the process runs meanwhile. */
export const started = s.createStateConfig({
  entry: {
    type: 'tell',
    params: ({ context }) => ({ phase: context.wanted.postStart === null ? 'running' : 'starting', look: true }),
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
        { guard: 'hasPostStart', target: 'failed', actions: noteHookFailure },
        { target: '#container.running' },
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
        onDone: { target: '#container.running', actions: sayFallback },
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

export const preStop = s.createStateConfig({
  initial: 'choosing',
  exit: endWait,
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
      invoke: {
        id: 'preStop',
        src: 'cri.execSync',
        input: ({ context }) => ({
          containerId: context.id,
          command: context.wanted.preStop?.kind === 'exec' ? context.wanted.preStop.command : [],
          timeoutSeconds: 0,
        }),
        onDone: [
          { guard: ({ event }) => event.output.exitCode === 0, target: '#container.stopping.turn' },
          { target: '#container.stopping.turn', actions: hookFailed },
        ],
        onError: { target: '#container.stopping.turn', actions: hookFailed },
      },
      after: { grace: { target: '#container.stopping.turn', actions: hookFailed } },
    },
    requesting: {
      invoke: {
        id: 'preStop',
        src: 'probe.httpHook',
        input: ({ context }) => hookRequest(context.wanted.preStop, context.podIP),
        onDone: { target: '#container.stopping.turn', actions: sayFallback },
        onError: { target: '#container.stopping.turn', actions: hookFailed },
      },
      after: { grace: { target: '#container.stopping.turn', actions: hookFailed } },
    },
    sleeping: { after: { preStop: '#container.stopping.turn' } },
  },
});
