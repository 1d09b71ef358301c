/**
 * How a source of static pods publishes: to `pods`, with an API server to `mirrorPods` as well, and then to `syncLoop`
 * that it is ready.
 *
 * Invariant: `config.sourceReady` follows all differences of its list, so that no pod counts as removed before.
 */
import { to } from '../../../../kernel/xstate.ts';
import { isMirrorPod, type Pod } from '../../../model/api/pod.ts';
import type { MirrorMessage } from '../../../model/pods/api-messages.ts';
import type { ConfigMessage, SourceReady } from '../../../model/pods/source-messages.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import { differences, type PublishedPods, publishedOf, removedPods } from './pod-source.ts';

interface Enqueue {
  sendTo(target: ReturnType<typeof to>, message: MirrorMessage | ConfigMessage | SourceReady): void;
}

interface Publication {
  readonly source: 'file' | 'http';
  readonly pods: readonly Pod[];
  readonly before: PublishedPods;
  readonly hasApiServer: boolean;
  /** `systemId` of the actor that gets the pods. */
  readonly receiver: string;
  readonly node: Pick<NodeSettings, 'behavior'>;
}

/** Publishes the pods of a source; returns the source's record of them. */
export function publishStaticPods(
  enqueue: Enqueue,
  { source, pods, before, hasApiServer, receiver, node }: Publication,
) {
  const reported = publishedOf(pods);
  const gone = removedPods(before, pods);
  for (const message of differences(source, pods, { before, after: reported, gone })) {
    if (hasApiServer) sendMirrors(enqueue, message, node);
    enqueue.sendTo(to(receiver), message);
  }
  enqueue.sendTo(to('syncLoop'), { type: 'config.sourceReady', source, uids: Object.keys(reported) });
  if (hasApiServer) sendMirrorsReady(enqueue, source);
  return { reported, seen: Object.fromEntries(Object.values(reported).map((each) => [each.uid, each.seen])) };
}

/** The source has published its whole list. */
export const sendMirrorsReady = (enqueue: Enqueue, source: 'file' | 'http'): void =>
  enqueue.sendTo(to('mirrorPods'), { type: 'mirror.ready', source });

/** Sends the static pods to `mirrorPods`. A manifest that declares itself a mirror pod is neither run nor mirrored. */
function sendMirrors(enqueue: Enqueue, message: ConfigMessage, node: Publication['node']): void {
  const send = (mirror: MirrorMessage): void => enqueue.sendTo(to('mirrorPods'), mirror);
  if (message.op === 'REMOVE') for (const pod of message.pods) send({ type: 'mirror.unwanted', pod });
  else {
    const skips = hasBehavior(node, 'podsAsKubelet');
    for (const pod of message.pods) if (!skips || !isMirrorPod(pod)) send({ type: 'mirror.wanted', pod });
  }
}
