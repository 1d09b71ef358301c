/**
 * The API server as a source of pods (`apiSource` below `podConfig`): all pods that are bound to this node.
 *
 * Decides: which pods were added, changed, are being deleted, were removed; which changes concern only the status.
 * Owns: of each pod the hashes of its last publication; which pods are mirrors of static ones; the pods of a list until
 *   they are published.
 * Hears: the reflector of `pods` with `spec.nodeName` of this node; `config.wanted`, `status.wanted`.
 * Asks: `host.loadPods`, at the start and when pods are wanted again, until it answers. Its reflector lists and
 *   watches.
 * Sends: `eventRecorder` why a pod is not taken; `pods` `config.pods`, and `object.found` of remembered objects;
 *   `syncLoop` `config.sourceReady` and `config.sourceChanged`; `status` and `mirrorPods` the pods of the API server;
 *   `rememberedPods` the pods that are gone.
 * Invariants:
 *   K1 the source is ready when its first complete list is published; a list that fails removes no pod.
 *   K2 a mirror pod is never published as a pod to run.
 *   K3 an object of the API server that is no valid pod is reported once and ignored; of one that is too large its end
 *      is not, and if its pod runs, it runs on.
 *   K4 a remembered pod is published only before the first list, and does not make the source ready.
 *   K5 a pod that changes while it waits for its publication is published as it is by then, in its place; a new one is
 *      published after those that wait; of the others changes are published at once.
 *   K6 of the pods of a list the older ones are published first.
 */
import {
  type Ended,
  type EnqueueOf,
  errorOf,
  line,
  now,
  outputOf,
  pick,
  setup,
  to,
  typed,
} from '../../../../kernel/xstate.ts';
import { isMirrorPod, type Pod, type PodRef } from '../../../model/api/pod.ts';
import type { ObjectFound, ObjectState } from '../../../model/objects/keys.ts';
import { hostOperations, type RememberedPod } from '../../../model/operations/host.ts';
import type { KubeObject } from '../../../model/operations/kube.ts';
import type { ConfigObject } from '../../../model/operations/volume.ts';
import { eventRecorded, type StatusWanted } from '../../../model/pods/pod-messages.ts';
import type { ConfigWanted } from '../../../model/pods/source-messages.ts';
import { podEvents } from '../../../model/reasons/reasons.ts';
import { type Decider, hasBehavior } from '../../../model/settings/behaviors.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import { REOPEN_MS, type ReflectorReport, reflectorCrash, reflectorMachine } from '../../kube/reflector.ts';
import {
  type ApiPublication,
  olderFirst,
  podFromApi,
  publish,
  reportChange,
  reportReady,
  SOURCE,
  sendGone,
  sendListed,
  sendMirrorsListed,
  staticUidOf,
  withChange,
} from './api-publication.ts';
import type { NextPortion, Publishing } from './pod-source.ts';
import {
  changeOf,
  differences,
  NEXT_PORTION,
  portionOf,
  publishedOf,
  refOf,
  removalOf,
  removedPods,
  withoutPods,
  withSource,
} from './pod-source.ts';

/** The pause before unreadable files are read again. */
const RELOAD_MS = 60_000;
/** Without a list within this time the API server counts as unreachable: remembered pods start without it. */
const UNREACHABLE_MS = 10_000;

export type ApiSourceInput = Pick<NodeSettings, 'nodeName' | 'rememberedPodsDir' | 'unseenFields' | 'behavior'>;

interface Context extends ApiPublication {
  readonly nodeName: string;
  readonly directory: string;
  readonly unseenFields?: ApiSourceInput['unseenFields'];
  readonly isListed: boolean;
  readonly remembered: readonly RememberedPod[];
}

const s = setup({
  types: typed<{
    input: ApiSourceInput;
    context: Context;
    events: ReflectorReport | ConfigWanted | StatusWanted | NextPortion | Ended;
  }>(),
  actors: { reflector: reflectorMachine, ...pick(hostOperations, 'host.loadPods') },
  guards: {
    isListed: ({ context }) => context.isListed,
    isPublishing: ({ context }) => context.publishing !== undefined,
    remembersNone: ({ context }) => context.directory === '',
  },
});

type Enqueue = EnqueueOf<typeof s>;

