/** The context of a pod's machine, and the pure rules by which it decides. See `pod.ts`. */

import type { ResizeRefusal } from '../../../model/allocation/admit.ts';
import type { PodCpus } from '../../../model/allocation/cpu-manager.ts';
import type { DeviceHealth } from '../../../model/allocation/device-state.ts';
import type { Rejection } from '../../../model/allocation/predicates.ts';
import type { ContainerDevices } from '../../../model/allocation/resource-grants.ts';
import {
  type Container,
  type LifecycleHandler,
  type ObjectReference,
  type Pod,
  type PodRef,
  type PodStatus,
  type RestartPolicy,
} from '../../../model/api/pod.ts';
import type { PodClaims } from '../../../model/dra/messages.ts';
import type { ConfigObjects } from '../../../model/objects/config-objects.ts';
import type { PodRuntimeStatus } from '../../../model/operations/cri.ts';
import type { Allocation } from '../../../model/operations/grants.ts';
import type { UserMapping } from '../../../model/operations/users.ts';
import type { FileValues } from '../../../model/operations/volume.ts';
import type {
  ContainerKind,
  ContainerRequest,
  ContainerView,
  ContainerWanted,
  Hook,
} from '../../../model/pods/container-messages.ts';
import type { ImageFacts } from '../../../model/pods/image-messages.ts';
import type { PodKill } from '../../../model/pods/pod-messages.ts';
import type { ProbedInstance, RememberedContainer, RememberedPull } from '../../../model/pods/soft-state-messages.ts';
import { hookMessages } from '../../../model/reasons/reasons.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import { containerHash, isSidecar, type MountedVolumes, pullPolicy } from '../../../model/spec/index.ts';
import { hasInitialized, type PodStage, podIPs } from '../../../model/status/index.ts';
import { type ContainerFacts, factsOf, isAlive, milliseconds } from '../../../model/status/runtime-facts.ts';
import { memoize } from '../../../model/values/memoize.ts';
import { isSame } from '../../../model/values/same.ts';
import { runsInOrder } from '../container/container-policy.ts';
import { httpRequest, type ProbedState } from '../prober/prober-policy.ts';
import type { ResizeStep } from './resize-policy.ts';

export interface PodInput extends PodRef {
  readonly node: NodeSettings;
  /** The definition of the pod; `null` if only the runtime knows the pod. */
  readonly pod: Pod | null;
  /** The sandboxes and containers in the runtime; `null` before the first report. */
  readonly runtime: PodRuntimeStatus | null;
  /** An earlier actor of the pod crashed: this one begins by inspecting the runtime. */
  readonly mustInspect: boolean;
  /** The pod waits until another pod of its name is gone. */
  readonly held: boolean;
  /** By container, restart count and back-off of the soft state. */
  readonly rememberedContainers: Readonly<Record<string, RememberedContainer>>;
  /** By container, the number of the newest instance that was started. */
  readonly begun: Readonly<Record<string, number>>;
  /** By image, failed pulls of the soft state. */
  readonly pulls: Readonly<Record<string, RememberedPull>>;
  /** The resources that its running instances have, when they are not yet the granted ones. */
  readonly actuated: Allocation | null;
  /** Resources that another kubelet granted before this agent started; absent without a grant. */
  readonly handedOver?: Allocation;
  /** By container, results of probes of the soft state. */
  readonly probed: Readonly<Record<string, ProbedInstance>>;
  /** The ConfigMaps and Secrets that it names and that exist. */
  readonly objects: ConfigObjects;
}

export interface ContainerRecord {
  readonly kind: ContainerKind;
  readonly view: ContainerView;
  /** The request of the container to be created, while it waits for its turn. */
  readonly request: ContainerRequest | null;
  /** The container was ordered to start and has not reported yet. */
  readonly begins?: boolean;
  /** The container requested its image before its predecessors had passed, and will request it again. */
  readonly isEarly?: boolean;
}

export interface Resize {
  readonly target: Allocation;
  /** The remaining steps. */
  readonly steps: readonly ResizeStep[];
  /** Containers that are restarted for the resize. */
  readonly anew: readonly string[];
  /** Instances of these containers that were stopped for the resize. */
  readonly stopped?: readonly string[];
  /** Why the last attempt failed; empty if none did. */
  readonly error: string;
}

/** An instance and its CPUs. */
export interface CpuPin {
  readonly id: string;
  readonly cpus: string;
}

