/** The connections to the API server, as client-go counts its transports; and certificates that exec plugins gave. */
import { X509Certificate } from 'node:crypto';
import type { Registry } from 'prom-client';
import type { OnTransport } from '../../../kube/transport.ts';
import { counter, histogram, sampledGauge } from '../instruments.ts';
import { MS_PER_SECOND } from '../projection.ts';

/** Upstream's, from ten minutes to four years. */
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
    if (seen.pluginCertificate !== null) this.#given(new X509Certificate(seen.pluginCertificate));
  };

  /** The same certificate comes again with each new connection. */
  #given(certificate: X509Certificate): void {
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
