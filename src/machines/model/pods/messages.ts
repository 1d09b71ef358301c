/**
 * What the actors of the pods' room say to each other. One place, so that a sender and its hearer cannot disagree.
 *
 * Invariants: plain JSON; past tense for facts, `wanted` for what one actor needs of another; a message about one pod
 * carries its `uid`.
 */

import type { PodsKnown } from '../allocation/messages.ts';
import type { Rejection } from '../allocation/predicates.ts';
import type { ContainerStatus, Image, PodSandboxConfig } from '../api/cri.ts';
import type { Container, ObjectReference, Pod, PodRef, PodStatus, RestartPolicy } from '../api/pod.ts';
import type { ConfigObjects } from '../objects/config-objects.ts';
import type { InstanceChanged, PodRuntimeStatus } from '../operations/cri.ts';
import type { Grant } from '../operations/grants.ts';
import type { RememberedPod, SoftState } from '../operations/host.ts';
import type { Header } from '../operations/probe.ts';
import type { ConfigObject } from '../operations/volume.ts';
import type { EventText } from '../reasons/reasons.ts';
import type { PodStage } from '../status/pod-status.ts';
import type { StatusListed, StatusObserved } from './api-messages.ts';

export type Source = 'file' | 'http' | 'api';

/** Who gets what the sources of pods and `pleg` publish about them; `pods` unless named. */
export interface Receiver {
  /** `systemId` of an actor that lets through only some of it. */
  readonly receiver?: string;
}

export const receiverOf = ({ receiver = 'pods' }: Receiver): string => receiver;

/** `systemId` of the actor of a pod: the answer to what a pod asks goes there, and not through `pods`. */
export const podActor = (uid: string): string => `pod-${uid}`;

// ---- sources of pods -> pods; `config.sourceReady` -> syncLoop ------------------------------------------------------

export type ConfigMessage =
  | {
      readonly type: 'config.pods';
      readonly op: 'ADD' | 'UPDATE' | 'DELETE' | 'RECONCILE';
      readonly source: Source;
      readonly pods: readonly Pod[];
    }
  | {
      readonly type: 'config.pods';
      readonly op: 'REMOVE';
      readonly source: Source;
      readonly pods: readonly PodRef[];
    };

/** All ConfigMaps and Secrets that exist. Sent before the pods that may need them. */
export interface ObjectsReported {
  readonly type: 'config.objects';
  readonly objects: ConfigObjects;
}

/** The source has published all its pods; `uids` are all its pods. */
export interface SourceReady {
  readonly type: 'config.sourceReady';
  readonly source: Source;
  readonly uids: readonly string[];
}

/** The sources of pods may publish, and publish everything; `podConfig` has started, and waits for that. */
export type SourcesMessage = { readonly type: 'sources.wanted' } | { readonly type: 'sources.started' };

/** A receiver has lost its state (a crash): send these pods again; `null` means all of them. */
export interface ConfigWanted {
  readonly type: 'config.wanted';
  readonly uids: readonly string[] | null;
}

// ---- pleg -> pods -> pod; `runtime.relisted` -> syncLoop ------------------------------------------------------------

export type RuntimeMessage =
  | { readonly type: 'runtime.podChanged'; readonly status: PodRuntimeStatus }
  | InstanceChanged
  | { readonly type: 'runtime.podRemoved'; readonly uid: string }
  | { readonly type: 'runtime.podStale'; readonly uid: string; readonly message: string }
  | RuntimeRelisted;

/** Every pod of the runtime was named since observing began. */
export interface RuntimeRelisted {
  readonly type: 'runtime.relisted';
  readonly uids: readonly string[];
}

/** A receiver has lost its state: observe everything again. */
export interface RuntimeWanted {
  readonly type: 'runtime.wanted';
}

/** The health of `pleg`, for `runtimeState`. */
export type PlegHealth =
  | { readonly type: 'pleg.healthy' }
  | { readonly type: 'pleg.unhealthy'; readonly message: string };

/** `runtimeState` starts again and knows nothing. */
export interface PlegHealthWanted {
  readonly type: 'pleg.healthWanted';
}

// ---- syncLoop <-> pods ----------------------------------------------------------------------------------------------

export type PodsMessage =
  /** Every source is ready and the runtime was listed: orphaned pods may be ended. `uids` are all wanted pods. */
  { readonly type: 'pods.housekeeping'; readonly desired: readonly string[] } | { readonly type: 'pods.started' };

