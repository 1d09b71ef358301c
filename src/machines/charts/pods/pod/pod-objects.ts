/** The API server's objects that a pod uses, as its machine knows them. Pure. See `pod.ts`. */
import type { Pod } from '../../../model/api/pod.ts';
import { awaitedKeys, runtimeClassKey } from '../../../model/objects/keys.ts';
import { certificatesOf, tokensOf } from '../../../model/volumes/credentials.ts';
import type { PodContext } from './pod-context.ts';

/**
 * The runtime handler of the pod's RuntimeClass; empty for the runtime's default, `null` if the class does not exist.
 */
export function runtimeHandler({ pod, node, objects, lookups }: PodContext): string | null {
  const key = pod === null || node.apiServer === undefined ? null : runtimeClassKey(pod);
  if (key === null || lookups[key] === undefined) return '';
  const handler = objects[key]?.data['handler'];
  return handler && 'text' in handler && typeof handler.text === 'string' ? handler.text : null;
}

/** Upstream's text if the RuntimeClass of the pod does not exist; `null` if it does. */
export function missingRuntimeClass(context: PodContext): string | null {
  if (runtimeHandler(context) !== null) return null;
  return `runtimeclass.node.k8s.io "${context.pod?.spec.runtimeClassName ?? ''}" not found`;
}

/** The pod waits for the API server's answer about the objects that it uses. */
export const awaitsObjects = ({ pod, node, lookups }: PodContext): boolean =>
  pod !== null && [...awaitedKeys(pod, node), ...credentialKeys(pod, node)].some((key) => lookups[key] === undefined);

/** Keys of the pod's own credentials. A certificate that is not served delays nothing: its volume reports why. */
const credentialKeys = (pod: Pod, { apiServer }: PodContext['node']): readonly string[] => [
  ...Object.keys(tokensOf(pod)),
  ...(apiServer?.podCertificates === true ? Object.keys(certificatesOf(pod)) : []),
];

/** By key, why an object cannot be read now. */
export const unavailable = ({ lookups, objects }: PodContext): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(lookups).filter(([key, why]) => why !== '' && objects[key] === undefined));
