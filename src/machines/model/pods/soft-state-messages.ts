/** What pods send to `softState` and `rememberedPods`, so that the next agent knows it. */
import type { PodsKnown } from '../allocation/messages.ts';
import type { Rejection } from '../allocation/node-view.ts';
import type { Grant } from '../operations/grants.ts';
import type { RememberedPod, SoftState } from '../operations/host.ts';

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
