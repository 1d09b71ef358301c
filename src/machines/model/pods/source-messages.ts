/** Messages of the sources of pods, and about the pods of the API server. */
import type { Pod, PodRef, PodStatus } from '../api/pod.ts';
import type { ConfigObjects } from '../objects/config-objects.ts';

export type Source = 'file' | 'http' | 'api';

/** The receiver of the messages of sources and `pleg`; default `pods`. */
export interface Receiver {
  /** `systemId` of an actor that forwards some of them. */
  readonly receiver?: string;
}

export const receiverOf = ({ receiver = 'pods' }: Receiver): string => receiver;

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

/** The source has published some pods, or has them no longer; until it was ready, this says nothing. */
export interface SourceChanged {
  readonly type: 'config.sourceChanged';
  readonly source: Source;
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

/**
 * `sources.wanted`: the sources of pods may publish, and publish everything. `sources.started`: `podConfig` has
 * started, and waits for the former.
 */
export type SourcesMessage = { readonly type: 'sources.wanted' } | { readonly type: 'sources.started' };

/** A receiver lost its state in a crash: these pods are sent again; `null` means all of them. */
export interface ConfigWanted {
  readonly type: 'config.wanted';
  readonly uids: readonly string[] | null;
}

/** A pod object in the API server; `null` when it is gone. A mirror pod has the uid of its static pod here. */
export interface StatusObserved {
  readonly type: 'status.observed';
  readonly pod: PodRef;
  readonly seen: SeenPod | null;
}

/** All pods of this node in the API server, by the same uids. */
export interface StatusListed {
  readonly type: 'status.listed';
  readonly uids: readonly string[];
}

/** The part of an API server's pod that its status publisher needs. */
export interface SeenPod {
  /** The uid of the object; a mirror pod and its static pod have different uids. */
  readonly uid: string;
  readonly isMirror: boolean;
  readonly resourceVersion: string;
  readonly isDeleting: boolean;
  readonly status: PodStatus;
}

/** The fields of a mirror pod that decide whether it stays. */
export interface MirrorState {
  /** The hash of the static pod that it was created from. */
  readonly hash: string;
  readonly isDeleting: boolean;
}

/** `null`: the mirror pod is gone. */
export interface MirrorSeen {
  readonly type: 'mirror.seen';
  readonly pod: PodRef;
  readonly seen: MirrorState | null;
}

/** All mirror pods of this node in the API server. */
export interface MirrorListed {
  readonly type: 'mirror.listed';
  readonly uids: readonly string[];
}

export type MirrorMessage =
  | { readonly type: 'mirror.wanted'; readonly pod: Pod }
  | { readonly type: 'mirror.unwanted'; readonly pod: PodRef }
  /** Nothing of the static pod is left on the node. */
  | { readonly type: 'mirror.released'; readonly pod: PodRef }
  | MirrorSeen
  | MirrorListed
  /** This source of static pods has published all its pods. */
  | { readonly type: 'mirror.ready'; readonly source: 'file' | 'http' }
  /** Every source of static pods has published. */
  | { readonly type: 'mirror.judged' };
