/**
 * The probers that one pod should have by the rules of `prober-policy.ts`, and the probe results in its status. Pure.
 */
import type { Container, Pod } from '../../../model/api/pod.ts';
import { isSidecar } from '../../../model/spec/index.ts';
import { type ContainerFacts, factsOf } from '../../../model/status/runtime-facts.ts';
import { memoize } from '../../../model/values/same.ts';
import {
  activeKinds,
  hasProbes,
  initialState,
  isStarted,
  type ProbedState,
  type ProbeKind,
} from '../prober/prober-policy.ts';
import type { PodContext } from './pod-context.ts';

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
  const known = probes[container.name];
  const state = known?.id === facts.id ? known : initialState(container, facts.id, probed[container.name], pod);
  return { container, facts, state };
}

const instancesOf = (facts: Facts): Probed[] =>
  facts.pod === null ? [] : probedContainers(facts.pod).flatMap((each) => probedInstance(facts, each) ?? []);

export interface ProberPlan extends Probed {
  /** The id of its actor. */
  readonly id: string;
  readonly kind: ProbeKind;
}

/** The probers that should run now. */
const probersWanted = (facts: Facts): ProberPlan[] =>
  instancesOf(facts).flatMap((instance) => {
    const { name } = instance.container;
    const phase = facts.containers[name]?.view.phase;
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
