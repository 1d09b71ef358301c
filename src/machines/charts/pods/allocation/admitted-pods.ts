/**
 * Answers the requests of admitted pods: with the same grant again, or with a resize, now or when resources are free.
 */
import { now } from '../../../../kernel/xstate.ts';
import { byUrgency, resize } from '../../../model/allocation/admit.ts';
import { type AdmissionRequest, carriedOver } from '../../../model/allocation/request.ts';
import { pinnedResize, podShares } from '../../../model/allocation/resource-grants.ts';
import type { Grant } from '../../../model/operations/grants.ts';
import { grantAssigned, handleNew } from './admission.ts';
import {
  type AllocationRequest,
  candidates,
  holdingsIn,
  isSame,
  reply,
  reportHealth,
  viewOf,
  type Work,
  without,
} from './allocation-setup.ts';
import { checkRecalled } from './earlier-pods.ts';
import { awaitsOtherPods, postponeResize } from './postponed.ts';

/** Handles a request of an admitted pod: its actor restarted, or its specification changed. */
export function regrant(work: Work, wanted: AllocationRequest, held: Grant): void {
  const { uid } = wanted.request;
  const { allocation } = held;
  if (!isSame(carriedOver(allocation, wanted.allocation), wanted.allocation)) return changeGrant(work, wanted, held);
  if (!isSame(allocation, wanted.allocation)) return grantAssigned(work, wanted);
  work.state.resizes = without(work.state.resizes, uid);
  reply(work, {
    type: 'allocation.granted',
    uid,
    allocation,
    ...podShares(work.args.context.settings, holdingsIn(work.state), uid),
  });
  reportHealth(work, uid, held, work.args.context.devices);
  checkRecalled(work, wanted);
  if (!work.state.recalled.includes(uid)) retryPostponed(work);
}

function changeGrant(work: Work, wanted: AllocationRequest, { allocation }: Grant): void {
  const { settings } = work.args.context;
  const { request } = wanted;
  const { uid } = request;
  if (awaitsOtherPods(work, uid)) return postponeResize(work, wanted);
  const wholeNode = settings.admission?.wholeNode ?? {};
  const refusal =
    pinnedResize(settings, wanted, allocation) ??
    resize(request, viewOf(work.args.context), wholeNode, candidates(work.state));
  if (refusal === null) return grantAssigned(work, wanted);
  const sinceMs = work.state.resizes[uid]?.sinceMs ?? now(work.args);
  const pending = refusal.reason === 'Deferred' ? { ...work.state.resizes, [uid]: { ...wanted, sinceMs } } : null;
  work.state.resizes = pending ?? without(work.state.resizes, uid);
  const shares = podShares(settings, holdingsIn(work.state), uid);
  reply(work, { type: 'allocation.pending', uid, allocation, refusal, ...shares });
}

/** Retries waiting pods and resizes, the most urgent first, after resources became free or time passed. */
export function retry(work: Work): void {
  const pending = Object.values(work.state.resizes).map((each) => ({
    ...each,
    increases: increases(work.state.grants[each.request.uid], each.request),
  }));
  for (const wanted of pending.toSorted(byUrgency)) {
    const granted = work.state.grants[wanted.request.uid];
    if (granted) changeGrant(work, { request: wanted.request, allocation: wanted.allocation }, granted);
    else work.state.resizes = without(work.state.resizes, wanted.request.uid);
  }
}

const increases = (grant: Grant | undefined, { demand }: AdmissionRequest): boolean =>
  ['cpu', 'memory'].some((name) => BigInt(demand.requests[name] ?? '0') > BigInt(grant?.demand.requests[name] ?? '0'));

export function retryPostponed(work: Work): void {
  for (const wanted of Object.values(work.state.unjudged)) {
    if (work.state.grants[wanted.request.uid]) checkRecalled(work, wanted);
    else handleNew(work, wanted);
  }
}
