/**
 * Chooses the pods that a critical pod preempts: as few as possible, best-effort ones first, then those closest to the
 * missing amounts. Pure. Upstream: pkg/kubelet/preemption.
 */

import type { QOSClass } from '../api/pod.ts';
import type { PodDemand } from '../operations/grants.ts';
import type { Shortage } from './node-view.ts';

export interface Candidate {
  readonly uid: string;
  readonly demand: PodDemand;
}

/** The amount of a resource that is still missing. */
interface Need {
  readonly resource: string;
  readonly quantity: bigint;
}

export type Preemption = { readonly victims: readonly string[] } | { readonly error: string };

export function choose(
  preemptor: PodDemand,
  candidates: readonly Candidate[],
  shortages: readonly Shortage[],
): Preemption {
  const needs = shortages.map(({ resource, requested, used, capacity }) => ({
    resource,
    quantity: requested - (capacity - used),
  }));
  const candidatesOf = (qos: QOSClass) =>
    candidates.filter(({ demand }) => demand.qos === qos && isPreemptable(preemptor, demand));
  const [bestEffort, burstable, guaranteed] = [
    candidatesOf('BestEffort'),
    candidatesOf('Burstable'),
    candidatesOf('Guaranteed'),
  ];
  const unmet = without(needs, [...bestEffort, ...burstable, ...guaranteed]);
  if (unmet.length > 0) return { error: notFound(unmet) };
  const fromGuaranteed = closest(guaranteed, without(needs, [...bestEffort, ...burstable]));
  const fromBurstable = closest(burstable, without(needs, [...bestEffort, ...fromGuaranteed]));
  const fromBestEffort = closest(bestEffort, without(needs, [...fromBurstable, ...fromGuaranteed]));
  return { victims: [...fromBestEffort, ...fromBurstable, ...fromGuaranteed].map(({ uid }) => uid) };
}

const notFound = (needs: readonly Need[]): string =>
  'preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: ' +
  `[${needs.map(({ resource, quantity }) => `(res: ${resource}, q: ${quantity}), `).join('')}]`;

/** Critical pods preempt pods that are not critical, and critical ones of a lower priority. */
const isPreemptable = (preemptor: PodDemand, other: PodDemand): boolean =>
  (preemptor.isCritical && !other.isCritical) ||
  (preemptor.priority !== null && other.priority !== null && preemptor.priority > other.priority);

const amount = ({ demand }: Candidate, resource: string): bigint =>
  resource === 'pods' ? 1n : BigInt(demand.requests[resource] ?? '0');

const without = (needs: readonly Need[], gone: readonly Candidate[]): readonly Need[] =>
  needs
    .map(({ resource, quantity }) => ({
      resource,
      quantity: gone.reduce((rest, candidate) => rest - amount(candidate, resource), quantity),
    }))
    .filter(({ quantity }) => quantity > 0n);

/** Repeatedly chooses the pod that leaves the least missing; of equal ones the smaller pod. */
function closest(candidates: readonly Candidate[], needs: readonly Need[]): readonly Candidate[] {
  const chosen: Candidate[] = [];
  const rest = [...candidates];
  for (let open = needs; open.length > 0 && rest.length > 0; open = without(open, chosen.slice(-1))) {
    const best = rest.reduce((found, each) => {
      const difference = distance(each, open) - distance(found, open);
      return difference < 0 || (difference === 0 && isSmaller(each, found)) ? each : found;
    });
    chosen.push(best);
    rest.splice(rest.indexOf(best), 1);
  }
  return chosen;
}

/** The remaining need after a pod, as the sum of squared shares, so that every need counts the same. */
function distance(candidate: Candidate, needs: readonly Need[]): number {
  return needs.reduce((sum, { resource, quantity }) => {
    const open = Number(quantity - amount(candidate, resource));
    return open > 0 ? sum + (open / Number(quantity)) ** 2 : sum;
  }, 0);
}

function isSmaller(a: Candidate, b: Candidate): boolean {
  for (const resource of ['memory', 'cpu']) {
    const difference = amount(a, resource) - amount(b, resource);
    if (difference !== 0n) return difference < 0n;
  }
  return true;
}
