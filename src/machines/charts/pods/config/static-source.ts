/**
 * How a source of static pods publishes them: to `pods`, to `syncLoop` that it has spoken, and with an API server to
 * `mirrorPods` as well.
 *
 * Invariant: `config.sourceReady` follows all differences of its list, so that no pod is taken for removed before.
 */
import { to } from '../../../../kernel/xstate.ts';
import type { Pod } from '../../../model/api/pod.ts';
import type { MirrorMessage } from '../../../model/pods/api-messages.ts';
import type { ConfigMessage, SourceReady } from '../../../model/pods/messages.ts';
import { sendMirrors, sendMirrorsReady } from '../mirror/mirrors.ts';
import { differences, goneFrom, type PublishedPods, publishedOf } from './pod-source.ts';

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
}

/** What the source keeps of the pods that it published. */
export function publishStaticPods(enqueue: Enqueue, { source, pods, before, hasApiServer, receiver }: Publication) {
  const reported = publishedOf(pods);
  const gone = goneFrom(before, pods);
  for (const message of differences(source, pods, { before, after: reported, gone })) {
    if (hasApiServer) sendMirrors(enqueue, message);
    enqueue.sendTo(to(receiver), message);
  }
  enqueue.sendTo(to('syncLoop'), { type: 'config.sourceReady', source, uids: Object.keys(reported) });
  if (hasApiServer) sendMirrorsReady(enqueue, source);
  return { reported, seen: Object.fromEntries(Object.values(reported).map((each) => [each.uid, each.seen])) };
}
