/**
 * Durations of pod starts: from their creation, without images and init containers, and until this node's first action
 * for them; the containers of admitted pods; and counts of orphaned and recreated pods. Also durations of the node's
 * work for one pod: from the first request of its actors to the answer of the last one, and from a change of its status
 * to the API server's confirmation.
 *
 * Invariants: a start counts once per pod; its durations exclude static pods, and pods that ran before this agent
 * started; a pod that is rejected does not start; streams and waiting retries are no work.
 */
import type { Registry } from 'prom-client';
import type { Kernel } from '../../../../kernel/kernel.ts';
import { isMirrorPod, isStaticPod, type Pod, type PodStatus } from '../../../../machines/model/api/pod.ts';
import type { ConfigMessage } from '../../../../machines/model/pods/source-messages.ts';
import { isSidecar } from '../../../../machines/model/spec/resources.ts';
import { contextOf, type NodeEffect, type NodeMessageRecord, type NodeRecord } from '../../../node-records.ts';
import {
  counter,
  DEFAULT_BUCKETS,
  gauge,
  histogram,
  Instruments,
  isPodActor,
  MS_PER_SECOND,
  POD_START_BUCKETS,
  type Projection,
  podContextAt,
  podUidAt,
  type RecordContext,
} from '../instruments.ts';

const STATUS_BUCKETS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 20, 30, 45, 60];
const STATUS_PATCH = /^kubelet\/status\/pod-[^/]+(?=\/patch$)/;

/** `kill`: of a pod that only the runtime has. */
type Work = 'create' | 'update' | 'sync' | 'terminated' | 'kill';

interface Busy {
  readonly sinceMs: number;
  readonly work: Work;
  requests: number;
}

export class PodWork extends Instruments implements Projection {
  readonly recordKinds = ['message', 'effect', 'result', 'cancel', 'end'] as const;
  readonly #busy = new Map<string, Busy>();
  /** Uids of busy pods that have no open request now. */
  readonly #idle = new Set<string>();
  /** The cause of a pod's next work; `sync` without an entry. */
  readonly #next = new Map<string, Work>();
  /** Uids of pods that this node rejected: as upstream, they have no worker. */
  readonly #refused = new Set<string>();
  /** By the address of a request, since when the status that it writes was pending. */
  readonly #unwritten = new Map<string, number>();
  readonly #durations = histogram(
    this.registry,
    'kubelet_pod_worker_duration_seconds',
    '[ALPHA] Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync',
    DEFAULT_BUCKETS,
    ['operation_type'],
  );
  readonly #statuses = histogram(
    this.registry,
    'kubelet_pod_status_sync_duration_seconds',
    '[ALPHA] Duration in seconds to sync a pod status update. Measures time from detection of a change to pod status until the API is successfully updated for that pod, even if multiple intevening changes to pod status occur.',
    STATUS_BUCKETS,
  );

  on(record: NodeRecord, { kernel, request }: RecordContext): void {
    if (record.k === 'message') {
      const { to, event } = record;
      if (to === 'kubelet/pods' && event.type === 'config.pods') this.#configured(event);
      else if (event.type === 'pod.kill') {
        this.#next.set(podUidAt(to), podContextAt(to, kernel)?.pod === null ? 'kill' : 'terminated');
      } else if (event.type === 'allocation.refused') this.#refused.add(event.uid);
      else if (event.type === 'status.removed') {
        this.#next.delete(event.uid);
        this.#refused.delete(event.uid);
      }
    } else if (record.k === 'effect') {
      this.#statusWritten(record.at, kernel);
      if (record.class !== 'stream') this.#begun(podUidAt(record.at), kernel.now);
    } else if ((record.k === 'result' || record.k === 'cancel') && request) {
      if (record.k === 'result' && !record.error) this.#statusTaken(request.address, kernel.now);
      this.#unwritten.delete(request.address);
      const busy = request.class === 'stream' ? undefined : this.#busy.get(podUidAt(request.address));
      if (busy && --busy.requests === 0) this.#idle.add(podUidAt(request.address));
    } else if (record.k === 'end') this.#rest(kernel.now);
  }

  #configured(message: ConfigMessage): void {
    if (message.op !== 'ADD' && message.op !== 'UPDATE') return;
    for (const pod of message.pods) {
      if (!isMirrorPod(pod)) this.#next.set(pod.metadata.uid, message.op === 'ADD' ? 'create' : 'update');
    }
  }

  #begun(uid: string, nowMs: number): void {
    if (uid === '' || this.#refused.has(uid)) return;
    const busy = this.#busy.get(uid) ?? { sinceMs: nowMs, work: this.#next.get(uid) ?? 'sync', requests: 0 };
    busy.requests += 1;
    this.#busy.set(uid, busy);
    this.#idle.delete(uid);
    this.#next.delete(uid);
  }

  /** At the end of a turn, ends the work of pods that have no open request. */
  #rest(nowMs: number): void {
    for (const uid of this.#idle) {
      const busy = this.#busy.get(uid);
      this.#busy.delete(uid);
      if (busy) this.#durations.observe({ operation_type: busy.work }, (nowMs - busy.sinceMs) / MS_PER_SECOND);
    }
    this.#idle.clear();
  }

  #statusWritten(address: string, kernel: RecordContext['kernel']): void {
    const publisher = STATUS_PATCH.exec(address)?.[0];
    if (publisher === undefined) return;
    const context = contextOf<{ readonly sinceMs: number | null }>(kernel, publisher);
    this.#unwritten.set(address, context?.sinceMs ?? kernel.now);
  }

  #statusTaken(address: string, nowMs: number): void {
    const sinceMs = this.#unwritten.get(address);
    if (sinceMs !== undefined) this.#statuses.observe((nowMs - sinceMs) / MS_PER_SECOND);
  }
}