/** The pods among these objects; invalid objects are logged. */
function podsOf(
  enqueue: Enqueue,
  objects: readonly KubeObject[],
  context: Context,
  nowMs: number,
  isGone = false,
): Pod[] {
  const atFirst = new Date(nowMs).toISOString();
  return objects.flatMap((object) => {
    const result = podFromApi(object, context, isGone);
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

/** Publishes the next portion; after the last one the source is ready. */
function publishPortion(enqueue: Enqueue, context: Context, publishing: Publishing): void {
  const { pods, gone, rest } = portionOf(publishing, context);
  const next = publish(enqueue, context, pods, gone);
  if (rest === undefined) {
    sendMirrorsListed(enqueue, Object.keys(next.mirrors));
    reportReady(enqueue, next);
    return enqueue.assign({ ...next, publishing: rest, isListed: true });
  }
  reportChange(enqueue, context, next);
  enqueue.raise(NEXT_PORTION.event, NEXT_PORTION.options);
  enqueue.assign({ ...next, publishing: rest });
}

/** Uids of published pods that are in the list, but too large to be taken again: they run on. */
function refusedPods(objects: readonly KubeObject[], missing: readonly PodRef[], node: Decider): readonly string[] {
  if (missing.length === 0 || !hasBehavior(node, 'sourcesAsKubelet')) return [];
  const listed = new Set(objects.map(({ metadata }) => metadata?.['uid']));
  return missing.flatMap(({ uid }) => (listed.has(uid) ? [uid] : []));
}

const handleList = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'reflector.listed') return;
  const pods = olderFirst(podsOf(enqueue, event.items, context, now(args)), context);
  const refused = refusedPods(event.items, removedPods(context.reported, pods), context);
  sendListed(enqueue, pods, refused);
  const gone = removedPods(context.reported, pods).filter(({ uid }) => !refused.includes(uid));
  if (context.publishing !== undefined) enqueue.cancel(NEXT_PORTION.options.id);
  const changes = [...gone.map(removalOf), ...pods.map(changeOf)];
  publishPortion(enqueue, { ...context, mirrors: {} }, { changes, next: 0 });
});

const publishNext = s.enqueueActions(({ context, enqueue }) => {
  if (context.publishing !== undefined) publishPortion(enqueue, context, context.publishing);
});

const handleChange = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'reflector.changed') return;
  const isGone = event.change === 'DELETED';
  const [pod] = podsOf(enqueue, [event.object], context, now(args), isGone);
  if (pod === undefined) return;
  const waiting = withChange(context, isGone ? removalOf(refOf(pod)) : changeOf(pod));
  if (isGone) sendGone(enqueue, refOf(pod), staticUidOf(context, pod, waiting !== undefined));
  if (waiting !== undefined) return enqueue.assign({ publishing: waiting });
  const next = publish(enqueue, context, isGone ? [] : [pod], isGone ? [refOf(pod)] : []);
  reportChange(enqueue, context, next);
  enqueue.assign(next);
});

const noteRemembered = s.assign({
  remembered: ({ event }) => outputOf<{ pods: readonly RememberedPod[] }>(event).pods,
});

function rememberedPodsOfNode({
  remembered,
  nodeName,
  behavior,
}: Context): { pod: Pod; objects: RememberedPod['objects'] }[] {
  return remembered.flatMap(({ pod, objects }) => {
    const result = podFromApi(pod as never, { behavior });
    const isOwn = result.error === undefined && result.pod.spec.nodeName === nodeName;
    return isOwn ? [{ pod: result.pod, objects }] : [];
  });
}

/** Forgets remembered pods that were deleted while this node was offline: they have no actor that would do it. */
const forgetDeleted = s.enqueueActions(({ context, enqueue }) => {
  for (const { pod } of rememberedPodsOfNode(context)) {
    const { uid } = pod.metadata;
    if (context.reported[uid] === undefined) enqueue.sendTo(to('rememberedPods'), { type: 'pod.forgotten', uid });
  }
  enqueue.assign({ remembered: [] });
});

/** Starts the remembered pods: the API server wanted them last, and has not answered since. */
const startRemembered = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const known = rememberedPodsOfNode(context).filter(({ pod }) => context.reported[pod.metadata.uid] === undefined);
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
  event.type === 'config.wanted'
    ? { reported: withoutPods(context.reported, event.uids), isListed: false, publishing: undefined }
    : {},
);

const following = s.createStateConfig({
  initial: 'open',
  on: {
    'config.wanted': { target: '.open', reenter: true, actions: forgetPublished },
    'status.wanted': { target: '.open', reenter: true },
    'source.next': { actions: publishNext },
  },
  states: {
    open: {
      invoke: {
        id: 'reflector',
        src: 'reflector',
        input: ({ context }) => ({
          target: { client: 'kube', apiVersion: 'v1', resource: 'pods' },
          fieldSelector: `spec.nodeName=${context.nodeName}`,
          ...(hasBehavior(context, 'longListsInPages') ? { splitsLongLists: true as const } : {}),
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
    /** Waits until the first list is published. */
    waiting: {
      always: { guard: 'isListed', target: 'done', actions: forgetDeleted },
      after: {
        [UNREACHABLE_MS]: [
          { guard: 'isPublishing', target: 'waiting', reenter: true },
          { target: 'done', actions: startRemembered },
        ],
      },
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
