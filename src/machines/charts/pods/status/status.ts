/**
 * The status manager: a summary of each pod's last status, and a log line when its phase changes. On a node with an API
 * server it has one publisher per pod (`status-publisher.ts`).
 *
 * Decides: which changes are logged, which pods need a publisher.
 * Owns: a summary by pod, the publishers; the full status stays with the pod's actor, which is its only writer.
 * Hears: `status.changed`, `status.reclaimed` of pods, `status.removed` and `pods.started` of `pods`, `status.observed`
 *   and `status.listed` of `apiSource`.
 * Asks: every publisher to publish again, when it starts.
 * Invariants:
 *   T1 a summary exists exactly for the pods that have an actor and a configuration.
 *   T2 a publisher exists from the first message about its pod, from the node or the API server, until neither has the
 *      pod.
 */

import {
  type AnyActorRef,
  type Ended,
  type EnqueueOf,
  errorOf,
  line,
  setup,
  to,
  typed,
} from '../../../../kernel/xstate.ts';
import type { PodRef, PodStatus } from '../../../model/api/pod.ts';
import type { PodsMessage, StatusMessage } from '../../../model/pods/pod-messages.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import type { Writing } from './status-patch.ts';
import { statusPublisherMachine } from './status-publisher.ts';

export interface PodSummary extends PodRef {
  readonly phase: string;
  readonly ready: boolean;
  readonly restarts: number;
}

export interface StatusInput extends Pick<NodeSettings, 'nodeName' | 'apiServer' | 'behavior'> {
  /** `systemId` of a second receiver of every status. */
  readonly follower?: string;
}

/** The publisher of one pod, and the places where the pod exists. */
interface Publisher {
  readonly onNode: boolean;
  readonly inApi: boolean;
}

interface Context extends Writing {
  readonly publishes: boolean;
  readonly follower: string | null;
  readonly pods: Readonly<Record<string, PodSummary>>;
  /** By the uid of the pod on this node; that of a static pod, not of its mirror. */
  readonly publishers: Readonly<Record<string, Publisher>>;
}

const s = setup({
  types: typed<{ input: StatusInput; context: Context; events: StatusMessage | PodsMessage | Ended }>(),
  actors: { publisher: statusPublisherMachine },
});

type Enqueue = EnqueueOf<typeof s>;

const idOf = (uid: string): string => `pod-${uid}`;

const summaryOf = ({ uid, namespace, name }: PodRef, status: PodStatus): PodSummary => ({
  uid,
  namespace,
  name,
  phase: status.phase ?? '',
  ready: status.conditions?.find(({ type }) => type === 'Ready')?.status === 'True',
  restarts: (status.containerStatuses ?? []).reduce((sum, { restartCount }) => sum + restartCount, 0),
});

const noteStatus = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'status.changed') return;
  if (context.publishes) sendToPublisher(enqueue, context, event.pod, { onNode: true }, event);
  if (context.follower !== null) enqueue.sendTo(to(context.follower), event);
  const summary = summaryOf(event.pod, event.status);
  const before = context.pods[summary.uid];
  if (before && JSON.stringify(before) === JSON.stringify(summary)) return;
  enqueue.assign({ pods: { ...context.pods, [summary.uid]: summary } });
  const { namespace, name, uid, phase, ready, restarts } = summary;
  const changed = before?.phase !== phase || before.ready !== ready || before.restarts !== restarts;
  if (changed) enqueue(line('info', ['Pod status', { pod: `${namespace}/${name}`, uid, phase, ready, restarts }]));
});

function sendToPublisher(
  enqueue: Enqueue,
  { publishers, clears }: Context,
  pod: PodRef,
  place: Partial<Publisher>,
  message: StatusMessage,
): void {
  const { uid, namespace, name } = pod;
  const before = publishers[uid];
  const after = { onNode: false, inApi: false, ...before, ...place };
  if (!after.onNode && !after.inApi) return before && endPublisher(enqueue, publishers, uid);
  const writing = clears === true ? { clears } : {};
  if (!before) enqueue.spawnChild('publisher', { id: idOf(uid), input: { uid, namespace, name, ...writing } });
  if (before?.onNode !== after.onNode || before.inApi !== after.inApi) {
    enqueue.assign({ publishers: { ...publishers, [uid]: after } });
  }
  enqueue.sendTo<AnyActorRef>(idOf(uid), message);
}

