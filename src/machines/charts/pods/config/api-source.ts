/**
 * The API server as a source of pods (`apiSource` below `podConfig`): all pods that are bound to this node.
 *
 * Decides: which pods were added, changed, are being deleted, were removed; which changes concern only the status.
 * Owns: of each pod the hashes of its last publication; which pods are mirrors of static ones. No pods.
 * Hears: the reflector of `pods` with `spec.nodeName` of this node; `config.wanted`, `status.wanted`.
 * Asks: `host.loadPods`, at the start and when pods are wanted again, until it answers. Its reflector lists and
 *   watches.
 * Sends: `eventRecorder` why a pod is not taken; `pods` `config.pods`, and `object.found` of remembered objects;
 *   `syncLoop` `config.sourceReady`; `status` and `mirrorPods` the pods of the API server; `rememberedPods` the pods
 *   that are gone.
 * Invariants:
 *   K1 the source is ready when its first complete list is in; a list that fails removes no pod.
 *   K2 a mirror pod is never published as a pod to run.
 *   K3 an object of the API server that is no valid pod is reported once and ignored.
 *   K4 a remembered pod is published only before the first list, and does not make the source ready.
 */
import { type Ended, errorOf, line, now, outputOf, pick, setup, to, typed } from '../../../../kernel/xstate.ts';
import { CONFIG_MIRROR_ANNOTATION, isMirrorPod, type Pod, type PodRef } from '../../../model/api/pod.ts';
import type { ObjectFound, ObjectState } from '../../../model/objects/messages.ts';
import { hostOperations, type RememberedPod } from '../../../model/operations/host.ts';
import type { KubeObject } from '../../../model/operations/kube.ts';
import type { ConfigObject } from '../../../model/operations/volume.ts';
import type { MirrorListed, MirrorSeen, StatusListed, StatusObserved } from '../../../model/pods/api-messages.ts';
import { eventRecorded } from '../../../model/pods/event-messages.ts';
import type { ConfigWanted, SourceReady } from '../../../model/pods/source-messages.ts';
import type { StatusWanted } from '../../../model/pods/status-messages.ts';
import { podEvents } from '../../../model/reasons/reasons.ts';
import { type Decider, hasBehavior } from '../../../model/settings/behaviors.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import { REOPEN_MS, type ReflectorReport, reflectorCrash, reflectorMachine } from '../../kube/reflector.ts';
import { podFromApi, seenPod } from './api-pod.ts';
import { differences, type PublishedPods, publishedOf, removedPods, withoutPods, withSource } from './pod-source.ts';

const SOURCE = 'api';
/** The pause before unreadable files are read again. */
const RELOAD_MS = 60_000;
/** Without a list within this time the API server counts as unreachable: remembered pods start without it. */
const UNREACHABLE_MS = 10_000;

export type ApiSourceInput = Pick<NodeSettings, 'nodeName' | 'rememberedPodsDir' | 'unseenFields' | 'behavior'>;

interface Context extends Decider {
  readonly nodeName: string;
  readonly directory: string;
  readonly unseenFields?: ApiSourceInput['unseenFields'];
  readonly isListed: boolean;
  readonly remembered: readonly RememberedPod[];
  readonly reported: PublishedPods;
  /** By uid, the mirror pods of this node. */
  readonly mirrors: Readonly<Record<string, Mirror>>;
  /** By uid, when a pod was first seen; kept for a later publication. */
  readonly seen: Readonly<Record<string, string>>;
}

/** A mirror pod and the static pod that it stands for. */
interface Mirror extends PodRef {
  readonly staticUid: string;
}

const s = setup({
  types: typed<{
    input: ApiSourceInput;
    context: Context;
    events: ReflectorReport | ConfigWanted | StatusWanted | Ended;
  }>(),
  actors: { reflector: reflectorMachine, ...pick(hostOperations, 'host.loadPods') },
  guards: {
    isListed: ({ context }) => context.isListed,
    remembersNone: ({ context }) => context.directory === '',
  },
});

