/** Resources of which this node has too little left for a pod. */
import type { PodDemand } from '../operations/grants.ts';
import type { NodeView, Rejection, Shortage } from './node-view.ts';

const FIRST = ['cpu', 'memory', 'ephemeral-storage'];
const STANDARD = new Set([...FIRST, 'pods']);

/** Resources that this node does not know are not checked: other components account for them. */
export function shortagesOf(
  { requests }: PodDemand,
  { allocatable }: NodeView,
  others: readonly PodDemand[],
): Shortage[] {
  const checkedNames = Object.keys(requests).filter((name) => STANDARD.has(name) || allocatable[name] !== undefined);
  const rest = checkedNames.filter((name) => !STANDARD.has(name)).toSorted();
  const amounts = [...FIRST.filter((name) => checkedNames.includes(name)), ...rest].flatMap((name) => {
    const requested = BigInt(requests[name] ?? '0');
    const used = others.reduce((sum, each) => sum + BigInt(each.requests[name] ?? '0'), 0n);
    const capacity = BigInt(allocatable[name] ?? '0');
    return requested > 0n && requested > capacity - used ? [{ resource: name, requested, used, capacity }] : [];
  });
  const pods = BigInt(allocatable['pods'] ?? '0');
  const used = BigInt(others.length);
  return used + 1n > pods ? [{ resource: 'pods', requested: 1n, used, capacity: pods }, ...amounts] : amounts;
}

export const outOf = ({ resource, requested, used, capacity }: Shortage): Rejection => ({
  reason: `OutOf${resource}`,
  message: `Node didn't have enough resource: ${resource}, requested: ${requested}, used: ${used}, capacity: ${capacity}`,
});
