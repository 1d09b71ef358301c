/**
 * Shared by all sources of pods: a source publishes the differences to its last publication, a few pods in a turn,
 * without the fields that belong to disabled feature gates. A source of static pods publishes to `pods`, with an API
 * server to `mirrorPods` as well, and then reports to `syncLoop` that it is ready; before that, the uids of each
 * portion.
 *
 * Invariants: within one publication removals come first, so that a rewritten pod is removed before it is added; a pod
 * that did not change is not published; a pod's deletion is published once; pods are published in the order of their
 * list, and other messages are handled between two portions; `config.sourceReady` follows all differences of its list,
 * so that no pod counts as removed too early.
 */
import { to } from '../../../../kernel/xstate.ts';
import type { Container, Pod, PodRef } from '../../../model/api/pod.ts';
import { CONFIG_SEEN_ANNOTATION, CONFIG_SOURCE_ANNOTATION, isMirrorPod } from '../../../model/api/pod.ts';
import { versionOf } from '../../../model/objects/config-objects.ts';
import type {
  ConfigMessage,
  MirrorMessage,
  Source,
  SourceChanged,
  SourceReady,
} from '../../../model/pods/source-messages.ts';
import { type Receiver, receiverOf } from '../../../model/pods/source-messages.ts';
import { type Decider, hasBehavior } from '../../../model/settings/behaviors.ts';
import type { IgnoredField, NodeSettings } from '../../../model/settings/node-settings.ts';
import { isForeignCondition } from '../../../model/status/conditions.ts';
import { isTerminalPhase } from '../../../model/status/phase.ts';
import { pickKeys } from '../../../model/values/tables.ts';

/** A published pod, as its source keeps it to find changes. */
interface PublishedPod extends PodRef {
  /** The hash of the definition: of all fields that the pod's actor acts on. */
  readonly hash: string;
  /** The hash of the fields of its status that other clients write. */
  readonly statusHash: string;
  readonly deleting: boolean;
  /** `kubernetes.io/config.seen`: when the pod was first seen. */
  readonly seen: string;
}

export type PublishedPods = Readonly<Record<string, PublishedPod>>;

/** The pod as this node sees it, with the annotations for its source and the time when it was first seen. */
export const withSource = (pod: Pod, source: Source, seen: string, unseen?: readonly IgnoredField[]): Pod => ({
  ...withoutIgnored(pod, unseen),
  metadata: {
    ...pod.metadata,
    annotations: {
      ...pod.metadata.annotations,
      [CONFIG_SEEN_ANNOTATION]: seen,
      [CONFIG_SOURCE_ANNOTATION]: source,
    },
  },
});

const LOCAL_ANNOTATIONS: ReadonlySet<string> = new Set([CONFIG_SEEN_ANNOTATION, CONFIG_SOURCE_ANNOTATION]);

function definitionOf({ metadata, spec }: Pod): unknown {
  const annotations = Object.entries(metadata.annotations ?? {}).filter(([key]) => !LOCAL_ANNOTATIONS.has(key));
  const { labels, deletionTimestamp, deletionGracePeriodSeconds, generation } = metadata;
  return [spec, labels, annotations, deletionTimestamp, deletionGracePeriodSeconds, generation];
}

function foreignStatusOf({ status }: Pod): unknown {
  const phase = isTerminalPhase(status?.phase) ? status?.phase : '';
  const { resourceClaimStatuses: claims, extendedResourceClaimStatus: extended } = status ?? {};
  const foreignConditions = (status?.conditions ?? []).filter(isForeignCondition);
  return [phase, foreignConditions, claims, ...(extended === undefined ? [] : [extended])];
}

const publishedPod = (pod: Pod): PublishedPod => ({
  uid: pod.metadata.uid,
  namespace: pod.metadata.namespace,
  name: pod.metadata.name,
  hash: versionOf(definitionOf(pod)),
  statusHash: versionOf(foreignStatusOf(pod)),
  deleting: pod.metadata.deletionTimestamp !== undefined,
  seen: pod.metadata.annotations?.[CONFIG_SEEN_ANNOTATION] ?? '',
});

