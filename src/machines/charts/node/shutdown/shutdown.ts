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
 *   D2 a group starts when the pods of the previous one are gone and their volumes are unmounted, or its time is over:
 *      the drivers that unmount them are pods of a later group.
 *   D3 without logind the node runs as usual, but its shutdown is not graceful.
 * Seeds: S203, S241. Upstream: pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go.
 */
import type { Ended, EnqueueOf, ItemOf } from '../../../../kernel/xstate.ts';
import { errorIn, line, now, outputOf, pick, required, setup, stateIn, to, typed } from '../../../../kernel/xstate.ts';
import type { NodePod, NodePodChanged } from '../../../model/eviction/ranking.ts';
import { logindOperations } from '../../../model/operations/logind.ts';
import { nodeEvent, type PodKillWanted } from '../../../model/pods/pod-messages.ts';
import { nodeEvents, podMessages, podReasons } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import type { NodeSettings, ShutdownSettings } from '../../../model/settings/node-settings.ts';
import { graceOf, periodRequestedSeconds, podsOfGroup } from './policy.ts';

const MS_PER_SECOND = 1_000;

interface Context {
  readonly settings: ShutdownSettings;
  readonly nodeName: string;
  readonly pods: Readonly<Record<string, NodePod>>;
  /** Uids of pods of this group whose volumes may be mounted; absent: volumes are not awaited. */
  readonly mounted?: readonly string[];
  readonly delayMs: number;
  /** Index of the group that is ending. */
  readonly group: number;
  readonly beganAtMs: number;
  readonly endedAtMs: number | null;
  /** Why logind cannot be used, as last reported. */
  readonly complaint: string;
}

type Event =
  | ItemOf<(typeof logindOperations)['logind.inhibitShutdown']>
  | ItemOf<(typeof logindOperations)['logind.watchShutdown']>
  | NodePodChanged
  | Ended;

const requestedMs = ({ settings }: Context): number => periodRequestedSeconds(settings.periods) * MS_PER_SECOND;
const openPods = ({ settings, group, pods }: Context) => podsOfGroup(settings.periods, group, pods);
const graceSeconds = ({ settings, group }: Context): number => settings.periods[group]?.graceSeconds ?? 0;

const shutdownSetup = setup({
  types: typed<{ input: NodeSettings; context: Context; events: Event }>(),
  actors: pick(
    logindOperations,
    'logind.inhibitDelay',
    'logind.overrideInhibitDelay',
    'logind.inhibitShutdown',
    'logind.watchShutdown',
    'logind.storeShutdown',
  ),
  guards: {
    waitsLongEnough: ({ context }) => context.delayMs >= requestedMs(context),
    isGroupGone: ({ context }) => openPods(context).length === 0 && (context.mounted ?? []).length === 0,
    isLastGroup: ({ context }) => context.group >= context.settings.periods.length - 1,
    isActive: ({ event }) => event.type === 'shutdown.prepared' && event.active,
    isCancelled: ({ event }) => event.type === 'shutdown.prepared' && !event.active,
    isWaiting: stateIn({ active: { guarding: 'waiting' } }),
  },
  delays: { group: ({ context }) => graceSeconds(context) * MS_PER_SECOND },
});

const s = shutdownSetup;
type Enqueue = EnqueueOf<typeof s>;

/** Logs why there is no graceful shutdown; the same reason once. */
function logOnce(enqueue: Enqueue, { complaint }: Context, text: string, err: string): void {
  if (complaint === err) return;
  enqueue(line('error', [text, { err }]));
  enqueue.assign({ complaint: err });
}

const logUnavailable = s.enqueueActions(({ context, event, enqueue }) =>
  logOnce(enqueue, context, 'Failed to start node shutdown manager', reasonOf(event)),
);

const logTooShort = s.enqueueActions(({ context, enqueue }) => {
  const requested = `${requestedMs(context) / MS_PER_SECOND}s`;
  const current = `${context.delayMs / MS_PER_SECOND}s`;
  const err =
    `node shutdown manager was unable to update logind InhibitDelayMaxSec to ${requested} (ShutdownGracePeriod), ` +
    `current value of InhibitDelayMaxSec (${current}) is less than requested ShutdownGracePeriod`;
  logOnce(enqueue, context, 'Failed to start node shutdown manager', err);
});

