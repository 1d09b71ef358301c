/**
 * Counters and histograms of the node as a projection of the kernel's records: what the machines decided and what came
 * of it, counted where it is written down and nowhere else.
 *
 * Owns: the registry of Prometheus' client, and the requests under way. Hears: `onTurn`.
 * Invariant: every label has few values, all of them this program's own words.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { EffectRecord, KernelRecord, MessageRecord, ResultRecord } from '../../../kernel/records.ts';
import { isMirrorPod, type PodStatus } from '../../../machines/api/pod.ts';
import type { ConfigMessage } from '../../../machines/pods/messages.ts';
import { NodeStart } from './node-start.ts';
import { PodAdmission } from './pod-admission.ts';
import { PodStarts } from './pod-starts.ts';
import { PodWork } from './pod-work.ts';
import {
  DEFAULT_BUCKETS,
  MS_PER_SECOND,
  POD_START_BUCKETS,
  type Projection,
  podContext,
  type UnderWay,
} from './projection.ts';
import { StorageMetrics } from './storage.ts';

/** Upstream's: from 5 ms, each two and a half times the one before. */
const OPERATION_BUCKETS = [
  0.005, 0.0125, 0.03125, 0.078125, 0.1953125, 0.48828125, 1.220703125, 3.0517578125, 7.62939453125, 19.073486328125,
  47.6837158203125, 119.20928955078125, 298.0232238769531, 745.0580596923828,
];
/** From a message that one actor hears to a start with hundreds of pods. */
const TURN_BUCKETS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];
const CONTAINER_BUCKETS = [1, 2, 4, 8, 16];

/** Upstream's names of what is asked of the runtime. */
const OPERATIONS: Readonly<Record<string, string>> = {
  'cri.version': 'version',
  'cri.status': 'status',
  'cri.runPodSandbox': 'run_podsandbox',
  'cri.stopPodSandbox': 'stop_podsandbox',
  'cri.removePodSandbox': 'remove_podsandbox',
  'cri.podStatus': 'podsandbox_status',
  'cri.createContainer': 'create_container',
  'cri.startContainer': 'start_container',
  'cri.stopContainer': 'stop_container',
  'cri.removeContainer': 'remove_container',
  'cri.execSync': 'exec_sync',
  'cri.reopenContainerLog': 'reopen_container_log',
  'cri.imageStatus': 'image_status',
  'cri.pullImage': 'pull_image',
  'cri.listImages': 'list_images',
  'cri.removeImage': 'remove_image',
  'cri.imageFsInfo': 'image_fs_info',
};
/** Upstream's names of what is done to control groups. */
const CGROUP_OPERATIONS: Readonly<Record<string, string>> = {
  'cgroup.ensure': 'create',
  'cgroup.update': 'update',
  'cgroup.destroy': 'destroy',
};
const PROBER_ADDRESS =
  /^(?<pod>kubelet\/pods\/pod-[^/]+)\/prober-(?<container>.+)-(?<kind>liveness|readiness|startup)\//;
const PROBE_RESULTS: Readonly<Record<string, string>> = { success: 'successful', failure: 'failed' };
const POD_ADDRESS = /^(?<pod>kubelet\/pods\/pod-[^/]+)\/container-(?<container>[^/]+)/;

export interface RecorderOptions {
  /** Bytes of the journal on disk. */
  readonly journalBytes: () => number;
}

