/**
 * The status manager: what each pod's status was last, in short, and a line when its phase changes. On a node with an
 * API server it has one publisher a pod (`status-publisher.ts`).
 *
 * Decides: what is worth a line, which object of the API server shows which pod.
 * Owns: a summary by pod, the publishers; the full status stays with the pod's actor, which is its only writer.
 * Hears: `status.changed`, `status.reclaimed` of pods, `status.removed` of `pods`, `status.observed` of `podConfig`.
 * Asks: everybody to tell again what they told, when it starts.
 * Invariants:
 *   T1 a summary exists exactly for the pods that have an actor and a configuration.
 *   T2 the status of a static pod goes to its mirror pod, whatever uid that has.
 *   T3 a publisher lives as long as the node or the API server has the pod.
 */
import { type AnyActorRef, line, setup, to } from '../../kernel/xstate.ts';
import type { PodStatus } from '../api/pod.ts';
import type { NodeSettings } from '../node-settings.ts';
import type { Ended, PodRef, SeenPod, StatusMessage, StatusObserved } from './messages.ts';
import { statusPublisherMachine } from './status-publisher.ts';

export interface PodSummary extends PodRef {
  readonly phase: string;
  readonly ready: boolean;
  readonly restarts: number;
}

export interface StatusInput extends Pick<NodeSettings, 'apiServer'> {
  /** `systemId` of somebody who hears every status, too. */
  readonly follower?: string;
}

/** Where a pod is known. */
interface Publisher extends PodRef {
  readonly onNode: boolean;
  readonly inApi: boolean;
}

interface Context {
  readonly publishes: boolean;
  readonly follower: string | null;
  readonly pods: Readonly<Record<string, PodSummary>>;
  /** By the uid of the pod on this node. */
  readonly publishers: Readonly<Record<string, Publisher>>;
  /** Mirror pods by full name. */
  readonly mirrors: Readonly<Record<string, SeenPod>>;
}

const s = setup({
  types: { input: {} as StatusInput, context: {} as Context, events: {} as StatusMessage | Ended },
  actors: { publisher: statusPublisherMachine },
});

type Enqueue = Parameters<Parameters<typeof s.enqueueActions>[0]>[0]['enqueue'];

const idOf = (uid: string): string => `pod-${uid}`;
const fullName = ({ namespace, name }: PodRef): string => `${namespace}/${name}`;
const isStatic = (uid: string, mirror: SeenPod | undefined): boolean => mirror !== undefined && mirror.uid !== uid;

const summaryOf = ({ uid, namespace, name }: PodRef, status: PodStatus): PodSummary => ({
  uid,
  namespace,
  name,
  phase: status.phase ?? '',
  ready: status.conditions?.find(({ type }) => type === 'Ready')?.status === 'True',
  restarts: (status.containerStatuses ?? []).reduce((sum, { restartCount }) => sum + restartCount, 0),
});

const note = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'status.changed') return;
  publish(enqueue, context, event.pod, event);
  if (context.follower !== null) enqueue.sendTo(to(context.follower), event);
  const summary = summaryOf(event.pod, event.status);
  const before = context.pods[summary.uid];
  if (before && JSON.stringify(before) === JSON.stringify(summary)) return;
  enqueue.assign({ pods: { ...context.pods, [summary.uid]: summary } });
  const { namespace, name, uid, phase, ready, restarts } = summary;
  const changed = before?.phase !== phase || before.ready !== ready || before.restarts !== restarts;
  if (changed) enqueue(line('info', ['Pod status', { pod: `${namespace}/${name}`, uid, phase, ready, restarts }]));
});

// ---- publishers -----------------------------------------------------------------------------------------------------

