/**
 * Decides about admission and resizing of pods. Pure.
 *
 * Upstream: pkg/kubelet/allocation. Invariant: an admitted pod is counted with its granted resources, never with those
 * that it requests now.
 */

import type { PodDemand } from '../operations/grants.ts';
import type { NodeView, Rejection } from './node-view.ts';
import { checkPredicates, outOf } from './predicates.ts';
import { type Candidate, choose } from './preemption.ts';
import type { AdmissionRequest } from './request.ts';

export type Admission =
  | { readonly rejection: Rejection; readonly victims?: undefined; readonly shortOf?: undefined }
  /** Admitted once the victims have ended; `shortOf` is the resource that was short. */
  | { readonly rejection: null; readonly victims: readonly string[]; readonly shortOf?: string };

const refused = (rejection: Rejection): Admission => ({ rejection });

export function admit(request: AdmissionRequest, node: NodeView, active: readonly Candidate[]): Admission {
  const others = active.filter(({ uid }) => uid !== request.uid);
  const { early, shortages, mismatch, late } = checkPredicates(
    request,
    node,
    others.map(({ demand }) => demand),
  );
  if (early !== null) return refused(early);
  const [first] = shortages;
  if (!request.demand.isCritical) {
    return answer((first === undefined ? mismatch : outOf(first)) ?? late, []);
  }
  if (mismatch !== null) return refused(mismatch);
  if (first === undefined) return answer(late, []);
  const preemption = choose(request.demand, others, shortages);
  return 'error' in preemption
    ? refused(unexpected(preemption.error))
    : answer(late, preemption.victims, first.resource);
}

const answer = (rejection: Rejection | null, victims: readonly string[], shortOf?: string): Admission =>
  rejection === null ? { rejection, victims, ...(shortOf === undefined ? {} : { shortOf }) } : { rejection };

const unexpected = (error: string): Rejection => ({
  reason: 'UnexpectedAdmissionError',
  message: `Unexpected error while attempting to recover from admission failure: ${error}`,
});

/** Why a resize is not granted: a `Deferred` one may be granted later, an `Infeasible` one never. */
export interface ResizeRefusal {
  readonly reason: 'Deferred' | 'Infeasible';
  /** The cause, as the event names it. */
  readonly cause: string;
  readonly message: string;
}

export const infeasible = (message: string): ResizeRefusal => ({ reason: 'Infeasible', cause: 'Infeasible', message });

/** `wholeNode`: allocatable without the eviction reserve, the maximum that pods could have. */
export function resize(
  request: AdmissionRequest,
  node: NodeView,
  wholeNode: Readonly<Record<string, string>>,
  active: readonly Candidate[],
): ResizeRefusal | null {
  if (request.rules.isStatic) return infeasible('In-place resize of static-pods is not supported');
  const beyond = ['memory', 'cpu'].find((name) => amount(request.demand, name) > BigInt(wholeNode[name] ?? '0'));
  if (beyond !== undefined) {
    const shortage = `${beyond}, requested: ${amount(request.demand, beyond)}, capacity: ${wholeNode[beyond] ?? '0'}`;
    return infeasible(`Node didn't have enough capacity: ${shortage}`);
  }
  const others = active.filter(({ uid }) => uid !== request.uid).map(({ demand }) => demand);
  const { early, shortages, mismatch, late } = checkPredicates(request, node, others);
  const first = shortages[0] === undefined ? null : outOf(shortages[0]);
  const rejection = early ?? first ?? mismatch ?? late;
  return rejection === null ? null : { reason: 'Deferred', cause: rejection.reason, message: rejection.message };
}

const amount = ({ requests }: PodDemand, name: string): bigint => BigInt(requests[name] ?? '0');

interface Pending {
  readonly request: AdmissionRequest;
  readonly increases: boolean;
  readonly sinceMs: number;
}

const QOS_RANK = { Guaranteed: 0, Burstable: 1, BestEffort: 2 } as const;

/** Resizes that need no more resources come first; then by priority, QoS class, and waiting time. */
export const byUrgency = (a: Pending, b: Pending): number =>
  Number(a.increases) - Number(b.increases) ||
  (b.request.demand.priority ?? 0) - (a.request.demand.priority ?? 0) ||
  QOS_RANK[a.request.demand.qos] - QOS_RANK[b.request.demand.qos] ||
  a.sinceMs - b.sinceMs;
