/** The containers of a pod in their order, and the wanted definition of each. */
import {
  type Container,
  DEFAULT_GRACE_SECONDS,
  type LifecycleHandler,
  type Pod,
  type RestartPolicy,
} from '../../../model/api/pod.ts';
import type { ContainerKind, ContainerWanted, Hook } from '../../../model/pods/container-messages.ts';
import { hookMessages } from '../../../model/reasons/reasons.ts';
import { containerHash, isSidecar, pullPolicy } from '../../../model/spec/index.ts';
import { memoize } from '../../../model/values/memoize.ts';
import { httpRequest } from '../prober/prober-policy.ts';

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
