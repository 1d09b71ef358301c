/** The pure rules by which a pod's machine decides, and the inputs of its containers' actors. See `pod.ts`. */

import type { Container, LifecycleHandler, ObjectReference, Pod } from '../../../model/api/pod.ts';
import { DEFAULT_GRACE_SECONDS } from '../../../model/api/pod.ts';
import type { PodRuntimeStatus } from '../../../model/operations/cri.ts';
import type { Hook, PodKill, RememberedContainer } from '../../../model/pods/pod-messages.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { containerAnnotationKeys } from '../../../model/spec/annotations.ts';
import { hostIPs } from '../../../model/spec/host-ips.ts';
import { hasInitialized, podIPs } from '../../../model/status/pod-status.ts';
import type { ContainerFacts } from '../../../model/status/runtime-facts.ts';
import { factsOf, hasBegunInSandbox, instancesOf, isAlive } from '../../../model/status/runtime-facts.ts';
import { stopAnnotations } from '../../../model/validation/pod-schema.ts';
import { conform } from '../../../model/validation/schema.ts';
import { isSame } from '../../../model/values/same.ts';
import { valueIn } from '../../../model/values/tables.ts';
import { type ContainerInput, runsInOrder } from '../container/container-policy.ts';
import type { ContainerRecord, Kill, PodContext } from './pod-context.ts';
import { hookOf, type Member, wantedOf } from './pod-members.ts';

/** The pod, or a minimal one if only the runtime knows it. */
export const podOrName = ({ pod, uid, name, namespace }: PodContext): Pod =>
  pod ?? { metadata: { uid, name, namespace }, spec: { containers: [] } };

export const refOf = ({
  uid,
  name,
  namespace,
  pod,
}: Pick<PodContext, 'uid' | 'name' | 'namespace' | 'pod'>): ObjectReference => ({
  kind: 'Pod',
  namespace,
  name,
  uid,
  ...versionOf(pod),
});

const versionOf = (pod: Pod | null): Pick<ObjectReference, 'resourceVersion'> =>
  pod?.metadata.resourceVersion === undefined ? {} : { resourceVersion: pod.metadata.resourceVersion };

export const addressesOf = ({ pod, runtime, node }: PodContext): readonly string[] =>
  pod?.spec.hostNetwork === true ? hostIPs(node) : podIPs(runtime, node);

export const changedFacts = (
  before: PodRuntimeStatus | null,
  after: PodRuntimeStatus,
  names: readonly string[],
): [name: string, facts: ContainerFacts | null][] =>
  names
    .map((name): [string, ContainerFacts | null, ContainerFacts | null] => [
      name,
      factsOf(before, name),
      factsOf(after, name),
    ])
    .filter(([, was, is]) => !isSame(was, is))
    .map(([name, , is]) => [name, is]);

/** Whether a driver may have published a volume of the pod; assumed if its definition is unknown. */
export const mayBePublished = ({ pod, node }: PodContext): boolean =>
  node.apiServer !== undefined &&
  (pod === null ||
    (pod.spec.volumes ?? []).some(
      (volume) =>
        (volume.csi ?? volume.ephemeral ?? volume.persistentVolumeClaim) != null ||
        (hasBehavior(node, 'blockNetworkVolumes') && ATTACHED.some((kind) => volume[kind] != null)),
    ));

/** Volumes of pods themselves on disks of storage networks, and of plugins that CSI drivers replaced. */
const ATTACHED = [
  'iscsi',
  'fc',
  'awsElasticBlockStore',
  'azureDisk',
  'azureFile',
  'cinder',
  'gcePersistentDisk',
  'portworxVolume',
  'vsphereVolume',
] as const;

/** The grace period never grows, and is at least a second. */
const MIN_GRACE_SECONDS = 1;

export function mergedKill(context: PodContext, asked: Omit<PodKill, 'type'>, nowMs: number): Kill {
  const { pod, kill } = context;
  const specifiedSeconds = pod?.metadata.deletionGracePeriodSeconds ?? pod?.spec.terminationGracePeriodSeconds;
  const bounds = [asked.graceSeconds, kill?.graceSeconds, pod?.metadata.deletionGracePeriodSeconds].filter(
    (seconds): seconds is number => typeof seconds === 'number',
  );
  const shortest = bounds.length > 0 ? Math.min(...bounds) : (specifiedSeconds ?? DEFAULT_GRACE_SECONDS);
  const graceSeconds = Math.max(MIN_GRACE_SECONDS, shortest);
  return {
    graceSeconds,
    sinceMs: kill !== null && kill.graceSeconds <= graceSeconds ? kill.sinceMs : nowMs,
    remove: asked.remove || (kill?.remove ?? false),
    verdict: kill?.verdict ?? asked.verdict,
    wasInitialised: kill?.wasInitialised ?? (pod !== null && hasInitialized(pod, context.status)),
  };
}

/** The remaining grace period of the containers whose turn it is to stop. */
export const graceLeft = ({ graceSeconds, sinceMs }: Kill, nowMs: number): number =>
  Math.max(MIN_GRACE_SECONDS, graceSeconds - Math.floor((nowMs - sinceMs) / 1_000));

const hasEnded = ({ view }: ContainerRecord): boolean => view.phase === 'ended';

/** The containers to stop now: all regular ones at once, then the sidecars in reverse order. */
export function nextToStop({ containers, pod }: PodContext): string[] {
  const open = Object.entries(containers).filter(([, record]) => !hasEnded(record));
  const first = open.filter(([, { kind }]) => kind !== 'sidecar').map(([name]) => name);
  if (first.length > 0) return first;
  const order = (pod?.spec.initContainers ?? []).map(({ name }) => name);
  return open
    .map(([name]) => name)
    .sort((a, b) => order.indexOf(b) - order.indexOf(a))
    .slice(0, 1);
}

export const allEnded = ({ containers }: PodContext): boolean => Object.values(containers).every(hasEnded);

export const anyAlive = ({ runtime }: PodContext): boolean => (runtime?.containers ?? []).some(isAlive);

/** At least one of the containers that run in order had its turn. */
export const hasRunInOrder = ({ initialised, containers }: PodContext): boolean =>
  initialised || Object.values(containers).some((each) => each.view.phase === 'ended' && runsInOrder(each));

export const anyReadySandbox = ({ runtime }: Pick<PodContext, 'runtime'>): boolean =>
  (runtime?.sandboxes ?? []).some(({ state }) => state === 'SANDBOX_READY');

/**
 * The input of a container's actor: its definition, its instances in the runtime, and whether its turn is over. An
 * orphaned container (its pod's definition is gone, or no longer names it) has no definition. Pure.
 *
 * Invariant: an orphan is stopped with the hook that an earlier agent wrote into its annotations; annotations are
 * untrusted input, so an unreadable one counts as no hook.
 */
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
    begun: valueIn(context.begun, member.container.name) ?? null,
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
  const known = valueIn(rememberedContainers, name) ?? null;
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
      metadata?.name !== undefined && valueIn(containers, metadata.name) === undefined ? [metadata.name] : [],
    ),
  ),
];
