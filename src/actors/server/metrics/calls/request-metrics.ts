/**
 * Metrics of the requests to the node's servers. Owns its counters; of a path only words that are known become labels.
 */
import type { Registry } from 'prom-client';
import type { Kind } from '../../streaming/endpoints.ts';
import { counter, gauge, histogram } from '../instruments.ts';
import { DEFAULT_BUCKETS, MS_PER_SECOND } from '../projection.ts';
import { AuthMetrics } from './auth-metrics.ts';

/** Upstream's, which leaves out PATCH. */
const METHODS = new Set(['OPTIONS', 'GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'TRACE', 'CONNECT']);
/** Upstream's, which writes `portForward` otherwise and so does not know it. */
const LONG_RUNNING = new Set(['exec', 'attach', 'debug']);
/** Everything else is `other`. */
const PATHS: ReadonlySet<string> = new Set(
  (
    'healthz pods stats metrics metrics/cadvisor metrics/probes metrics/resource logs debug run exec attach portForward ' +
    'containerLogs configz runningpods checkpoint flagz statusz'
  ).split(' '),
);
const LABELS = ['method', 'path', 'server_type', 'long_running'] as const;

export class RequestMetrics {
  readonly auth: AuthMetrics;
  readonly #total;
  readonly #inflight;
  readonly #duration;
  readonly #streams;

  constructor(registry: Registry) {
    this.auth = new AuthMetrics(registry);
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

  /** `path` as it was sent, decoded. {@link RequestMetrics.answered} ends it. */
  began(serverType: ServerType, method: string, path: string): void {
    const labels = labelsOf(serverType, method, path);
    this.#total.inc(labels);
    this.#inflight.inc(labels);
  }

  answered(serverType: ServerType, method: string, path: string, durationMs: number): void {
    const labels = labelsOf(serverType, method, path);
    this.#inflight.dec(labels);
    this.#duration.observe(labels, durationMs / MS_PER_SECOND);
  }

  /** A stream by WebSocket begins. */
  readonly streamed = (kind: Kind): void => {
    this.#streams.inc({ subresource: kind.toLowerCase() });
  };
}

export type ServerType = 'readwrite' | 'readonly';

function labelsOf(server_type: ServerType, method: string, sent: string) {
  const path = pathLabel(sent);
  const long_running = String(LONG_RUNNING.has(path));
  return { method: METHODS.has(method) ? method : 'other', path, server_type, long_running };
}

/** As upstream's: the first part of the path, of metrics the first two. */
function pathLabel(path: string): string {
  const [first = '', second] = path.replace(/^\//, '').split('/');
  const words = first === 'metrics' && second !== undefined ? `${first}/${second}` : first;
  return PATHS.has(words) ? words : 'other';
}
