/**
 * What the API server as a source publishes: pods and their changes to `pods`, their state in the API server to
 * `status` and `mirrorPods`, the uids of its pods to `syncLoop`. Part of `api-source.ts`. Pure.
 *
 * Its pod objects are validated here.
 *
 * Sets no defaults: the API server has set them. Invariants: an invalid object never reaches a pod's actor;
 * `managedFields` are dropped.
 */
import { isObject, type JsonObject, to } from '../../../../kernel/xstate.ts';
import type { Pod, PodMeta, PodRef, PodStatus } from '../../../model/api/pod.ts';
import { CONFIG_MIRROR_ANNOTATION, isMirrorPod } from '../../../model/api/pod.ts';
import { keysWithTrust } from '../../../model/objects/keys.ts';
import type { KubeObject } from '../../../model/operations/kube.ts';
import type {
  ConfigMessage,
  MirrorListed,
  MirrorSeen,
  SeenPod,
  SourceChanged,
  SourceReady,
  StatusListed,
  StatusObserved,
} from '../../../model/pods/source-messages.ts';
import { type Decider, hasBehavior } from '../../../model/settings/behaviors.ts';
import { sizeProblem } from '../../../model/validation/pod.ts';
import { pickKeys } from '../../../model/values/tables.ts';
import { certificatesOf, tokensOf } from '../../../model/volumes/credentials.ts';
import { type Change, differences, type PublishedPods, type Publishing, publishedOf, refOf } from './pod-source.ts';

export const SOURCE = 'api';

type Message = ConfigMessage | StatusObserved | StatusListed | MirrorSeen | MirrorListed | SourceReady | SourceChanged;

interface Enqueue {
  sendTo(target: ReturnType<typeof to>, message: Message): void;
}

interface Mirror extends PodRef {
  readonly staticUid: string;
}

/** What the source has published. */
export interface ApiPublication extends Decider {
  readonly reported: PublishedPods;
  readonly mirrors: Readonly<Record<string, Mirror>>;
  /** By uid, when a pod was first seen; kept for a later publication. */
  readonly seen: Readonly<Record<string, string>>;
  /** The rest of a list. */
  readonly publishing?: Publishing | undefined;
}

export function publish<Of extends ApiPublication>(
  enqueue: Enqueue,
  context: Of,
  pods: readonly Pod[],
  gone: readonly PodRef[],
): Of {
  const podsToRun = pods.filter((pod) => !isMirrorPod(pod));
  const goneOwn = gone.filter(({ uid }) => context.reported[uid] !== undefined);
  for (const pod of pods) sendSeen(enqueue, pod);
  const after = publishedOf(podsToRun);
  const messages = differences(SOURCE, podsToRun, { before: context.reported, after, gone: goneOwn });
  for (const message of messages) enqueue.sendTo(to('pods'), message);
  const goneUids = new Set(gone.map(({ uid }) => uid));
  const mirrors = pods
    .filter(isMirrorPod)
    .map((pod) => [pod.metadata.uid, { ...refOf(pod), staticUid: hashIn(pod) }] as const);
  const reported = updated(context.reported, goneUids, after);
  const unnoted = Object.values(reported).filter(({ uid, seen }) => context.seen[uid] !== seen);
  return {
    ...context,
    reported,
    mirrors: updated(context.mirrors, goneUids, Object.fromEntries(mirrors)),
    seen: updated(context.seen, goneUids, Object.fromEntries(unnoted.map(({ uid, seen }) => [uid, seen]))),
  };
}

/** The table itself if nothing changes: most changes in the API server are of statuses, and a copy takes all pods. */
function updated<Value>(
  table: Readonly<Record<string, Value>>,
  gone: ReadonlySet<string>,
  values: Readonly<Record<string, Value>>,
): Readonly<Record<string, Value>> {
  const isSame = ([uid, value]: readonly [string, Value]) => JSON.stringify(table[uid]) === JSON.stringify(value);
  const hasGone = [...gone].some((uid) => Object.hasOwn(table, uid));
  if (!hasGone && Object.entries(values).every(isSame)) return table;
  const kept = hasGone ? pickKeys(table, (uid) => !gone.has(uid)) : table;
  return { ...kept, ...values };
}

const createdAt = ({ metadata }: Pod): string => metadata.creationTimestamp ?? '';

