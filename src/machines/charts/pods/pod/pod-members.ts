/** The containers of a pod, and the API server's objects that it uses. Pure. See `pod.ts`. */
import {
  type Container,
  DEFAULT_GRACE_SECONDS,
  type LifecycleHandler,
  type Pod,
  type RestartPolicy,
} from '../../../model/api/pod.ts';
import { awaitedKeys, runtimeClassKey } from '../../../model/objects/keys.ts';
import type { ContainerKind, ContainerWanted, Hook } from '../../../model/pods/pod-messages.ts';
import { hookMessages } from '../../../model/reasons/reasons.ts';
import { containerHash, isSidecar, pullPolicy } from '../../../model/spec/index.ts';
import { memoize } from '../../../model/values/same.ts';
import { certificatesOf, tokensOf } from '../../../model/volumes/credentials.ts';
import { httpRequest } from '../prober/prober-policy.ts';
import type { PodContext } from './pod-context.ts';

/* The containers of a pod in their order, and the wanted definition of each. */

export interface Member {
  readonly container: Container;
  readonly kind: ContainerKind;
}

/** Containers in the order in which they have their turn. */
export const membersOf = memoize((pod: Pod): readonly Member[] => [
  ...(pod.spec.initContainers ?? []).map((container) => ({
    container,
    kind: isSidecar(container) ? ('sidecar' as const) : ('init' as const),
  })),
  ...pod.spec.containers.map((container) => ({ container, kind: 'regular' as const })),
  ...(pod.spec.ephemeralContainers ?? []).map((container) => ({ container, kind: 'ephemeral' as const })),
]);

export const wantedOf = (pod: Pod, { container, kind }: Member): ContainerWanted => ({
  image: container.image ?? '',
  imagePolicy: pullPolicy(container),
  // An ephemeral container never changes: its instance is always the wanted one.
  hash: kind === 'ephemeral' ? '' : containerHash(container),
  restartPolicy: restartPolicyOf(pod, container, kind),
  restartPolicyRules: container.restartPolicyRules ?? [],
  graceSeconds: pod.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS,
  postStart: hookOf(container, container.lifecycle?.postStart),
  preStop: hookOf(container, container.lifecycle?.preStop),
});

/** The call of a hook; `null` without one. */
export function hookOf(container: Container, handler: LifecycleHandler | undefined): Hook | null {
  if (handler === undefined) return null;
  if (handler.exec) return { kind: 'exec', command: handler.exec.command ?? [] };
  if (handler.sleep) return { kind: 'sleep', seconds: handler.sleep.seconds };
  if (!handler.httpGet) return { kind: 'unsupported', path: null, error: hookMessages.invalid(handler.tcpSocket) };
  const request = httpRequest(handler.httpGet, container);
  if (!('error' in request)) return { kind: 'httpGet', ...request };
  return { kind: 'unsupported', path: handler.httpGet.path ?? '/', error: request.error };
}

/** The restart policy of a container. A plain init container runs to success: for it `Always` means `OnFailure`. */
function restartPolicyOf(pod: Pod, container: Container, kind: ContainerKind): RestartPolicy {
  if (kind === 'ephemeral') return 'Never';
  const policy = (container.restartPolicy ?? pod.spec.restartPolicy ?? 'Always') as RestartPolicy;
  return kind === 'init' && policy === 'Always' ? 'OnFailure' : policy;
}

/* The API server's objects that a pod uses, as its machine knows them. Pure. See `pod.ts`. */

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
