/**
 * The Kubernetes API's Pod as the node agent holds it: exactly the JSON of the wire, never a class instance. Also the
 * API's objects of volumes and of the node.
 *
 * This folder has the only imports of `@kubernetes/client-node` types in the machines (erased at run time). The
 * generated classes have `Date` where the wire has RFC 3339 text, and all their fields are writable; {@link Wire}
 * corrects both. Messages of CRI with the same names (`ContainerStatus`) are in `cri.ts`.
 *
 * Invariant: a {@link Pod} in a machine is complete: it has a name, a namespace, a uid and a spec.
 */
import type * as k8s from '@kubernetes/client-node';

/** A generated API class as it is on the wire: times are text, nothing may be changed in place. */
type Wire<T> = T extends Date
  ? string
  : T extends ReadonlyArray<infer Item>
    ? readonly Wire<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Wire<T[Key]> }
      : T;

type ObjectMeta = Wire<k8s.V1ObjectMeta>;
export type PodSpec = Wire<k8s.V1PodSpec>;
export type PodStatus = Wire<k8s.V1PodStatus>;
export type PodCondition = Wire<k8s.V1PodCondition>;
export type PodDNSConfig = Wire<k8s.V1PodDNSConfig>;
export type Container = Wire<k8s.V1Container>;
export type EphemeralContainer = Wire<k8s.V1EphemeralContainer>;
export type ContainerPort = Wire<k8s.V1ContainerPort>;
export type ContainerState = Wire<k8s.V1ContainerState>;
export type ContainerStatus = Wire<k8s.V1ContainerStatus>;
export type EnvVar = Wire<k8s.V1EnvVar>;
export type EnvFromSource = Wire<k8s.V1EnvFromSource>;
export type SecurityContext = Wire<k8s.V1SecurityContext>;
export type SeccompProfile = Wire<k8s.V1SeccompProfile>;
export type ResourceRequirements = Wire<k8s.V1ResourceRequirements>;
export type Lifecycle = Wire<k8s.V1Lifecycle>;
export type LifecycleHandler = Wire<k8s.V1LifecycleHandler>;
export type Probe = Wire<k8s.V1Probe>;
export type HTTPGetAction = Wire<k8s.V1HTTPGetAction>;
export type HostAlias = Wire<k8s.V1HostAlias>;
export type Toleration = Wire<k8s.V1Toleration>;
export type Volume = Wire<k8s.V1Volume>;
export type VolumeMount = Wire<k8s.V1VolumeMount>;
export type KeyToPath = Wire<k8s.V1KeyToPath>;
export type VolumeProjection = Wire<k8s.V1VolumeProjection>;
export type RestartPolicy = 'Always' | 'OnFailure' | 'Never';
export type PodPhase = 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown';
/** Amounts by resource name, as quantities (`100m`, `1Gi`). */
export type ResourceList = Readonly<Record<string, string>>;

export interface PodMeta extends Omit<ObjectMeta, 'name' | 'namespace' | 'uid'> {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
}

export interface Pod extends Omit<Wire<k8s.V1Pod>, 'metadata' | 'spec' | 'status'> {
  readonly metadata: PodMeta;
  readonly spec: PodSpec;
  readonly status?: PodStatus;
}

/** Annotations in which the agent records the source of a pod. */
export const CONFIG_SOURCE_ANNOTATION = 'kubernetes.io/config.source';
export const CONFIG_HASH_ANNOTATION = 'kubernetes.io/config.hash';
export const CONFIG_MIRROR_ANNOTATION = 'kubernetes.io/config.mirror';
export const CONFIG_SEEN_ANNOTATION = 'kubernetes.io/config.seen';

export const DEFAULT_GRACE_SECONDS = 30;

/** `<name>_<namespace>`. It identifies a pod whatever its uid. */
export const podFullName = (pod: { readonly metadata: Pick<PodMeta, 'name' | 'namespace'> }): string =>
  `${pod.metadata.name}_${pod.metadata.namespace}`;

/** A mirror pod is the copy of a static pod in the API server; it never runs. */
export const isMirrorPod = (pod: Pod): boolean => pod.metadata.annotations?.[CONFIG_MIRROR_ANNOTATION] !== undefined;

/** A static pod came from a file or a URL, not from the API server. */
export function isStaticPod(pod: Pod): boolean {
  const source = pod.metadata.annotations?.[CONFIG_SOURCE_ANNOTATION];
  return source !== undefined && source !== 'api';
}

/** The fields that identify a pod. */
export interface PodRef {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

/** The object of an event or a status. */
export interface ObjectReference {
  readonly kind: 'Pod' | 'Node' | 'PersistentVolumeClaim';
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** The version that the agent knows, if the object is in the API server. */
  readonly resourceVersion?: string;
  readonly fieldPath?: string;
}

/** `status.qosClass`. */
export type QOSClass = 'Guaranteed' | 'Burstable' | 'BestEffort';

/** Types of the API's volumes, attachments and CSI drivers as JSON. */
export type PersistentVolumeSpec = Wire<k8s.V1PersistentVolumeSpec>;
export type PersistentVolumeClaim = Wire<k8s.V1PersistentVolumeClaim>;
export type SecretReference = Wire<k8s.V1SecretReference>;
export type VolumeAttachment = Wire<k8s.V1VolumeAttachment>;
export type CSIDriverSpec = Wire<k8s.V1CSIDriverSpec> & {
  /** Tokens are sent with the secrets instead of the attributes; since 1.35. */
  readonly serviceAccountTokenInSecrets?: boolean;
};

/** Types of the API's Node, Lease and CSINode as JSON. */
export type Node = Wire<k8s.V1Node>;
export type NodeAddress = Wire<k8s.V1NodeAddress>;
export type NodeCondition = Wire<k8s.V1NodeCondition>;
export type NodeFeatures = Wire<k8s.V1NodeFeatures>;
export type NodeRuntimeHandler = Wire<k8s.V1NodeRuntimeHandler>;
export type NodeStatus = Wire<k8s.V1NodeStatus>;
export type NodeSystemInfo = Wire<k8s.V1NodeSystemInfo>;
export type Taint = Wire<k8s.V1Taint>;
export type Lease = Wire<k8s.V1Lease>;
export type CSINode = Wire<k8s.V1CSINode>;
