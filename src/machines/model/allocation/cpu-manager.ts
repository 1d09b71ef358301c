/**
 * The CPU manager's `static` policy: which containers have CPUs of their own, and what is left for all others. Pure.
 *
 * Upstream: cpumanager/policy_static.go. Invariants: no CPU is of two pods; reserved CPUs are of none; what an init
 * container had is used again by those after it.
 */
import type { ExclusiveCpus, NumaSet } from '../operations/grants.ts';
import type { Cpu, CpuManagerSettings } from '../settings/resource-managers.ts';
import { formatCpuSet, parseCpuSet } from '../values/cpu-set.ts';
import { MILLI } from '../values/quantity.ts';
import type { Rejection } from './predicates.ts';
import { type NumaHint, subsetsOf } from './topology-manager.ts';

/** The CPUs of a pod: of single containers, and of the rest of them. */
export interface PodCpus {
  readonly exclusive: ExclusiveCpus;
  readonly shared: string;
}

/** What a container runs on; empty: on all. */
export const cpusOf = (cpus: PodCpus | null, container: string): string =>
  cpus === null ? '' : (cpus.exclusive[container] ?? cpus.shared);

interface Granted {
  readonly cpus?: ExclusiveCpus;
}

const idsIn = (cpus: ExclusiveCpus): readonly number[] =>
  Object.values(cpus).flatMap((text) => {
    const parsed = parseCpuSet(text);
    return parsed.error === undefined ? parsed.value : [];
  });

function freeCpus({ cpus }: CpuManagerSettings, grants: readonly Granted[]): readonly number[] {
  const taken = new Set(grants.flatMap((grant) => idsIn(grant.cpus ?? {})));
  return cpus.map(({ id }) => id).filter((id) => !taken.has(id));
}

/** What containers without CPUs of their own run on; empty when nothing is left. */
export function sharedCpus(settings: CpuManagerSettings, grants: readonly Granted[]): string {
  const free = freeCpus(settings, grants);
  const shared = settings.isReservationStrict ? free.filter((id) => !settings.reserved.includes(id)) : free;
  return formatCpuSet(shared);
}

/** CPUs that containers may have for themselves. */
export const allocatableCpus = ({ cpus, reserved }: CpuManagerSettings): readonly number[] =>
  cpus.map(({ id }) => id).filter((id) => !reserved.includes(id));

/** What a pod has so far, while its containers are given their CPUs one after the other. */
export interface CpuProgress {
  readonly cpus: ExclusiveCpus;
  /** CPUs of init containers that have ended, and that no later container took. */
  readonly reusable: readonly number[];
}

/** Out of what a container is given CPUs: the machine's, without what others hold, with what its pod has so far. */
interface CpuBooks {
  readonly settings: CpuManagerSettings;
  readonly grants: readonly Granted[];
  readonly progress: CpuProgress;
}

interface CpuRequest {
  readonly container: string;
  readonly isInit: boolean;
  /** How many of its own. */
  readonly cpus: number;
}

/** CPUs for one container of a pod; of `nodes` as many as they have. */
export function allocateCpus(
  { settings, grants, progress: { cpus, reusable } }: CpuBooks,
  { container, isInit, cpus: count }: CpuRequest,
  nodes: NumaSet | null,
): CpuProgress | { readonly rejection: Rejection } {
  const free = assignable(settings, [...grants, { cpus }]);
  const own = choose(settings, count, { reusable, free, nodes });
  if ('rejection' in own) return own;
  const others = reusable.filter((id) => !own.ids.includes(id));
  const left = isInit ? [...others, ...own.ids] : others;
  return { cpus: { ...cpus, [container]: formatCpuSet(own.ids) }, reusable: left };
}

/** Where so many CPUs could come from, the narrowest first. */
export function cpuHints(
  { settings, grants, progress: { cpus, reusable } }: CpuBooks,
  count: number,
): readonly NumaHint[] {
  const nodeOf = new Map(settings.cpus.map(({ id, numaNode }) => [id, numaNode]));
  const countIn = (ids: readonly number[], nodes: NumaSet): number =>
    ids.filter((id) => nodes.includes(nodeOf.get(id)!)).length;
  const all = [...new Set(nodeOf.values())].toSorted((a, b) => a - b);
  const sets = subsetsOf(all);
  const ids = [...nodeOf.keys()];
  const fewest = sets.find((nodes) => countIn(ids, nodes) >= count)?.length ?? all.length;
  const free = assignable(settings, [...grants, { cpus }]);
  return sets
    .filter((nodes) => countIn(reusable, nodes) === reusable.length)
    .filter((nodes) => reusable.length + countIn(free, nodes) >= count)
    .map((nodes) => ({ nodes, preferred: nodes.length === fewest }));
}

/** CPUs that a container could still have for itself. */
function assignable(settings: CpuManagerSettings, grants: readonly Granted[]): readonly number[] {
  const allocatable = new Set(allocatableCpus(settings));
  return freeCpus(settings, grants).filter((id) => allocatable.has(id));
}

