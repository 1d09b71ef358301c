/** The input and the context of a pod's machine. See `pod.ts`. */
import type { PodCpus } from '../../../model/allocation/cpu-manager.ts';
import type { DeviceHealth } from '../../../model/allocation/device-state.ts';
import type { ResizeRefusal } from '../../../model/allocation/predicates.ts';
import type { Rejection } from '../../../model/allocation/request.ts';
import type { ContainerDevices } from '../../../model/allocation/resource-grants.ts';
import type { Pod, PodRef, PodStatus } from '../../../model/api/pod.ts';
import type { PodClaims } from '../../../model/dra/messages.ts';
import type { ConfigObjects } from '../../../model/objects/config-objects.ts';
import type { PodRuntimeStatus } from '../../../model/operations/cri.ts';
import type { Allocation } from '../../../model/operations/grants.ts';
import type { UserMapping } from '../../../model/operations/users.ts';
import type { FileValues } from '../../../model/operations/volume.ts';
import type { ImageFacts } from '../../../model/pods/image-messages.ts';
import type {
  ContainerRequest,
  ContainerView,
  PodKill,
  ProbedInstance,
  RememberedContainer,
  RememberedPull,
} from '../../../model/pods/pod-messages.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import type { ContainerKind } from '../../../model/spec/container.ts';
import type { MountedVolumes } from '../../../model/spec/volumes.ts';
import type { PodStage } from '../../../model/status/pod-status.ts';
import { milliseconds } from '../../../model/status/runtime-facts.ts';
import type { ProbedState } from '../prober/prober-policy.ts';
import type { ResizeStep } from './resize-policy.ts';

export interface PodInput extends PodRef {
  readonly node: NodeSettings;
  /** Why the node has no network for pods; empty if it has one. */
  readonly networkError: string;
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
  /** The existing ConfigMaps and Secrets that the pod names. */
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
  readonly steps: readonly ResizeStep[];
  /** Containers that are restarted for the resize. */
  readonly anew: readonly string[];
  /** Instances of these containers that were stopped for the resize. */
  readonly stopped?: readonly string[];
  /** Why the last attempt failed; empty if none did. */
  readonly error: string;
}

export interface CpuPin {
  readonly id: string;
  readonly cpus: string;
}

export interface PodContext extends PodInput {
  /** The pod as its source published it; `pod` has the granted resources in place of the requested ones. */
  readonly asked: Pod | null;
  /** `null`: the node has not admitted the pod yet. */
  readonly allocation: Allocation | null;
  /** CPUs of its containers; `null`: the node gives no exclusive CPUs. */
  readonly cpus: PodCpus | null;
  /** By container, the NUMA nodes that its memory comes from: `0,1`. */
  readonly memoryNodes: Readonly<Record<string, string>>;
  readonly devices: Readonly<Record<string, ContainerDevices>>;
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
  readonly refusedGeneration?: number | undefined;
  /** A resize in progress. */
  readonly resize: Resize | null;
  /** This agent created or corrected the pod's cgroup. */
  readonly hasGroup: boolean;
  /** Its containers run outside of its cgroup, and have not been stopped yet. */
  readonly isMisplaced?: boolean;
  readonly containers: Readonly<Record<string, ContainerRecord>>;
  /** For containers with image volumes, reported images by container and volume ('' for the container's own). */
  readonly images: Readonly<Record<string, Readonly<Record<string, ImageFacts>>>>;
  /** When the pod's last own call ended: earlier observations no longer count. */
  readonly actedAtMs: number;
  /** The runtime was inspected since the pod last requested it. */
  readonly inspected: boolean;
  /** Why the pod cannot be inspected, and when that is reported again; empty: it can. Absent: it always could. */
  readonly stale?: { readonly message: string; readonly untilMs: number };
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

/** When the first of its sandboxes in the runtime was created; `null`: there are none. */
export function begunAt(runtime: PodRuntimeStatus | null): number | null {
  const created = (runtime?.sandboxes ?? []).map(({ created_at }) => milliseconds(created_at));
  const known = created.filter((createdAtMs) => createdAtMs > 0);
  return known.length === 0 ? null : Math.min(...known);
}
