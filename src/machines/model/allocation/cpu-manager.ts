/**
 * The CPU manager's `static` policy: exclusive CPUs of containers, and the shared pool of all others. Pure.
 *
 * Upstream: cpumanager/policy_static.go. Invariants: no CPU is given to two pods; reserved CPUs are never given out;
 * CPUs of an init container are reused by later containers.
 */

import type { ExclusiveCpus, NumaSet } from '../operations/grants.ts';
import type { Cpu, CpuManagerSettings } from '../settings/node-settings.ts';
import { cpuIds, formatCpuSet, parseCpuSet } from '../values/cpu-set.ts';
import { MILLI } from '../values/quantity.ts';
import { valueIn } from '../values/tables.ts';
import { alignmentError, coreOf, distribute, pack, shortage, threadsPerCore } from './cpu-assignment.ts';
import * as released from './released-cpu-choice.ts';
import type { Rejection } from './request.ts';
import { type NumaHint, subsetsOf } from './topology-manager.ts';

/** The CPUs of a pod: exclusive CPUs by container, and the CPUs of its other containers. */
export interface PodCpus {
  readonly exclusive: ExclusiveCpus;
  readonly shared: string;
}

/** The CPUs of a container; empty for all. */
export const cpusOf = (cpus: PodCpus | null, container: string): string =>
  cpus === null ? '' : (valueIn(cpus.exclusive, container) ?? cpus.shared);

interface Granted {
  readonly cpus?: ExclusiveCpus;
}

const idsIn = (cpus: ExclusiveCpus): readonly number[] => Object.values(cpus).flatMap(cpuIds);

function freeCpus({ cpus }: CpuManagerSettings, grants: readonly Granted[]): readonly number[] {
  const taken = new Set(grants.flatMap((grant) => idsIn(grant.cpus ?? {})));
  return cpus.map(({ id }) => id).filter((id) => !taken.has(id));
}

/** The CPUs of containers without exclusive ones; empty when none are left. */
export function sharedCpus(settings: CpuManagerSettings, grants: readonly Granted[]): string {
  const free = freeCpus(settings, grants);
  const shared = settings.isReservationStrict ? free.filter((id) => !settings.reserved.includes(id)) : free;
  return formatCpuSet(shared);
}

/** CPUs that can be assigned exclusively. */
export const allocatableCpus = (settings: CpuManagerSettings): readonly number[] =>
  settings.isAsReleased === true
    ? released.allocatableCpus(settings)
    : settings.cpus.map(({ id }) => id).filter((id) => !settings.reserved.includes(id));

/** The CPUs of a pod so far, while its containers are assigned one after the other. */
export interface CpuProgress {
  readonly cpus: ExclusiveCpus;
  /** CPUs of init containers that have ended and that no later container got. */
  readonly reusable: readonly number[];
}

/** The CPUs to choose from: the CPUs of the machine, of other pods, and of the pod so far. */
interface CpuInventory {
  readonly settings: CpuManagerSettings;
  readonly grants: readonly Granted[];
  readonly progress: CpuProgress;
}

interface CpuRequest {
  readonly container: string;
  readonly isInit: boolean;
  readonly cpus: number;
}

/** Exclusive CPUs for one container of a pod, from `nodes` as far as they suffice. */
export function allocateCpus(
  { settings, grants, progress: { cpus, reusable } }: CpuInventory,
  { container, isInit, cpus: count }: CpuRequest,
  nodes: NumaSet | null,
): CpuProgress | { readonly rejection: Rejection } {
  const free = assignable(settings, [...grants, { cpus }]);
  const choice = (settings.isAsReleased === true ? released.choose : choose)(settings, count, {
    reusable,
    free,
    nodes,
  });
  if ('rejection' in choice) return choice;
  const others = reusable.filter((id) => !choice.ids.includes(id));
  const reusableAfter = isInit ? [...others, ...choice.ids] : others;
  return { cpus: { ...cpus, [container]: formatCpuSet(choice.ids) }, reusable: reusableAfter };
}

/** The NUMA node of a CPU; -1 for an unknown CPU. */
function nodesIn({ cpus }: CpuManagerSettings): (id: number) => number {
  const nodes = new Map(cpus.map(({ id, numaNode }) => [id, numaNode]));
  return (id) => nodes.get(id) ?? -1;
}

/** The sets of NUMA nodes that have this many CPUs, the narrowest first. */
export function cpuHints(
  { settings, grants, progress: { cpus, reusable } }: CpuInventory,
  count: number,
): readonly NumaHint[] {
  const nodeOf = nodesIn(settings);
  const countIn = (ids: readonly number[], nodes: NumaSet): number =>
    ids.filter((id) => nodes.includes(nodeOf(id))).length;
  const all = [...new Set(settings.cpus.map(({ numaNode }) => numaNode))].toSorted((a, b) => a - b);
  const sets = subsetsOf(all);
  const ids = settings.cpus.map(({ id }) => id);
  const fewest = sets.find((nodes) => countIn(ids, nodes) >= count)?.length ?? all.length;
  const free = assignable(settings, [...grants, { cpus }]);
  return sets
    .filter((nodes) => countIn(reusable, nodes) === reusable.length)
    .filter((nodes) => reusable.length + countIn(free, nodes) >= count)
    .map((nodes) => ({ nodes, preferred: nodes.length === fewest || isOfFewestSockets(settings, nodes, fewest) }));
}