/** Pods of the last publication, pods of this one ({@link publishedOf}), and removed pods. */
interface Publication {
  readonly before: PublishedPods;
  readonly after: PublishedPods;
  readonly gone: readonly PodRef[];
}

export function differences(source: Source, pods: readonly Pod[], reported: Publication): readonly ConfigMessage[] {
  const { gone } = reported;
  const known = pods.flatMap((pod) => {
    const { uid } = pod.metadata;
    const after = reported.after[uid];
    return after === undefined ? [] : [{ pod, before: reported.before[uid], after }];
  });
  const podsWhere = (op: (each: (typeof known)[number]) => boolean): readonly Pod[] =>
    known.filter(op).map(({ pod }) => pod);
  const isDeletion = ({ before, after }: (typeof known)[number]) => before?.deleting === false && after.deleting;
  const isUpdate = (each: (typeof known)[number]) =>
    each.before !== undefined && each.before.hash !== each.after.hash && !isDeletion(each);
  const removed = gone.map(({ uid, namespace, name }) => ({ uid, namespace, name }));
  const messages: ConfigMessage[] = [
    { type: 'config.pods', op: 'REMOVE', source, pods: removed },
    { type: 'config.pods', op: 'ADD', source, pods: podsWhere(({ before }) => before === undefined) },
    { type: 'config.pods', op: 'UPDATE', source, pods: podsWhere(isUpdate) },
    { type: 'config.pods', op: 'DELETE', source, pods: podsWhere(isDeletion) },
    {
      type: 'config.pods',
      op: 'RECONCILE',
      source,
      pods: podsWhere(({ before, after }) => before?.hash === after.hash && before.statusHash !== after.statusHash),
    },
  ];
  return messages.filter((message) => message.pods.length > 0);
}

export function removedPods(reported: PublishedPods, pods: readonly Pod[]): readonly PublishedPod[] {
  const there = new Set(pods.map((pod) => pod.metadata.uid));
  return Object.values(reported).filter(({ uid }) => !there.has(uid));
}

export const publishedOf = (pods: readonly Pod[]): PublishedPods =>
  Object.fromEntries(pods.map((pod) => [pod.metadata.uid, publishedPod(pod)]));

/** Forgets the publication of these pods, or of all (`null`), because a receiver lost its state. */
export const withoutPods = (reported: PublishedPods, uids: readonly string[] | null): PublishedPods =>
  pickKeys(reported, (uid) => uids !== null && !uids.includes(uid));

/**
 * Pods that are published in one turn: each takes a millisecond or two of decisions, and nothing else is decided
 * meanwhile.
 */
const PORTION_PODS = 10;

export interface Change {
  readonly ref: PodRef;
  /** `null`: the source no longer has it. */
  readonly pod: Pod | null;
}

/** The changes of a publication; those before `next` were published. */
export interface Publishing {
  readonly changes: readonly Change[];
  readonly next: number;
}

export interface NextPortion {
  readonly type: 'source.next';
}

export const NEXT_PORTION = { event: { type: 'source.next' }, options: { id: 'next', delay: 0 } } as const;

interface Portion {
  readonly pods: readonly Pod[];
  readonly gone: readonly PodRef[];
  /** `undefined` after the last portion. */
  readonly rest: Publishing | undefined;
}

/** The next portion. Nodes of before `podsInPortions` publish everything in one turn. */
export function portionOf({ changes, next }: Publishing, node: Decider): Portion {
  const end = hasBehavior(node, 'podsInPortions') ? next + PORTION_PODS : changes.length;
  const portion = changes.slice(next, end);
  return {
    pods: portion.flatMap(({ pod }) => pod ?? []),
    gone: portion.flatMap(({ ref, pod }) => (pod === null ? [ref] : [])),
    rest: end < changes.length ? { changes, next: end } : undefined,
  };
}

