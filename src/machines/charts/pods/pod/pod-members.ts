/**
 * Facts of a pod's definition: its containers, the API server's objects that it uses, and the probers that it should
 * have by the rules of `prober-policy.ts`. Pure. See `pod.ts`.
 */
import type { Container, LifecycleHandler, Pod, RestartPolicy } from '../../../model/api/pod.ts';
import { DEFAULT_GRACE_SECONDS } from '../../../model/api/pod.ts';
import { awaitedKeys, runtimeClassKey } from '../../../model/objects/keys.ts';
import type { ContainerWanted, Hook } from '../../../model/pods/pod-messages.ts';
import { hookMessages } from '../../../model/reasons/reasons.ts';
import type { ContainerKind } from '../../../model/spec/container.ts';
import { containerHash } from '../../../model/spec/hash.ts';
import { pullPolicy } from '../../../model/spec/image.ts';
import { isSidecar } from '../../../model/spec/resources.ts';
import { type ContainerFacts, factsOf } from '../../../model/status/runtime-facts.ts';
import { memoize } from '../../../model/values/same.ts';
import { pickBy, valueIn } from '../../../model/values/tables.ts';
import { certificatesOf, tokensOf } from '../../../model/volumes/credentials.ts';
import type { ProbedState, ProbeKind } from '../prober/prober-policy.ts';
import { activeKinds, hasProbes, httpRequest, initialState, isStarted } from '../prober/prober-policy.ts';
import type { PodContext } from './pod-context.ts';

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
  pickBy(lookups, (why, key) => why !== '' && objects[key] === undefined);

type Facts = Pick<PodContext, 'pod' | 'runtime' | 'probes' | 'probed' | 'containers' | 'kill'>;

const probedContainers = memoize((pod: Pod): readonly Container[] =>
  [...(pod.spec.initContainers ?? []).filter(isSidecar), ...pod.spec.containers].filter(hasProbes),
);

/** A running instance, and the results of its probes. */
export interface Probed {
  readonly container: Container;
  readonly facts: ContainerFacts;
  readonly state: ProbedState;
}

export function probedInstance({ pod, runtime, probes, probed }: Facts, container: Container): Probed | null {
  const facts = factsOf(runtime, container.name);
  if (pod === null || facts?.state !== 'running') return null;
  const known = valueIn(probes, container.name);
  const state =
    known?.id === facts.id ? known : initialState(container, facts.id, valueIn(probed, container.name), pod);
  return { container, facts, state };
}

const instancesOf = (facts: Facts): Probed[] =>
  facts.pod === null ? [] : probedContainers(facts.pod).flatMap((each) => probedInstance(facts, each) ?? []);

export interface ProberPlan extends Probed {
  readonly id: string;
  readonly kind: ProbeKind;
}

/** The probers that should run now. */
const probersWanted = (facts: Facts): ProberPlan[] =>
  instancesOf(facts).flatMap((instance) => {
    const { name } = instance.container;
    const phase = valueIn(facts.containers, name)?.view.phase;
    if (phase !== 'running' && phase !== 'stopping') return [];
    return activeKinds(instance.container, instance.state, phase, facts.kill !== null).map((kind) => ({
      ...instance,
      id: `prober-${name}-${kind}`,
      kind,
    }));
  });

/** The probers to stop, and those to start once no prober has to stop. */
export function proberChanges(facts: Facts & Pick<PodContext, 'probers'>): {
  readonly stale: readonly string[];
  readonly missing: readonly ProberPlan[];
} {
  if (facts.pod === null) return { stale: Object.keys(facts.probers), missing: [] };
  const plans = probersWanted(facts);
  const stale = Object.entries(facts.probers)
    .filter(([id, containerId]) => !plans.some((plan) => plan.id === id && plan.facts.id === containerId))
    .map(([id]) => id);
  return { stale, missing: plans.filter(({ id }) => facts.probers[id] === undefined) };
}

/** Results of startup and readiness probes by container, for the status. */
export function probeResults(facts: Facts): {
  readonly started: Readonly<Record<string, boolean>>;
  readonly ready: Readonly<Record<string, boolean>>;
} {
  const instances = instancesOf(facts);
  return {
    started: Object.fromEntries(
      instances.flatMap(({ container, state }) =>
        container.startupProbe === undefined ? [] : [[container.name, state.started]],
      ),
    ),
    ready: Object.fromEntries(
      instances.flatMap(({ container, state }) =>
        container.readinessProbe === undefined ? [] : [[container.name, state.ready]],
      ),
    ),
  };
}

/** True when a sidecar has started, so that the next container may begin. */
export function hasStarted(facts: Facts, container: Container): boolean {
  if (container.startupProbe === undefined) return true;
  const instance = probedInstance(facts, container);
  return instance !== null && isStarted(container, instance.state);
}