interface Choice {
  readonly reusable: readonly number[];
  readonly free: readonly number[];
  readonly nodes: NumaSet | null;
}

type Chosen = { readonly ids: readonly number[] } | { readonly rejection: Rejection };

/** Those of the wanted nodes first. What an init container has had is as good as what is free. */
function choose(settings: CpuManagerSettings, count: number, { reusable, free, nodes }: Choice): Chosen {
  const { cpus } = settings;
  const rejection = settings.wholeCores ? misaligned(settings, count, free) : null;
  if (rejection !== null) return { rejection };
  const pool = [...new Set([...free, ...reusable])];
  const nodeOf = new Map(cpus.map(({ id, numaNode }) => [id, numaNode]));
  const aligned = nodes === null ? [] : pool.filter((id) => nodes.includes(nodeOf.get(id)!));
  const first = pack(cpus, aligned, Math.min(count, aligned.length)) ?? [];
  const rest = pool.filter((id) => !first.includes(id));
  const second = pack(cpus, rest, count - first.length);
  if (second === null) return { rejection: shortage(count - first.length, rest.length) };
  return { ids: [...first, ...second].toSorted((a, b) => a - b) };
}

const threadsPerCore = (cpus: readonly Cpu[]): number =>
  Math.max(1, Math.floor(cpus.length / new Set(cpus.map(coreOf)).size));

/** What could not be had when those of the wanted nodes were taken. */
function shortage(requested: number, available: number): Rejection {
  const cause = `not enough cpus available to satisfy request: requested=${requested}, available=${available}`;
  return { reason: 'UnexpectedAdmissionError', message: `Allocate failed due to ${cause}, which is unexpected` };
}

/**
 * Why so many CPUs are no whole cores, as upstream counts them: not those of a core of which a CPU is reserved, and not
 * what the pod's init containers have had. `null`: they may be.
 */
function misaligned({ cpus, reserved }: CpuManagerSettings, count: number, free: readonly number[]): Rejection | null {
  const threads = threadsPerCore(cpus);
  const kept = new Set(cpus.filter(({ id }) => reserved.includes(id)).map(coreOf));
  const available = cpus.filter((cpu) => free.includes(cpu.id) && !kept.has(coreOf(cpu))).length;
  if (count % threads === 0 && count <= available) return null;
  const cause =
    count % threads !== 0
      ? `requested ${count} cpus not multiple cpus per core = ${threads}`
      : `not enough free physical CPUs: available physical CPUs = ${available}, requested CPUs = ${count}, ` +
        `CPUs per core = ${threads}`;
  return { reason: 'SMTAlignmentError', message: `SMT Alignment Error: ${cause}` };
}

/** Reserved CPUs by number, or else as many as the reserved time needs. */
export function reservedCpus(cpus: readonly Cpu[], list: string, milli: bigint): readonly number[] {
  const named = parseCpuSet(list);
  if (list !== '' && named.error === undefined) return named.value;
  const wanted = Number((milli + MILLI - 1n) / MILLI);
  return (
    pack(
      cpus,
      cpus.map(({ id }) => id),
      wanted,
    ) ?? cpus.map(({ id }) => id)
  );
}

/** The part of the machine that a CPU belongs to. */
type Part = (cpu: Cpu) => string;

const numaNodeOf: Part = ({ numaNode }) => `${numaNode}`;
const socketOf: Part = ({ socket }) => `${socket}`;
/**
 * Which CPUs a container gets so that it shares as little of the machine as it can: whole NUMA nodes and sockets first,
 * then whole cores, then single threads, each from where the fewest are free. Pure.
 *
 * Upstream: cpumanager/cpu_assignment.go (takeByTopologyNUMAPacked).
 */
const coreOf: Part = ({ socket, core }) => `${socket}/${core}`;

const partsIn = (cpus: readonly Cpu[], part: Part): number => new Set(cpus.map(part)).size;

/** `wanted` of the `available` CPUs, ascending; `null`: there are fewer. */
export function pack(cpus: readonly Cpu[], available: readonly number[], wanted: number): readonly number[] | null {
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
function inOrder(all: readonly Cpu[], free: readonly Cpu[], parts: readonly Part[]): readonly Cpu[] {
  const ranks = parts.map((part) => {
    const members = Map.groupBy(free, part);
    const numbers = numbersOf(all, part);
    return (cpu: Cpu): readonly [count: number, number: number] => [
      members.get(part(cpu))!.length,
      numbers.get(part(cpu))!,
    ];
  });
  const ranked = free.map((cpu) => ({ cpu, rank: [...ranks.flatMap((rank) => rank(cpu)), cpu.id] }));
  return ranked.toSorted((a, b) => firstDifference(a.rank, b.rank)).map(({ cpu }) => cpu);
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