const CONTAINER_BUCKETS = [1, 2, 4, 8, 16];

/** Volume types that need nothing of other systems or of this machine: as upstream, others make a pod stateful. */
const STATELESS = ['emptyDir', 'configMap', 'secret', 'downwardAPI', 'projected'] as const;

interface Start {
  readonly pod: Pod;
  readonly seenAtMs: number;
  /** An operation was requested for the pod, or it was rejected. */
  hasBegun: boolean;
  isAdmitted: boolean;
  /** The pod was observed running, or its start is not measured. */
  isOver: boolean;
  /** By container, the actor of the image that the container waits for. */
  readonly images: Map<string, string>;
  /** Addresses of the pulls in progress for the pod. */
  readonly pulls: Set<string>;
  /** Since when there is a pull in progress; means nothing without one. */
  pullingSinceMs: number;
  /** How long pulls were in progress; the time of several at once counts once. */
  pulledMs: number;
}

export class PodStarts extends Instruments implements Projection {
  readonly recordKinds = ['message', 'effect', 'result'] as const;
  readonly #starts = new Map<string, Start>();
  /** Pods without configuration that may have leftovers. */
  readonly #removed = new Set<string>();
  readonly #orphans = new Set<string>();
  #hasNetworkPod = false;
  readonly #families = families(this.registry);

  on(record: NodeRecord, { kernel, request }: RecordContext): void {
    if (record.k === 'message') this.#readMessage(record, kernel);
    else if (record.k === 'effect') this.#requested(record, kernel);
    else if (record.k === 'result' && request?.name === 'cri.pullImage') {
      for (const start of this.#starts.values()) pulled(start, request.address, kernel.now);
    }
  }

  #readMessage({ to, event }: NodeMessageRecord, kernel: Kernel): void {
    if (to === 'kubelet/pods' && event.type === 'config.pods') this.#configured(event, kernel);
    else if (event.type === 'image.asked') {
      const { uid, container } = event.request;
      this.#starts.get(uid)?.images.set(container, to);
    } else if (isPodActor(to) && (event.type === 'image.ready' || event.type === 'image.failed')) {
      this.#starts.get(event.uid)?.images.delete(event.container);
    } else if (isPodActor(to) && (event.type === 'allocation.granted' || event.type === 'allocation.refused')) {
      this.#decided(this.#starts.get(event.uid), event.type === 'allocation.granted');
    } else if (to === 'kubelet/status' && event.type === 'status.observed') {
      if (event.seen) this.#observed(event.pod.uid, event.seen.status, kernel.now);
    } else if (to === 'kubelet/status' && event.type === 'status.removed') {
      this.#starts.delete(event.uid);
      this.#removed.delete(event.uid);
      this.#orphans.delete(event.uid);
    } else if (event.type === 'pod.kill') this.#killed(to, kernel);
  }

  #configured(message: ConfigMessage, kernel: Kernel): void {
    if (message.op === 'REMOVE') {
      for (const { uid } of message.pods) if (this.#starts.has(uid)) this.#removed.add(uid);
    } else if (message.op === 'ADD') {
      for (const pod of message.pods) if (!isMirrorPod(pod)) this.#added(pod, kernel);
    }
  }