export interface PodContext extends PodInput {
  /** The pod as published by its source; `pod` has the granted resources instead of the requested ones. */
  readonly asked: Pod | null;
  /** `null`: the node has not admitted the pod yet. */
  readonly allocation: Allocation | null;
  /** CPUs of its containers; `null`: the node gives no exclusive CPUs. */
  readonly cpus: PodCpus | null;
  /** By container, the NUMA nodes that its memory comes from: `0,1`. */
  readonly memoryNodes: Readonly<Record<string, string>>;
  /** By container, its devices. */
  readonly devices: Readonly<Record<string, ContainerDevices>>;
  /** By container, the health of its devices. */
  readonly deviceHealth: DeviceHealth;
  /** The ResourceClaims that are prepared; `null`: not known yet. */
  readonly claims: PodClaims | null;
  /** By container, why its devices could not be prepared. */
  readonly unprepared: Readonly<Record<string, string>>;
  /** By instance, the CPUs of the last update to the runtime. */
  readonly pinned: Readonly<Record<string, string>>;
  /** By container, the exclusive CPUs with which this agent last had an instance created. */
  readonly createdWith: Readonly<Record<string, string>>;
  /** The update to the runtime in progress. */
  readonly pin: CpuPin | null;
  /** Why the node does not admit the pod. */
  readonly rejection: Rejection | null;
  /** Why a resize is not granted now. */
  readonly refusal: ResizeRefusal | null;
  /** A resize in progress. */
  readonly resize: Resize | null;
  /** This agent created or corrected the pod's cgroup. */
  readonly hasGroup: boolean;
  readonly containers: Readonly<Record<string, ContainerRecord>>;
  /** For containers with image volumes, reported images by container and volume ('' for the container's own). */
  readonly images: Readonly<Record<string, Readonly<Record<string, ImageFacts>>>>;
  /** When the pod's last own call ended: earlier observations no longer count. */
  readonly actedAtMs: number;
  /** The runtime was inspected since the pod last requested it. */
  readonly inspected: boolean;
  /** Part of the sandbox's name: raised if a sandbox was lost between call and reply, or its name is still in use. */
  readonly attempt: number;
  /** Regular containers had their turn in this sandbox: init containers do not run again. */
  readonly initialised: boolean;
  /** By key, the last report on each API object that it uses: empty, or why it cannot be read now. */
  readonly lookups: Readonly<Record<string, string>>;
  /** By key, the actor of a service account token or a certificate. */
  readonly credentials: Readonly<Record<string, string>>;
  /** Containers whose files are being written. */
  readonly writing: readonly string[];
  /** The pod has an actor that sets up its volumes. */
  readonly hasVolumes: boolean;
  /** The containers' view of the volumes; `null` while one of them is not set up. */
  readonly volumes: MountedVolumes | null;
  /** By container, why a sub-path could not be bound. */
  readonly unbound: Readonly<Record<string, string>>;
  /** By container that is about to be created, values of variables from files in volumes. */
  readonly fileValues: Readonly<Record<string, FileValues>>;
  /** By container, why a file with variables could not be read. */
  readonly unread: Readonly<Record<string, string>>;
  /** Sandboxes or containers still to be stopped or removed. */
  readonly queue: readonly string[];
  readonly failures: number;
  readonly untilMs: number;
  /**
   * The start of the pod by the runtime's state when this agent first observed it; `null` if the runtime had nothing of
   * it.
   */
  readonly begunMs: number | null;
  /** Whether the deadline was exceeded at the last change of the pod. */
  readonly isOverdue: boolean;
  /** By container, how often its actor crashed. */
  readonly crashes: Readonly<Record<string, number>>;
  /** The results of probes of the newest instances, by container. */
  readonly probes: Readonly<Record<string, ProbedState>>;
  /** By actor of a probe, the instance that it probes. */
  readonly probers: Readonly<Record<string, string>>;
  /** The ids of its own users; `null`: it has none, or they are not known yet. */
  readonly users: UserMapping | null;
  /** By actor of a log, the instance that writes it. */
  readonly logs: Readonly<Record<string, string>>;
  readonly kill: Kill | null;
  readonly stage: PodStage;
  /** The resources of the pod are free again. */
  readonly isReclaimed: boolean;
  readonly status: PodStatus | null;
}

