/** Sets of NUMA nodes and what is hinted about them. Pure. Upstream: topologymanager/bitmask. */
import type { NumaSet } from '../operations/grants.ts';

/** Where resources could come from. `nodes: null`: from anywhere. */
export interface NumaHint {
  readonly nodes: NumaSet | null;
  /** Nothing narrower could do. */
  readonly preferred: boolean;
}

/** The sets that are not empty, the smallest first; of one size in the order of their ids. */
export function subsetsOf(nodes: NumaSet): readonly NumaSet[] {
  const all = nodes.reduce<readonly NumaSet[]>((sets, node) => [...sets, ...sets.map((set) => [...set, node])], [[]]);
  return all.filter((set) => set.length > 0).toSorted((a, b) => a.length - b.length || byIds(a, b));
}

function byIds(a: NumaSet, b: NumaSet): number {
  const at = a.findIndex((id, index) => id !== b[index]);
  return at < 0 ? 0 : a[at]! - b[at]!;
}

export const isSameSet = (a: NumaSet, b: NumaSet): boolean =>
  a.length === b.length && a.every((id, at) => id === b[at]);

export const contains = (set: NumaSet, part: NumaSet): boolean => part.every((id) => set.includes(id));

/** Of two sets of one size the one whose highest nodes are lower, as numbers of bits compare. */
export function isLess(a: NumaSet, b: NumaSet): boolean {
  const [high, other] = [a.filter((id) => !b.includes(id)).at(-1), b.filter((id) => !a.includes(id)).at(-1)];
  return other !== undefined && (high === undefined || high < other);
}

/** Fewer nodes, or as many and lower ones. */
export const isNarrower = (a: NumaSet, b: NumaSet): boolean =>
  a.length === b.length ? isLess(a, b) : a.length < b.length;
