/**
 * Metrics of the calls that this node makes: to the API server, as in client-go, with the reviews of authentication and
 * authorization among them; and to the container runtime, by name, with the inspections of its pods.
 */
import { X509Certificate } from 'node:crypto';
import type { Registry } from 'prom-client';
import type { RuntimeActivity } from '../../../cri/activity.ts';
import type { ObservedRequest } from '../../../kube/client.ts';
import type { OnTransport } from '../../../kube/transport.ts';
import {
  counter,
  DEFAULT_BUCKETS,
  gauge,
  histogram,
  Instruments,
  MS_PER_SECOND,
  sampledGauge,
} from '../instruments.ts';

const LATENCY_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
const SIZE_BUCKETS = [64, 256, 512, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216];
const REVIEW_BUCKETS = [0.25, 0.5, 0.7, 1, 1.5, 3, 5, 10];
const API_LABELS = ['verb', 'host'] as const;
/** The kind of review, by the last part of the path. */
const REVIEWS: Readonly<Record<string, 'authn' | 'authz'>> = { tokenreviews: 'authn', subjectaccessreviews: 'authz' };

export class ApiClientMetrics extends Instruments {
  readonly #requests = counter(
    this.registry,
    'rest_client_requests_total',
    '[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.',
    ['code', 'method', 'host'],
  );
  readonly #waits = this.#byVerb(
    'rate_limiter_duration_seconds',
    'Client side rate limiter latency in seconds. Broken down by verb, and host.',
    LATENCY_BUCKETS,
  );
  readonly #durations = this.#byVerb(
    'request_duration_seconds',
    'Request latency in seconds. Broken down by verb, and host.',
    LATENCY_BUCKETS,
  );
  readonly #sent = this.#byVerb(
    'request_size_bytes',
    'Request size in bytes. Broken down by verb and host.',
    SIZE_BUCKETS,
  );
  readonly #read = this.#byVerb(
    'response_size_bytes',
    'Response size in bytes. Broken down by verb and host.',
    SIZE_BUCKETS,
  );
  readonly #reviews = { authn: reviews(this.registry, 'authn'), authz: reviews(this.registry, 'authz') };

  #byVerb(name: string, help: string, buckets: readonly number[]) {
    return histogram(this.registry, `rest_client_${name}`, `[ALPHA] ${help}`, buckets, API_LABELS);
  }

  readonly seen = (seen: ObservedRequest): void => {
    const { method, host } = seen;
    const labels = { verb: method, host };
    if (seen.kind === 'waited') this.#waits.observe(labels, seen.durationMs / MS_PER_SECOND);
    else if (seen.kind === 'read') this.#read.observe(labels, seen.bytes);
    else {
      const { code, durationMs, path } = seen;
      this.#requests.inc({ code, method, host });
      this.#durations.observe(labels, durationMs / MS_PER_SECOND);
      this.#sent.observe(labels, seen.bytes);
      const review = REVIEWS[path.slice(path.lastIndexOf('/') + 1)];
      if (review === undefined) return;
      this.#reviews[review].total.inc({ code });
      this.#reviews[review].durations.observe({ code }, durationMs / MS_PER_SECOND);
    }
  };
}

function reviews(registry: Registry, kind: 'authn' | 'authz') {
  const name = `apiserver_delegated_${kind}_request`;
  const [total, durations] = [
    '[ALPHA] Number of HTTP requests partitioned by status code.',
    '[ALPHA] Request latency in seconds. Broken down by status code.',
  ];
  return {
    total: counter(registry, `${name}_total`, total, ['code']),
    durations: histogram(registry, `${name}_duration_seconds`, durations, REVIEW_BUCKETS, ['code']),
  };
}

/** Upstream's buckets, from ten minutes to four years. */
const ROTATION_BUCKETS = [
  600, 1_800, 3_600, 14_400, 86_400, 604_800, 2_592_000, 7_776_000, 15_552_000, 31_104_000, 124_416_000,
];

const CALLS =
  '[ALPHA] Number of calls to get a new transport, partitioned by the result of the operation hit: obtained from the ' +
  'cache, miss: created and added to the cache, miss-gc: recreated and added back to the cache after being garbage ' +
  'collected, uncacheable: created and not cached';
const AGE =
  '[ALPHA] Histogram of the number of seconds the last auth exec plugin client certificate lived before being rotated. ' +
  'If auth exec plugin client certificates are unused, histogram will contain no data.';
const TTL =
  '[ALPHA] Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by the auth exec plugin. The ' +
  'value is in seconds until certificate expiry (negative if already expired). If auth exec plugins are unused or ' +
  'manage no TLS certificates, the value will be +INF.';

/** The connections to the API server, as client-go counts its transports; and certificates of exec plugins. */
export class TransportMetrics {
  readonly #calls;
  readonly #ages;
  readonly #nowMs: () => number;
  #open = 0;
  #certificate: X509Certificate | null = null;

  constructor(registry: Registry, nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
    this.#calls = counter(registry, 'rest_client_transport_create_calls_total', CALLS, ['result']);
    this.#ages = histogram(registry, 'rest_client_exec_plugin_certificate_rotation_age', AGE, ROTATION_BUCKETS);
    const cached = '[ALPHA] Number of transport entries in the internal cache.';
    sampledGauge(registry, 'rest_client_transport_cache_entries', cached, () => this.#open);
    sampledGauge(registry, 'rest_client_exec_plugin_ttl_seconds', TTL, () => this.#ttlSeconds());
  }

  readonly seen: OnTransport = (seen) => {
    if (seen.kind === 'closed') {
      this.#open -= 1;
      return;
    }
    this.#open += 1;
    this.#calls.inc({ result: 'miss' });
    if (seen.pluginCertificate !== null) this.#countCertificate(new X509Certificate(seen.pluginCertificate));
  };

  /** Counts a certificate once, although each new connection presents it again. */
  #countCertificate(certificate: X509Certificate): void {
    const before = this.#certificate;
    if (before?.fingerprint256 === certificate.fingerprint256) return;
    if (before) this.#ages.observe((this.#nowMs() - before.validFromDate.getTime()) / MS_PER_SECOND);
    this.#certificate = certificate;
  }

  #ttlSeconds(): number {
    if (this.#certificate === null) return Number.POSITIVE_INFINITY;
    return (this.#certificate.validToDate.getTime() - this.#nowMs()) / MS_PER_SECOND;
  }
}

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

const RUNTIME_LABELS = ['operation_type'] as const;

export class RuntimeMetrics extends Instruments {
  readonly #total = counter(
    this.registry,
    'kubelet_runtime_operations_total',
    '[ALPHA] Cumulative number of runtime operations by operation type.',
    RUNTIME_LABELS,
  );
  readonly #errors = counter(
    this.registry,
    'kubelet_runtime_operations_errors_total',
    '[ALPHA] Cumulative number of runtime operation errors by operation type.',
    RUNTIME_LABELS,
  );
  readonly #durations = histogram(
    this.registry,
    'kubelet_runtime_operations_duration_seconds',
    '[ALPHA] Duration in seconds of runtime operations. Broken down by operation type.',
    OPERATION_BUCKETS,
    RUNTIME_LABELS,
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
