/**
 * Messages to `pods` and to the actors of pods, except those of the other files of this folder.
 *
 * Invariants of all messages of this folder: plain JSON; past tense for facts, `wanted` for a request to another actor;
 * a message about one pod carries its `uid`.
 */
import type { PodsKnown } from '../allocation/messages.ts';
import type { Rejection } from '../allocation/request.ts';
import type { ContainerStatus } from '../api/cri.ts';
import type { Container, ObjectReference, Pod, PodRef, PodStatus, RestartPolicy } from '../api/pod.ts';
import type { ConfigObjects } from '../objects/config-objects.ts';
import type { InstanceChanged, PodRuntimeStatus } from '../operations/cri.ts';
import type { Grant } from '../operations/grants.ts';
import type { RememberedPod, SoftState } from '../operations/host.ts';
import type { Header } from '../operations/probe.ts';
import { type EventText, nodeRef } from '../reasons/reasons.ts';
import type { PodStage } from '../status/pod-status.ts';
import type { StatusListed, StatusObserved } from './source-messages.ts';

/** The id of the root machine, with which every address begins. */
export const ROOT = 'kubelet';

/** `systemId` of the actor of a pod: answers to the pod are sent there directly. */
export const podActor = (uid: string): string => `pod-${uid}`;

export type PodsMessage =
  /**
   * Every source has published and the runtime was listed: orphaned pods may be ended. `desired` are all wanted pods.
   */
  { readonly type: 'pods.housekeeping'; readonly desired: readonly string[] } | { readonly type: 'pods.started' };

export interface PodKill {
  readonly type: 'pod.kill';
  /** Shortens the pod's own grace period; `null` keeps it. */
  readonly graceSeconds: number | null;
  /** The pod is no longer wanted: its files and containers are removed as well. */
  readonly remove: boolean;
  /** Phase, reason and message that are published instead of values from the containers (eviction, deadline). */
  readonly verdict: PodVerdict | null;
}

interface PodVerdict {
  readonly reason: string;
  readonly message: string;
  /** `always`: whatever the containers do later. `once`: with the order to end; the pod may still succeed. */
  readonly published: 'always' | 'once';
  /** The node disrupted the pod: it gets the condition `DisruptionTarget`. */
  readonly disruptionTarget?: boolean;
}

/** A manager of the node (eviction, shutdown) ends a pod; the pod stays wanted, and its status stays. */
export interface PodKillWanted {
  readonly type: 'pods.kill';
  readonly uid: string;
  /** `null` for the pod's own. */
  readonly graceSeconds: number | null;
  readonly verdict: PodVerdict;
  /** The resource that a critical pod lacks, if this pod is preempted for it. */
  readonly shortOf?: string;
}

export type PodMessage =
  | { readonly type: 'pod.configured'; readonly pod: Pod }
  | { readonly type: 'pod.released' }
  /** All ConfigMaps and Secrets that the pod names and that exist. */
  | { readonly type: 'objects.changed'; readonly objects: ConfigObjects }
  | { readonly type: 'runtime.absent'; readonly observedAtMs: number }
  | { readonly type: 'images.started' }
  | PodKill;

/** A container's state as reported to its pod. `comesAgain`: it was stopped to be restarted, however it ends. */
export interface ContainerView {
  /**
   * `starting`: its process and its postStart hook run. It is not published as running before the hook has succeeded.
   */
  readonly phase: 'waiting' | 'starting' | 'running' | 'stopping' | 'ended';
  /** Reason and message of `state.waiting`; empty before the first attempt. */
  readonly reason: string;
  readonly message: string;
  /** Number of the instance that runs, has ended, or comes next. */
  readonly restartCount: number;
  /** The termination message of the newest instance that ended, by its id. */
  readonly ended: { readonly id: string; readonly message: string } | null;
  readonly comesAgain?: boolean;
}

/** Requests the configuration of a container; the answer is `container.permitted` or `container.refused`. */
export interface ContainerRequest {
  readonly restartCount: number;
  readonly image: { readonly ref: string; readonly uid: string | null; readonly username: string } | null;
}

export type ContainerReport =
  | {
      readonly type: 'container.changed';
      readonly name: string;
      readonly view: ContainerView;
      /** The runtime may differ from the last observation: the pod inspects it again. */
      readonly inspect: boolean;
      /** The instance in the answer to a call. */
      readonly seen?: ContainerStatus;
    }
  /**
   * The runtime does not show the container's new state yet: the pod inspects it again unless an inspection is in
   * progress.
   */
  | { readonly type: 'container.unseen' }
  | { readonly type: 'container.wanted'; readonly name: string; readonly request: ContainerRequest }
  /** The container needs its image; the pod requests it from `images`. */
  | {
      readonly type: 'container.imageWanted';
      readonly name: string;
      readonly image: string;
      readonly policy: ContainerWanted['imagePolicy'];
      readonly ref: ObjectReference;
    };

export interface ContainerWanted {
  readonly image: string;
  readonly imagePolicy: 'Always' | 'IfNotPresent' | 'Never';
  readonly hash: string;
  readonly restartPolicy: RestartPolicy;
  readonly restartPolicyRules: NonNullable<Container['restartPolicyRules']>;
  /** The grace period when it is replaced; a kill has its own. */
  readonly graceSeconds: number;
  readonly postStart: Hook | null;
  readonly preStop: Hook | null;
}

