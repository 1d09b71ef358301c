/**
 * Which CPUs a container gets so that it shares as little of the machine as it can: whole NUMA nodes and sockets first,
 * then whole cores, then single threads, each from where the fewest are free. Pure.
 *
 * Upstream: cpumanager/cpu_assignment.go (takeByTopologyNUMAPacked).
 */
import type { Cpu } from '../settings/resource-managers.ts';

/** The part of the machine that a CPU belongs to. */
type Part = (cpu: Cpu) => string;

const numaNodeOf: Part = ({ numaNode }) => `${numaNode}`;
const socketOf: Part = ({ socket }) => `${socket}`;
export const coreOf: Part = ({ socket, core }) => `${socket}/${core}`;

const partsIn = (cpus: readonly Cpu[], part: Part): number => new Set(cpus.map(part)).size;

/** `wanted` of the `available` CPUs, ascending; `null`: there are fewer. */
export function pack(cpus: readonly Cpu[], available: readonly number[], wanted: number): readonly number[] | null {
  if (available.length < wanted) return null;
  const wide = partsIn(cpus, socketOf) >= partsIn(cpus, numaNodeOf) ? [numaNodeOf, socketOf] : [socketOf, numaNodeOf];
  const parts = [...wide, coreOf];
  const taken = new Set<number>();
  const free = (): readonly Cpu[] =>
    inOrder(
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

/** Parts with the fewest free CPUs come first, so that whole ones stay whole. */
function inOrder(free: readonly Cpu[], parts: readonly Part[]): readonly Cpu[] {
  const ranks = parts.map((part) => {
    const members = Map.groupBy(free, part);
    return (cpu: Cpu): readonly [count: number, first: number] => {
      const ids = (members.get(part(cpu)) ?? []).map(({ id }) => id);
      return [ids.length, Math.min(...ids)];
    };
  });
  const ranked = free.map((cpu) => ({ cpu, rank: [...ranks.flatMap((rank) => rank(cpu)), cpu.id] }));
  return ranked.toSorted((a, b) => firstDifference(a.rank, b.rank)).map(({ cpu }) => cpu);
}

const firstDifference = (a: readonly number[], b: readonly number[]): number =>
  a.map((value, at) => value - b[at]!).find((difference) => difference !== 0) ?? 0;
