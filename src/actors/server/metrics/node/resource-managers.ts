/**
 * Exclusive resources of containers: granted and failed allocations of CPUs, memory, and alignment. Once per pod, at
 * its first admission.
 */
import type { Registry } from 'prom-client';
import type { Kernel } from '../../../../kernel/kernel.ts';
import type { AllocationReport } from '../../../../machines/model/allocation/messages.ts';
import type { ExclusiveRequest, Rejection } from '../../../../machines/model/allocation/request.ts';
import { MISALIGNED } from '../../../../machines/model/allocation/topology-manager.ts';
import type { Cpu, ResourceManagers } from '../../../../machines/model/settings/node-settings.ts';
import { cpuIds } from '../../../../machines/model/values/cpu-set.ts';
import { contextOf, type NodeRecord } from '../../../node-records.ts';
import { counter, histogram, Instruments, isPodActor, type Projection, type RecordContext } from '../instruments.ts';

const ALLOCATION = 'kubelet/allocation';
/** Upstream's buckets in milliseconds: from 0.05, with a factor of 2. */
const DURATION_BUCKETS = Array.from({ length: 15 }, (_, power) => 0.05 * 2 ** power);
const CPU_REFUSAL = /not enough cpus available|^SMT Alignment Error/;
const MEMORY_REFUSAL = /\[memorymanager\]/;
/** Reasons of refusals before the managers are asked. */
const REFUSED_BEFORE: ReadonlySet<string> = new Set(['Evicted', 'SysctlForbidden']);
const REFUSED_BY_MANAGERS: ReadonlySet<string> = new Set([
  MISALIGNED.reason,
  'SMTAlignmentError',
  'UnexpectedAdmissionError',
]);
const [CONTAINER, CORE, CACHE] = ['container', 'physical_cpu', 'uncore_cache'];

type Granted = Extract<AllocationReport, { type: 'allocation.granted' }>;
type Decided = Pick<Granted, 'uid'> & Partial<Pick<Granted, 'cpus'>>;

export class ResourceManagerWork extends Instruments implements Projection {
  readonly recordKinds = ['message'] as const;
  /** By pod, the requests of its containers; `null` for pods already counted. */
  readonly #requests = new Map<string, readonly ExclusiveRequest[] | null>();
  readonly #families = families(this.registry);

  on(record: NodeRecord, seen: RecordContext): void {
    if (record.k !== 'message') return;
    const { to, event } = record;
    if (to === ALLOCATION && event.type === 'allocation.wanted') this.#countAdmission(event);
    else if (to === ALLOCATION && event.type === 'allocation.released') this.#requests.delete(event.uid);
    else if (!isPodActor(to)) return;
    else if (event.type === 'allocation.granted') this.#decided(event, null, seen);
    else if (event.type === 'allocation.refused') this.#decided(event, event.rejection, seen);
  }

  #countAdmission({
    request,
  }: {
    readonly request: { readonly uid: string; readonly containers?: readonly ExclusiveRequest[] };
  }) {
    if (!this.#requests.has(request.uid)) this.#requests.set(request.uid, request.containers ?? []);
  }

  #decided({ uid, cpus }: Decided, rejection: Rejection | null, seen: RecordContext) {
    const requests = this.#requests.get(uid) ?? null;
    if (requests === null) return;
    this.#requests.set(uid, null);
    if (rejection !== null && REFUSED_BEFORE.has(rejection.reason)) return;
    const managers = managersOf(seen.kernel);
    const reached = reachedOf(requests, rejection, managers);
    if (managers.cpuManager) this.#pinned('cpu', reached.cpus, rejection);
    if (managers.memoryManager) this.#pinned('memory', reached.memory, rejection);
    this.#countTopology(managers, rejection, seen.turnMs);
    this.#aligned(managers, requests, rejection);
    if (managers.cpuManager) this.#cached(managers.cpuManager.cpus, cpus?.exclusive ?? {});
  }

  #pinned(what: 'cpu' | 'memory', requests: number, rejection: Rejection | null): void {
    const { asked, failed } = this.#families[what];
    asked.inc(requests);
    const refusal = what === 'cpu' ? CPU_REFUSAL : MEMORY_REFUSAL;
    if (rejection !== null && refusal.test(rejection.message)) failed.inc();
  }

  /** Counts an admission by the topology manager, which every pod passes; its policy `none` counts no failures. */
  #countTopology({ topology }: ResourceManagers, rejection: Rejection | null, ms: number): void {
    this.#families.topology.asked.inc();
    this.#families.topology.durations.observe(ms);
    if (topology === undefined || rejection === null) return;
    if (REFUSED_BY_MANAGERS.has(rejection.reason)) this.#families.topology.failed.inc();
  }

  #aligned(
    { topology, cpuManager }: ResourceManagers,
    requests: readonly ExclusiveRequest[],
    rejection: Rejection | null,
  ): void {
    const isMisaligned = rejection?.reason === MISALIGNED.reason;
    const isShort = rejection !== null && CPU_REFUSAL.test(rejection.message);
    if (topology?.policy === 'single-numa-node' && (rejection === null || isMisaligned)) {
      const count = topology.scope === 'pod' ? 1 : requests.length;
      this.#counted(isMisaligned, { scope: topology.scope, boundary: 'numa_node' }, count);
    }
    if (cpuManager === undefined) return;
    const labels = { scope: CONTAINER, boundary: CORE };
    const count = cpuManager.wholeCores && rejection === null ? countOf(requests, 'cpus') : 0;
    this.#families.aligned.inc(labels, count);
    this.#families.misaligned.inc(labels, cpuManager.wholeCores && isShort ? 1 : 0);
  }

  /** Counts containers whose exclusive CPUs share a cache. */
  #cached(cpus: readonly Cpu[], exclusive: Readonly<Record<string, string>>): void {
    const cacheOf = new Map(cpus.map(({ id, cache, socket }) => [id, cache ?? socket]));
    const isCached = (set: string): boolean => new Set(cpuIds(set).map((id) => cacheOf.get(id))).size === 1;
    this.#families.aligned.inc({ scope: CONTAINER, boundary: CACHE }, Object.values(exclusive).filter(isCached).length);
  }

  #counted(isFailure: boolean, labels: { readonly scope: string; readonly boundary: string }, count: number): void {
    if (isFailure) this.#families.misaligned.inc(labels);
    else if (count > 0) this.#families.aligned.inc(labels, count);
  }
}