export class Recorder {
  readonly registry = new Registry();
  /** What `/metrics/probes` serves. */
  readonly probeRegistry = new Registry();
  readonly probes = probeMetrics(this.probeRegistry);
  readonly #underWay = new Map<number, UnderWay>();
  /** Instances of containers whose end was counted, by pod uid. */
  readonly #ended = new Map<string, Set<string>>();
  #kernel: Kernel | undefined;
  #relistedAtMs = 0;
  /** By pod uid, when it was first seen and is not running yet. */
  readonly #starting = new Map<string, number>();
  readonly #counters = counters(this.registry);
  readonly #histograms = histograms(this.registry);
  readonly #gauges = gauges(this.registry);
  readonly #turns = new Histogram({
    name: 'statelet_turn_duration_seconds',
    help: 'Time that machines took for one input, without writing what came of it.',
    buckets: TURN_BUCKETS,
    registers: [this.registry],
  });
  readonly #projections: readonly Projection[] = [
    new PodStarts(this.registry),
    new PodWork(this.registry),
    new PodAdmission(this.registry),
    new StorageMetrics(this.registry),
    new NodeStart(this.registry),
  ];

  constructor({ journalBytes }: RecorderOptions) {
    const underWay = this.#underWay;
    const gauge = (name: string, help: string, read: () => number) =>
      new Gauge({
        name,
        help,
        registers: [this.registry],
        collect() {
          this.set(read());
        },
      });
    gauge('statelet_journal_bytes', 'Bytes of the journal on disk.', journalBytes);
    gauge(
      'statelet_requests_under_way',
      'Operations that machines asked for and that are not answered.',
      () => underWay.size,
    );
    gauge('statelet_queue_length', 'Inputs that wait for their turn.', () => this.#kernel?.queueLength ?? 0);
  }

  /** For the kernel's option of this name. */
  readonly onTurn = (records: readonly KernelRecord[], kernel: Kernel, tookMs: number): void => {
    this.#kernel = kernel;
    this.#counters.turns.inc();
    this.#turns.observe(tookMs / MS_PER_SECOND);
    for (const record of records) {
      const request = record.k === 'result' || record.k === 'cancel' ? this.#underWay.get(record.id) : undefined;
      for (const projection of this.#projections) projection.on(record, { kernel, request });
      this.#counters.records.inc({ kind: record.k });
      if (record.k === 'effect') this.#requested(record, kernel);
      else if (record.k === 'result') this.#settled(record, kernel);
      else if (record.k === 'cancel') this.#underWay.delete(record.id);
      else if (record.k === 'message') this.#told(record, kernel);
    }
  };

  /** A list of the runtime's pods, which is upstream's PLEG. */
  relisted(startedAtMs: number, durationMs: number): void {
    this.#histograms.relists.observe(durationMs / MS_PER_SECOND);
    if (this.#relistedAtMs > 0) {
      this.#histograms.relistIntervals.observe((startedAtMs - this.#relistedAtMs) / MS_PER_SECOND);
    }
    this.#relistedAtMs = startedAtMs;
    this.#gauges.plegLastSeen.set(startedAtMs / MS_PER_SECOND);
  }

  /** An attempt of the probe that this request runs. */
  probed(request: number, result: string, durationMs: number): void {
    const address = this.#underWay.get(request)?.address ?? '';
    const { pod = '', container = '', kind = '' } = PROBER_ADDRESS.exec(address)?.groups ?? {};
    const context = this.#kernel && podContext(pod, this.#kernel);
    if (!context) return;
    const { namespace, name, uid } = context;
    const probe_type = kind.charAt(0).toUpperCase() + kind.slice(1);
    const labels = { container, namespace, pod: name, probe_type };
    this.probes.total.inc({ ...labels, pod_uid: uid, result: PROBE_RESULTS[result] ?? 'unknown' });
    this.probes.duration.observe(labels, durationMs / MS_PER_SECOND);
  }

  #requested({ id, name, class: operationClass, at, input }: EffectRecord, kernel: Kernel): void {
    this.#underWay.set(id, { name, class: operationClass, address: at, sinceMs: kernel.now, input });
    const operation_type = OPERATIONS[name];
    if (operation_type !== undefined) this.#counters.operations.inc({ operation_type });
    if (name === 'cri.runPodSandbox') this.#counters.startedPods.inc();
    if (name === 'cri.startContainer') {
      this.#counters.startedContainers.inc({ container_type: typeOfContainer(at, kernel) });
    }
  }

  #settled({ id, error }: ResultRecord, kernel: Kernel): void {
    const request = this.#underWay.get(id);
    this.#underWay.delete(id);
    const cgroups = request && CGROUP_OPERATIONS[request.name];
    if (request && cgroups !== undefined) {
      this.#histograms.cgroups.observe({ operation_type: cgroups }, (kernel.now - request.sinceMs) / MS_PER_SECOND);
    }
    const operation_type = request && OPERATIONS[request.name];
    if (!request || operation_type === undefined) return;
    const seconds = (kernel.now - request.sinceMs) / MS_PER_SECOND;
    this.#histograms.operations.observe({ operation_type }, seconds);
    if (request.name === 'cri.runPodSandbox') {
      const { runtimeHandler = '' } = request.input as { runtimeHandler?: string };
      this.#histograms.sandboxes.observe({ runtime_handler: runtimeHandler }, seconds);
    }
    if (!error) return;
    this.#counters.operationErrors.inc({ operation_type });
    if (request.name === 'cri.runPodSandbox') this.#counters.startedPodErrors.inc();
    if (request.name === 'cri.startContainer' || request.name === 'cri.createContainer') {
      const code = request.name === 'cri.startContainer' ? 'RunContainerError' : 'CreateContainerError';
      this.#counters.startedContainerErrors.inc({ container_type: typeOfContainer(request.address, kernel), code });
    }
  }

  #told({ to, event }: MessageRecord, kernel: Kernel): void {
    if (to === 'kubelet/syncLoop' && event.type === 'config.pods') this.#configured(event as never, kernel);
    if (to === 'kubelet/status' && event.type === 'status.changed') this.#statusChanged(event as never, kernel);
    if (to === 'kubelet/status' && event.type === 'status.removed') {
      const { uid } = event as unknown as { uid: string };
      this.#starting.delete(uid);
      this.#ended.delete(uid);
    }
    if (event.type === 'shutdown.changed') {
      const { active } = event as unknown as { active: boolean };
      this.#gauges[active ? 'shutdownStart' : 'shutdownEnd'].set(kernel.now / MS_PER_SECOND);
    }
  }

  #configured(message: ConfigMessage, kernel: Kernel): void {
    if (message.op !== 'ADD') return;
    for (const { metadata, spec } of message.pods.filter((pod) => !isMirrorPod(pod))) {
      this.#starting.set(metadata.uid, this.#starting.get(metadata.uid) ?? kernel.now);
      this.#histograms.containersPerPod.observe(spec.containers.length);
    }
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

  /** Each instance that ended, once. */
  #countEnds(uid: string, { containerStatuses = [], initContainerStatuses = [] }: PodStatus): void {
    const counted = this.#ended.get(uid) ?? new Set();
    this.#ended.set(uid, counted);
    const ends = (container_type: string, statuses: typeof containerStatuses) =>
      statuses.flatMap(({ state, lastState }) =>
        [state?.terminated, lastState?.terminated].flatMap((end) => (end ? [{ container_type, end }] : [])),
      );
    for (const { container_type, end } of [
      ...ends('container', containerStatuses),
      ...ends('init_container', initContainerStatuses),
    ]) {
      const id = end.containerID ?? '';
      if (id === '' || counted.has(id)) continue;
      counted.add(id);
      this.#counters.terminated.inc({ container_type, exit_code: String(end.exitCode), reason: end.reason ?? '' });
    }
  }
}

