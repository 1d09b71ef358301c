/**
 * Orphaned containers: the runtime has them, but their pod's definition is gone or no longer names them. Pure.
 *
 * Decides how an orphan is stopped: with the hook that an earlier agent wrote into its annotations.
 * Invariant: annotations are input from outside: one that cannot be read is no hook.
 */
import type { Container, LifecycleHandler } from '../../../model/api/pod.ts';
import type { Hook } from '../../../model/pods/messages.ts';
import { containerAnnotationKeys } from '../../../model/spec/index.ts';
import { factsOf, instancesOf } from '../../../model/status/runtime-facts.ts';
import { stopAnnotations } from '../../../model/validation/pod-schema.ts';
import { conform } from '../../../model/validation/schema.ts';
import type { ContainerInput } from '../container/container-policy.ts';
import { addressesOf, DEFAULT_GRACE_SECONDS, hookOf, type PodContext } from './pod-policy.ts';

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
    maxBackoffMs: node.crashLoopBackOffMaxMs,
    behavior: node.behavior,
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

/** Names of containers that the runtime has and that have no actor here. */
export const orphansOf = ({ runtime, containers }: PodContext): string[] => [
  ...new Set(
    (runtime?.containers ?? []).flatMap(({ metadata }) =>
      metadata?.name !== undefined && containers[metadata.name] === undefined ? [metadata.name] : [],
    ),
  ),
];
