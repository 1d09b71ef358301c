/**
 * Assigns CPUs: packed on few parts of the machine, or the same number from each NUMA node. Pure.
 *
 * Packed CPUs are chosen so that a container shares as few parts of the machine as possible: whole NUMA nodes and
 * sockets first, then whole cores, then single threads, each from the part with the fewest free ones. With the option
 * `prefer-align-cpus-by-uncorecache`, shared caches come between nodes and cores; with `distribute-cpus-across-cores`,
 * threads are taken in the order of their numbers, which spreads them over cores. With the option
 * `distribute-cpus-across-numa`, if one NUMA node is not enough, the same number comes from each node, so that no part
 * of a program is slower than the rest.
 *
 * Upstream: KEP-2902; cpumanager/cpu_assignment.go (takeByTopologyNUMAPacked, takeByTopologyNUMADistributed). On
 * machines with more than four nodes upstream sometimes does not take the best nodes that it found, because it
 * overwrites the slice that holds them.
 */
import type { Cpu } from '../settings/node-settings.ts';
import type { Rejection } from './request.ts';
import { firstDifference } from './topology-manager.ts';

/** The part of the machine that a CPU belongs to. */
export type Part = (cpu: Cpu) => string;

const numaNodeOf: Part = ({ numaNode }) => `${numaNode}`;
const socketOf: Part = ({ socket }) => `${socket}`;
export const coreOf: Part = ({ socket, core }) => `${socket}/${core}`;

/** The cache of a CPU. If no cores of its node share a cache, upstream uses the socket. */
const cacheOf: Part = ({ cache, socket }) => `${cache ?? socket}`;

const partsIn = (cpus: readonly Cpu[], part: Part): number => new Set(cpus.map(part)).size;

/** Orders free CPUs of `all` in the order of assignment. */
export type Order = (all: readonly Cpu[], free: readonly Cpu[], parts: readonly Part[]) => readonly Cpu[];

interface Packing {
  /** Default: {@link byNumber}. */
  readonly inOrder?: Order;
  readonly byCache?: boolean;
  readonly isSpread?: boolean;
}

/** Chooses `wanted` of the `available` CPUs, ascending; `null` if there are fewer. */
export function pack(
  cpus: readonly Cpu[],
  available: readonly number[],
  wanted: number,
  { inOrder = byNumber, byCache = false, isSpread = false }: Packing = {},
): readonly number[] | null {
  if (available.length < wanted) return null;
  const wide = wideParts(cpus);
  const parts = isSpread ? wide : [...wide, coreOf];
  const taken = new Set<number>();
  const free = (): readonly Cpu[] =>
    inOrder(
      cpus,
      cpus.filter(({ id }) => available.includes(id) && !taken.has(id)),
      parts,
    );
  const work = { cpus, taken, wanted, free };
  for (const part of parts) {
    if (part === coreOf && byCache) takeOfCaches(work);
    takeWhole(work, free(), part);
  }
  const rest = isSpread ? inOrder(cpus, free(), wide.slice(0, wide.indexOf(socketOf) + 1)) : free();
  take(work, rest.slice(0, wanted - taken.size));
  return [...taken].toSorted((a, b) => a - b);
}

/** NUMA nodes and sockets, the larger parts first. */
const wideParts = (cpus: readonly Cpu[]): readonly Part[] =>
  partsIn(cpus, socketOf) >= partsIn(cpus, numaNodeOf) ? [numaNodeOf, socketOf] : [socketOf, numaNodeOf];

/** The NUMA nodes of free CPUs, in the order of assignment. */
function nodesInOrder(cpus: readonly Cpu[], available: readonly number[]): readonly number[] {
  const free = cpus.filter(({ id }) => available.includes(id));
  return [...new Set(byNumber(cpus, free, [...wideParts(cpus), coreOf]).map(({ numaNode }) => numaNode))];
}

interface Work {
  readonly cpus: readonly Cpu[];
  readonly taken: Set<number>;
  readonly wanted: number;
  free(): readonly Cpu[];
}

const missing = ({ wanted, taken }: Work): number => wanted - taken.size;

function take({ taken }: Work, cpus: readonly Cpu[]): void {
  for (const { id } of cpus) taken.add(id);
}

function takeWhole(work: Work, free: readonly Cpu[], part: Part): void {
  for (const whole of wholeParts(work.cpus, free, part)) if (whole.length <= missing(work)) take(work, whole);
}

/** Takes whole caches; then the rest from one cache, if one has enough. */
function takeOfCaches(work: Work): void {
  const size = Math.floor(work.cpus.length / partsIn(work.cpus, cacheOf));
  for (const cache of cachesInOrder(work.free())) {
    if (missing(work) >= size) {
      const free = work.free();
      const inCaches = cachesInOrder(free).flatMap((name) => free.filter((cpu) => cacheOf(cpu) === name));
      takeWhole(work, inCaches, cacheOf);
    }
    const rest = missing(work) === 0 ? [] : coresOfCache(work, cache);
    if (rest.length === missing(work)) take(work, rest);
    if (missing(work) === 0) return;
  }
}

