/**
 * Which CPUs a container gets so that it shares as little of the machine as it can: whole NUMA nodes and sockets first,
 * then whole cores, then single threads, each from where the fewest are free. Pure.
 *
 * Upstream: cpumanager/cpu_assignment.go (takeByTopologyNUMAPacked).
 */
import type { Cpu } from '../settings/resource-managers.ts';
import type { Rejection } from './predicates.ts';

/** The part of the machine that a CPU belongs to. */
export type Part = (cpu: Cpu) => string;

const numaNodeOf: Part = ({ numaNode }) => `${numaNode}`;
const socketOf: Part = ({ socket }) => `${socket}`;
export const coreOf: Part = ({ socket, core }) => `${socket}/${core}`;

const partsIn = (cpus: readonly Cpu[], part: Part): number => new Set(cpus.map(part)).size;

/** The free ones of `all` in the order in which they are taken. */
export type Order = (all: readonly Cpu[], free: readonly Cpu[], parts: readonly Part[]) => readonly Cpu[];

/** `wanted` of the `available` CPUs, ascending; `null`: there are fewer. */
export function pack(
  cpus: readonly Cpu[],
  available: readonly number[],
  wanted: number,
  inOrder: Order = byNumber,
): readonly number[] | null {
  if (available.length < wanted) return null;
  const wide = partsIn(cpus, socketOf) >= partsIn(cpus, numaNodeOf) ? [numaNodeOf, socketOf] : [socketOf, numaNodeOf];
  const parts = [...wide, coreOf];
  const taken = new Set<number>();
  const free = (): readonly Cpu[] =>
    inOrder(
      cpus,
      cpus.filter(({ id }) => available.includes(id) && !taken.has(id)),
      parts,
    );
  for (const part of parts) {
    for (const whole of wholeParts(cpus, free(), part)) {
      if (whole.length <= wanted - taken.size) for (const { id } of whole) taken.add(id);
    }
  }
  for (const { id } of free().slice(0, wanted - taken.size)) taken.add(id);
  return [...taken].toSorted((a, b) => a - b);
}

/** Parts of which every CPU is free, in the order of the free ones. */
function wholeParts(cpus: readonly Cpu[], free: readonly Cpu[], part: Part): readonly (readonly Cpu[])[] {
  const sizes = Map.groupBy(cpus, part);
  return [...Map.groupBy(free, part)].flatMap(([name, members]) =>
    members.length === sizes.get(name)?.length ? [members] : [],
  );
}

/** Parts with the fewest free CPUs come first, so that whole ones stay whole; of like ones that of the lower number. */
export const byNumber: Order = (all, free, parts) => {
  const numbers = new Map(parts.map((part) => [part, numbersOf(all, part)]));
  return ranked(free, parts, (part, name) => numbers.get(part)!.get(name)!);
};

/** Parts with the fewest free CPUs come first, of like ones that with the lowest `tie`. */
export function ranked(
  free: readonly Cpu[],
  parts: readonly Part[],
  tie: (part: Part, name: string, members: readonly Cpu[]) => number,
): readonly Cpu[] {
  const ranks = parts.map((part) => {
    const members = Map.groupBy(free, part);
    const rank = new Map([...members].map(([name, cpus]) => [name, [cpus.length, tie(part, name, cpus)]]));
    return (cpu: Cpu): readonly number[] => rank.get(part(cpu))!;
  });
  const rankedCpus = free.map((cpu) => ({ cpu, rank: [...ranks.flatMap((rank) => rank(cpu)), cpu.id] }));
  return rankedCpus.toSorted((a, b) => firstDifference(a.rank, b.rank)).map(({ cpu }) => cpu);
}

/** NUMA nodes and sockets have numbers; a core has that of its first CPU, free or not. */
function numbersOf(all: readonly Cpu[], part: Part): ReadonlyMap<string, number> {
  const numbers = new Map<string, number>();
  for (const cpu of all) {
    const [name, number] = [part(cpu), part === coreOf ? cpu.id : Number(part(cpu))];
    numbers.set(name, Math.min(number, numbers.get(name) ?? number));
  }
  return numbers;
}

const firstDifference = (a: readonly number[], b: readonly number[]): number =>
  a.map((value, at) => value - b[at]!).find((difference) => difference !== 0) ?? 0;

export const threadsPerCore = (cpus: readonly Cpu[]): number =>
  Math.max(1, Math.floor(cpus.length / partsIn(cpus, coreOf)));

/** What could not be had when those of the wanted nodes were taken. */
export function shortage(requested: number, available: number): Rejection {
  const cause = `not enough cpus available to satisfy request: requested=${requested}, available=${available}`;
  return { reason: 'UnexpectedAdmissionError', message: `Allocate failed due to ${cause}, which is unexpected` };
}

/** Why so many CPUs are not taken, when only whole cores are given. */
export function alignmentError(cpus: readonly Cpu[], requested: number, available: number): Rejection {
  const threads = threadsPerCore(cpus);
  const cause =
    requested % threads !== 0
      ? `requested ${requested} cpus not multiple cpus per core = ${threads}`
      : `not enough free physical CPUs: available physical CPUs = ${available}, requested CPUs = ${requested}, ` +
        `CPUs per core = ${threads}`;
  return { reason: 'SMTAlignmentError', message: `SMT Alignment Error: ${cause}` };
}