/**
 * The pods of a list in the order in which they are published, and admitted if there is not enough room for all. A node
 * without `sourcesAsKubelet` publishes them by name, as the list has them. Upstream: pkg/kubelet, HandlePodAdditions.
 */
export function olderFirst(pods: readonly Pod[], node: Decider): readonly Pod[] {
  if (!hasBehavior(node, 'sourcesAsKubelet')) return pods;
  // The API server writes all of these times in one form.
  return pods.toSorted((a, b) => (createdAt(a) < createdAt(b) ? -1 : Number(createdAt(a) > createdAt(b))));
}

function sendSeen(enqueue: Enqueue, pod: Pod): void {
  const objectState = seenPod(pod);
  const ref = isMirrorPod(pod) ? { ...refOf(pod), uid: hashIn(pod) } : refOf(pod);
  enqueue.sendTo(to('status'), { type: 'status.observed', pod: ref, seen: objectState } satisfies StatusObserved);
  if (isMirrorPod(pod)) enqueue.sendTo(to('mirrorPods'), mirrorSeen(pod));
}

/**
 * Sends all pods of the list: pods missing in it are gone, even if this source restarted and did not know them.
 * `refused`: uids of objects in it that are no valid pods.
 */
export function sendListed(enqueue: Enqueue, pods: readonly Pod[], refused: readonly string[]): void {
  const uids = [...pods.map((pod) => (isMirrorPod(pod) ? hashIn(pod) : pod.metadata.uid)), ...refused];
  enqueue.sendTo(to('status'), { type: 'status.listed', uids } satisfies StatusListed);
}

/** Sent after the mirror pods themselves: static pods without one may then get one. */
export function sendMirrorsListed(enqueue: Enqueue, uids: readonly string[]): void {
  enqueue.sendTo(to('mirrorPods'), { type: 'mirror.listed', uids } satisfies MirrorListed);
}

