/**
 * What the API server as a source publishes: pods and their changes to `pods`, what is seen of them in the API server
 * to `status` and `mirrorPods`, the uids of its pods to `syncLoop`. Part of `api-source.ts`.
 */
import { to } from '../../../../kernel/xstate.ts';
import { CONFIG_MIRROR_ANNOTATION, isMirrorPod, type Pod, type PodRef } from '../../../model/api/pod.ts';
import type { MirrorListed, MirrorSeen, StatusListed, StatusObserved } from '../../../model/pods/api-messages.ts';
import type { ConfigMessage, SourceChanged, SourceReady } from '../../../model/pods/source-messages.ts';
import { type Decider, hasBehavior } from '../../../model/settings/behaviors.ts';
import { seenPod } from './api-pod.ts';
import { type Change, differences, type PublishedPods, type Publishing, publishedOf, refOf } from './pod-source.ts';

export const SOURCE = 'api';

type Message = ConfigMessage | StatusObserved | StatusListed | MirrorSeen | MirrorListed | SourceReady | SourceChanged;

interface Enqueue {
  sendTo(target: ReturnType<typeof to>, message: Message): void;
}

/** A mirror pod and the static pod that it stands for. */
interface Mirror extends PodRef {
  readonly staticUid: string;
}

/** What the source has published. */
export interface ApiPublication extends Decider {
  readonly reported: PublishedPods;
  /** By uid, the mirror pods of this node. */
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
  const kept = hasGone ? Object.fromEntries(Object.entries(table).filter(([uid]) => !gone.has(uid))) : table;
  return { ...kept, ...values };
}

function sendSeen(enqueue: Enqueue, pod: Pod): void {
  const objectState = seenPod(pod);
  const ref = isMirrorPod(pod) ? { ...refOf(pod), uid: hashIn(pod) } : refOf(pod);
  enqueue.sendTo(to('status'), { type: 'status.observed', pod: ref, seen: objectState } satisfies StatusObserved);
  if (isMirrorPod(pod)) enqueue.sendTo(to('mirrorPods'), mirrorSeen(pod));
}

/** Sends all pods of the list: pods missing in it are gone, even if this source restarted and did not know them. */
export function sendListed(enqueue: Enqueue, pods: readonly Pod[]): void {
  const uids = pods.map((pod) => (isMirrorPod(pod) ? hashIn(pod) : pod.metadata.uid));
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
