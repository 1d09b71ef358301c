/**
 * Counters and histograms of the node, derived from the kernel's records of decisions and results.
 *
 * Owns: the registry of Prometheus' client, and the requests in progress. Hears: `onTurn`.
 * Invariant: every label has few values, all defined by this program.
 */
import { Registry } from 'prom-client';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { KernelRecord } from '../../../kernel/records.ts';
import { isMirrorPod, type PodStatus } from '../../../machines/model/api/pod.ts';
import type { ConfigMessage } from '../../../machines/model/pods/source-messages.ts';
import { type NodeEffect, type NodeMessageRecord, type NodeResult, nodeRecord } from '../../node-records.ts';
import { ClaimWork, DeviceWork } from './calls/plugin-work.ts';
import {
  counter,
  DEFAULT_BUCKETS,
  histogram,
  MS_PER_SECOND,
  POD_START_BUCKETS,
  type Projection,
  podContext,
  type RecordKind,
  sampledCounter,
  sampledGauge,
  type UnderWay,
} from './instruments.ts';
import { Certificates } from './node/certificates.ts';
import { NodeStart, RuntimeSupport } from './node/node-start.ts';
import { ResourceManagerWork } from './node/resource-managers.ts';
import { Evictions, PodAdmission, Resizes } from './pods/admission-work.ts';
import { ContainerWork, ProbeWork } from './pods/container-work.ts';
import { ImageWork } from './pods/image-work.ts';
import { PodStarts, PodWork } from './pods/pod-starts.ts';
import { StorageMetrics, VolumeLeftovers } from './volumes/storage.ts';

/** The buckets range from a message to one actor up to a start with hundreds of pods. */
const TURN_BUCKETS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];

/** Upstream's names of the cgroup operations. */
const CGROUP_OPERATIONS: Readonly<Record<string, string>> = {
  'cgroup.ensure': 'create',
  'cgroup.update': 'update',
  'cgroup.destroy': 'destroy',
};
const PROBER_ADDRESS =
  /^(?<pod>kubelet\/pods\/pod-[^/]+)\/prober-(?<container>.+)-(?<kind>liveness|readiness|startup)\//;

export interface RecorderOptions {
  readonly journalBytes: () => number;
}

