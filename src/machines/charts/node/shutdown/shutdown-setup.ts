/** Types, guards and actions of the shutdown manager. The chart is in `shutdown.ts`. */
import {
  type Ended,
  errorIn,
  type ItemOf,
  line,
  now,
  outputOf,
  pick,
  required,
  setup,
  stateIn,
  to,
  typed,
} from '../../../../kernel/xstate.ts';
import type { NodePod, NodePodChanged } from '../../../model/eviction/facts.ts';
import { logindOperations } from '../../../model/operations/logind.ts';
import { eventRecorded } from '../../../model/pods/event-messages.ts';
import type { PodKillWanted } from '../../../model/pods/pod-messages.ts';
import { nodeRef, podMessages, podReasons } from '../../../model/reasons/reasons.ts';
import type { NodeSettings, ShutdownSettings } from '../../../model/settings/node-settings.ts';
import { graceOf, periodRequestedSeconds, podsOfGroup } from './policy.ts';

const MS_PER_SECOND = 1_000;

export interface Context {
  readonly settings: ShutdownSettings;
  readonly nodeName: string;
  readonly pods: Readonly<Record<string, NodePod>>;
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

export const shutdownSetup = setup({
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
    isGroupGone: ({ context }) => openPods(context).length === 0,
    isLastGroup: ({ context }) => context.group >= context.settings.periods.length - 1,
    isActive: ({ event }) => event.type === 'shutdown.prepared' && event.active,
    isCancelled: ({ event }) => event.type === 'shutdown.prepared' && !event.active,
    isWaiting: stateIn({ active: { guarding: 'waiting' } }),
  },
  delays: { group: ({ context }) => graceSeconds(context) * MS_PER_SECOND },
});

const s = shutdownSetup;
type Enqueue = Parameters<Parameters<typeof s.enqueueActions>[0]>[0]['enqueue'];

/** Logs why there is no graceful shutdown; the same reason once. */
function logOnce(enqueue: Enqueue, { complaint }: Context, text: string, err: string): void {
  if (complaint === err) return;
  enqueue(line('error', [text, { err }]));
  enqueue.assign({ complaint: err });
}

export const logUnavailable = s.enqueueActions(({ context, event, enqueue }) =>
  logOnce(enqueue, context, 'Failed to start node shutdown manager', reasonOf(event)),
);

export const logTooShort = s.enqueueActions(({ context, enqueue }) => {
  const requested = `${requestedMs(context) / MS_PER_SECOND}s`;
  const current = `${context.delayMs / MS_PER_SECOND}s`;
  const err =
    `node shutdown manager was unable to update logind InhibitDelayMaxSec to ${requested} (ShutdownGracePeriod), ` +
    `current value of InhibitDelayMaxSec (${current}) is less than requested ShutdownGracePeriod`;
  logOnce(enqueue, context, 'Failed to start node shutdown manager', err);
});

export const logLost = s.enqueueActions(({ context, event, enqueue }) =>
  logOnce(enqueue, context, 'Unable to watch the node for shutdown events', reasonOf(event)),
);

const reasonOf = (event: unknown): string => errorIn(event)?.message ?? 'it ended';

function sendNode(enqueue: Enqueue, active: boolean): void {
  enqueue.sendTo(to('nodeStatus'), { type: 'node.reported', reports: { shuttingDown: active } });
  enqueue.sendTo(to('allocation'), { type: 'node.shuttingDown', active });
}

function recordEvent(enqueue: Enqueue, { nodeName }: Context, what: 'event' | 'cancellation'): void {
  const message = `Shutdown manager detected shutdown ${what}`;
  enqueue.sendTo(
    to('eventRecorder'),
    eventRecorded(nodeRef(nodeName), { type: 'Normal', reason: 'Shutdown', message }),
  );
}

export const beginShutdown = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  enqueue(line('info', 'Shutdown manager processing shutdown event'));
  enqueue.assign({ group: 0, beganAtMs: now(args), endedAtMs: null });
  recordEvent(enqueue, context, 'event');
  sendNode(enqueue, true);
});

export const cancelShutdown = s.enqueueActions(({ context, enqueue }) => {
  recordEvent(enqueue, context, 'cancellation');
  sendNode(enqueue, false);
});

const VERDICT = {
  reason: podReasons.terminated,
  message: podMessages.nodeShutdown,
  published: 'once',
  disruptionTarget: true,
} as const;

export const endGroup = s.enqueueActions(({ context, enqueue }) => {
  const period = required(context.settings.periods[context.group], 'the group of pods that ends now');
  for (const [uid, pod] of openPods(context)) {
    const grace = graceOf(pod, period);
    const name = `${pod.namespace}/${pod.name}`;
    enqueue(line('info', ['Shutdown manager killing pod with gracePeriod', { pod: name, gracePeriod: grace }]));
    const kill: PodKillWanted = { type: 'pods.kill', uid, graceSeconds: grace, verdict: VERDICT };
    enqueue.sendTo(to('pods'), kill);
  }
});

export const logTimeOut = line<Context, Event, undefined, Event>('info', ({ context }) => [
  'Shutdown manager pod killing time out',
  { gracePeriod: graceSeconds(context), priority: context.settings.periods[context.group]?.priority },
]);

export const noteDelay = s.assign({
  delayMs: ({ event }) => outputOf<{ delayMs: number }>(event).delayMs,
});

export const notePod = s.assign({
  pods: ({ context, event }) => {
    if (event.type !== 'node.podChanged') return context.pods;
    const { [event.uid]: _before, ...others } = context.pods;
    return event.pod === null ? others : { ...others, [event.uid]: event.pod };
  },
});

export const logUnstored = line<Context, { type: string; error: unknown }, undefined, Event>('error', ({ event }) => [
  'Failed to store graceful shutdown state',
  { err: reasonOf(event) },
]);

export const nextGroup = s.assign({ group: ({ context }) => context.group + 1 });
export const noteEnd = s.assign({ endedAtMs: (args) => now(args) });
