/**
 * The CPU manager's `static` policy: which containers have CPUs of their own, and what is left for all others. Pure.
 *
 * Upstream: cpumanager/policy_static.go. Invariants: no CPU is of two pods; reserved CPUs are of none; what an init
 * container had is used again by those after it.
 */
import type { Container, Pod } from '../../api/pod.ts';
import { formatCpuSet, parseCpuSet } from '../../startup/configuration/cpu-set.ts';
import { hasPodLevelResources, podContainers, podQOS } from '../spec/qos.ts';
import { milliUnits, parseQuantity, wholeUnits } from '../spec/quantity.ts';
import { type Cpu, coreOf, pack } from './cpu-packing.ts';
import type { Rejection } from './predicates.ts';

export interface CpuManagerSettings {
  readonly cpus: readonly Cpu[];
  /** Kept for the system: shared by pods, unless `isReservationStrict`, and never of one alone. */
  readonly reserved: readonly number[];
  /** `full-pcpus-only`: no core is shared by two containers. */
  readonly wholeCores: boolean;
  /** `strict-cpu-reservation`. */
  readonly isReservationStrict: boolean;
}

/** A container that is to have CPUs of its own. */
export interface CpuWish {
  readonly container: string;
  readonly count: number;
  /** It has ended before the next one begins. */
  readonly isInit: boolean;
}

/** By container, a list of CPUs such as `1-2,5`. */
export type ExclusiveCpus = Readonly<Record<string, string>>;

/** The CPUs of a pod: of single containers, and of the rest of them. */
export interface PodCpus {
  readonly exclusive: ExclusiveCpus;
  readonly shared: string;
}

/** What a container runs on; empty: on all. */
export const cpusOf = (cpus: PodCpus | null, container: string): string =>
  cpus === null ? '' : (cpus.exclusive[container] ?? cpus.shared);

const MILLI = 1_000n;

/** How many CPUs of its own a container is to have; 0: it shares. */
export function exclusiveCount(pod: Pod, { resources }: Container): number {
  if (podQOS(pod) !== 'Guaranteed' || hasPodLevelResources(pod.spec.resources)) return 0;
  const amount = parseQuantity(resources?.requests?.['cpu'] ?? resources?.limits?.['cpu'] ?? '0');
  return wholeUnits(amount) * MILLI === milliUnits(amount) ? Number(wholeUnits(amount)) : 0;
}

export const cpuWishes = (pod: Pod): readonly CpuWish[] =>
  podContainers(pod)
    .map((container) => ({
      container: container.name,
      count: exclusiveCount(pod, container),
      isInit: (pod.spec.initContainers ?? []).includes(container) && container.restartPolicy !== 'Always',
    }))
    .filter(({ count }) => count > 0);

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

/** Absent: it shares the CPUs of all others. */
export type CpuAnswer = { readonly cpus?: ExclusiveCpus } | { readonly rejection: Rejection };

/** CPUs for a pod beside those that hold `grants`. */
export function assignCpus(
  settings: CpuManagerSettings,
  wishes: readonly CpuWish[],
  grants: readonly Granted[],
): CpuAnswer {
  const allocatable = new Set(allocatableCpus(settings));
  const free = new Set(freeCpus(settings, grants).filter((id) => allocatable.has(id)));
  const reusable = new Set<number>();
  const cpus: Record<string, string> = {};
  for (const { container, count, isInit } of wishes) {
    const own = choose(settings, count, [...reusable], [...free]);
    if (own === null) return { rejection: shortage(settings, count, free.size + reusable.size) };
    for (const id of own) {
      free.delete(id);
      if (isInit) reusable.add(id);
      else reusable.delete(id);
    }
    cpus[container] = formatCpuSet(own);
  }
  return { cpus };
}

/** What an init container has had is taken first. */
function choose(
  { cpus, wholeCores }: CpuManagerSettings,
  count: number,
  reusable: readonly number[],
  free: readonly number[],
): readonly number[] | null {
  if (wholeCores && count % threadsPerCore(cpus) !== 0) return null;
  const again = pack(cpus, reusable, Math.min(count, reusable.length)) ?? [];
  const more = pack(cpus, free, count - again.length);
  return more === null ? null : [...again, ...more].toSorted((a, b) => a - b);
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