export type Kill = Omit<PodKill, 'type' | 'graceSeconds'> & {
  readonly graceSeconds: number;
  /** When this grace period began. */
  readonly sinceMs: number;
  /** The init containers had succeeded before this kill: one that is stopped by it does not count as failed. */
  readonly wasInitialised: boolean;
};

export const initialPod = (input: PodInput): PodContext => ({
  ...input,
  asked: input.pod,
  allocation: null,
  cpus: null,
  memoryNodes: {},
  devices: {},
  deviceHealth: {},
  claims: null,
  unprepared: {},
  pinned: {},
  createdWith: {},
  pin: null,
  rejection: null,
  refusal: null,
  resize: null,
  hasGroup: false,
  containers: {},
  images: {},
  actedAtMs: 0,
  inspected: false,
  crashes: {},
  attempt: 0,
  initialised: false,
  lookups: {},
  credentials: {},
  writing: [],
  hasVolumes: false,
  volumes: null,
  unbound: {},
  fileValues: {},
  unread: {},
  queue: [],
  failures: 0,
  untilMs: 0,
  begunMs: begunAt(input.runtime),
  isOverdue: false,
  probes: {},
  probers: {},
  users: null,
  logs: {},
  kill: null,
  stage: 'sync',
  isReclaimed: false,
  status: null,
});

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

export const versionOf = (pod: Pod | null): Pick<ObjectReference, 'resourceVersion'> =>
  pod?.metadata.resourceVersion === undefined ? {} : { resourceVersion: pod.metadata.resourceVersion };

export const addressesOf = ({ pod, runtime, node }: PodContext): readonly string[] =>
  pod?.spec.hostNetwork === true ? node.nodeIPs : podIPs(runtime, node);

// ---- containers -----------------------------------------------------------------------------------------------------

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

export const DEFAULT_GRACE_SECONDS = 30;

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
      ({ csi, ephemeral, persistentVolumeClaim }) => csi ?? ephemeral ?? persistentVolumeClaim,
    ));

// ---- ending ---------------------------------------------------------------------------------------------------------

/** The grace period never grows, and is at least a second. */
const MIN_GRACE_SECONDS = 1;

export function mergedKill(context: PodContext, asked: Omit<PodKill, 'type'>, nowMs: number): Kill {
  const { pod, kill } = context;
  const own = pod?.metadata.deletionGracePeriodSeconds ?? pod?.spec.terminationGracePeriodSeconds;
  const bounds = [asked.graceSeconds, kill?.graceSeconds, pod?.metadata.deletionGracePeriodSeconds].filter(
    (seconds): seconds is number => typeof seconds === 'number',
  );
  const shortest = bounds.length > 0 ? Math.min(...bounds) : (own ?? DEFAULT_GRACE_SECONDS);
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

const isGone = ({ view }: ContainerRecord): boolean => view.phase === 'ended';

/** The containers to stop now: all regular ones at once, then the sidecars in reverse order. */
export function nextToStop({ containers, pod }: PodContext): string[] {
  const open = Object.entries(containers).filter(([, record]) => !isGone(record));
  const first = open.filter(([, { kind }]) => kind !== 'sidecar').map(([name]) => name);
  if (first.length > 0) return first;
  const order = (pod?.spec.initContainers ?? []).map(({ name }) => name);
  return open
    .map(([name]) => name)
    .sort((a, b) => order.indexOf(b) - order.indexOf(a))
    .slice(0, 1);
}

export const allGone = ({ containers }: PodContext): boolean => Object.values(containers).every(isGone);

export const anyAlive = ({ runtime }: PodContext): boolean => (runtime?.containers ?? []).some(isAlive);

/** At least one of the containers that run in order had its turn. */
export const hasRunInOrder = ({ initialised, containers }: PodContext): boolean =>
  initialised || Object.values(containers).some((each) => each.view.phase === 'ended' && runsInOrder(each));

export const anyReadySandbox = ({ runtime }: Pick<PodContext, 'runtime'>): boolean =>
  (runtime?.sandboxes ?? []).some(({ state }) => state === 'SANDBOX_READY');

/** When the first of its sandboxes in the runtime was created; `null`: there are none. */
export function begunAt(runtime: PodRuntimeStatus | null): number | null {
  const created = (runtime?.sandboxes ?? []).map(({ created_at }) => milliseconds(created_at));
  const known = created.filter((createdAtMs) => createdAtMs > 0);
  return known.length === 0 ? null : Math.min(...known);
}