function typeOfContainer(address: string, kernel: Kernel): string {
  const { pod = '', container = '' } = POD_ADDRESS.exec(address)?.groups ?? {};
  const context = podContext(pod, kernel);
  const isInit = context?.pod?.spec.initContainers?.some(({ name }) => name === container) === true;
  return isInit ? 'init_container' : 'container';
}

function counters(registry: Registry) {
  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Counter({ name, help, labelNames: [...labelNames], registers: [registry] });
  return {
    operations: counter(
      'kubelet_runtime_operations_total',
      '[ALPHA] Cumulative number of runtime operations by operation type.',
      ['operation_type'],
    ),
    operationErrors: counter(
      'kubelet_runtime_operations_errors_total',
      '[ALPHA] Cumulative number of runtime operation errors by operation type.',
      ['operation_type'],
    ),
    startedPods: counter('kubelet_started_pods_total', '[ALPHA] Cumulative number of pods started'),
    startedPodErrors: counter(
      'kubelet_started_pods_errors_total',
      '[ALPHA] Cumulative number of errors when starting pods',
    ),
    startedContainers: counter('kubelet_started_containers_total', '[ALPHA] Cumulative number of containers started', [
      'container_type',
    ]),
    startedContainerErrors: counter(
      'kubelet_started_containers_errors_total',
      '[ALPHA] Cumulative number of errors when starting containers',
      ['container_type', 'code'],
    ),
    terminated: counter('kubelet_terminated_containers_total', '[ALPHA] Cumulative number of container terminations.', [
      'container_type',
      'exit_code',
      'reason',
    ]),
    turns: counter('statelet_turns_total', 'Turns that the kernel took since it started: one input each.'),
    records: counter('statelet_journal_records_total', 'Records of the journal since the kernel started.', ['kind']),
  };
}