const countOf = (requests: readonly ExclusiveRequest[], what: 'cpus' | 'memory'): number =>
  requests.filter((request) => request[what] !== undefined).length;

/**
 * How many containers the managers of CPUs and memory were asked for. Containers pass one after the other: their
 * devices, their CPUs, their memory. The last container that requests the refused resource counts as the refused
 * container.
 */
function reachedOf(
  requests: readonly ExclusiveRequest[],
  rejection: Rejection | null,
  { topology }: ResourceManagers,
): { readonly cpus: number; readonly memory: number } {
  const until = (cpus: number, memory = cpus) => ({
    cpus: countOf(requests.slice(0, cpus), 'cpus'),
    memory: countOf(requests.slice(0, memory), 'memory'),
  });
  if (rejection === null || !REFUSED_BY_MANAGERS.has(rejection.reason)) return until(requests.length);
  const isMisaligned = rejection.reason === MISALIGNED.reason;
  if (isMisaligned && topology?.scope === 'pod') return until(0);
  const { message } = rejection;
  const last = (asks: (request: ExclusiveRequest) => boolean) => Math.max(0, requests.findLastIndex(asks));
  if (CPU_REFUSAL.test(message)) {
    const at = last(({ cpus }) => cpus !== undefined);
    return until(at + 1, at);
  }
  if (MEMORY_REFUSAL.test(message)) return until(last(({ memory }) => memory !== undefined) + 1);
  return until(last(({ cpus, memory, devices }) => devices !== undefined || (isMisaligned && !!(cpus ?? memory))));
}

const managersOf = (kernel: Kernel): ResourceManagers =>
  contextOf<{ settings?: { admission?: ResourceManagers } }>(kernel, ALLOCATION)?.settings?.admission ?? {};

function families(registry: Registry) {
  const sum = (name: string, help: string) => counter(registry, `kubelet_${name}_total`, `[ALPHA] ${help}`);
  return {
    cpu: {
      asked: sum('cpu_manager_pinning_requests', 'The number of cpu core allocations which required pinning.'),
      failed: sum('cpu_manager_pinning_errors', 'The number of cpu core allocations which required pinning failed.'),
    },
    memory: {
      asked: sum('memory_manager_pinning_requests', 'The number of memory pages allocations which required pinning.'),
      failed: sum(
        'memory_manager_pinning_errors',
        'The number of memory pages allocations which required pinning that failed.',
      ),
    },
    topology: {
      asked: sum(
        'topology_manager_admission_requests',
        'The number of admission requests where resources have to be aligned.',
      ),
      failed: sum(
        'topology_manager_admission_errors',
        'The number of admission request failures where resources could not be aligned.',
      ),
      durations: histogram(
        registry,
        'kubelet_topology_manager_admission_duration_ms',
        '[ALPHA] Duration in milliseconds to serve a pod admission request.',
        DURATION_BUCKETS,
      ),
    },
    ...alignments(registry),
  };
}

const alignments = (registry: Registry) => ({
  aligned: counter(
    registry,
    'kubelet_container_aligned_compute_resources_count',
    '[ALPHA] Cumulative number of aligned compute resources allocated to containers by alignment type.',
    ['scope', 'boundary'],
  ),
  misaligned: counter(
    registry,
    'kubelet_container_aligned_compute_resources_failure_count',
    '[ALPHA] Cumulative number of failures to allocate aligned compute resources to containers by alignment type.',
    ['scope', 'boundary'],
  ),
});