export const refOf = ({ metadata: { uid, namespace, name } }: Pod): PodRef => ({ uid, namespace, name });
export const changeOf = (pod: Pod): Change => ({ ref: refOf(pod), pod });
export const removalOf = ({ uid, namespace, name }: PodRef): Change => ({ ref: { uid, namespace, name }, pod: null });

/**
 * A pod without such fields stays the same object. Upstream's kubelet checks its gates at each use of a field instead.
 */
export function withoutIgnored(pod: Pod, unseen: readonly IgnoredField[] = []): Pod {
  if (unseen.length === 0) return pod;
  const strip = <Each extends Container>(containers: readonly Each[], isInit: boolean): readonly Each[] =>
    containers.map((container) => unseen.reduce((kept, field) => without(kept, field, isInit), container));
  const { hostnameOverride, initContainers, containers, ephemeralContainers, ...spec } = pod.spec;
  const keepsName = hostnameOverride !== undefined && !unseen.includes('hostnameOverride');
  return {
    ...pod,
    spec: {
      ...spec,
      ...(keepsName ? { hostnameOverride } : {}),
      containers: strip(containers, false),
      ...(initContainers === undefined ? {} : { initContainers: strip(initContainers, true) }),
      ...(ephemeralContainers === undefined ? {} : { ephemeralContainers: strip(ephemeralContainers, false) }),
    },
  };
}

const RESTART_ALL = 'RestartAllContainers';

function without<Each extends Container>(container: Each, field: IgnoredField, isInit: boolean): Each {
  if (field === 'fileKeyRef') return withoutFileKeys(container);
  if (field === 'hostnameOverride') return container;
  const { restartPolicyRules: rules = [] } = container;
  if (field === 'restartAll')
    return withRules(
      container,
      rules.filter(({ action }) => action !== RESTART_ALL),
    );
  const { restartPolicy, ...rest } = container;
  const isSidecar = isInit && restartPolicy === 'Always';
  const kept = (isSidecar ? container : rest) as Each;
  return withRules(
    kept,
    rules.filter(({ action }) => action === RESTART_ALL),
  );
}

function withRules<Each extends Container>(container: Each, rules: NonNullable<Container['restartPolicyRules']>): Each {
  const { restartPolicyRules: _before, ...rest } = container;
  return (rules.length === 0 ? rest : { ...rest, restartPolicyRules: rules }) as Each;
}

/** Empties variables whose values are keys of files. */
function withoutFileKeys<Each extends Container>(container: Each): Each {
  const { env } = container;
  if (env === undefined) return container;
  return { ...container, env: env.map((each) => (each.valueFrom?.fileKeyRef ? { name: each.name, value: '' } : each)) };
}

interface Enqueue {
  sendTo(target: ReturnType<typeof to>, message: MirrorMessage | ConfigMessage | SourceChanged | SourceReady): void;
  raise(event: typeof NEXT_PORTION.event, options: typeof NEXT_PORTION.options): void;
  cancel(id: string): void;
}

interface Publisher {
  readonly source: 'file' | 'http';
  readonly hasApiServer: boolean;
  /** `systemId` of the actor that gets the pods. */
  readonly receiver: string;
  readonly node: Pick<NodeSettings, 'behavior'>;
}

export const publisherOf = (
  source: Publisher['source'],
  settings: Receiver & Pick<NodeSettings, 'behavior' | 'apiServer'>,
): Publisher => ({
  source,
  hasApiServer: settings.apiServer !== undefined,
  receiver: receiverOf(settings),
  node: settings,
});

export interface StaticPublication {
  readonly reported: PublishedPods;
  /** By uid, when a pod was first seen; kept when it has to be published again. */
  readonly seen: Readonly<Record<string, string>>;
  /** The rest of a list. */
  readonly publishing?: Publishing | undefined;
}

