/**
 * Messages to `pods` and to the actors of pods, except those of the other files of this folder.
 *
 * Invariants of all messages of this folder: plain JSON; past tense for facts, `wanted` for a request to another actor;
 * a message about one pod carries its `uid`.
 */
import type { Pod } from '../api/pod.ts';
import type { ConfigObjects } from '../objects/config-objects.ts';

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
