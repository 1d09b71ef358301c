/**
 * Assigns CPUs with the option `distribute-cpus-across-numa`: if one NUMA node is not enough, the same number from each
 * node, so that no part of a program is slower than the rest. Pure.
 *
 * Upstream: KEP-2902; cpumanager/cpu_assignment.go (takeByTopologyNUMADistributed). On machines with more than four
 * nodes upstream sometimes takes other nodes than the best that it found, because it overwrites the slice that holds
 * them.
 */
import type { Cpu } from '../settings/node-settings.ts';
import { nodesInOrder, pack } from './cpu-packing.ts';

type Nodes = readonly number[];
/** By NUMA node, how many CPUs are free. */
type Free = ReadonlyMap<number, number>;

const freeIn = (free: Free, node: number): number => free.get(node) ?? 0;

/** The number of CPUs from each node, and the nodes that provide the rest in turn. */
interface Split {
  readonly nodes: Nodes;
  readonly each: number;
  readonly extra: Nodes;
  /** The remaining imbalance of the nodes; 0 for none. */
  readonly unevenness: number;
}

interface Request {
  readonly cpus: readonly Cpu[];
  readonly free: Free;
  readonly wanted: number;
  /** The number of CPUs that are assigned together: all threads of a core, or one. */
  readonly group: number;
}

/** Chooses `wanted` of the `available` CPUs, ascending, in groups; `null` if there are fewer. */
export function distribute(
  cpus: readonly Cpu[],
  available: readonly number[],
  wanted: number,
  group: number,
): readonly number[] | null {
  if (available.length < wanted) return null;
  const inNodes = Map.groupBy(
    cpus.filter(({ id }) => available.includes(id)),
    ({ numaNode }) => numaNode,
  );
  const free = new Map([...inNodes].map(([node, members]) => [node, members.length]));
  const split =
    wanted === 0 || wanted % group !== 0
      ? null
      : bestSplit({ cpus, free, wanted, group }, nodesInOrder(cpus, available));
  if (split === null) return pack(cpus, available, wanted);
  const taken = new Set<number>();
  for (const [node, count] of shares(split, free, wanted, group)) {
    const inNode = (inNodes.get(node) ?? []).flatMap(({ id }) => (taken.has(id) ? [] : [id]));
    for (const id of pack(cpus, inNode, count) ?? []) taken.add(id);
  }
  return [...taken].toSorted((a, b) => a - b);
}

/**
 * Chooses among the smallest sets of nodes that can provide equal shares: the set that leaves the machine most
 * balanced.
 */
function bestSplit(request: Request, nodes: Nodes): Split | null {
  const { cpus, wanted, group } = request;
  const all = new Set(cpus.map(({ numaNode }) => numaNode)).size;
  const groupsPerNode = Math.ceil(Math.ceil(cpus.length / group) / all);
  const groups = Math.ceil(wanted / group);
  const most = Math.min(groups, nodes.length);
  for (let count = Math.ceil(groups / groupsPerNode); count <= most; count += 1) {
    let best: Split | null = null;
    for (const subset of combinations(nodes, count)) {
      if (best?.unevenness === 0) break;
      const split = splitAmong(request, nodes, subset);
      if (split !== null && split.unevenness < (best?.unevenness ?? Number.POSITIVE_INFINITY)) best = split;
    }
    if (best !== null) return best;
  }
  return null;
}

function splitAmong({ free, wanted, group }: Request, all: Nodes, nodes: Nodes): Split | null {
  const groups = nodes.reduce((sum, node) => sum + Math.floor(freeIn(free, node) / group), 0);
  const each = Math.floor(wanted / nodes.length / group) * group;
  if (groups * group < wanted || nodes.some((node) => freeIn(free, node) < each)) return null;
  const after = new Map(all.map((node) => [node, freeIn(free, node) - (nodes.includes(node) ? each : 0)]));
  const rest = wanted - each * nodes.length;
  if (rest === 0) return { nodes, each, extra: [], unevenness: deviation([...after.values()]) };
  const able = nodes.filter((node) => freeIn(after, node) >= group);
  let best: Split | null = null;
  for (let count = able.length; count >= 1; count -= 1) {
    for (const extra of combinations(able, count)) {
      const freeAfter = new Map(after);
      if (!takeByTurns(freeAfter, extra, rest, group)) continue;
      const unevenness = deviation([...freeAfter.values()]);
      if (best === null || unevenness < best.unevenness) best = { nodes, each, extra, unevenness };
    }
  }
  return best;
}

/** Takes the rest from the nodes, one group at a time; false if they do not have enough. */
function takeByTurns(left: Map<number, number>, nodes: Nodes, rest: number, group: number): boolean {
  let missing = rest;
  while (missing > 0) {
    const before = missing;
    for (const node of nodes) {
      if (missing === 0 || freeIn(left, node) < group) continue;
      left.set(node, freeIn(left, node) - group);
      missing -= group;
    }
    if (missing === before) return false;
  }
  return true;
}

/** The CPUs to take from each node, in order: equal shares, then the rest in turn. */
function shares(
  { nodes, each, extra }: Split,
  free: Free,
  wanted: number,
  group: number,
): (readonly [number, number])[] {
  const freeAfter = new Map([...free].map(([node, count]) => [node, count - (nodes.includes(node) ? each : 0)]));
  const taken = nodes.map((node) => [node, each] as const);
  let missing = wanted - each * nodes.length;
  while (missing > 0) {
    for (const node of extra) {
      if (missing === 0 || freeIn(freeAfter, node) < group) continue;
      freeAfter.set(node, freeIn(freeAfter, node) - group);
      taken.push([node, group]);
      missing -= group;
    }
  }
  return taken;
}

function* combinations(nodes: Nodes, count: number): Generator<Nodes> {
  if (count === 0) yield [];
  else
    for (const [at, node] of nodes.entries()) {
      for (const rest of combinations(nodes.slice(at + 1), count - 1)) yield [node, ...rest];
    }
}

/** Rounded to thousandths, as upstream. */
const rounded = (value: number): number => Math.round(value * 1_000) / 1_000;

function deviation(counts: readonly number[]): number {
  const mean = rounded(counts.reduce((sum, count) => sum + count, 0) / counts.length);
  const squares = counts.reduce((sum, count) => sum + (count - mean) ** 2, 0);
  return rounded(Math.sqrt(squares / counts.length));
}
