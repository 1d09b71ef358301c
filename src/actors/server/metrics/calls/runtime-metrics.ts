/** Metrics of the calls to the container runtime, by name, and of the inspections of its pods. */
import type { Registry } from 'prom-client';
import type { RuntimeActivity } from '../../../cri/activity.ts';
import { counter, gauge, histogram, Instruments } from '../instruments.ts';
import { DEFAULT_BUCKETS, MS_PER_SECOND } from '../projection.ts';

/** Upstream's buckets: from 5 ms, with a factor of 2.5. */
const OPERATION_BUCKETS = [
  0.005, 0.0125, 0.03125, 0.078125, 0.1953125, 0.48828125, 1.220703125, 3.0517578125, 7.62939453125, 19.073486328125,
  47.6837158203125, 119.20928955078125, 298.0232238769531, 745.0580596923828,
];

/** Upstream's names, if they differ from the call's: `RunPodSandbox` is `run_podsandbox`. */
const NAMES: Readonly<Record<string, string>> = { UpdateContainerResources: 'update_container' };

/** The label of a call. `subscribe`, for containerd's own events, has no counterpart upstream. */
const operationType = (name: string): string =>
  NAMES[name] ??
  name
    .replace('PodSandbox', 'Podsandbox')
    .replaceAll(/(?<=[a-z])(?=[A-Z])/g, '_')
    .toLowerCase();

/** Calls that upstream makes past its counters. */
const UNCOUNTED: ReadonlySet<string> = new Set(['ImageFsInfo', 'RuntimeConfig']);

const LABELS = ['operation_type'] as const;

export class RuntimeMetrics extends Instruments {
  readonly #total = counter(
    this.registry,
    'kubelet_runtime_operations_total',
    '[ALPHA] Cumulative number of runtime operations by operation type.',
    LABELS,
  );
  readonly #errors = counter(
    this.registry,
    'kubelet_runtime_operations_errors_total',
    '[ALPHA] Cumulative number of runtime operation errors by operation type.',
    LABELS,
  );
  readonly #durations = histogram(
    this.registry,
    'kubelet_runtime_operations_duration_seconds',
    '[ALPHA] Duration in seconds of runtime operations. Broken down by operation type.',
    OPERATION_BUCKETS,
    LABELS,
  );
  readonly #pleg = pleg(this.registry);
  #relistedAtMs = 0;

  readonly seen = (seen: RuntimeActivity): void => {
    switch (seen.kind) {
      case 'called':
        this.#called(seen);
        break;
      case 'relisted':
        this.#relisted(seen);
        break;
      case 'inspected':
        this.#pleg.pods.observe(seen.durationMs / MS_PER_SECOND);
        break;
      case 'listening':
        this.#pleg.streams.inc();
        break;
      case 'lost':
        this.#pleg.lost.inc();
        break;
      default:
        this.#pleg.late.observe(seen.lateMs / MS_PER_SECOND);
    }
  };

  #called({ name, durationMs, failed }: RuntimeActivity & { readonly kind: 'called' }): void {
    if (UNCOUNTED.has(name)) return;
    const labels = { operation_type: operationType(name) };
    this.#total.inc(labels);
    this.#durations.observe(labels, durationMs / MS_PER_SECOND);
    if (failed) this.#errors.inc(labels);
  }

  #relisted({ startedAtMs, durationMs }: RuntimeActivity & { readonly kind: 'relisted' }): void {
    this.#pleg.relists.observe(durationMs / MS_PER_SECOND);
    if (this.#relistedAtMs > 0) this.#pleg.intervals.observe((startedAtMs - this.#relistedAtMs) / MS_PER_SECOND);
    this.#relistedAtMs = startedAtMs;
    this.#pleg.lastSeen.set(startedAtMs / MS_PER_SECOND);
  }
}

function pleg(registry: Registry) {
  const distribution = (name: string, help: string) =>
    histogram(registry, `kubelet_${name}`, `[ALPHA] ${help}`, DEFAULT_BUCKETS);
  const sum = (name: string, help: string) => counter(registry, `kubelet_${name}`, `[ALPHA] ${help}`);
  return {
    relists: distribution('pleg_relist_duration_seconds', 'Duration in seconds for relisting pods in PLEG.'),
    intervals: distribution('pleg_relist_interval_seconds', 'Interval in seconds between relisting in PLEG.'),
    pods: distribution('pleg_pod_relist_duration_seconds', 'Duration in seconds for relisting a single pod in PLEG.'),
    late: distribution(
      'evented_pleg_connection_latency_seconds',
      'The latency of streaming connection with the CRI runtime, measured in seconds.',
    ),
    streams: sum(
      'evented_pleg_connection_success_count',
      'The number of times a streaming client was obtained to receive CRI Events.',
    ),
    lost: sum(
      'evented_pleg_connection_error_count',
      'The number of errors encountered during the establishment of streaming connection with the CRI runtime.',
    ),
    lastSeen: gauge(
      registry,
      'kubelet_pleg_last_seen_seconds',
      '[ALPHA] Timestamp in seconds when PLEG was last seen active.',
    ),
  };
}
