/** A pod that may start without the API server is remembered with the objects that it uses. Part of `pod.ts`. */

import { to } from '../../../../kernel/xstate.ts';
import { isStaticPod, type Pod } from '../../../model/api/pod.ts';
import { awaitedKeys, idOf } from '../../../model/objects/keys.ts';
import type { RememberedPod } from '../../../model/operations/host.ts';
import type { RememberedPodsMessage } from '../../../model/pods/messages.ts';
import { certificatesOf, tokensOf } from '../../../model/volumes/credentials.ts';
import type { PodContext } from './pod-policy.ts';
import { type Enqueue, podSetup as s } from './pod-setup.ts';

/** What only the API server can give anew: values of Secrets are on no disk, keys of certificates in memory alone. */
const isLasting = (pod: Pod, keys: readonly string[]): boolean =>
  Object.keys(certificatesOf(pod)).length === 0 && keys.every((key) => idOf(key).kind !== 'Secret');

/** `null`: it waits for the API server, whatever happens. */
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
