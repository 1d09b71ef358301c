/**
 * What a pod's machine does about what it is given by name of its own: tokens of its service account, certificates.
 * Part of `pod.ts`.
 */

import { certificatesOf } from '../../../model/volumes/certificates.ts';
import { serviceAccountOf, tokensOf } from '../../../model/volumes/tokens.ts';
import { childIn, reapChild } from '../../children.ts';
import type { PodContext } from './pod-policy.ts';
import { podOrName, refOf } from './pod-policy.ts';
import { type Enqueue, podSetup as s } from './pod-setup.ts';

/** Before the actor of one that crashed is replaced. */
const RESPAWN_MS = 1_000;

/** One actor each, for as long as the pod lives. */
export function askForCredentials(enqueue: Enqueue, context: PodContext): void {
  const pod = podOrName(context);
  const { uid, namespace, name, node } = context;
  const shared = { pod: { uid, namespace, name }, serviceAccount: serviceAccountOf(pod) };
  const credentials = { ...context.credentials };
  for (const [key, source] of Object.entries(tokensOf(pod))) {
    if (credentials[key] !== undefined) continue;
    const id = unused('token', credentials);
    enqueue.spawnChild('token', { id, input: { ...shared, key, source } });
    credentials[key] = id;
  }
  for (const [key, source] of Object.entries(node.apiServer?.podCertificates === true ? certificatesOf(pod) : {})) {
    if (credentials[key] !== undefined) continue;
    const id = unused('certificate', credentials);
    const input = { ...shared, ref: refOf(context), nodeName: node.nodeName, key, source };
    enqueue.spawnChild('certificate', { id, input });
    credentials[key] = id;
  }
  enqueue.assign({ credentials });
}

function unused(kind: 'token' | 'certificate', credentials: PodContext['credentials']): string {
  const taken = new Set(Object.values(credentials));
  let at = 0;
  while (taken.has(`${kind}-${at}`)) at += 1;
  return `${kind}-${at}`;
}

/** The actor of one crashed: another one takes its place when the volumes are planned again. */
export const reapCredential = s.enqueueActions(({ context, event, enqueue }) => {
  const id = childIn(event);
  if (!Object.values(context.credentials).includes(id)) return;
  const others = Object.entries(context.credentials).filter(([, each]) => each !== id);
  enqueue.assign({ credentials: Object.fromEntries(others) });
  reapChild(enqueue, id, { type: 'volumes.lost' }, RESPAWN_MS);
});

export function releaseCredentials(enqueue: Enqueue, { credentials }: PodContext): void {
  for (const id of Object.values(credentials)) enqueue.stopChild(id);
  enqueue.assign({ credentials: {} });
}