type Enqueue = Parameters<Parameters<typeof s.enqueueActions>[0]>[0]['enqueue'];

const refOf = ({ metadata: { uid, namespace, name } }: Pod): PodRef => ({ uid, namespace, name });

/** The pods among these objects; invalid objects are logged. */
function podsOf(enqueue: Enqueue, objects: readonly KubeObject[], context: Context, nowMs: number): Pod[] {
  const atFirst = new Date(nowMs).toISOString();
  return objects.flatMap((object) => {
    const result = podFromApi(object, context);
    if (result.error === undefined) {
      const { pod } = result;
      const seenAt = context.seen[pod.metadata.uid] ?? atFirst;
      return [isMirrorPod(pod) ? pod : withSource(pod, SOURCE, seenAt, context.unseenFields)];
    }
    reportInvalid(enqueue, object, result.error, context);
    return [];
  });
}

/** Records an event on a pod that this node does not accept, with the reason. A node of 0.2.0 only logs it. */
function reportInvalid(enqueue: Enqueue, object: KubeObject, error: string, context: Context): void {
  const { name, namespace, uid } = object.metadata ?? {};
  enqueue(line('error', ['The API server sent something that is no pod', { name: name ?? '', error }]));
  const isNamed = typeof name === 'string' && typeof namespace === 'string' && typeof uid === 'string';
  if (!isNamed || !hasBehavior(context, 'resourcesLimited')) return;
  const ref = { kind: 'Pod', namespace, name, uid } as const;
  const text = podEvents.failedValidation(`${name}_${namespace}(${uid})`, SOURCE, error);
  enqueue.sendTo(to('eventRecorder'), eventRecorded(ref, text));
}

function publish(enqueue: Enqueue, context: Context, pods: readonly Pod[], gone: readonly PodRef[]): Context {
  const podsToRun = pods.filter((pod) => !isMirrorPod(pod));
  const goneOwn = gone.filter(({ uid }) => context.reported[uid] !== undefined);
  for (const pod of pods) sendSeen(enqueue, pod);
  const after = publishedOf(podsToRun);
  const messages = differences(SOURCE, podsToRun, { before: context.reported, after, gone: goneOwn });
  for (const message of messages) enqueue.sendTo(to('pods'), message);
  const goneUids = new Set(gone.map(({ uid }) => uid));
  const without = <Value>(table: Readonly<Record<string, Value>>): Record<string, Value> =>
    Object.fromEntries(Object.entries(table).filter(([uid]) => !goneUids.has(uid)));
  const reported = { ...without(context.reported), ...after };
  const mirrors = pods
    .filter(isMirrorPod)
    .map((pod) => [pod.metadata.uid, { ...refOf(pod), staticUid: hashIn(pod) }] as const);
  return {
    ...context,
    reported,
    mirrors: { ...without(context.mirrors), ...Object.fromEntries(mirrors) },
    seen: {
      ...without(context.seen),
      ...Object.fromEntries(Object.values(reported).map(({ uid, seen }) => [uid, seen])),
    },
  };
}

function sendSeen(enqueue: Enqueue, pod: Pod): void {
  const objectState = seenPod(pod);
  const ref = isMirrorPod(pod) ? { ...refOf(pod), uid: hashIn(pod) } : refOf(pod);
  enqueue.sendTo(to('status'), { type: 'status.observed', pod: ref, seen: objectState } satisfies StatusObserved);
  if (isMirrorPod(pod)) enqueue.sendTo(to('mirrorPods'), mirrorSeen(pod));
}

/** Sends all pods of the list: pods missing in it are gone, even if this source restarted and did not know them. */
function sendListed(enqueue: Enqueue, pods: readonly Pod[]): void {
  const uids = pods.map((pod) => (isMirrorPod(pod) ? hashIn(pod) : pod.metadata.uid));
  enqueue.sendTo(to('status'), { type: 'status.listed', uids } satisfies StatusListed);
}

