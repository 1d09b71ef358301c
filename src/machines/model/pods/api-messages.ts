/** What those who follow the API server say of the pods that it has. As in `messages.ts`. */
import type { Pod, PodRef, PodStatus } from '../api/pod.ts';

/** The API server's object of a pod; `null`: none any more. A mirror pod has its static pod's uid here. */
export interface StatusObserved {
  readonly type: 'status.observed';
  readonly pod: PodRef;
  readonly seen: SeenPod | null;
}

/** Nothing else is in the API server any more; by the same uids. */
export interface StatusListed {
  readonly type: 'status.listed';
  readonly uids: readonly string[];
}

/** Of an object of the API server, what its status is published by. */
export interface SeenPod {
  /** Of the object there; a mirror pod has another one than its static pod. */
  readonly uid: string;
  readonly isMirror: boolean;
  readonly resourceVersion: string;
  readonly isDeleting: boolean;
  readonly status: PodStatus;
}

/** Of a mirror pod in the API server, what decides whether it stays. */
export interface MirrorState {
  /** Of the static pod that it was made from. */
  readonly hash: string;
  readonly isDeleting: boolean;
}

/** `null`: the API server has it no more. */
export interface MirrorSeen {
  readonly type: 'mirror.seen';
  readonly pod: PodRef;
  readonly seen: MirrorState | null;
}

/** These are the mirror pods that the API server has, and no others. */
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
  /** Every source of static pods has spoken. */
  | { readonly type: 'mirror.judged' };
