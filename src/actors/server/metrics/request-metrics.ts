/** What was asked of the node's servers. Owns its counters; labels are routes, never paths as they were sent. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
const LONG_RUNNING = new Set(['exec', 'attach', 'portForward', 'run', 'containerLogs', 'debug']);
const LABELS = ['method', 'path', 'server_type', 'long_running'] as const;
const MS_PER_SECOND = 1_000;

export class RequestMetrics {
  readonly #total: Counter<(typeof LABELS)[number]>;
  readonly #inflight: Gauge<(typeof LABELS)[number]>;
  readonly #duration: Histogram<(typeof LABELS)[number]>;

  constructor(registry: Registry) {
    const common = { labelNames: [...LABELS], registers: [registry] };
    this.#total = new Counter({
      ...common,
      name: 'kubelet_http_requests_total',
      help: '[ALPHA] Number of the http requests received since the server started',
    });
    this.#inflight = new Gauge({
      ...common,
      name: 'kubelet_http_inflight_requests',
      help: '[ALPHA] Number of the inflight http requests',
    });
    this.#duration = new Histogram({
      ...common,
      name: 'kubelet_http_requests_duration_seconds',
      help: '[ALPHA] Duration in seconds to serve http requests',
      buckets: BUCKETS,
    });
  }

  /** The answer to a request begins; {@link RequestMetrics.answered} ends it. */
  began(serverType: ServerType, method: string, route: string): void {
    this.#inflight.inc(labelsOf(serverType, method, route));
  }

  /** `route` is an endpoint's path, or a word for requests that reached none. */
  answered(serverType: ServerType, method: string, route: string, durationMs: number): void {
    const labels = labelsOf(serverType, method, route);
    this.#inflight.dec(labels);
    this.#total.inc(labels);
    this.#duration.observe(labels, durationMs / MS_PER_SECOND);
  }
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