/** Sent after the mirror pods themselves: static pods without one may then get one. */
function sendMirrorsListed(enqueue: Enqueue, pods: readonly Pod[]): void {
  const uids = pods.filter(isMirrorPod).map(({ metadata }) => metadata.uid);
  enqueue.sendTo(to('mirrorPods'), { type: 'mirror.listed', uids } satisfies MirrorListed);
}

function sendGone(enqueue: Enqueue, pod: PodRef, staticUid: string | undefined): void {
  const { uid, namespace, name } = pod;
  const ref = { uid, namespace, name };
  const shown = { ...ref, uid: staticUid ?? uid };
  enqueue.sendTo(to('status'), { type: 'status.observed', pod: shown, seen: null } satisfies StatusObserved);
  if (staticUid !== undefined)
    enqueue.sendTo(to('mirrorPods'), { type: 'mirror.seen', pod: ref, seen: null } satisfies MirrorSeen);
}

const hashIn = ({ metadata }: Pod): string => metadata.annotations?.[CONFIG_MIRROR_ANNOTATION] ?? '';

const mirrorSeen = (pod: Pod): MirrorSeen => ({
  type: 'mirror.seen',
  pod: refOf(pod),
  seen: { hash: hashIn(pod), isDeleting: pod.metadata.deletionTimestamp !== undefined },
});

const handleList = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'reflector.listed') return;
  const pods = podsOf(enqueue, event.items, context, now(args));
  sendListed(enqueue, pods);
  const next = publish(enqueue, { ...context, mirrors: {} }, pods, removedPods(context.reported, pods));
  sendMirrorsListed(enqueue, pods);
  reportReady(enqueue, next);
  enqueue.assign({ ...next, isListed: true });
});

const handleChange = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'reflector.changed') return;
  const pods = podsOf(enqueue, [event.object], context, now(args));
  const isGone = event.change === 'DELETED';
  if (isGone) for (const pod of pods) sendGone(enqueue, refOf(pod), context.mirrors[pod.metadata.uid]?.staticUid);
  const next = publish(enqueue, context, isGone ? [] : pods, isGone ? pods.map(refOf) : []);
  if (Object.keys(next.reported).join() !== Object.keys(context.reported).join()) reportReady(enqueue, next);
  enqueue.assign(next);
});

function reportReady(enqueue: Enqueue, { reported }: Context): void {
  const ready: SourceReady = { type: 'config.sourceReady', source: SOURCE, uids: Object.keys(reported) };
  enqueue.sendTo(to('syncLoop'), ready);
}

const noteRemembered = s.assign({
  remembered: ({ event }) => outputOf<{ pods: readonly RememberedPod[] }>(event).pods,
});

/** The pods of this node among those that are remembered. */
function ownRemembered({ remembered, nodeName, behavior }: Context): { pod: Pod; objects: RememberedPod['objects'] }[] {
  return remembered.flatMap(({ pod, objects }) => {
    const result = podFromApi(pod as never, { behavior });
    const isOwn = result.error === undefined && result.pod.spec.nodeName === nodeName;
    return isOwn ? [{ pod: result.pod, objects }] : [];
  });
}

/** Forgets remembered pods that were deleted while this node was offline: they have no actor that would do it. */
const forgetDeleted = s.enqueueActions(({ context, enqueue }) => {
  for (const { pod } of ownRemembered(context)) {
    const { uid } = pod.metadata;
    if (context.reported[uid] === undefined) enqueue.sendTo(to('rememberedPods'), { type: 'pod.forgotten', uid });
  }
  enqueue.assign({ remembered: [] });
});

