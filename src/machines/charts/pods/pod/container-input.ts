/**
 * The input of a container's actor: its definition, its instances in the runtime, and whether its turn is over. An
 * orphaned container (its pod's definition is gone, or no longer names it) has no definition. Pure.
 *
 * Invariant: an orphan is stopped with the hook that an earlier agent wrote into its annotations; annotations are
 * untrusted input, so an unreadable one counts as no hook.
 */

import { type Container, DEFAULT_GRACE_SECONDS, type LifecycleHandler } from '../../../model/api/pod.ts';
import type { Hook, RememberedContainer } from '../../../model/pods/pod-messages.ts';
import { containerAnnotationKeys } from '../../../model/spec/index.ts';
import { type ContainerFacts, factsOf, hasBegunInSandbox, instancesOf } from '../../../model/status/runtime-facts.ts';
import { stopAnnotations } from '../../../model/validation/pod-schema.ts';
import { conform } from '../../../model/validation/schema.ts';
import type { ContainerInput } from '../container/container-policy.ts';
import type { PodContext } from './pod-context.ts';
import { hookOf, type Member, wantedOf } from './pod-members.ts';
import { addressesOf, anyReadySandbox, podOrName, versionOf } from './pod-policy.ts';

export function containerInput(context: PodContext, member: Member, nowMs: number): ContainerInput {
  const { uid, name, namespace, node, kill } = context;
  const facts = factsOf(context.runtime, member.container.name);
  return {
    uid,
    namespace,
    podName: name,
    name: member.container.name,
    kind: member.kind,
    wanted: wantedOf(podOrName(context), member),
    facts: facts && facts.finishedAtMs > nowMs ? { ...facts, finishedAtMs: nowMs } : facts,
    remembered: rememberedOf(context, member, facts),
    begun: context.begun[member.container.name] ?? null,
    maxBackoffMs: node.crashLoopBackOffMaxMs,
    behavior: node.behavior,
    ...(node.crashLoopBackOffInitialMs === undefined ? {} : { initialBackoffMs: node.crashLoopBackOffInitialMs }),
    podIP: addressesOf(context)[0] ?? '',
    ...versionOf(context.pod),
    dormant: kill !== null || context.stage !== 'sync' || isInitialisedPast(context, member),
  };
}

/**
 * Whether the container is not started any more in this sandbox: the regular containers have started, or a later init
 * container.
 */
function isInitialisedPast({ initialised, pod, runtime }: PodContext, { kind, container }: Member): boolean {
  if (kind !== 'init') return false;
  const inits = (pod?.spec.initContainers ?? []).map(({ name }) => name);
  const later = inits.slice(inits.indexOf(container.name) + 1);
  return initialised || later.some((name) => hasBegunInSandbox(runtime, name));
}

/**
 * Restart count and back-off, for a pod whose sandbox was replaced: containers that run in order run again in the new
 * sandbox, and an instance that was only created never runs.
 */
function rememberedOf(
  { runtime, rememberedContainers }: PodContext,
  { kind, container: { name } }: Member,
  facts: ContainerFacts | null,
): RememberedContainer | null {
  const known = rememberedContainers[name] ?? null;
  const isInOrder = kind === 'init' || kind === 'sidecar';
  const isPast = facts?.state === 'created' || (isInOrder && facts?.state === 'exited');
  if (!isPast || !anyReadySandbox({ runtime }) || hasBegunInSandbox(runtime, name)) return known;
  const restartCount = facts.restartCount + 1;
  return (known?.restartCount ?? 0) >= restartCount ? known : { restartCount, backoffMs: 0, backoffUntilMs: 0 };
}

export function orphanInput(context: PodContext, name: string): ContainerInput {
  const { uid, namespace, node, runtime } = context;
  return {
    uid,
    namespace,
    podName: context.name,
    name,
    kind: 'regular',
    wanted: {
      image: '',
      imagePolicy: 'Never',
      hash: '',
      restartPolicy: 'Never',
      restartPolicyRules: [],
      graceSeconds: context.kill?.graceSeconds ?? DEFAULT_GRACE_SECONDS,
      postStart: null,
      preStop: restoredPreStop(name, instancesOf(runtime, name)[0]?.annotations ?? {}),
    },
    facts: factsOf(runtime, name),
    remembered: null,
    begun: null,
    behavior: node.behavior,
    maxBackoffMs: node.crashLoopBackOffMaxMs,
    podIP: addressesOf(context)[0] ?? '',
    dormant: true,
  };
}

function restoredPreStop(name: string, annotations: Readonly<Record<string, string>>): Hook | null {
  const [preStop, ports] = [containerAnnotationKeys.preStopHandler, containerAnnotationKeys.ports].map((key) =>
    parsed(annotations[key]),
  );
  const errors: string[] = [];
  const restored = conform({ preStop, ports }, stopAnnotations, '', errors) as Restored;
  return errors.length > 0 ? null : hookOf({ name, ports: restored.ports ?? [] }, restored.preStop);
}

interface Restored {
  readonly preStop?: LifecycleHandler;
  readonly ports?: NonNullable<Container['ports']>;
}

function parsed(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return null;
  }
}

/** Containers in the runtime that have no actor here. */
export const orphansOf = ({ runtime, containers }: PodContext): string[] => [
  ...new Set(
    (runtime?.containers ?? []).flatMap(({ metadata }) =>
      metadata?.name !== undefined && containers[metadata.name] === undefined ? [metadata.name] : [],
    ),
  ),
];
