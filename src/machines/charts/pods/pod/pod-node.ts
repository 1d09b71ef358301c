/**
 * A pod and its node: the facts that it sends to the node's managers (eviction, shutdown) while it is admitted and
 * running, its reaction to changes of the node's configuration, and what `rememberedPods` stores of a pod that may
 * start without the API server. Part of the chart of `pod.ts`.
 */
import { to } from '../../../../kernel/xstate.ts';
import { isStaticPod, type Pod } from '../../../model/api/pod.ts';
import { type NodePodChanged, nodePod } from '../../../model/eviction/ranking.ts';
import { awaitedKeys, idOf } from '../../../model/objects/keys.ts';
import type { RememberedPod } from '../../../model/operations/host.ts';
import type { RememberedPodsMessage } from '../../../model/pods/pod-messages.ts';
import { certificatesOf, tokensOf } from '../../../model/volumes/credentials.ts';
import type { PodContext } from './pod-context.ts';
import { type Enqueue, podSetup as s, sendToContainer } from './pod-setup.ts';

function sendFacts(enqueue: Enqueue, { uid, node }: PodContext, pod: NodePodChanged['pod']): void {
  const message: NodePodChanged = { type: 'node.podChanged', uid, pod };
  if (node.eviction !== undefined) enqueue.sendTo(to('eviction'), message);
  if (node.shutdown !== undefined) enqueue.sendTo(to('shutdown'), message);
}

/** Sends the pod's current facts, also to a manager that has lost its state. */
export const sendNode = s.enqueueActions(({ context, enqueue }) => {
  if (context.pod !== null && context.stage !== 'terminated')
    sendFacts(enqueue, context, nodePod(context.pod, context.node));
});

/** Sends the pod's facts when a change of its configuration changes its rank. Before `configure`. */
export const sendNodeChange = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'pod.configured' || context.stage === 'terminated') return;
  const pod = nodePod(event.pod, context.node);
  const before = context.pod === null ? null : nodePod(context.pod, context.node);
  if (JSON.stringify(pod) !== JSON.stringify(before)) sendFacts(enqueue, context, pod);
});

/** Applies the node's changed configuration: log actors restart with it, containers get the maximum of back-offs. */
export const handleNode = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type === 'network.changed') enqueue.assign({ networkError: event.error });
  if (event.type !== 'node.changed') return;
  const { settings: node } = event;
  for (const id of Object.keys(context.logs)) enqueue.stopChild(id);
  enqueue.assign({ node, logs: {} });
  const limited = { type: 'container.limited', maxBackoffMs: node.crashLoopBackOffMaxMs } as const;
  for (const name of Object.keys(context.containers)) sendToContainer(enqueue, name, limited);
});

/** Reports that no container of the pod runs any more. */
export const sendNodeEnd = s.enqueueActions(({ context, enqueue }) => {
  if (context.pod !== null) sendFacts(enqueue, context, null);
});

/**
 * Whether every object that the pod uses can be stored: values of Secrets are not, and keys of certificates exist in
 * memory only.
 */
const canBeStored = (pod: Pod, keys: readonly string[]): boolean =>
  Object.keys(certificatesOf(pod)).length === 0 && keys.every((key) => idOf(key).kind !== 'Secret');

/** The stored form of the pod; `null` if it cannot start without the API server. */
function rememberedOf({ pod, node, objects, kill }: PodContext): RememberedPod | null {
  if (pod === null || kill !== null || isStaticPod(pod) || node.rememberedPodsDir === undefined) return null;
  if ((pod.spec.restartPolicy ?? 'Always') !== 'Always' || pod.metadata.deletionTimestamp !== undefined) return null;
  const keys = awaitedKeys(pod, node);
  if (!canBeStored(pod, keys)) return null;
  const { resourceVersion: _, ...metadata } = pod.metadata;
  const tokens = Object.keys(tokensOf(pod)).filter((key) => objects[key] !== undefined);
  return {
    pod: { ...pod, metadata, status: {} } as RememberedPod['pod'],
    objects: Object.fromEntries([...keys, ...tokens].map((key) => [key, objects[key] ?? null])),
  };
}

export function sendRemembered(enqueue: Enqueue, context: PodContext): void {
  const remembered = rememberedOf(context);
  if (remembered === null) return;
  const message: RememberedPodsMessage = { type: 'pod.remembered', uid: context.uid, remembered };
  enqueue.sendTo(to('rememberedPods'), message);
}

export const rememberPod = s.enqueueActions(({ context, enqueue }) => sendRemembered(enqueue, context));

export const forgetPod = s.enqueueActions(({ context, enqueue }) => {
  if (context.node.rememberedPodsDir === undefined || (context.pod !== null && isStaticPod(context.pod))) return;
  const message: RememberedPodsMessage = { type: 'pod.forgotten', uid: context.uid };
  enqueue.sendTo(to('rememberedPods'), message);
});
