/** Why a node of 0.2.0, which had no resource drivers, ran no pod with claims: needed to replay its journals. Pure. */
import type { Pod } from '../api/pod.ts';

/** `null`: the pod waits for no claim. */
export function claimRefusal({ spec, status }: Pod): string | null {
  const wanted = (spec.resourceClaims ?? []).filter(({ name, resourceClaimName }) => {
    const made = status?.resourceClaimStatuses?.find((each) => each.name === name);
    // No claim was created, because there was nothing to allocate.
    return resourceClaimName !== undefined || made === undefined || (made.resourceClaimName ?? null) !== null;
  });
  const names = wanted.map(({ name }) => name);
  const extended = status?.extendedResourceClaimStatus?.resourceClaimName;
  const all = extended === undefined ? names : [...names, extended];
  return all.length === 0 ? null : `no resource driver is registered for the claims [${all.join(' ')}]`;
}
