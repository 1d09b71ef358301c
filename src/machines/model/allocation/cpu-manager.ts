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
export function allocatableCpus({ cpus, reserved, wholeCores }: CpuManagerSettings): readonly number[] {
  const cores = new Set(cpus.filter(({ id }) => wholeCores && reserved.includes(id)).map(coreOf));
  return cpus.filter((cpu) => !reserved.includes(cpu.id) && !cores.has(coreOf(cpu))).map(({ id }) => id);
}

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
  if (own === null) return { rejection: shortage(settings, count, free.length + reusable.length) };
  const others = reusable.filter((id) => !own.includes(id));
  return { cpus: { ...cpus, [container]: formatCpuSet(own) }, reusable: isInit ? [...others, ...own] : others };
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

/** Those of the wanted nodes first, and of them what an init container has had. */
function choose(
  { cpus, wholeCores }: CpuManagerSettings,
  count: number,
  { reusable, free, nodes }: Choice,
): readonly number[] | null {
  if (wholeCores && count % threadsPerCore(cpus) !== 0) return null;
  const aligned = new Set(
    cpus.filter(({ numaNode }) => nodes === null || nodes.includes(numaNode)).map(({ id }) => id),
  );
  const pools = [reusable, free].map((ids) => ids.filter((id) => aligned.has(id)));
  const rest = [reusable, free].map((ids) => ids.filter((id) => !aligned.has(id)));
  let own: readonly number[] = [];
  for (const pool of [...pools, ...rest]) {
    own = [...own, ...(pack(cpus, pool, Math.min(count - own.length, pool.length)) ?? [])];
  }
  return own.length < count ? null : own.toSorted((a, b) => a - b);
}

const threadsPerCore = (cpus: readonly Cpu[]): number =>
  Math.max(1, Math.floor(cpus.length / new Set(cpus.map(coreOf)).size));

function shortage({ cpus, wholeCores }: CpuManagerSettings, requested: number, available: number): Rejection {
  const threads = threadsPerCore(cpus);
  if (!wholeCores) {
    const cause = `not enough cpus available to satisfy request: requested=${requested}, available=${available}`;
    const message = `Allocate failed due to ${cause}, which is unexpected`;
    return { reason: 'UnexpectedAdmissionError', message };
  }
  const isUneven = requested % threads !== 0;
  const cause = isUneven
    ? `requested ${requested} cpus not multiple cpus per core = ${threads}`
    : `not enough free physical CPUs: available physical CPUs = ${available}, requested CPUs = ${requested}, ` +
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