/** A GET request as in the spec, without the pod's address. */
export interface HttpRequest {
  readonly scheme: string;
  /** Empty for the pod's address. */
  readonly host: string;
  readonly port: number;
  readonly path: string;
  readonly headers: readonly Header[];
}

/** A lifecycle hook with everything resolved. */
export type Hook =
  | { readonly kind: 'exec'; readonly command: readonly string[] }
  | { readonly kind: 'sleep'; readonly seconds: number }
  | ({ readonly kind: 'httpGet' } & HttpRequest)
  /**
   * `tcpSocket`, which was never a valid hook, or a port that the container does not have: it fails with this reason.
   */
  | {
      readonly kind: 'unsupported';
      /** The path of a request whose port does not exist; `null` if it is no request. */
      readonly path: string | null;
      readonly error: string;
    };

/** A verdict about one instance of a container. */
export interface ProberReport {
  readonly type: 'prober.judged';
  readonly container: string;
  readonly containerId: string;
  readonly kind: 'startup' | 'readiness' | 'liveness';
  readonly verdict: 'success' | 'failure';
}

/** What `pleg` observes of the runtime, for pods; its health, and the health of the runtime. */
export type RuntimeMessage =
  | { readonly type: 'runtime.podChanged'; readonly status: PodRuntimeStatus }
  | InstanceChanged
  | { readonly type: 'runtime.podRemoved'; readonly uid: string }
  | { readonly type: 'runtime.podStale'; readonly uid: string; readonly message: string }
  | RuntimeRelisted;

/** Every pod of the runtime was reported since observation began. */
export interface RuntimeRelisted {
  readonly type: 'runtime.relisted';
  readonly uids: readonly string[];
}

/** A receiver has lost its state: everything is observed again. */
export interface RuntimeWanted {
  readonly type: 'runtime.wanted';
}

/** The health of `pleg`, for `runtimeState`. */
export type PlegHealth =
  | { readonly type: 'pleg.healthy' }
  | { readonly type: 'pleg.unhealthy'; readonly message: string };

/** From `runtimeState` to pods: why the node has no network for them; empty if it has one. */
export interface NetworkChanged {
  readonly type: 'network.changed';
  readonly error: string;
}

/** `runtimeState` restarted and needs the health again. */
export interface PlegHealthWanted {
  readonly type: 'pleg.healthWanted';
}

/** From the root: whether pods may be synchronised. */
export type RuntimeHealth =
  | { readonly type: 'runtime.up' }
  | { readonly type: 'runtime.down'; readonly errors: readonly string[] };

export type StatusMessage =
  | { readonly type: 'status.changed'; readonly pod: PodRef; readonly status: PodStatus; readonly stage: PodStage }
  /** The resources of the pod are free again. */
  | { readonly type: 'status.reclaimed'; readonly uid: string }
  | { readonly type: 'status.removed'; readonly uid: string }
  | StatusObserved
  | StatusListed;

/** `status` has lost the pods' statuses and needs them again. */
export interface StatusWanted {
  readonly type: 'status.wanted';
}

export type RememberedContainer = SoftState['containers'][string];
export type RememberedPull = NonNullable<SoftState['pulls']>[string];
export type ProbedInstance = SoftState['probes'][string];

export type SoftStateMessage =
  | { readonly type: 'softState.noted'; readonly key: string; readonly container: RememberedContainer }
  | { readonly type: 'softState.begun'; readonly key: string; readonly restartCount: number }
  /** `null`: the pull has succeeded. */
  | { readonly type: 'softState.pulled'; readonly key: string; readonly pull: RememberedPull | null }
  | { readonly type: 'softState.probed'; readonly key: string; readonly probed: ProbedInstance }
  | { readonly type: 'softState.allocated'; readonly uid: string; readonly grant: Grant }
  | { readonly type: 'softState.resized'; readonly uid: string; readonly actuated: Grant['allocation'] | null }
  | { readonly type: 'softState.rejected'; readonly uid: string; readonly rejection: Rejection }
  | { readonly type: 'softState.forgotten'; readonly uid: string }
  | PodsKnown
  | { readonly type: 'softState.wanted' };

export type RememberedPodsMessage =
  | { readonly type: 'pod.remembered'; readonly uid: string; readonly remembered: RememberedPod }
  | { readonly type: 'pod.forgotten'; readonly uid: string };

/** Events that any actor sends to `eventRecorder`. */
export interface EventRecorded {
  readonly type: 'event.recorded';
  readonly ref: ObjectReference;
  readonly eventType: EventText['type'];
  readonly reason: string;
  readonly message: string;
  /** Annotations of the Event object, for programs. */
  readonly annotations?: Readonly<Record<string, string>>;
}

export const eventRecorded = (
  ref: ObjectReference,
  text: EventText,
  annotations: Readonly<Record<string, string>> = {},
): EventRecorded => ({
  type: 'event.recorded',
  ref,
  eventType: text.type,
  reason: text.reason,
  message: text.message,
  ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
});

export const nodeEvent = (nodeName: string, text: EventText): EventRecorded => eventRecorded(nodeRef(nodeName), text);
