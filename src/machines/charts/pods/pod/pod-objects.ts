/** What a pod's machine knows of the objects of the API server that its pod uses. Pure. See `pod.ts`. */
import type { Pod } from '../../../model/api/pod.ts';
import { awaitedKeys, runtimeClassKey } from '../../../model/objects/keys.ts';
import { certificatesOf, tokensOf } from '../../../model/volumes/credentials.ts';
import type { PodContext } from './pod-policy.ts';

/** What runs it, by its RuntimeClass; empty for the runtime's default, `null` when there is no such class. */
export function runtimeHandler({ pod, node, objects, lookups }: PodContext): string | null {
  const key = pod === null || node.apiServer === undefined ? null : runtimeClassKey(pod);
  if (key === null || lookups[key] === undefined) return '';
  const handler = objects[key]?.data['handler'];
  return handler && 'text' in handler && typeof handler.text === 'string' ? handler.text : null;
}

/** Upstream's text when the class that the pod names does not exist; `null` when all is well. */
export function missingRuntimeClass(context: PodContext): string | null {
  if (runtimeHandler(context) !== null) return null;
  return `runtimeclass.node.k8s.io "${context.pod?.spec.runtimeClassName ?? ''}" not found`;
}

/** It waits for the API server to say what there is of the objects that it uses. */
export const isAwaiting = ({ pod, node, lookups }: PodContext): boolean =>
  pod !== null && [...awaitedKeys(pod, node), ...credentialKeys(pod, node)].some((key) => lookups[key] === undefined);

/** What this pod alone is given. A certificate that is not served is no reason to wait: its volume says why. */
const credentialKeys = (pod: Pod, { apiServer }: PodContext['node']): readonly string[] => [
  ...Object.keys(tokensOf(pod)),
  ...(apiServer?.podCertificates === true ? Object.keys(certificatesOf(pod)) : []),
];

/** Objects that cannot be known now: by key, why. */
export const unavailable = ({ lookups, objects }: PodContext): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(lookups).filter(([key, why]) => why !== '' && objects[key] === undefined));
