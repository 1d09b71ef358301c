/**
 * Requests that are answered later: of pods that cannot be admitted yet, and of resizes that cannot be granted yet.
 *
 * Holdings from an earlier agent or another kubelet count until it is known which of their pods exist; but they cause
 * no rejection: a pod that lacks resources because of them waits.
 */
import { now } from '../../../../kernel/xstate.ts';
import type { Rejection } from '../../../model/allocation/node-view.ts';
import type { AdmissionRequest } from '../../../model/allocation/request.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import type { AllocationRequest, Work } from './allocation-setup.ts';

/** Evaluates the pod later, when the Node or the pods of an earlier agent are known. */
export function postpone(work: Work, wanted: AllocationRequest): void {
  work.state.unjudged = { ...work.state.unjudged, [wanted.request.uid]: wanted };
}

/** Whether pods of an earlier agent hold resources that may soon be free: such a pod may be gone, or may be ending. */
const mayBecomeFree = ({ args: { context }, state }: Work, uid: string): boolean =>
  hasBehavior(context.settings, 'resourcesAsKubelet') &&
  [...state.recalled, ...Object.keys(state.handedOver)].some((other) => other !== uid);

/** Rejections that may be due to holdings of pods that are gone. */
const SHORTAGE_OF_PODS = ['NodePorts', 'UnexpectedAdmissionError', 'TopologyAffinityError', 'SMTAlignmentError'];
export const isShortForNow = (work: Work, uid: string, rejection: Rejection | null): boolean =>
  rejection !== null &&
  (SHORTAGE_OF_PODS.includes(rejection.reason) || rejection.reason.startsWith('OutOf')) &&
  mayBecomeFree(work, uid);

/** Rejections that may be due to labels and taints that are not known yet. */
const NODE_REASONS = ['NodeAffinity', 'TaintToleration'];

/** Too little is known of the Node and of other pods to reject this pod, or to preempt others for it. */
export function isTooEarly(
  work: Work,
  { uid, rules }: AdmissionRequest,
  rejection: Rejection | null,
  victims: readonly unknown[],
): boolean {
  const isOfTheNode = rejection !== null && NODE_REASONS.includes(rejection.reason);
  if (!work.args.context.isNodeKnown && !rules.isStatic && isOfTheNode) return true;
  return (victims.length > 0 && mayBecomeFree(work, uid)) || isShortForNow(work, uid, rejection);
}

/** Whether other pods of another kubelet have not asked for their resources yet. */
export const awaitsOtherPods = ({ state }: Work, uid: string): boolean => state.awaited.some((other) => other !== uid);

export function postponeResize(work: Work, wanted: AllocationRequest): void {
  const { uid } = wanted.request;
  const sinceMs = work.state.resizes[uid]?.sinceMs ?? now(work.args);
  work.state.resizes = {
    ...work.state.resizes,
    [uid]: { request: wanted.request, allocation: wanted.allocation, sinceMs },
  };
}
