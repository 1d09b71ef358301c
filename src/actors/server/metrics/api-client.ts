/** Counters of the requests that this node sends to the API server, as client-go keeps them. */
import { Counter, Histogram, type Registry } from 'prom-client';
import type { RequestSeen } from '../../kube/client.ts';
import { MS_PER_SECOND } from './projection.ts';

/** Upstream's. */
const LATENCY_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
const SIZE_BUCKETS = [64, 256, 512, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216];

export class ApiClientMetrics {
  readonly #requests: Counter;
  readonly #waits: Histogram;
  readonly #durations: Histogram;
  readonly #sent: Histogram;
  readonly #read: Histogram;

  constructor(registry: Registry) {
    const histogram = (name: string, help: string, buckets: readonly number[]) =>
      new Histogram({ name, help, buckets: [...buckets], labelNames: ['verb', 'host'], registers: [registry] });
    this.#requests = new Counter({
      name: 'rest_client_requests_total',
      help: '[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.',
      labelNames: ['code', 'method', 'host'],
      registers: [registry],
    });
    this.#waits = histogram(
      'rest_client_rate_limiter_duration_seconds',
      '[ALPHA] Client side rate limiter latency in seconds. Broken down by verb, and host.',
      LATENCY_BUCKETS,
    );
    this.#durations = histogram(
      'rest_client_request_duration_seconds',
      '[ALPHA] Request latency in seconds. Broken down by verb, and host.',
      LATENCY_BUCKETS,
    );
    this.#sent = histogram(
      'rest_client_request_size_bytes',
      '[ALPHA] Request size in bytes. Broken down by verb and host.',
      SIZE_BUCKETS,
    );
    this.#read = histogram(
      'rest_client_response_size_bytes',
      '[ALPHA] Response size in bytes. Broken down by verb and host.',
      SIZE_BUCKETS,
    );
  }

  readonly seen = (seen: RequestSeen): void => {
    const { method, host } = seen;
    const labels = { verb: method, host };
    if (seen.kind === 'waited') this.#waits.observe(labels, seen.durationMs / MS_PER_SECOND);
    else if (seen.kind === 'read') this.#read.observe(labels, seen.bytes);
    else {
      this.#requests.inc({ code: seen.code, method, host });
      this.#durations.observe(labels, seen.durationMs / MS_PER_SECOND);
      this.#sent.observe(labels, seen.bytes);
    }
  };
}