export function sendGone(enqueue: Enqueue, pod: PodRef, staticUid: string | undefined): void {
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

/** The publication with this change in it; `undefined` if the change is published at once. */
export function withChange({ publishing, reported }: ApiPublication, change: Change): Publishing | undefined {
  if (publishing === undefined) return undefined;
  const { changes, next } = publishing;
  const { uid } = change.ref;
  const at = changes.findIndex(({ ref }, index) => index >= next && ref.uid === uid);
  if (at !== -1) return { changes: changes.with(at, change), next };
  const isNew = change.pod !== null && reported[uid] === undefined && !isMirrorPod(change.pod);
  return isNew ? { changes: [...changes, change], next } : undefined;
}

/** A mirror pod that waits for its publication is not noted yet. */
export function staticUidOf({ mirrors }: ApiPublication, pod: Pod, isWaiting: boolean): string | undefined {
  return mirrors[pod.metadata.uid]?.staticUid ?? (isWaiting && isMirrorPod(pod) ? hashIn(pod) : undefined);
}

export function reportReady(enqueue: Enqueue, { reported }: ApiPublication): void {
  const ready: SourceReady = { type: 'config.sourceReady', source: SOURCE, uids: Object.keys(reported) };
  enqueue.sendTo(to('syncLoop'), ready);
}

/** Reports the uids that came or went; a node of before `podsInPortions` reports all of them. */
export function reportChange(
  enqueue: Enqueue,
  { reported: before, behavior }: ApiPublication,
  after: ApiPublication,
): void {
  if (before === after.reported) return;
  const added = Object.keys(after.reported).filter((uid) => before[uid] === undefined);
  const removed = Object.keys(before).filter((uid) => after.reported[uid] === undefined);
  if (added.length + removed.length === 0) return;
  if (!hasBehavior({ behavior }, 'podsInPortions')) return reportReady(enqueue, after);
  const change: SourceChanged = { type: 'config.sourceChanged', source: SOURCE, added, removed };
  enqueue.sendTo(to('syncLoop'), change);
}

export type ApiPod = { readonly pod: Pod; readonly error?: undefined } | { readonly error: string };

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

/** The limit of ConfigMaps, Secrets, claims, tokens and CSI volumes of one pod: each has an actor, and most a watch. */
const POD_OBJECTS_MAX = 500;
const UID_LENGTH_MAX = 128;
/** A uid becomes the name of a folder: it must not lead out of its parent. */
const isUid = (value: unknown): value is string =>
  isText(value) && value.length <= UID_LENGTH_MAX && /^[A-Za-z0-9][A-Za-z0-9-]*$/.test(value);

const followedCount = (pod: Pod): number =>
  keysWithTrust(pod).length +
  Object.keys(tokensOf(pod)).length +
  Object.keys(certificatesOf(pod)).length +
  (pod.spec.volumes ?? []).filter(({ csi }) => csi != null).length;

/**
 * The pod in the object, or why it is invalid. Nodes of 0.2.0 accept any number of ConfigMaps, Secrets and so on.
 *
 * `isGone`: the API server does not have it any more. An object that is too large is taken as far as its end needs it:
 * otherwise a pod that has grown would never end, and one that was never accepted could not be deleted.
 */
export function podFromApi(object: KubeObject, node: Decider, isGone = false): ApiPod {
  const read = readPod(object, node);
  const isEnding = isGone || (object.metadata?.['deletionTimestamp'] ?? null) !== null;
  if (read.error === undefined || !isEnding || !hasBehavior(node, 'sourcesAsKubelet')) return read;
  const forms = [withoutGrowth(object), withoutContent(object)].map((form) => readPod(form, node));
  return forms.find(({ error }) => error === undefined) ?? read;
}

/** The object without what may grow after its pod was accepted. */
function withoutGrowth({ metadata, spec, ...object }: KubeObject): KubeObject {
  const given: JsonObject = isObject(metadata) ? metadata : {};
  const { labels: _labels, ownerReferences: _owners, annotations, ...meta } = given;
  const mirrored = isObject(annotations) ? annotations[CONFIG_MIRROR_ANNOTATION] : undefined;
  const kept = mirrored === undefined ? {} : { annotations: { [CONFIG_MIRROR_ANNOTATION]: mirrored } };
  const { ephemeralContainers: _debugging, tolerations: _tolerations, ...rest } = isObject(spec) ? spec : {};
  const short = { ...meta, ...kept } as unknown as KubeObject['metadata'];
  return { ...object, metadata: short, spec: rest, status: {} };
}

/** The object of a pod that this node never accepted, and of which it therefore has nothing. */
function withoutContent(object: KubeObject): KubeObject {
  const { spec, ...short } = withoutGrowth(object);
  const all = isObject(spec) && Array.isArray(spec['containers']) ? spec['containers'] : [];
  const containers = all.slice(0, 1).map((first) => (isObject(first) ? { name: first['name'] } : first));
  return { ...short, spec: { containers } };
}

function readPod(object: KubeObject, node: Decider): ApiPod {
  const isLimited = hasBehavior(node, 'resourcesLimited');
  const { metadata, spec, status } = object;
  if (!isObject(metadata)) return { error: 'metadata: the object has none' };
  const { managedFields: _, ...meta } = metadata;
  if (!isText(meta['name']) || !isText(meta['namespace'])) return { error: 'metadata: name and namespace are needed' };
  if (!isUid(meta['uid'])) return { error: `metadata.uid: ${JSON.stringify(meta['uid'])} is no uid` };
  if (!isObject(spec) || !Array.isArray(spec['containers'])) return { error: 'spec.containers: must be a list' };
  const lists = ['containers', 'initContainers', 'ephemeralContainers', 'volumes'] as const;
  const broken = lists.find((list) => !isListOfNamed(spec[list]));
  if (broken !== undefined) return { error: `spec.${broken}: must be a list of objects with a name` };
  const tooLarge = sizeProblem({ meta, spec, status }, isLimited);
  if (tooLarge !== null) return { error: tooLarge };
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: meta as unknown as PodMeta,
    spec: spec as unknown as Pod['spec'],
    status: (isObject(status) ? status : {}) as PodStatus,
  };
  const count = followedCount(pod);
  if (isLimited && count > POD_OBJECTS_MAX) {
    return {
      error: `the pod needs ${count} objects, tokens and volumes of drivers: this node takes pods of at most ${POD_OBJECTS_MAX}`,
    };
  }
  return { pod };
}

const isListOfNamed = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  (Array.isArray(value) && value.every((each) => isObject(each) && isText(each['name'])));

/** The fields that the status publisher needs of the pod in the API server. */
const seenPod = ({ metadata, status }: Pod): SeenPod => ({
  uid: metadata.uid,
  isMirror: metadata.annotations?.[CONFIG_MIRROR_ANNOTATION] !== undefined,
  resourceVersion: metadata.resourceVersion ?? '',
  isDeleting: metadata.deletionTimestamp !== undefined,
  status: status ?? {},
});