/** What the pod itself says. A static pod's publisher then hears at once which mirror pod there is. */
function publish(enqueue: Enqueue, context: Context, pod: PodRef, message: StatusMessage): void {
  if (!context.publishes) return;
  const before = context.publishers[pod.uid];
  const mirror = context.mirrors[fullName(pod)];
  if (before?.onNode) {
    enqueue.sendTo<AnyActorRef>(idOf(pod.uid), message);
    return;
  }
  const inApi = before?.inApi ?? isStatic(pod.uid, mirror);
  keep(enqueue, context, { ...pod, onNode: true, inApi }, message);
  if (!before && isStatic(pod.uid, mirror)) {
    enqueue.sendTo<AnyActorRef>(idOf(pod.uid), { type: 'status.observed', pod, seen: mirror! });
  }
}

function keep(enqueue: Enqueue, { publishers }: Context, publisher: Publisher, message: StatusMessage): void {
  const { uid, namespace, name } = publisher;
  if (!publishers[uid]) enqueue.spawnChild('publisher', { id: idOf(uid), input: { uid, namespace, name } });
  enqueue.assign({ publishers: { ...publishers, [uid]: publisher } });
  enqueue.sendTo<AnyActorRef>(idOf(uid), message);
}

function drop(enqueue: Enqueue, { publishers }: Context, uid: string): void {
  const { [uid]: _gone, ...rest } = publishers;
  enqueue.stopChild(idOf(uid));
  enqueue.assign({ publishers: rest });
}

/** What the API server has. */
const observe = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'status.observed' || !context.publishes) return;
  const { pod, seen } = event;
  const mirror = context.mirrors[fullName(pod)];
  if (seen?.isMirror || mirror?.uid === pod.uid) observeMirror(enqueue, context, event);
  else observeOwn(enqueue, context, event);
});

function observeOwn(enqueue: Enqueue, context: Context, message: StatusObserved): void {
  const { pod, seen } = message;
  const before = context.publishers[pod.uid];
  if (seen === null && !before?.onNode) {
    if (before) drop(enqueue, context, pod.uid);
    return;
  }
  if (before?.inApi === (seen !== null)) enqueue.sendTo<AnyActorRef>(idOf(pod.uid), message);
  else keep(enqueue, context, { ...pod, onNode: before?.onNode ?? false, inApi: seen !== null }, message);
}

function observeMirror(enqueue: Enqueue, context: Context, { pod, seen }: StatusObserved): void {
  const { [fullName(pod)]: _old, ...rest } = context.mirrors;
  enqueue.assign({ mirrors: seen === null ? rest : { ...rest, [fullName(pod)]: seen } });
  const statics = Object.values(context.publishers).filter(
    (each) => each.uid !== pod.uid && fullName(each) === fullName(pod),
  );
  for (const { uid } of statics) enqueue.sendTo<AnyActorRef>(idOf(uid), { type: 'status.observed', pod, seen });
}

const forward = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type === 'status.reclaimed' && context.publishers[event.uid]) {
    enqueue.sendTo<AnyActorRef>(idOf(event.uid), event);
  }
});

/** A publisher is needed no more when neither side has the pod; without the node only for what is still there. */
const forget = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'status.removed') return;
  const { [event.uid]: _gone, ...pods } = context.pods;
  enqueue.assign({ pods });
  if (context.publishers[event.uid]) drop(enqueue, context, event.uid);
});

const bury = s.enqueueActions(({ context, event, enqueue }) => {
  const prefix = 'xstate.error.actor.pod-';
  if (!event.type.startsWith(prefix)) return;
  const uid = event.type.slice(prefix.length);
  const { message } = (event as unknown as { error: Error }).error;
  enqueue(line('error', ['The publisher of a pod’s status crashed and starts again', { uid, error: message }]));
  drop(enqueue, context, uid);
  askAgain(enqueue);
});

function askAgain(enqueue: Enqueue): void {
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
    mirrors: {},
  }),
  entry: s.enqueueActions(({ enqueue }) => askAgain(enqueue)),
  on: {
    'status.changed': { actions: note },
    'status.reclaimed': { actions: forward },
    'status.removed': { actions: forget },
    'status.observed': { actions: observe },
    'xstate.error.actor.*': { actions: bury },
  },
});