/** Caches node by node, those with the fewest free CPUs first. */
function cachesInOrder(free: readonly Cpu[]): readonly string[] {
  const ofCache = Map.groupBy(free, cacheOf);
  const sizeOf = (cache: string): number => ofCache.get(cache)?.length ?? 0;
  return [...Map.groupBy(free, numaNodeOf).values()].flatMap((inNode) =>
    [...new Set(inNode.map(cacheOf))].toSorted((a, b) => sizeOf(a) - sizeOf(b) || Number(a) - Number(b)),
  );
}

/** Free CPUs of as many cores as needed; for an odd number the last thread is left over. */
function coresOfCache(work: Work, cache: string): readonly Cpu[] {
  const threads = threadsPerCore(work.cpus);
  const numberOf = numbersIn(work.cpus, coreOf);
  const free = work.free();
  const cores = [...new Set(free.filter((cpu) => cacheOf(cpu) === cache).map(coreOf))]
    .toSorted((a, b) => numberOf(a) - numberOf(b))
    .slice(0, Math.ceil(missing(work) / threads));
  const found = free.filter((cpu) => cores.includes(coreOf(cpu))).toSorted((a, b) => a.id - b.id);
  const isOdd = threads > 1 && missing(work) % 2 !== 0;
  return isOdd && found.length > missing(work) ? found.slice(0, -1) : found;
}

/** Parts whose CPUs are all free, in the order of the free ones. */
function wholeParts(cpus: readonly Cpu[], free: readonly Cpu[], part: Part): readonly (readonly Cpu[])[] {
  const sizes = Map.groupBy(cpus, part);
  return [...Map.groupBy(free, part)].flatMap(([name, members]) =>
    members.length === sizes.get(name)?.length ? [members] : [],
  );
}

/** Parts with the fewest free CPUs come first, so that whole ones stay whole; on a tie the lower number. */
const byNumber: Order = (all, free, parts) => {
  const numberOf = new Map(parts.map((part) => [part, numbersIn(all, part)]));
  return ranked(free, parts, (part, name) => numberOf.get(part)?.(name) ?? 0);
};

/** Parts with the fewest free CPUs come first, on a tie the one with the lowest `tie`. */
export function ranked(
  free: readonly Cpu[],
  parts: readonly Part[],
  tie: (part: Part, name: string, members: readonly Cpu[]) => number,
): readonly Cpu[] {
  const ranks = parts.map((part) => {
    const members = Map.groupBy(free, part);
    const rank = new Map([...members].map(([name, cpus]) => [name, [cpus.length, tie(part, name, cpus)]]));
    return (cpu: Cpu): readonly number[] => rank.get(part(cpu)) ?? [];
  });
  const rankedCpus = free.map((cpu) => ({ cpu, rank: [...ranks.flatMap((rank) => rank(cpu)), cpu.id] }));
  return rankedCpus.toSorted((a, b) => firstDifference(a.rank, b.rank)).map(({ cpu }) => cpu);
}

/** NUMA nodes and sockets have numbers; a core has the number of its first CPU, free or not. */
function numbersIn(all: readonly Cpu[], part: Part): (name: string) => number {
  const numbers = new Map<string, number>();
  for (const cpu of all) {
    const [name, number] = [part(cpu), part === coreOf ? cpu.id : Number(part(cpu))];
    numbers.set(name, Math.min(number, numbers.get(name) ?? number));
  }
  return (name) => numbers.get(name) ?? 0;
}

export const threadsPerCore = (cpus: readonly Cpu[]): number =>
  Math.max(1, Math.floor(cpus.length / partsIn(cpus, coreOf)));

/** Upstream's rejection if too few CPUs remain after the CPUs of the wanted nodes. */
export function shortage(requested: number, available: number): Rejection {
  const cause = `not enough cpus available to satisfy request: requested=${requested}, available=${available}`;
  return { reason: 'UnexpectedAdmissionError', message: `Allocate failed due to ${cause}, which is unexpected` };
}

/** Upstream's rejection if CPUs are assigned in whole cores only. */
export function alignmentError(cpus: readonly Cpu[], requested: number, available: number): Rejection {
  const threads = threadsPerCore(cpus);
  const cause =
    requested % threads !== 0
      ? `requested ${requested} cpus not multiple cpus per core = ${threads}`
      : `not enough free physical CPUs: available physical CPUs = ${available}, requested CPUs = ${requested}, ` +
        `CPUs per core = ${threads}`;
  return { reason: 'SMTAlignmentError', message: `SMT Alignment Error: ${cause}` };
}

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
