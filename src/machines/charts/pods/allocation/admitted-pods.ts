/** Answers admitted pods: the same grant again, or a resize, now or when resources are free. */
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
import { isAwaiting, postponeResize } from './postponed.ts';

/** Handles a request of an admitted pod: its actor restarted, or its specification changed. */
export function regrant(w: Work, wanted: AllocationRequest, held: Grant): void {
  const { uid } = wanted.request;
  const { allocation } = held;
  if (!isSame(carriedOver(allocation, wanted.allocation), wanted.allocation)) return change(w, wanted, held);
  if (!isSame(allocation, wanted.allocation)) return grantAssigned(w, wanted);
  w.state.resizes = without(w.state.resizes, uid);
  reply(w, {
    type: 'allocation.granted',
    uid,
    allocation,
    ...podShares(w.args.context.settings, holdingsIn(w.state), uid),
  });
  reportHealth(w, uid, held, w.args.context.devices);
  checkRecalled(w, wanted);
  if (!w.state.recalled.includes(uid)) retryUnjudged(w);
}

function change(w: Work, wanted: AllocationRequest, { allocation }: Grant): void {
  const { settings } = w.args.context;
  const { request } = wanted;
  const { uid } = request;
  if (isAwaiting(w, uid)) return postponeResize(w, wanted);
  const wholeNode = settings.admission?.wholeNode ?? {};
  const refusal =
    pinnedResize(settings, wanted, allocation) ??
    resize(request, viewOf(w.args.context), wholeNode, candidates(w.state));
  if (refusal === null) return grantAssigned(w, wanted);
  const sinceMs = w.state.resizes[uid]?.sinceMs ?? now(w.args);
  const pending = refusal.reason === 'Deferred' ? { ...w.state.resizes, [uid]: { ...wanted, sinceMs } } : null;
  w.state.resizes = pending ?? without(w.state.resizes, uid);
  const shares = podShares(settings, holdingsIn(w.state), uid);
  reply(w, { type: 'allocation.pending', uid, allocation, refusal, ...shares });
}

/** Retries waiting pods and resizes, the most urgent first, after resources became free or time passed. */
export function retry(w: Work): void {
  const pending = Object.values(w.state.resizes).map((each) => ({
    ...each,
    increases: increases(w.state.grants[each.request.uid], each.request),
  }));
  for (const wanted of pending.toSorted(byUrgency)) {
    const granted = w.state.grants[wanted.request.uid];
    if (granted) change(w, { request: wanted.request, allocation: wanted.allocation }, granted);
    else w.state.resizes = without(w.state.resizes, wanted.request.uid);
  }
}

const increases = (grant: Grant | undefined, { demand }: AdmissionRequest): boolean =>
  ['cpu', 'memory'].some((name) => BigInt(demand.requests[name] ?? '0') > BigInt(grant?.demand.requests[name] ?? '0'));

export function retryUnjudged(w: Work): void {
  for (const wanted of Object.values(w.state.unjudged)) {
    if (w.state.grants[wanted.request.uid]) checkRecalled(w, wanted);
    else handleNew(w, wanted);
  }
}
