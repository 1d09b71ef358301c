/** What was asked of the node's servers. Owns its counters; labels are routes, never paths as they were sent. */
import type { Registry } from 'prom-client';
import type { Kind } from '../streaming/endpoints.ts';
import { AuthMetrics } from './auth-metrics.ts';
import { counter, gauge, histogram } from './instruments.ts';
import { PodResourcesMetrics } from './pod-resources-metrics.ts';
import { DEFAULT_BUCKETS, MS_PER_SECOND } from './projection.ts';

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
const LONG_RUNNING = new Set(['exec', 'attach', 'portForward', 'run', 'containerLogs', 'debug']);
const LABELS = ['method', 'path', 'server_type', 'long_running'] as const;

export class RequestMetrics {
  readonly auth: AuthMetrics;
  readonly podResources: PodResourcesMetrics;
  readonly #total;
  readonly #inflight;
  readonly #duration;
  readonly #streams;

  constructor(registry: Registry) {
    this.auth = new AuthMetrics(registry);
    this.podResources = new PodResourcesMetrics(registry);
    const total = '[ALPHA] Number of the http requests received since the server started';
    this.#total = counter(registry, 'kubelet_http_requests_total', total, LABELS);
    const inflight = '[ALPHA] Number of the inflight http requests';
    this.#inflight = gauge(registry, 'kubelet_http_inflight_requests', inflight, LABELS);
    const duration = '[ALPHA] Duration in seconds to serve http requests';
    const name = 'kubelet_http_requests_duration_seconds';
    this.#duration = histogram(registry, name, duration, DEFAULT_BUCKETS, LABELS);
    this.#streams = counter(
      registry,
      'kubelet_websocket_streaming_requests_total',
      '[ALPHA] Total number of WebSocket streaming requests (exec/attach/portforward) received by the kubelet.',
      ['subresource'],
    );
  }

  /** `route` is an endpoint's path, or a word for requests that reach none. {@link RequestMetrics.answered} ends it. */
  began(serverType: ServerType, method: string, route: string): void {
    const labels = labelsOf(serverType, method, route);
    this.#total.inc(labels);
    this.#inflight.inc(labels);
  }

  answered(serverType: ServerType, method: string, route: string, durationMs: number): void {
    const labels = labelsOf(serverType, method, route);
    this.#inflight.dec(labels);
    this.#duration.observe(labels, durationMs / MS_PER_SECOND);
  }

  /** A stream is asked for by WebSocket. */
  readonly streamed = (kind: Kind): void => {
    this.#streams.inc({ subresource: kind.toLowerCase() });
  };
}

export type ServerType = 'readwrite' | 'readonly';

function labelsOf(server_type: ServerType, method: string, route: string) {
  const path = pathLabel(route);
  const long_running = String(LONG_RUNNING.has(path));
  return { method: METHODS.has(method) ? method : 'other', path, server_type, long_running };
}

/** As upstream's: the first part, two of metrics and health checks; everything unknown is `other`. */
function pathLabel(route: string): string {
  if (!route.startsWith('/')) return 'other';
  const [first = '', second = ''] = route.slice(1).split('/');
  const isDetailed = (first === 'metrics' || first === 'healthz' || first === 'stats') && /^[a-z]+$/.test(second);
  return isDetailed ? `${first}/${second}` : first;
}