const logLost = s.enqueueActions(({ context, event, enqueue }) =>
  logOnce(enqueue, context, 'Unable to watch the node for shutdown events', reasonOf(event)),
);

const reasonOf = (event: unknown): string => errorIn(event)?.message ?? 'it ended';

function sendNode(enqueue: Enqueue, active: boolean): void {
  enqueue.sendTo(to('nodeStatus'), { type: 'node.reported', reports: { shuttingDown: active } });
  enqueue.sendTo(to('allocation'), { type: 'node.shuttingDown', active });
}

function recordEvent(enqueue: Enqueue, { nodeName }: Context, what: 'event' | 'cancellation'): void {
  enqueue.sendTo(to('eventRecorder'), nodeEvent(nodeName, nodeEvents.shutdown(what)));
}

const beginShutdown = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  enqueue(line('info', 'Shutdown manager processing shutdown event'));
  enqueue.assign({ group: 0, beganAtMs: now(args), endedAtMs: null });
  recordEvent(enqueue, context, 'event');
  sendNode(enqueue, true);
});

const cancelShutdown = s.enqueueActions(({ context, enqueue }) => {
  recordEvent(enqueue, context, 'cancellation');
  sendNode(enqueue, false);
});

const VERDICT = {
  reason: podReasons.terminated,
  message: podMessages.nodeShutdown,
  published: 'once',
  disruptionTarget: true,
} as const;

const endGroup = s.enqueueActions(({ context, enqueue }) => {
  const period = required(context.settings.periods[context.group], 'the group of pods that ends now');
  for (const [uid, pod] of openPods(context)) {
    const grace = graceOf(pod, period);
    const name = `${pod.namespace}/${pod.name}`;
    enqueue(line('info', ['Shutdown manager killing pod with gracePeriod', { pod: name, gracePeriod: grace }]));
    const kill: PodKillWanted = { type: 'pods.kill', uid, graceSeconds: grace, verdict: VERDICT };
    enqueue.sendTo(to('pods'), kill);
  }
  if (context.mounted !== undefined) enqueue.assign({ mounted: openPods(context).map(([uid]) => uid) });
});

const logTimeOut = line<Context, Event, undefined, Event>('info', ({ context }) => [
  'Shutdown manager pod killing time out',
  { gracePeriod: graceSeconds(context), priority: context.settings.periods[context.group]?.priority },
]);

const noteDelay = s.assign({
  delayMs: ({ event }) => outputOf<{ delayMs: number }>(event).delayMs,
});

const notePod = s.assign(({ context, event }) => {
  if (event.type !== 'node.podChanged') return {};
  const { uid, pod, isReclaimed = false } = event;
  const { [uid]: _before, ...others } = context.pods;
  const pods = pod === null ? others : { ...others, [uid]: pod };
  return isReclaimed ? { pods, mounted: (context.mounted ?? []).filter((each) => each !== uid) } : { pods };
});

const logUnstored = line<Context, { type: string; error: unknown }, undefined, Event>('error', ({ event }) => [
  'Failed to store graceful shutdown state',
  { err: reasonOf(event) },
]);

const nextGroup = s.assign({ group: ({ context }) => context.group + 1 });
const noteEnd = s.assign({ endedAtMs: (args) => now(args) });

/** The pause before a lost bus or lock is requested again; as upstream. */
const RECONNECT_MS = 1_000;
/** The pause before a machine without logind is asked again. */
const ABSENT_MS = 60_000;

const state = ({ context: { settings, beganAtMs: startMs, endedAtMs: endMs } }: { context: Context }) => ({
  path: settings.stateFile,
  startMs,
  endMs,
});

const guarding = shutdownSetup.createStateConfig({
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

const active = shutdownSetup.createStateConfig({
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

export const shutdownMachine = shutdownSetup.createMachine({
  id: 'shutdown',
  context: ({ input }) => ({
    settings: required(input.shutdown, 'the settings of a graceful shutdown'),
    nodeName: input.nodeName,
    pods: {},
    ...(hasBehavior(input, 'volumesAwaited') ? { mounted: [] } : {}),
    delayMs: 0,
    group: 0,
    beganAtMs: 0,
    endedAtMs: null,
    complaint: '',
  }),
  entry: shutdownSetup.enqueueActions(({ enqueue }) => enqueue.sendTo(to('pods'), { type: 'garbage.wanted' })),
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
