/** Statuses of pods that are sent to `status`. */
import type { PodRef, PodStatus } from '../api/pod.ts';
import type { PodStage } from '../status/pod-status.ts';
import type { StatusListed, StatusObserved } from './api-messages.ts';

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
