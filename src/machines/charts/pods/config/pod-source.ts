/**
 * Shared by all sources of pods: a source publishes the differences to its last publication. Sources of static pods
 * publish to `pods`, then tell `syncLoop` that they are ready; with an API server they publish to `mirrorPods` as well.
 *
 * Invariants: within one publication removals come first, so that a rewritten pod is removed before it is added; a pod
 * that did not change is not published; a pod's deletion is published once; `config.sourceReady` follows all
 * differences of its list, so that no pod counts as removed before.
 */

import { to } from '../../../../kernel/xstate.ts';
import {
  CONFIG_SEEN_ANNOTATION,
  CONFIG_SOURCE_ANNOTATION,
  type Container,
  isMirrorPod,
  type Pod,
  type PodRef,
} from '../../../model/api/pod.ts';
import { versionOf } from '../../../model/objects/config-objects.ts';
import type { MirrorMessage } from '../../../model/pods/api-messages.ts';
import type { ConfigMessage, Source, SourceReady } from '../../../model/pods/source-messages.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import type { IgnoredField, NodeSettings } from '../../../model/settings/node-settings.ts';
import { isForeignCondition } from '../../../model/status/conditions.ts';
import { isTerminalPhase } from '../../../model/status/phase.ts';

/** What a source keeps of a published pod, to find changes. */
export interface Reported extends PodRef {
  /** The hash of the definition: of all fields that the pod's actor acts on. */
  readonly hash: string;
  /** The hash of the fields of its status that other clients write. */
  readonly statusHash: string;
  readonly deleting: boolean;
  /** `kubernetes.io/config.seen`: when the pod was first seen. */
  readonly seen: string;
}

export type PublishedPods = Readonly<Record<string, Reported>>;

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

/**
 * Removes the fields of a pod that belong to disabled feature gates. Upstream's kubelet checks its gates at each use of
 * such a field. Without such fields the pod is the same object.
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

/** The variable stays, but is empty. */
function withoutFileKeys<Each extends Container>(container: Each): Each {
  const { env } = container;
  if (env === undefined) return container;
  return { ...container, env: env.map((each) => (each.valueFrom?.fileKeyRef ? { name: each.name, value: '' } : each)) };
}

const LOCAL_ANNOTATIONS: ReadonlySet<string> = new Set([CONFIG_SEEN_ANNOTATION, CONFIG_SOURCE_ANNOTATION]);

function definitionOf({ metadata, spec }: Pod): unknown {
  const annotations = Object.entries(metadata.annotations ?? {}).filter(([key]) => !LOCAL_ANNOTATIONS.has(key));
  const { labels, deletionTimestamp, deletionGracePeriodSeconds, generation } = metadata;
  return [spec, labels, annotations, deletionTimestamp, deletionGracePeriodSeconds, generation];
}

function othersStatusOf({ status }: Pod): unknown {
  const phase = isTerminalPhase(status?.phase) ? status?.phase : '';
  const { resourceClaimStatuses: claims, extendedResourceClaimStatus: extended } = status ?? {};
  const foreignConditions = (status?.conditions ?? []).filter(isForeignCondition);
  return [phase, foreignConditions, claims, ...(extended === undefined ? [] : [extended])];
}

const reportOf = (pod: Pod): Reported => ({
  uid: pod.metadata.uid,
  namespace: pod.metadata.namespace,
  name: pod.metadata.name,
  hash: versionOf(definitionOf(pod)),
  statusHash: versionOf(othersStatusOf(pod)),
  deleting: pod.metadata.deletionTimestamp !== undefined,
  seen: pod.metadata.annotations?.[CONFIG_SEEN_ANNOTATION] ?? '',
});

/** Pods of the last publication, pods of this one ({@link publishedOf}), and removed pods. */
interface Reports {
  readonly before: PublishedPods;
  readonly after: PublishedPods;
  readonly gone: readonly PodRef[];
}

/** The messages that publish these differences. */
export function differences(source: Source, pods: readonly Pod[], reported: Reports): readonly ConfigMessage[] {
  const { gone } = reported;
  const known = pods.map((pod) => {
    const { uid } = pod.metadata;
    return { pod, before: reported.before[uid], after: reported.after[uid]! };
  });
  const of = (op: (each: (typeof known)[number]) => boolean): readonly Pod[] => known.filter(op).map(({ pod }) => pod);
  const isDeletion = ({ before, after }: (typeof known)[number]) => before?.deleting === false && after.deleting;
  const isUpdate = (each: (typeof known)[number]) =>
    each.before !== undefined && each.before.hash !== each.after.hash && !isDeletion(each);
  const removed = gone.map(({ uid, namespace, name }) => ({ uid, namespace, name }));
  const messages: ConfigMessage[] = [
    { type: 'config.pods', op: 'REMOVE', source, pods: removed },
    { type: 'config.pods', op: 'ADD', source, pods: of(({ before }) => before === undefined) },
    { type: 'config.pods', op: 'UPDATE', source, pods: of(isUpdate) },
    { type: 'config.pods', op: 'DELETE', source, pods: of(isDeletion) },
    {
      type: 'config.pods',
      op: 'RECONCILE',
      source,
      pods: of(({ before, after }) => before?.hash === after.hash && before.statusHash !== after.statusHash),
    },
  ];
  return messages.filter((message) => message.pods.length > 0);
}

/** Published pods that are not among these. */
export function goneFrom(reported: PublishedPods, pods: readonly Pod[]): readonly Reported[] {
  const there = new Set(pods.map((pod) => pod.metadata.uid));
  return Object.values(reported).filter(({ uid }) => !there.has(uid));
}

export const publishedOf = (pods: readonly Pod[]): PublishedPods =>
  Object.fromEntries(pods.map((pod) => [pod.metadata.uid, reportOf(pod)]));

/** Forgets publications because a receiver lost its state: of these pods, or of all (`null`). */
export const forgotten = (reported: PublishedPods, uids: readonly string[] | null): PublishedPods =>
  Object.fromEntries(Object.entries(reported).filter(([uid]) => uids !== null && !uids.includes(uid)));

// ---- static pods ----------------------------------------------------------------------------------------------------

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
  const gone = goneFrom(before, pods);
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