function histograms(registry: Registry) {
  const histogram = <Label extends string>(
    name: string,
    help: string,
    buckets: readonly number[],
    labelNames: readonly Label[] = [],
  ) => new Histogram({ name, help, buckets: [...buckets], labelNames: [...labelNames], registers: [registry] });
  return {
    operations: histogram(
      'kubelet_runtime_operations_duration_seconds',
      '[ALPHA] Duration in seconds of runtime operations. Broken down by operation type.',
      OPERATION_BUCKETS,
      ['operation_type'],
    ),
    cgroups: histogram(
      'kubelet_cgroup_manager_duration_seconds',
      '[ALPHA] Duration in seconds for cgroup manager operations. Broken down by method.',
      DEFAULT_BUCKETS,
      ['operation_type'],
    ),
    sandboxes: histogram(
      'kubelet_run_podsandbox_duration_seconds',
      '[ALPHA] Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.',
      DEFAULT_BUCKETS,
      ['runtime_handler'],
    ),
    relists: histogram(
      'kubelet_pleg_relist_duration_seconds',
      '[ALPHA] Duration in seconds for relisting pods in PLEG.',
      DEFAULT_BUCKETS,
    ),
    relistIntervals: histogram(
      'kubelet_pleg_relist_interval_seconds',
      '[ALPHA] Interval in seconds between relisting in PLEG.',
      DEFAULT_BUCKETS,
    ),
    podStart: histogram(
      'kubelet_pod_start_duration_seconds',
      '[ALPHA] Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run',
      POD_START_BUCKETS,
    ),
    containersPerPod: histogram(
      'kubelet_containers_per_pod_count',
      '[ALPHA] The number of containers per pod.',
      CONTAINER_BUCKETS,
    ),
  };
}

function gauges(registry: Registry) {
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers: [registry] });
  return {
    plegLastSeen: gauge(
      'kubelet_pleg_last_seen_seconds',
      '[ALPHA] Timestamp in seconds when PLEG was last seen active.',
    ),
    shutdownStart: gauge(
      'kubelet_graceful_shutdown_start_time_seconds',
      '[ALPHA] Last graceful shutdown start time since unix epoch in seconds',
    ),
    shutdownEnd: gauge(
      'kubelet_graceful_shutdown_end_time_seconds',
      '[ALPHA] Last graceful shutdown end time since unix epoch in seconds',
    ),
  };
}

function probeMetrics(registry: Registry) {
  const labelNames = ['container', 'namespace', 'pod', 'probe_type'];
  return {
    total: new Counter({
      name: 'prober_probe_total',
      help: '[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.',
      labelNames: [...labelNames, 'pod_uid', 'result'],
      registers: [registry],
    }),
    duration: new Histogram({
      name: 'prober_probe_duration_seconds',
      help: '[ALPHA] Duration in seconds for a probe response.',
      buckets: [...DEFAULT_BUCKETS],
      labelNames,
      registers: [registry],
    }),
  };
}