  #added(pod: Pod, kernel: Kernel): void {
    const { uid } = pod.metadata;
    if (this.#removed.delete(uid)) this.#families.restarted.inc({ static: isStaticPod(pod) ? 'true' : '' });
    if (this.#starts.has(uid)) return;
    this.#starts.set(uid, {
      pod,
      seenAtMs: kernel.now,
      hasBegun: false,
      isAdmitted: false,
      isOver: isStaticPod(pod) || hasBegunBefore(pod.status),
      images: new Map(),
      pulls: new Set(),
      pullingSinceMs: 0,
      pulledMs: 0,
    });
  }

  #decided(start: Start | undefined, isGranted: boolean): void {
    if (start === undefined || start.isAdmitted) return;
    start.isAdmitted = isGranted;
    if (isGranted) this.#families.containers.observe(start.pod.spec.containers.length);
    else start.hasBegun = true;
  }

  #requested({ name, at }: NodeEffect, kernel: Kernel): void {
    if (name === 'cri.pullImage') {
      for (const start of this.#waitingFor(at)) pulling(start, at, kernel.now);
    }
    const start = this.#starts.get(podUidAt(at));
    if (!start || start.hasBegun) return;
    start.hasBegun = true;
    this.#families.workerStart.observe((kernel.now - start.seenAtMs) / MS_PER_SECOND);
  }

  #waitingFor(pull: string): Start[] {
    const image = pull.slice(0, pull.lastIndexOf('/'));
    return [...this.#starts.values()].filter(({ images }) => [...images.values()].includes(image));
  }

  /**
   * Takes a status that the API server has confirmed: the start is over when all containers of the status are running.
   */
  #observed(uid: string, status: PodStatus, nowMs: number): void {
    const start = this.#starts.get(uid);
    const containers = status.containerStatuses ?? [];
    if (!start || start.isOver || containers.length < start.pod.spec.containers.length) return;
    if (status.phase === 'Failed' || status.phase === 'Succeeded') start.isOver = true;
    if (start.isOver || containers.some(({ state }) => !state?.running)) return;
    start.isOver = true;
    const createdMs = Date.parse(start.pod.metadata.creationTimestamp ?? '');
    if (Number.isNaN(createdMs)) return;
    const totalMs = nowMs - createdMs;
    this.#families.total.observe(totalMs / MS_PER_SECOND);
    if (isStateful(start.pod)) return;
    const seconds = Math.max(0, totalMs - start.pulledMs - initMs(start.pod, status)) / MS_PER_SECOND;
    this.#families.sli.observe(seconds);
    if (this.#hasNetworkPod || start.pod.spec.hostNetwork) return;
    this.#hasNetworkPod = true;
    this.#families.firstNetwork.set(seconds);
  }

  /** A pod that is killed without a configuration while the runtime has it was orphaned when this agent started. */
  #killed(address: string, kernel: Kernel): void {
    const context = podContextAt(address, kernel);
    if (!context || context.pod !== null || this.#orphans.has(context.uid)) return;
    if ((context.runtime?.sandboxes.length ?? 0) === 0) return;
    this.#orphans.add(context.uid);
    this.#families.orphaned.inc();
  }
}

const isStateful = ({ spec }: Pod): boolean =>
  (spec.volumes ?? []).some((volume) => STATELESS.every((kind) => volume[kind] === undefined));

/** An agent has begun with the pod, this one or an earlier one. */
const hasBegunBefore = ({ phase = 'Pending', startTime }: PodStatus = {}): boolean =>
  phase !== 'Pending' || startTime !== undefined;

function pulling(start: Start, pull: string, nowMs: number): void {
  if (start.pulls.size === 0) start.pullingSinceMs = nowMs;
  start.pulls.add(pull);
}

function pulled(start: Start, pull: string, nowMs: number): void {
  if (start.pulls.delete(pull) && start.pulls.size === 0) start.pulledMs += nowMs - start.pullingSinceMs;
}

/** How long init containers ran, as far as their status shows it, without sidecars, which do not end. */
function initMs({ spec }: Pod, { initContainerStatuses = [] }: PodStatus): number {
  const sidecars = new Set((spec.initContainers ?? []).filter(isSidecar).map(({ name }) => name));
  const ran = initContainerStatuses
    .filter(({ name }) => !sidecars.has(name))
    .flatMap(({ state, lastState }) => [state?.terminated, lastState?.terminated])
    .map((end) => Date.parse(end?.finishedAt ?? '') - Date.parse(end?.startedAt ?? ''));
  return ran.reduce((sum, ms) => sum + (ms > 0 ? ms : 0), 0);
}

function families(registry: Registry) {
  const restarted = counter(
    registry,
    'kubelet_restarted_pods_total',
    '[ALPHA] Number of pods that have been restarted because they were deleted and recreated with the same UID while the kubelet was watching them (common for static pods, extremely uncommon for API pods)',
    ['static'],
  );
  for (const kind of ['', 'true']) restarted.inc({ static: kind }, 0);
  return {
    containers: histogram(
      registry,
      'kubelet_containers_per_pod_count',
      '[ALPHA] The number of containers per pod.',
      CONTAINER_BUCKETS,
    ),
    workerStart: histogram(
      registry,
      'kubelet_pod_worker_start_duration_seconds',
      '[ALPHA] Duration in seconds from kubelet seeing a pod to starting a worker.',
      DEFAULT_BUCKETS,
    ),
    total: histogram(
      registry,
      'kubelet_pod_start_total_duration_seconds',
      '[ALPHA] Duration in seconds to start a pod since creation, including time to pull images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch',
      POD_START_BUCKETS,
    ),
    sli: histogram(
      registry,
      'kubelet_pod_start_sli_duration_seconds',
      '[ALPHA] Duration in seconds to start a pod, excluding time to pull images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch',
      POD_START_BUCKETS,
    ),
    firstNetwork: gauge(
      registry,
      'kubelet_first_network_pod_start_sli_duration_seconds',
      '[INTERNAL] Duration in seconds to start the first network pod, excluding time to pull images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch',
    ),
    restarted,
    orphaned: counter(
      registry,
      'kubelet_orphaned_runtime_pods_total',
      '[ALPHA] Number of pods that have been detected in the container runtime without being already known to the pod worker. This typically indicates the kubelet was restarted while a pod was force deleted in the API or in the local configuration, which is unusual.',
    ),
  };
}
