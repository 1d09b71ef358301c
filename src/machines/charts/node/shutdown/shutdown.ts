/**
 * The shutdown manager: when the machine shuts down, pods end first, the least important ones before the others.
 *
 * Decides: which pods end when, and how long the machine waits for them.
 * Owns: the inhibitor lock that delays the shutdown, the pods that may run, the group that ends now.
 * Hears: `shutdown.prepared` of logind, `node.podChanged` of pods.
 * Asks: `logind.*`.
 * Sends: `nodeStatus` and `allocation` that the node is shutting down, and no longer is; `pods` which pods to end.
 * Invariants:
 *   D1 the lock is held from the first moment until the last group is over, and never longer.
 *   D2 a group starts when the pods of the previous one are gone, or its time is over.
 *   D3 without logind the node runs as usual, but its shutdown is not graceful.
 * Seeds: S203, S241. Upstream: pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go.
 */
import { line, required, to } from '../../../../kernel/xstate.ts';
import { periodRequestedSeconds } from './policy.ts';
import {
  beginShutdown,
  type Context,
  cancelShutdown,
  endGroup,
  logLost,
  logTimeOut,
  logTooShort,
  logUnavailable,
  logUnstored,
  nextGroup,
  noteDelay,
  noteEnd,
  notePod,
  shutdownSetup as s,
} from './shutdown-setup.ts';

/** The pause before a lost bus or lock is requested again; as upstream. */
const RECONNECT_MS = 1_000;
/** The pause before a machine without logind is asked again. */
const ABSENT_MS = 60_000;

const state = ({ context: { settings, beganAtMs: startMs, endedAtMs: endMs } }: { context: Context }) => ({
  path: settings.stateFile,
  startMs,
  endMs,
});

const guarding = s.createStateConfig({
  invoke: {
    id: 'lock',
    src: 'logind.inhibitShutdown',
    input: {},
    onDone: { guard: 'isWaiting', target: 'reacquiring', actions: logLost },
    onError: [{ guard: 'isWaiting', target: 'reacquiring', actions: logLost }, { actions: logLost }],
  },
  initial: 'waiting',
  states: {
    /** Waits for the machine to shut down. */
    waiting: { on: { 'shutdown.prepared': { guard: 'isActive', target: 'storingStart', actions: beginShutdown } } },
    storingStart: {
      invoke: {
        id: 'storeStart',
        src: 'logind.storeShutdown',
        input: state,
        onDone: 'ending',
        onError: { target: 'ending', actions: logUnstored },
      },
    },
    /** Waits until the pods of this group are gone, or their time is over. */
    ending: {
      entry: endGroup,
      always: { guard: 'isGroupGone', target: 'ended' },
      after: { group: { target: 'ended', actions: logTimeOut } },
    },
    ended: {
      always: [
        { guard: 'isLastGroup', target: 'storingEnd', actions: noteEnd },
        { target: 'ending', actions: nextGroup },
      ],
    },
    storingEnd: {
      invoke: {
        id: 'storeEnd',
        src: 'logind.storeShutdown',
        input: state,
        onDone: '#released',
        onError: { target: '#released', actions: logUnstored },
      },
    },
  },
  on: { 'shutdown.prepared': { guard: 'isCancelled', target: '.waiting', actions: cancelShutdown } },
});

const active = s.createStateConfig({
  invoke: {
    id: 'bus',
    src: 'logind.watchShutdown',
    input: {},
    onDone: { guard: 'isWaiting', target: 'lost', actions: logLost },
    onError: [{ guard: 'isWaiting', target: 'lost', actions: logLost }, { actions: logLost }],
  },
  initial: 'guarding',
  states: {
    guarding,
    reacquiring: { after: { [RECONNECT_MS]: 'guarding' } },
    /** All groups have ended, so the machine may shut down. */
    released: {
      id: 'released',
      entry: line('info', 'Shutdown manager completed processing shutdown event, node will shutdown shortly'),
      on: { 'shutdown.prepared': { guard: 'isCancelled', target: 'guarding', actions: cancelShutdown } },
    },
  },
});

const delay = {
  src: 'logind.inhibitDelay' as const,
  input: {},
};

export const shutdownMachine = s.createMachine({
  id: 'shutdown',
  context: ({ input }) => ({
    settings: required(input.shutdown, 'the settings of a graceful shutdown'),
    nodeName: input.nodeName,
    pods: {},
    delayMs: 0,
    group: 0,
    beganAtMs: 0,
    endedAtMs: null,
    complaint: '',
  }),
  entry: s.enqueueActions(({ enqueue }) => enqueue.sendTo(to('pods'), { type: 'garbage.wanted' })),
  on: { 'node.podChanged': { actions: notePod } },
  initial: 'locating',
  states: {
    /** Waits for logind's maximum delay. */
    locating: {
      invoke: {
        id: 'delay',
        ...delay,
        onDone: { target: 'judging', actions: noteDelay },
        onError: { target: 'absent', actions: logUnavailable },
      },
    },
    judging: { always: [{ guard: 'waitsLongEnough', target: 'active' }, { target: 'overriding' }] },
    /** Waits for logind to accept the longer delay. */
    overriding: {
      invoke: {
        id: 'override',
        src: 'logind.overrideInhibitDelay',
        input: ({ context }) => ({ seconds: periodRequestedSeconds(context.settings.periods) }),
        onDone: 'checking',
        onError: { target: 'absent', actions: logUnavailable },
      },
    },
    checking: {
      invoke: {
        id: 'newDelay',
        ...delay,
        onDone: { target: 'accepting', actions: noteDelay },
        onError: { target: 'absent', actions: logUnavailable },
      },
    },
    accepting: {
      always: [
        { guard: 'waitsLongEnough', target: 'active' },
        { target: 'absent', actions: logTooShort },
      ],
    },
    /** Without logind a shutdown is not graceful. */
    absent: { after: { [ABSENT_MS]: 'locating' } },
    lost: { after: { [RECONNECT_MS]: 'locating' } },
    active,
  },
});