function endPublisher(enqueue: Enqueue, publishers: Context['publishers'], uid: string): void {
  const { [uid]: _gone, ...rest } = publishers;
  enqueue.stopChild(idOf(uid));
  enqueue.assign({ publishers: rest });
}

/** Forwards the state of the object in the API server to its publisher. */
const handleObserved = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'status.observed' || !context.publishes) return;
  sendToPublisher(enqueue, context, event.pod, { inApi: event.seen !== null }, event);
});

/** Objects missing in the list are gone from the API server. */
const handleList = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'status.listed') return;
  const { uids } = event;
  const there = new Set(uids);
  const gone = Object.entries(context.publishers).filter(([uid, { inApi }]) => inApi && !there.has(uid));
  const kept = gone.filter(([, { onNode }]) => onNode).map(([uid]) => [uid, { onNode: true, inApi: false }] as const);
  const publishers = { ...context.publishers };
  for (const [uid] of gone) delete publishers[uid];
  enqueue.assign({ publishers: { ...publishers, ...Object.fromEntries(kept) } });
  for (const [uid, { onNode }] of gone) {
    if (onNode) enqueue.sendTo<AnyActorRef>(idOf(uid), event);
    else enqueue.stopChild(idOf(uid));
  }
});

const forward = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'status.reclaimed' || !context.publishers[event.uid]) return;
  enqueue.sendTo<AnyActorRef>(idOf(event.uid), event);
});

/** A publisher whose pod left the node sends its last update as long as the API server has the object. */
const handleRemoved = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'status.removed') return;
  const { [event.uid]: _gone, ...pods } = context.pods;
  enqueue.assign({ pods });
  const publisher = context.publishers[event.uid];
  if (publisher?.inApi) {
    enqueue.assign({ publishers: { ...context.publishers, [event.uid]: { inApi: true, onNode: false } } });
  } else if (publisher) endPublisher(enqueue, context.publishers, event.uid);
});

/** `pods` restarted, and every pod lost its actor: pods that still exist publish their status again. */
const republishAll = s.enqueueActions(({ context, enqueue }) => {
  const inApi = Object.entries(context.publishers).filter(([, publisher]) => publisher.inApi);
  const kept = Object.fromEntries(inApi.map(([uid]) => [uid, { inApi: true, onNode: false }]));
  for (const uid of Object.keys(context.publishers)) if (!kept[uid]) enqueue.stopChild(idOf(uid));
  enqueue.assign({ pods: {}, publishers: kept });
});

const reapCrashed = s.enqueueActions(({ context, event, enqueue }) => {
  const prefix = 'xstate.error.actor.pod-';
  if (!event.type.startsWith(prefix)) return;
  const uid = event.type.slice(prefix.length);
  const { message } = errorOf(event);
  enqueue(line('error', ['The publisher of a pod’s status crashed and starts again', { uid, error: message }]));
  endPublisher(enqueue, context.publishers, uid);
  requestPods(enqueue);
});

function requestPods(enqueue: Enqueue): void {
  enqueue.sendTo(to('pods'), { type: 'status.wanted' });
  enqueue.sendTo(to('podConfig'), { type: 'status.wanted' });
}

export const statusMachine = s.createMachine({
  id: 'status',
  context: ({ input }) => ({
    publishes: input.apiServer !== undefined,
    follower: input.follower ?? null,
    pods: {},
    publishers: {},
    ...(hasBehavior(input, 'sourcesAsKubelet') ? { clears: true } : {}),
  }),
  entry: s.enqueueActions(({ enqueue }) => requestPods(enqueue)),
  on: {
    'status.changed': { actions: noteStatus },
    'status.reclaimed': { actions: forward },
    'status.removed': { actions: handleRemoved },
    'pods.started': { actions: republishAll },
    'status.observed': { actions: handleObserved },
    'status.listed': { actions: handleList },
    'xstate.error.actor.*': { actions: reapCrashed },
  },
});
