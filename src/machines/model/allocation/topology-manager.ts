/**
 * The topology manager: derives from the hints of all managers the NUMA nodes of a container's resources, and whether
 * the policy admits the container. Pure.
 *
 * Upstream: topologymanager/policy.go (HintMerger). Invariants: a preferred answer is one on which all managers agree;
 * of two equally good answers the one with fewer and lower nodes is taken, independent of the order of the hints.
 */
import type { NumaSet } from '../operations/grants.ts';
import type { TopologySettings } from '../settings/node-settings.ts';
import type { Rejection } from './request.ts';

/** Where resources could come from. `nodes: null`: from anywhere. */
export interface NumaHint {
  readonly nodes: NumaSet | null;
  /** No narrower set of nodes would be sufficient. */
  readonly preferred: boolean;
}

/** All non-empty subsets, the smallest first; subsets of one size in the order of their ids. */
export function subsetsOf(nodes: NumaSet): readonly NumaSet[] {
  const all = nodes.reduce<readonly NumaSet[]>((sets, node) => [...sets, ...sets.map((set) => [...set, node])], [[]]);
  return all.filter((set) => set.length > 0).toSorted((a, b) => a.length - b.length || firstDifference(a, b));
}

/** Orders lists of equal length by the first position at which they differ. */
export const firstDifference = (a: readonly number[], b: readonly number[]): number =>
  a.map((value, at) => value - (b[at] ?? value)).find((difference) => difference !== 0) ?? 0;

/** True for two sets with the same nodes. Upstream: topologymanager/bitmask. */
export const isSameSet = (a: NumaSet, b: NumaSet): boolean =>
  a.length === b.length && a.every((id, at) => id === b[at]);

export const contains = (set: NumaSet, part: NumaSet): boolean => part.every((id) => set.includes(id));

/** Of two sets of one size, whether the first is less as a bit mask. */
function isLess(a: NumaSet, b: NumaSet): boolean {
  const [high, other] = [a.filter((id) => !b.includes(id)).at(-1), b.filter((id) => !a.includes(id)).at(-1)];
  return other !== undefined && (high === undefined || high < other);
}

/** Fewer nodes, or as many but lower ones. */
export const isNarrower = (a: NumaSet, b: NumaSet): boolean =>
  a.length === b.length ? isLess(a, b) : a.length < b.length;

/** The hints of one manager, by resource. `null`: any nodes; an empty list: no nodes are possible. */
export type ProviderHints = Readonly<Record<string, readonly NumaHint[] | null>>;

export const MISALIGNED: Rejection = {
  reason: 'TopologyAffinityError',
  message: 'Resources cannot be allocated with Topology locality',
};

const ANYWHERE: NumaHint = { nodes: null, preferred: true };
const NOWHERE: NumaHint = { nodes: null, preferred: false };

/** The nodes for a container's resources, or why the policy rejects the container. */
export function align(
  settings: TopologySettings,
  providers: readonly ProviderHints[],
): NumaHint | { readonly rejection: Rejection } {
  const lists = providers.flatMap((hints): (readonly NumaHint[])[] => {
    const all = Object.values(hints);
    if (all.length === 0) return [[ANYWHERE]];
    return all.map((each) => each ?? [ANYWHERE]).map((each) => (each.length === 0 ? [NOWHERE] : each));
  });
  if (settings.policy === 'single-numa-node') return alignToOne(settings, lists);
  const hint = merge(settings, lists);
  return hint.preferred || settings.policy === 'best-effort' ? hint : { rejection: MISALIGNED };
}

function alignToOne(settings: TopologySettings, lists: readonly (readonly NumaHint[])[]) {
  const isSingleNode = ({ nodes, preferred }: NumaHint): boolean => preferred && (nodes === null || nodes.length === 1);
  const { nodes, preferred } = merge(
    settings,
    lists.map((hints) => hints.filter(isSingleNode)),
  );
  if (!preferred) return { rejection: MISALIGNED };
  return { nodes: nodes?.length === settings.nodes.length ? null : nodes, preferred };
}

/** Merged hints of all managers: the nodes on which they agree. */
interface Merged {
  readonly nodes: NumaSet;
  readonly preferred: boolean;
  /** The intersection of all hints that name nodes so far; `null` if none did. */
  readonly named: NumaSet | null;
}

function merge(settings: TopologySettings, lists: readonly (readonly NumaHint[])[]): NumaHint {
  let merged: readonly Merged[] = [{ nodes: settings.nodes, preferred: true, named: null }];
  for (const hints of lists) merged = distinct(merged.flatMap((before) => hints.map((hint) => joined(before, hint))));
  const fewest = leastNodes(lists);
  const found = merged.filter(({ nodes }) => nodes.length > 0);
  const best = found.reduce<Merged | null>((a, b) => (a === null || isBetter(settings, b, a, fewest) ? b : a), null);
  return best === null ? { nodes: settings.nodes, preferred: false } : { nodes: best.nodes, preferred: best.preferred };
}

function joined({ nodes, preferred, named }: Merged, hint: NumaHint): Merged {
  const { nodes: hinted } = hint;
  if (hinted === null) return { nodes, preferred: preferred && hint.preferred, named };
  const isAgreed = named === null || String(named) === String(hinted);
  return {
    nodes: nodes.filter((node) => hinted.includes(node)),
    preferred: preferred && hint.preferred && isAgreed,
    named: named ?? hinted,
  };
}

/** Drops merged hints that no later hint can distinguish, because there may be very many. */
function distinct(merged: readonly Merged[]): readonly Merged[] {
  const byKey = new Map<string, Merged>();
  for (const each of merged) {
    const key = `${each.nodes.join()}/${each.preferred ? each.named?.join() : '-'}/${each.preferred}`;
    if (!byKey.has(key)) byKey.set(key, each);
  }
  return [...byKey.values()];
}

/** The number of nodes that the manager with the largest need requires at least. */
const leastNodes = (lists: readonly (readonly NumaHint[])[]): number =>
  Math.max(
    0,
    ...lists.map((hints) => {
      const counts = hints.flatMap(({ nodes }) => (nodes === null ? [] : [nodes.length]));
      return counts.length === 0 ? 0 : Math.min(...counts);
    }),
  );

/** Without a preferred answer, one with as many nodes as required is best, then one with slightly fewer. */
function isBetter(settings: TopologySettings, a: Merged, b: Merged, needed: number): boolean {
  if (a.preferred !== b.preferred) return a.preferred;
  const [first, second] = [a.nodes.length, b.nodes.length];
  if (a.preferred || first === second || second > needed) return isBetterSet(settings, a.nodes, b.nodes);
  if (second === needed || first > needed) return false;
  return first > second;
}

function isBetterSet({ policy, distances, nodes: all }: TopologySettings, a: NumaSet, b: NumaSet): boolean {
  if (distances === undefined || policy === 'single-numa-node' || a.length !== b.length) return isNarrower(a, b);
  const first = averageDistance(distances, all, a);
  const second = averageDistance(distances, all, b);
  return first === second ? isLess(a, b) : first < second;
}

function averageDistance(distances: readonly (readonly number[])[], all: NumaSet, nodes: NumaSet): number {
  const at = nodes.map((node) => all.indexOf(node));
  const sum = at.reduce((total, from) => total + at.reduce((row, to) => row + (distances[from]?.[to] ?? 0), 0), 0);
  return sum / nodes.length ** 2;
}
