/**
 * How a source of static pods publishes: to `pods`, with an API server to `mirrorPods` as well, and then to `syncLoop`
 * that it is ready; before that, the uids of each portion.
 *
 * Invariant: `config.sourceReady` follows all differences of its list, so that no pod counts as removed before.
 */
import { to } from '../../../../kernel/xstate.ts';
import { isMirrorPod, type Pod } from '../../../model/api/pod.ts';
import type { ConfigMessage, MirrorMessage, SourceChanged, SourceReady } from '../../../model/pods/source-messages.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import {
  type Change,
  changeOf,
  differences,
  NEXT_PORTION,
  type PublishedPod,
  type PublishedPods,
  type Publishing,
  portionOf,
  publishedOf,
  removalOf,
  removedPods,
  withoutPods,
} from './pod-source.ts';

interface Enqueue {
  sendTo(target: ReturnType<typeof to>, message: MirrorMessage | ConfigMessage | SourceChanged | SourceReady): void;
  raise(event: typeof NEXT_PORTION.event, options: typeof NEXT_PORTION.options): void;
  cancel(id: string): void;
}

export interface Publisher {
  readonly source: 'file' | 'http';
  readonly hasApiServer: boolean;
  /** `systemId` of the actor that gets the pods. */
  readonly receiver: string;
  readonly node: Pick<NodeSettings, 'behavior'>;
}

/** What a source of static pods has published. */
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