/** Starts the remembered pods: the API server wanted them last, and has not answered since. */
const startRemembered = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const known = ownRemembered(context).filter(({ pod }) => context.reported[pod.metadata.uid] === undefined);
  if (known.length === 0) return;
  const atFirst = new Date(now(args)).toISOString();
  const pods = known.map(({ pod }) => withSource(pod, SOURCE, atFirst, context.unseenFields));
  const names = pods.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
  enqueue(line('warn', ['The API server is away; starting the pods that are remembered', { pods: names }]));
  const after = publishedOf(pods);
  const messages = differences(SOURCE, pods, { before: context.reported, after, gone: [] });
  for (const message of messages) enqueue.sendTo(to('pods'), message);
  for (const { pod, objects } of known) sendObjects(enqueue, pod.metadata.uid, objects, now(args));
  enqueue.assign({ reported: { ...context.reported, ...after }, remembered: [] });
});

const EXPIRED = 'failed to fetch token: the one that was kept has expired, and the API server is away';

function sendObjects(enqueue: Enqueue, uid: string, objects: RememberedPod['objects'], nowMs: number): void {
  for (const [key, object] of Object.entries(objects)) {
    const state: ObjectState =
      object === null
        ? { state: 'missing' }
        : isExpired(object, nowMs)
          ? { state: 'unknown', message: EXPIRED }
          : { state: 'found', object };
    enqueue.sendTo(to('pods'), { type: 'object.found', key, uids: [uid], ...state } satisfies ObjectFound);
  }
}

function isExpired({ kind, data }: ConfigObject, nowMs: number): boolean {
  const { expires } = data;
  const text = expires !== undefined && 'text' in expires && typeof expires.text === 'string' ? expires.text : '';
  return kind === 'Token' && !(Date.parse(text) > nowMs);
}

/** Forgets publications, so that the next list publishes these pods again. */
const forgetPublished = s.assign(({ context, event }) =>
  event.type === 'config.wanted' ? { reported: withoutPods(context.reported, event.uids), isListed: false } : {},
);

const following = s.createStateConfig({
  initial: 'open',
  on: {
    'config.wanted': { target: '.open', reenter: true, actions: forgetPublished },
    'status.wanted': { target: '.open', reenter: true },
  },
  states: {
    open: {
      invoke: {
        id: 'reflector',
        src: 'reflector',
        input: ({ context }) => ({
          target: { client: 'kube', apiVersion: 'v1', resource: 'pods' },
          fieldSelector: `spec.nodeName=${context.nodeName}`,
        }),
        onDone: 'reopening',
        onError: { target: 'reopening', actions: reflectorCrash('the pods of the API server') },
      },
      on: { 'reflector.listed': { actions: handleList }, 'reflector.changed': { actions: handleChange } },
    },
    reopening: { after: { [REOPEN_MS]: 'open' } },
  },
});

/** Starts remembered pods while the API server sends nothing; restarts with `following`, as parallel regions do. */
const remembering = s.createStateConfig({
  initial: 'loading',
  states: {
    loading: {
      always: { guard: 'remembersNone', target: 'done' },
      invoke: {
        id: 'load',
        src: 'host.loadPods',
        input: ({ context }) => ({ directory: context.directory }),
        onDone: { target: 'waiting', actions: noteRemembered },
        onError: {
          target: 'unread',
          actions: line('error', ({ event }) => [
            'Cannot read the pods that are remembered',
            { error: errorOf(event).message },
          ]),
        },
      },
    },
    /**
     * Reading is retried: an unread file may be of a deleted pod, and would start it when the API server is
     * unreachable.
     */
    unread: { after: { [RELOAD_MS]: 'loading' } },
    /** Waits for the first list. */
    waiting: {
      always: { guard: 'isListed', target: 'done', actions: forgetDeleted },
      after: { [UNREACHABLE_MS]: { target: 'done', actions: startRemembered } },
    },
    done: {},
  },
});

export const apiSourceMachine = s.createMachine({
  id: 'apiSource',
  context: ({ input }) => ({
    behavior: input.behavior,
    nodeName: input.nodeName,
    directory: input.rememberedPodsDir ?? '',
    ...(input.unseenFields === undefined ? {} : { unseenFields: input.unseenFields }),
    isListed: false,
    remembered: [],
    reported: {},
    mirrors: {},
    seen: {},
  }),
  type: 'parallel',
  states: { following, remembering },
});
