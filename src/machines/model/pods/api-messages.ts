/** Messages about the pods of the API server, from the actors that follow it. */
import type { Pod, PodRef, PodStatus } from '../api/pod.ts';

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