/** Publishes what differs in a new list of all pods, or its first portion. */
export function publishStaticPods(
  enqueue: Enqueue,
  publisher: Publisher,
  before: StaticPublication,
  pods: readonly Pod[],
): StaticPublication {
  if (before.publishing !== undefined) enqueue.cancel(NEXT_PORTION.options.id);
  const listed = publishedOf(pods);
  const changes: readonly Change[] = [
    ...removedPods(before.reported, pods).map(removalOf),
    ...pods.filter(({ metadata: { uid } }) => !isSame(before.reported[uid], listed[uid])).map(changeOf),
  ];
  const begun = publishPortion(enqueue, publisher, before, { changes, next: 0 });
  if (begun.publishing !== undefined) return begun;
  sendReady(enqueue, publisher, listed);
  return { ...begun, reported: listed };
}

/** Publishes the next portion; after the last one the source is ready. */
export function publishNext(enqueue: Enqueue, publisher: Publisher, before: StaticPublication): StaticPublication {
  if (before.publishing === undefined) return before;
  const next = publishPortion(enqueue, publisher, before, before.publishing);
  if (next.publishing === undefined) sendReady(enqueue, publisher, next.reported);
  return next;
}

function publishPortion(
  enqueue: Enqueue,
  { source, hasApiServer, receiver, node }: Publisher,
  { reported: before, seen }: StaticPublication,
  publishing: Publishing,
): StaticPublication {
  const { pods, gone, rest } = portionOf(publishing, node);
  const after = publishedOf(pods);
  for (const message of differences(source, pods, { before, after, gone })) {
    if (hasApiServer) sendMirrors(enqueue, message, node);
    enqueue.sendTo(to(receiver), message);
  }
  const reported = {
    ...withoutPods(
      before,
      gone.map(({ uid }) => uid),
    ),
    ...after,
  };
  if (rest !== undefined) {
    const added = Object.keys(after).filter((uid) => before[uid] === undefined);
    const removed = gone.map(({ uid }) => uid);
    enqueue.sendTo(to('syncLoop'), { type: 'config.sourceChanged', source, added, removed });
    enqueue.raise(NEXT_PORTION.event, NEXT_PORTION.options);
  }
  const noted = rest === undefined ? seenOf(reported) : { ...seen, ...seenOf(after) };
  return { reported, seen: noted, publishing: rest };
}

const isSame = (one: PublishedPod | undefined, other: PublishedPod | undefined): boolean =>
  JSON.stringify(one) === JSON.stringify(other);

const seenOf = (pods: PublishedPods): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.values(pods).map(({ uid, seen }) => [uid, seen]));

function sendReady(enqueue: Enqueue, { source, hasApiServer }: Publisher, reported: PublishedPods): void {
  enqueue.sendTo(to('syncLoop'), { type: 'config.sourceReady', source, uids: Object.keys(reported) });
  if (hasApiServer) sendMirrorsReady(enqueue, source);
}

/** The source has published its whole list. */
export const sendMirrorsReady = (enqueue: Enqueue, source: 'file' | 'http'): void =>
  enqueue.sendTo(to('mirrorPods'), { type: 'mirror.ready', source });

/** Sends the static pods to `mirrorPods`. A manifest that declares itself a mirror pod is neither run nor mirrored. */
function sendMirrors(enqueue: Enqueue, message: ConfigMessage, node: Publisher['node']): void {
  const send = (mirror: MirrorMessage): void => enqueue.sendTo(to('mirrorPods'), mirror);
  if (message.op === 'REMOVE') for (const pod of message.pods) send({ type: 'mirror.unwanted', pod });
  else {
    const skips = hasBehavior(node, 'podsAsKubelet');
    for (const pod of message.pods) if (!skips || !isMirrorPod(pod)) send({ type: 'mirror.wanted', pod });
  }
}
