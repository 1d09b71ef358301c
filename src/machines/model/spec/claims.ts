/** Devices that a scheduler has allocated to a pod (dynamic resource allocation). Pure. */
import type { Pod } from '../api/pod.ts';

/**
 * Why a pod cannot have its devices here; `null` when it waits for none. Only a resource driver could prepare them, and
 * this node takes none: a container without the device that it asks for must not run as if it had it.
 */
export function claimRefusal({ spec, status }: Pod): string | null {
  const wanted = (spec.resourceClaims ?? []).filter(({ name, resourceClaimName }) => {
    const made = status?.resourceClaimStatuses?.find((each) => each.name === name);
    // Made without a claim: there was nothing to allocate.
    return resourceClaimName !== undefined || made === undefined || (made.resourceClaimName ?? null) !== null;
  });
  const names = wanted.map(({ name }) => name);
  const extended = status?.extendedResourceClaimStatus?.resourceClaimName;
  const all = extended === undefined ? names : [...names, extended];
  return all.length === 0 ? null : `no resource driver is registered for the claims [${all.join(' ')}]`;
}