/** The root says whether pods may be synchronised. */
export type RuntimeHealth =
  | { readonly type: 'runtime.up' }
  | { readonly type: 'runtime.down'; readonly errors: readonly string[] };

// ---- pods -> pod ----------------------------------------------------------------------------------------------------

export interface PodKill {
  readonly type: 'pod.kill';
  /** Shortens the pod's own grace; `null` leaves it. */
  readonly graceSeconds: number | null;
  /** The pod is no longer wanted at all: its files and its containers go, too. */
  readonly remove: boolean;
  /** Phase, reason and message that are published instead of those of the containers (eviction, deadline). */
  readonly verdict: PodVerdict | null;
}

interface PodVerdict {
  readonly reason: string;
  readonly message: string;
  /** `always`: whatever the containers do later. `once`: with the order to end; a pod may still succeed. */
  readonly published: 'always' | 'once';
  /** The node disrupted the pod: the condition `DisruptionTarget` says so. */
  readonly disruptionTarget?: boolean;
}

/** A manager of the node (eviction, shutdown) ends a pod; it stays wanted, and its status stays. */
export interface PodKillWanted {
  readonly type: 'pods.kill';
  readonly uid: string;
  /** `null`: the pod's own. */
  readonly graceSeconds: number | null;
  readonly verdict: PodVerdict;
  /** The resource of which a critical pod lacks some, when it goes for that one. */
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

// ---- container <-> pod ----------------------------------------------------------------------------------------------

export type ContainerKind = 'init' | 'sidecar' | 'regular' | 'ephemeral';

/** What a pod keeps of each container, as it says it. `comesAgain`: it was stopped for that, however it ends. */
export interface ContainerView {
  /**
   * `starting`: its process runs, and so does its postStart hook. It is not published as running before that is done.
   */
  readonly phase: 'waiting' | 'starting' | 'running' | 'stopping' | 'ended';
  /** Reason and message of `state.waiting`; empty when the container was not yet tried. */
  readonly reason: string;
  readonly message: string;
  /** Number of the instance that runs, ended, or will be made next. */
  readonly restartCount: number;
  /** The termination message of the newest instance that ended, by its id. */
  readonly ended: { readonly id: string; readonly message: string } | null;
  readonly comesAgain?: boolean;
}

/** What a container wants to be made of; the answer is `container.permitted` or `container.refused`. */
export interface ContainerRequest {
  readonly restartCount: number;
  readonly image: { readonly ref: string; readonly uid: string | null; readonly username: string } | null;
}

export type ContainerReport =
  | {
      readonly type: 'container.changed';
      readonly name: string;
      readonly view: ContainerView;
      /** The runtime may differ from the last observation: inspect it again. */
      readonly inspect: boolean;
      /** What the runtime shows of it after a call of its own. */
      readonly seen?: ContainerStatus;
    }
  /** The runtime does not show the container's new state yet: inspect it again if no inspection is under way. */
  | { readonly type: 'container.unseen' }
  | { readonly type: 'container.wanted'; readonly name: string; readonly request: ContainerRequest }
  /** It needs its image; the pod asks `images` for it. */
  | {
      readonly type: 'container.imageWanted';
      readonly name: string;
      readonly image: string;
      readonly policy: ContainerWanted['imagePolicy'];
      readonly ref: ObjectReference;
    };

/** What a container is meant to be. */
export interface ContainerWanted {
  readonly image: string;
  readonly imagePolicy: 'Always' | 'IfNotPresent' | 'Never';
  readonly hash: string;
  readonly restartPolicy: RestartPolicy;
  readonly restartPolicyRules: NonNullable<Container['restartPolicyRules']>;
  /** Grace when it is replaced; a kill brings its own. */
  readonly graceSeconds: number;
  readonly postStart: Hook | null;
  readonly preStop: Hook | null;
}

/** A GET as the spec wants it; only the address of the pod is still open. */
export interface HttpRequest {
  readonly scheme: string;
  /** Empty: the pod's address. */
  readonly host: string;
  readonly port: number;
  readonly path: string;
  readonly headers: readonly Header[];
}

/** A lifecycle hook, as far as it can be run. */
export type Hook =
  | { readonly kind: 'exec'; readonly command: readonly string[] }
  | { readonly kind: 'sleep'; readonly seconds: number }
  | ({ readonly kind: 'httpGet' } & HttpRequest)
  /** `tcpSocket`, which was never a hook, or a port that the container does not have: it fails and says so. */
  | {
      readonly kind: 'unsupported';
      /** Of the request whose port there is not; `null`: it is none. */
      readonly path: string | null;
      readonly error: string;
    };

// ---- prober -> pod --------------------------------------------------------------------------------------------------

/** A verdict about one instance of a container. */
export interface ProberReport {
  readonly type: 'prober.judged';
  readonly container: string;
  readonly containerId: string;
  readonly kind: 'startup' | 'readiness' | 'liveness';
  readonly verdict: 'success' | 'failure';
}

// ---- images -> pod -> container ------------------------------------------------------------------------------------

export interface ImageWanted {
  readonly type: 'image.wanted';
  readonly uid: string;
  /** Whose image: a container's, or `<container>/<volume>` for what that volume shows it. The answer repeats it. */
  readonly container: string;
  readonly image: string;
  readonly policy: 'Always' | 'IfNotPresent' | 'Never';
  readonly ref: ObjectReference;
  /** The container that cannot begin without it, where the image is that of a volume: `ref` is the pod then. */
  readonly user?: ObjectReference;
  /** The pull secrets of its pod that exist, in the order of the pod. */
  readonly secrets: readonly ConfigObject[];
  /** What the pod says of its service account; empty for a static pod. */
  readonly serviceAccount: string;
  /** For the pull: a runtime may decide by them. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly sandboxConfig: PodSandboxConfig | null;
  /** What the agent before this one noted of failed pulls. */
  readonly remembered: RememberedPull | null;
}

/** `of`: the image as it was asked for. */
export type ImageReport = { readonly uid: string; readonly container: string; readonly of: string } & (
  | { readonly type: 'image.ready'; readonly image: ImageFacts }
  /** `retryMs`: asking again earlier gives the same answer. */
  | { readonly type: 'image.failed'; readonly reason: string; readonly message: string; readonly retryMs: number }
);

/** What of an image matters to a container; `event`: to be recorded when the container uses it. */
export interface ImageFacts {
  readonly ref: string;
  readonly uid: string | null;
  readonly username: string;
  readonly event?: EventText;
}

export const imageFacts = (image: Image): ImageFacts => ({
  ref: image.id,
  uid: image.uid?.value ?? null,
  username: image.username,
});

// ---- any actor -> eventRecorder -------------------------------------------------------------------------------------

export interface EventRecorded {
  readonly type: 'event.recorded';
  readonly ref: ObjectReference;
  readonly eventType: EventText['type'];
  readonly reason: string;
  readonly message: string;
  /** Of the event object, for programs. */
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

export type StatusMessage =
  | { readonly type: 'status.changed'; readonly pod: PodRef; readonly status: PodStatus; readonly stage: PodStage }
  /** What it held of the node is free again. */
  | { readonly type: 'status.reclaimed'; readonly uid: string }
  | { readonly type: 'status.removed'; readonly uid: string }
  | StatusObserved
  | StatusListed;

/** `status` has lost the pods' statuses. */
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

// ---- pod -> containerGC, imageGC, rememberedPods --------------------------------------------------------------------

export type RememberedPodsMessage =
  | { readonly type: 'pod.remembered'; readonly uid: string; readonly remembered: RememberedPod }
  | { readonly type: 'pod.forgotten'; readonly uid: string };

/** A container was given this image just now. */
export interface ImageUsed {
  readonly type: 'image.used';
  readonly id: string;
}

/** A collector has lost the pods' facts. */
export interface GarbageWanted {
  readonly type: 'garbage.wanted';
}

// ---- eviction <-> containerGC, imageGC ------------------------------------------------------------------------------

/** The node is short of disk: everything unused is removed now. The answer is `garbage.purged`. */
export interface GarbagePurge {
  readonly type: 'garbage.purge';
}

export interface GarbagePurged {
  readonly type: 'garbage.purged';
}

/** What XState says of operations and of child actors; every machine that invokes something gets them. */
export type Ended =
  | { readonly type: `xstate.done.actor.${string}`; readonly output: unknown; readonly actorId: string }
  | { readonly type: `xstate.error.actor.${string}`; readonly error: unknown; readonly actorId: string };
