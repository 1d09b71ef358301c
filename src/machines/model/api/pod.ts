/**
 * The Kubernetes API's Pod as the node agent holds it: exactly the JSON that travels, never a class instance.
 *
 * This folder has the only imports of `@kubernetes/client-node` types in the machines (erased at run time). The
 * generated classes say `Date` where the wire has RFC 3339 text and let everything be written to; {@link Wire} corrects
 * both. The CRI's own messages of similar name (`ContainerStatus`) live in `cri.ts`.
 *
 * Invariant: a {@link Pod} in a machine is complete: it has a name, a namespace, a uid and a spec.
 */
import type {
  V1Capabilities,
  V1Container,
  V1ContainerPort,
  V1ContainerResizePolicy,
  V1ContainerState,
  V1ContainerStatus,
  V1EnvFromSource,
  V1EnvVar,
  V1EphemeralContainer,
  V1ExecAction,
  V1GRPCAction,
  V1HostAlias,
  V1HTTPGetAction,
  V1KeyToPath,
  V1Lifecycle,
  V1LifecycleHandler,
  V1ObjectMeta,
  V1OwnerReference,
  V1Pod,
  V1PodCondition,
  V1PodDNSConfig,
  V1PodSecurityContext,
  V1PodSpec,
  V1PodStatus,
  V1Probe,
  V1ProjectedVolumeSource,
  V1ResourceRequirements,
  V1SeccompProfile,
  V1SecurityContext,
  V1TCPSocketAction,
  V1Toleration,
  V1Volume,
  V1VolumeDevice,
  V1VolumeMount,
  V1VolumeProjection,
} from '@kubernetes/client-node';

/** A generated API class as it looks on the wire: times are text, nothing may be changed in place. */
export type Wire<T> = T extends Date
  ? string
  : T extends ReadonlyArray<infer Item>
    ? readonly Wire<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Wire<T[Key]> }
      : T;

export type ObjectMeta = Wire<V1ObjectMeta>;
export type OwnerReference = Wire<V1OwnerReference>;
export type PodSpec = Wire<V1PodSpec>;
export type PodStatus = Wire<V1PodStatus>;
export type PodCondition = Wire<V1PodCondition>;
export type PodSecurityContext = Wire<V1PodSecurityContext>;
export type PodDNSConfig = Wire<V1PodDNSConfig>;
export type Container = Wire<V1Container>;
export type EphemeralContainer = Wire<V1EphemeralContainer>;
export type ContainerPort = Wire<V1ContainerPort>;
export type ContainerResizePolicy = Wire<V1ContainerResizePolicy>;
export type ContainerState = Wire<V1ContainerState>;
export type ContainerStatus = Wire<V1ContainerStatus>;
export type EnvVar = Wire<V1EnvVar>;
export type EnvFromSource = Wire<V1EnvFromSource>;
export type Capabilities = Wire<V1Capabilities>;
export type SecurityContext = Wire<V1SecurityContext>;
export type SeccompProfile = Wire<V1SeccompProfile>;
export type ResourceRequirements = Wire<V1ResourceRequirements>;
export type Lifecycle = Wire<V1Lifecycle>;
export type LifecycleHandler = Wire<V1LifecycleHandler>;
export type Probe = Wire<V1Probe>;
export type ExecAction = Wire<V1ExecAction>;
export type HTTPGetAction = Wire<V1HTTPGetAction>;
export type TCPSocketAction = Wire<V1TCPSocketAction>;
export type GRPCAction = Wire<V1GRPCAction>;
export type HostAlias = Wire<V1HostAlias>;
export type Toleration = Wire<V1Toleration>;
export type Volume = Wire<V1Volume>;
export type VolumeMount = Wire<V1VolumeMount>;
export type VolumeDevice = Wire<V1VolumeDevice>;
export type KeyToPath = Wire<V1KeyToPath>;
export type ProjectedVolumeSource = Wire<V1ProjectedVolumeSource>;
export type VolumeProjection = Wire<V1VolumeProjection>;
export type RestartPolicy = 'Always' | 'OnFailure' | 'Never';
export type PodPhase = 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown';
/** Amounts by resource name, as quantities (`100m`, `1Gi`). */
export type ResourceList = Readonly<Record<string, string>>;

export interface PodMeta extends Omit<ObjectMeta, 'name' | 'namespace' | 'uid'> {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
}

export interface Pod extends Omit<Wire<V1Pod>, 'metadata' | 'spec' | 'status'> {
  readonly metadata: PodMeta;
  readonly spec: PodSpec;
  readonly status?: PodStatus;
}

/** Annotations by which the agent tells where a pod came from. */
export const CONFIG_SOURCE_ANNOTATION = 'kubernetes.io/config.source';
export const CONFIG_HASH_ANNOTATION = 'kubernetes.io/config.hash';
export const CONFIG_MIRROR_ANNOTATION = 'kubernetes.io/config.mirror';
export const CONFIG_SEEN_ANNOTATION = 'kubernetes.io/config.seen';

/** The name under which two pods are the same pod whatever their uid: `<name>_<namespace>`. */
export const podFullName = (pod: { readonly metadata: Pick<PodMeta, 'name' | 'namespace'> }): string =>
  `${pod.metadata.name}_${pod.metadata.namespace}`;

/** A mirror pod is the API server's image of a static pod; it is never run. */
export const isMirrorPod = (pod: Pod): boolean => pod.metadata.annotations?.[CONFIG_MIRROR_ANNOTATION] !== undefined;

/** A static pod came from a file or a URL, not from the API server. */
export function isStaticPod(pod: Pod): boolean {
  const source = pod.metadata.annotations?.[CONFIG_SOURCE_ANNOTATION];
  return source !== undefined && source !== 'api';
}

/** What of a pod is enough to name it. */
export interface PodRef {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

/** What an event or a status is about. */
export interface ObjectReference {
  readonly kind: 'Pod' | 'Node' | 'PersistentVolumeClaim';
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** The version that the agent knew, of an object of the API server. */
  readonly resourceVersion?: string;
  readonly fieldPath?: string;
}

/** `status.qosClass`. */
export type QOSClass = 'Guaranteed' | 'Burstable' | 'BestEffort';