/** With `align-by-socket`: whether the nodes span only as many sockets as `fewest` nodes need. */
function isOfFewestSockets({ cpus, isSocketAligned }: CpuManagerSettings, nodes: NumaSet, fewest: number): boolean {
  const [all, sockets] = [new Set(cpus.map(({ numaNode }) => numaNode)), new Set(cpus.map(({ socket }) => socket))];
  const nodesPerSocket = Math.floor(all.size / sockets.size);
  if (isSocketAligned !== true || nodesPerSocket === 0) return false;
  return socketsOf(cpus, nodes).size === Math.ceil(fewest / nodesPerSocket);
}

/** CPUs that a container could still get. */
function assignable(settings: CpuManagerSettings, grants: readonly Granted[]): readonly number[] {
  const allocatable = new Set(allocatableCpus(settings));
  return freeCpus(settings, grants).filter((id) => allocatable.has(id));
}

export interface Choice {
  readonly reusable: readonly number[];
  readonly free: readonly number[];
  readonly nodes: NumaSet | null;
}

export type Chosen = { readonly ids: readonly number[] } | { readonly rejection: Rejection };

/** CPUs of the wanted nodes first. CPUs of init containers count like free ones. */
function choose(settings: CpuManagerSettings, count: number, { reusable, free, nodes }: Choice): Chosen {
  const rejection = settings.wholeCores ? misaligned(settings, count, free) : null;
  if (rejection !== null) return { rejection };
  const pool = [...new Set([...free, ...reusable])];
  const aligned = nodes === null ? [] : alignedCpus(settings, pool, nodes);
  const first = take(settings, aligned, Math.min(count, aligned.length)) ?? [];
  const rest = pool.filter((id) => !first.includes(id));
  const second = take(settings, rest, count - first.length);
  if (second === null) return { rejection: shortage(count - first.length, rest.length) };
  return { ids: [...first, ...second].toSorted((a, b) => a - b) };
}

/** CPUs of the pool that belong to these nodes or, with `align-by-socket`, to the sockets of these nodes. */
export function alignedCpus(settings: CpuManagerSettings, pool: readonly number[], nodes: NumaSet): readonly number[] {
  const { cpus, isSocketAligned = false } = settings;
  const sockets = socketsOf(cpus, nodes);
  const isAligned = ({ socket, numaNode }: Cpu) => (isSocketAligned ? sockets.has(socket) : nodes.includes(numaNode));
  const aligned = new Set(cpus.filter(isAligned).map(({ id }) => id));
  return pool.filter((id) => aligned.has(id));
}

const socketsOf = (cpus: readonly Cpu[], nodes: NumaSet): ReadonlySet<number> =>
  new Set(cpus.filter(({ numaNode }) => nodes.includes(numaNode)).map(({ socket }) => socket));

/**
 * Why this number of CPUs is not a number of whole cores, counted as upstream: without cores that have a reserved CPU,
 * and without CPUs of the pod's init containers. `null` if it is.
 */
function misaligned({ cpus, reserved }: CpuManagerSettings, count: number, free: readonly number[]): Rejection | null {
  const kept = new Set(cpus.filter(({ id }) => reserved.includes(id)).map(coreOf));
  const available = cpus.filter((cpu) => free.includes(cpu.id) && !kept.has(coreOf(cpu))).length;
  const isWhole = count % threadsPerCore(cpus) === 0;
  return isWhole && count <= available ? null : alignmentError(cpus, count, available);
}

/** Takes this number of CPUs from the pool according to the options; `null` if there are too few. */
function take(
  {
    cpus,
    wholeCores,
    isDistributed = false,
    isCacheAligned = false,
    isSpread = false,
    isAsReleased = false,
  }: CpuChoice,
  pool: readonly number[],
  count: number,
): readonly number[] | null {
  if (isDistributed) return distribute(cpus, pool, count, wholeCores ? threadsPerCore(cpus) : 1);
  return pack(cpus, pool, count, {
    byCache: isCacheAligned,
    isSpread,
    ...(isAsReleased ? { inOrder: released.byFirstFree } : {}),
  });
}

type CpuChoice = Omit<CpuManagerSettings, 'reserved' | 'isReservationStrict'>;

/** The reserved CPUs: the CPUs in the list, or as many as the reserved CPU time needs. */
export function reservedCpus(choice: CpuChoice, list: string, milli: bigint): readonly number[] {
  const named = parseCpuSet(list);
  if (list !== '' && named.error === undefined) return named.value;
  const all = choice.cpus.map(({ id }) => id);
  return take(choice, all, Number((milli + MILLI - 1n) / MILLI)) ?? all;
}
