/**
 * Stores a pod that may start without the API server on disk, with the objects that it uses. Part of the chart of
 * `pod.ts`.
 */

import { to } from '../../../../kernel/xstate.ts';
import { isStaticPod, type Pod } from '../../../model/api/pod.ts';
import { awaitedKeys, idOf } from '../../../model/objects/keys.ts';
import type { RememberedPod } from '../../../model/operations/host.ts';
import type { RememberedPodsMessage } from '../../../model/pods/messages.ts';
import { certificatesOf, tokensOf } from '../../../model/volumes/credentials.ts';
import type { PodContext } from './pod-policy.ts';
import { type Enqueue, podSetup as s } from './pod-setup.ts';

/**
 * Whether all objects of the pod can be stored: values of Secrets are not, and keys of certificates exist in memory
 * only.
 */
const isLasting = (pod: Pod, keys: readonly string[]): boolean =>
  Object.keys(certificatesOf(pod)).length === 0 && keys.every((key) => idOf(key).kind !== 'Secret');

/** The stored form of the pod; `null` if it cannot start without the API server. */
function rememberedOf({ pod, node, objects, kill }: PodContext): RememberedPod | null {
  if (pod === null || kill !== null || isStaticPod(pod) || node.rememberedPodsDir === undefined) return null;
  if ((pod.spec.restartPolicy ?? 'Always') !== 'Always' || pod.metadata.deletionTimestamp !== undefined) return null;
  const keys = awaitedKeys(pod, node);
  if (!isLasting(pod, keys)) return null;
  const { resourceVersion: _, ...metadata } = pod.metadata;
  const tokens = Object.keys(tokensOf(pod)).filter((key) => objects[key] !== undefined);
  return {
    pod: { ...pod, metadata, status: {} } as RememberedPod['pod'],
    objects: Object.fromEntries([...keys, ...tokens].map((key) => [key, objects[key] ?? null])),
  };
}

export function remember(enqueue: Enqueue, context: PodContext): void {
  const remembered = rememberedOf(context);
  if (remembered === null) return;
  const message: RememberedPodsMessage = { type: 'pod.remembered', uid: context.uid, remembered };
  enqueue.sendTo(to('rememberedPods'), message);
}

export const rememberPod = s.enqueueActions(({ context, enqueue }) => remember(enqueue, context));

export const forgetPod = s.enqueueActions(({ context, enqueue }) => {
  if (context.node.rememberedPodsDir === undefined || (context.pod !== null && isStaticPod(context.pod))) return;
  const message: RememberedPodsMessage = { type: 'pod.forgotten', uid: context.uid };
  enqueue.sendTo(to('rememberedPods'), message);
});