export class Recorder {
  readonly registry = new Registry();
  readonly #probes = new ProbeWork();
  readonly probeRegistry = this.#probes.registry;
  readonly #underWay = new Map<number, UnderWay>();
  /** Container instances whose end was counted, by pod uid. */
  readonly #ended = new Map<string, Set<string>>();
  #kernel: Kernel | undefined;
  /** By pod uid, when a pod that is not running yet was first observed. */
  readonly #starting = new Map<string, number>();
  /** By kind, the records of the journal. A turn has dozens: the client of metrics gets them when it is scraped. */
  readonly #recordCounts = new Map<RecordKind, number>();
  readonly #counters = counters(this.registry, this.#recordCounts);
  readonly #histograms = histograms(this.registry);
  readonly #turns = histogram(
    this.registry,
    'statelet_turn_duration_seconds',
    'Time that machines took for one input, without writing what came of it.',
    TURN_BUCKETS,
  );
  readonly #projections: readonly Projection[] = [
    new Certificates(this.registry),
    new ContainerWork(this.registry),
    new DeviceWork(this.registry),
    new ClaimWork(this.registry),
    new Evictions(this.registry),
    new ImageWork(this.registry),
    new NodeStart(this.registry),
    new PodAdmission(this.registry),
    new PodStarts(this.registry),
    new PodWork(this.registry),
    this.#probes,
    new Resizes(this.registry),
    new ResourceManagerWork(this.registry),
    new RuntimeSupport(this.registry),
    new StorageMetrics(this.registry),
    new VolumeLeftovers(this.registry),
  ];

  readonly #hearers = new Map<RecordKind, Projection[]>();

  constructor({ journalBytes }: RecorderOptions) {
    for (const projection of this.#projections) {
      for (const kind of projection.recordKinds)
        this.#hearers.set(kind, [...(this.#hearers.get(kind) ?? []), projection]);
    }
    const underWay = this.#underWay;
    const sampled = (name: string, help: string, read: () => number) => sampledGauge(this.registry, name, help, read);
    sampled('statelet_journal_bytes', 'Bytes of the journal on disk.', journalBytes);
    sampled(
      'statelet_requests_under_way',
      'Operations that machines asked for and that are not answered.',
      () => underWay.size,
    );
    sampled('statelet_queue_length', 'Inputs that wait for their turn.', () => this.#kernel?.queueLength ?? 0);
  }

  /** For the kernel's option `onTurn`. */
  readonly onTurn = (records: readonly KernelRecord[], kernel: Kernel, tookMs: number): void => {
    this.#kernel = kernel;
    this.#counters.turns.inc();
    this.#turns.observe(tookMs / MS_PER_SECOND);
    for (const each of records) {
      const record = nodeRecord(each);
      const request = record.k === 'result' || record.k === 'cancel' ? this.#underWay.get(record.id) : undefined;
      const recordContext = { kernel, request, turnMs: tookMs };
      for (const projection of this.#hearers.get(record.k) ?? []) projection.on(record, recordContext);
      this.#recordCounts.set(record.k, (this.#recordCounts.get(record.k) ?? 0) + 1);
      if (record.k === 'effect') this.#requested(record, kernel.now);
      else if (record.k === 'result') this.#settled(record, kernel.now);
      else if (record.k === 'cancel') this.#underWay.delete(record.id);
      else if (record.k === 'message') this.#readMessage(record, kernel);
    }
  };

  /** Counts an attempt of the probe that this request runs. */
  probed(request: number, result: string, durationMs: number): void {
    const address = this.#underWay.get(request)?.address ?? '';
    const { pod = '', container = '', kind = '' } = PROBER_ADDRESS.exec(address)?.groups ?? {};
    const context = this.#kernel && podContext(pod, this.#kernel);
    if (context) this.#probes.attempted(context, { container, kind, result, durationMs });
  }

  #requested({ id, at, ...request }: NodeEffect, nowMs: number): void {
    this.#underWay.set(id, { ...request, address: at, sinceMs: nowMs });
  }

  #settled({ id }: NodeResult, nowMs: number): void {
    const request = this.#underWay.get(id);
    this.#underWay.delete(id);
    const operation_type = request && CGROUP_OPERATIONS[request.name];
    if (request === undefined || operation_type === undefined) return;
    this.#histograms.cgroups.observe({ operation_type }, (nowMs - request.sinceMs) / MS_PER_SECOND);
  }

  #readMessage({ to, event }: NodeMessageRecord, kernel: Kernel): void {
    if (to === 'kubelet/pods' && event.type === 'config.pods') this.#configured(event, kernel);
    if (to === 'kubelet/status' && event.type === 'status.changed') this.#statusChanged(event, kernel);
    if (to === 'kubelet/status' && event.type === 'status.removed') {
      this.#starting.delete(event.uid);
      this.#ended.delete(event.uid);
    }
  }

  #configured(message: ConfigMessage, kernel: Kernel): void {
    if (message.op !== 'ADD') return;
    for (const { metadata } of message.pods.filter((pod) => !isMirrorPod(pod)))
      this.#starting.set(metadata.uid, this.#starting.get(metadata.uid) ?? kernel.now);
  }

  #statusChanged(
    { pod, status }: { readonly pod: { readonly uid: string }; readonly status: PodStatus },
    kernel: Kernel,
  ) {
    const since = this.#starting.get(pod.uid) ?? kernel.now;
    if (!this.#starting.has(pod.uid)) this.#starting.set(pod.uid, since);
    this.#countEnds(pod.uid, status);
    if (status.phase !== 'Running' || since === Number.POSITIVE_INFINITY) return;
    this.#histograms.podStart.observe((kernel.now - since) / MS_PER_SECOND);
    this.#starting.set(pod.uid, Number.POSITIVE_INFINITY);
  }

  #countEnds(uid: string, status: PodStatus): void {
    const counted = this.#ended.get(uid) ?? new Set();
    this.#ended.set(uid, counted);
    const ends = (container_type: string, statuses: PodStatus['containerStatuses'] = []) =>
      statuses.flatMap(({ state, lastState }) =>
        [state?.terminated, lastState?.terminated].flatMap((end) => (end ? [{ container_type, end }] : [])),
      );
    for (const { container_type, end } of [
      ...ends('container', status.containerStatuses),
      ...ends('init_container', status.initContainerStatuses),
      ...ends('ephemeral_container', status.ephemeralContainerStatuses),
    ]) {
      const id = end.containerID ?? '';
      if (id === '' || counted.has(id)) continue;
      counted.add(id);
      this.#counters.terminated.inc({ container_type, exit_code: String(end.exitCode), reason: end.reason ?? '' });
    }
  }
}

const counters = (registry: Registry, recordCounts: ReadonlyMap<RecordKind, number>) => ({
  terminated: counter(
    registry,
    'kubelet_terminated_containers_total',
    '[ALPHA] Cumulative number of container terminations.',
    ['container_type', 'exit_code', 'reason'],
  ),
  turns: counter(registry, 'statelet_turns_total', 'Turns that the kernel took since it started: one input each.'),
  records: sampledCounter(
    registry,
    'statelet_journal_records_total',
    'Records of the journal since the kernel started.',
    'kind',
    recordCounts,
  ),
});

const histograms = (registry: Registry) => ({
  cgroups: histogram(
    registry,
    'kubelet_cgroup_manager_duration_seconds',
    '[ALPHA] Duration in seconds for cgroup manager operations. Broken down by method.',
    DEFAULT_BUCKETS,
    ['operation_type'],
  ),
  podStart: histogram(
    registry,
    'kubelet_pod_start_duration_seconds',
    '[ALPHA] Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run',
    POD_START_BUCKETS,
  ),
});
