/**
 * Exclusive resources of containers: granted and failed allocations of CPUs, memory, and alignment. Once per pod, at
 * its first admission.
 */
import type { Registry } from 'prom-client';
import type { Kernel } from '../../../../kernel/kernel.ts';
import type { Rejection } from '../../../../machines/model/allocation/predicates.ts';
import type { ExclusiveRequest } from '../../../../machines/model/allocation/request.ts';
import { MISALIGNED } from '../../../../machines/model/allocation/topology-manager.ts';
import type { ResourceManagers } from '../../../../machines/model/settings/resource-managers.ts';
import { contextOf, type NodeRecord } from '../../../node-records.ts';
import { counter, histogram } from '../instruments.ts';
import { isPodActor, type Projection, type RecordContext } from '../projection.ts';

const ALLOCATION = 'kubelet/allocation';
/** Upstream's, in milliseconds: from 0.05, with a factor of 2. */
const DURATION_BUCKETS = Array.from({ length: 15 }, (_, power) => 0.05 * 2 ** power);
const CPU_REFUSAL = /not enough cpus available|^SMT Alignment Error/;
const MEMORY_REFUSAL = /^\[memorymanager\]/;

export class ResourceManagerWork implements Projection {
  readonly recordKinds = ['message'] as const;
  /** By pod, the requests of its containers; `null` for pods already counted. */
  readonly #requests = new Map<string, readonly ExclusiveRequest[] | null>();
  readonly #families: ReturnType<typeof families>;

  constructor(registry: Registry) {
    this.#families = families(registry);
  }

  on(record: NodeRecord, seen: RecordContext): void {
    if (record.k !== 'message') return;
    const { to, event } = record;
    if (to === ALLOCATION && event.type === 'allocation.wanted') this.#wanted(event);
    else if (to === ALLOCATION && event.type === 'allocation.released') this.#requests.delete(event.uid);
    else if (!isPodActor(to)) return;
    else if (event.type === 'allocation.granted') this.#decided(event.uid, null, seen);
    else if (event.type === 'allocation.refused') this.#decided(event.uid, event.rejection, seen);
  }

  #wanted({
    request,
  }: {
    readonly request: { readonly uid: string; readonly containers?: readonly ExclusiveRequest[] };
  }) {
    if (!this.#requests.has(request.uid)) this.#requests.set(request.uid, request.containers ?? []);
  }

  #decided(uid: string, rejection: Rejection | null, { kernel, turnMs }: RecordContext): void {
    const requests = this.#requests.get(uid) ?? null;
    if (requests === null) return;
    this.#requests.set(uid, null);
    const managers = managersOf(kernel);
    if (managers.cpuManager) this.#pinned('cpu', requests.filter(({ cpus }) => cpus !== undefined).length, rejection);
    if (managers.memoryManager) this.#pinned('memory', requests.filter(({ memory }) => memory).length, rejection);
    this.#aligned(managers, requests, rejection, turnMs);
  }

  #pinned(what: 'cpu' | 'memory', requests: number, rejection: Rejection | null): void {
    if (requests === 0) return;
    const { asked, failed } = this.#families[what];
    asked.inc(requests);
    const refusal = what === 'cpu' ? CPU_REFUSAL : MEMORY_REFUSAL;
    if (rejection !== null && refusal.test(rejection.message)) failed.inc();
  }

  #aligned(
    managers: ResourceManagers,
    requests: readonly ExclusiveRequest[],
    rejection: Rejection | null,
    ms: number,
  ): void {
    const { topology, cpuManager } = managers;
    const isMisaligned = rejection?.reason === MISALIGNED.reason;
    const isUneven = rejection?.reason === 'SMTAlignmentError';
    if (topology !== undefined) {
      this.#families.topology.asked.inc();
      this.#families.topology.durations.observe(ms);
      if (isMisaligned) this.#families.topology.failed.inc();
    }
    if (topology?.policy === 'single-numa-node' && (rejection === null || isMisaligned)) {
      const count = topology.scope === 'pod' ? 1 : requests.length;
      this.#counted(isMisaligned, { scope: topology.scope, boundary: 'numa_node' }, count);
    }
    if (cpuManager?.wholeCores && (rejection === null || isUneven)) {
      const count = requests.filter(({ cpus }) => cpus !== undefined).length;
      this.#counted(isUneven, { scope: 'container', boundary: 'physical_cpu' }, count);
    }
  }

  #counted(isFailure: boolean, labels: { readonly scope: string; readonly boundary: string }, count: number): void {
    if (isFailure) this.#families.misaligned.inc(labels);
    else if (count > 0) this.#families.aligned.inc(labels, count);
  }
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
