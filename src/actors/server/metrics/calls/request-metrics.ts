/** Metrics of the requests to the node's servers. Only known parts of a path become labels. */
import type { Registry } from 'prom-client';
import type { CacheObserver } from '../../authentication.ts';
import type { Kind } from '../../streaming/remote-command.ts';
import { counter, DEFAULT_BUCKETS, gauge, histogram, Instruments, MS_PER_SECOND } from '../instruments.ts';
import { Healthchecks } from './healthchecks.ts';

/** Upstream's list of methods, which omits PATCH. */
const METHODS = new Set(['OPTIONS', 'GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'TRACE', 'CONNECT']);
/** Upstream's list of long-running requests, which spells `portForward` differently and therefore does not match it. */
const LONG_RUNNING = new Set(['exec', 'attach', 'debug']);
/** The paths with a label of their own; all others count as `other`. */
const PATHS: ReadonlySet<string> = new Set(
  (
    'healthz pods stats metrics metrics/cadvisor metrics/probes metrics/resource logs debug run exec attach portForward ' +
    'containerLogs configz runningpods checkpoint flagz statusz'
  ).split(' '),
);
const LABELS = ['method', 'path', 'server_type', 'long_running'] as const;

export class RequestMetrics extends Instruments {
  readonly auth = new AuthMetrics(this.registry);
  readonly healthchecks = new Healthchecks();
  readonly #total = counter(
    this.registry,
    'kubelet_http_requests_total',
    '[ALPHA] Number of the http requests received since the server started',
    LABELS,
  );
  readonly #inflight = gauge(
    this.registry,
    'kubelet_http_inflight_requests',
    '[ALPHA] Number of the inflight http requests',
    LABELS,
  );
  readonly #duration = histogram(
    this.registry,
    'kubelet_http_requests_duration_seconds',
    '[ALPHA] Duration in seconds to serve http requests',
    DEFAULT_BUCKETS,
    LABELS,
  );
  readonly #streams = counter(
    this.registry,
    'kubelet_websocket_streaming_requests_total',
    '[ALPHA] Total number of WebSocket streaming requests (exec/attach/portforward) received by the kubelet.',
    ['subresource'],
  );

  /** `path` is the decoded request path. {@link RequestMetrics.answered} ends the request. */
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

  /** Counts the start of a WebSocket stream. */
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

/** As upstream: the first part of the path, for metrics the first two. */
function pathLabel(path: string): string {
  const [first = '', second] = path.replace(/^\//, '').split('/');
  const words = first === 'metrics' && second !== undefined ? `${first}/${second}` : first;
  return PATHS.has(words) ? words : 'other';
}

/** Upstream's buckets in seconds: zero, half an hour, and longer times up to a year. */
const LIFETIME_BUCKETS = [
  0, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800, 345_600, 604_800, 2_592_000, 7_776_000, 15_552_000,
  31_104_000,
];
const CACHE = 'authentication_token_cache_';

/** Metrics of authentication: certificates of clients, tokens from the cache or by review. */
class AuthMetrics {
  readonly #lifetimes;
  /** Counts of the cache of tokens. Upstream's help texts for these are empty. */
  readonly tokens: CacheObserver;

  constructor(registry: Registry) {
    const noHelp = '[ALPHA] ';
    this.#lifetimes = histogram(
      registry,
      'apiserver_client_certificate_expiration_seconds',
      '[ALPHA] Distribution of the remaining lifetime on the certificate used to authenticate a request.',
      LIFETIME_BUCKETS,
    );
    const requests = counter(registry, `${CACHE}request_total`, noHelp, ['status']);
    const durations = histogram(registry, `${CACHE}request_duration_seconds`, noHelp, DEFAULT_BUCKETS, ['status']);
    const fetches = counter(registry, `${CACHE}fetch_total`, noHelp, ['status']);
    const active = gauge(registry, `${CACHE}active_fetch_count`, noHelp, ['status']);
    this.tokens = {
      answered: (status, durationMs) => {
        requests.inc({ status });
        durations.observe({ status }, durationMs / MS_PER_SECOND);
      },
      waits: (by) => active.inc({ status: 'blocked' }, by),
      fetches: (by) => active.inc({ status: 'in_flight' }, by),
      fetched: (status) => fetches.inc({ status }),
    };
  }

  /** Observes a certificate of a client with this expiry, which may be in the past. */
  shown(notAfterMs: number): void {
    this.#lifetimes.observe((notAfterMs - Date.now()) / MS_PER_SECOND);
  }
}

const API_VERSION_LABELS = ['server_api_version'] as const;
const VERSION = { server_api_version: 'v1' };
const PREFIX = 'kubelet_pod_resources_endpoint_';

/** Metrics of the requests to the socket of pod resources, by the version of its API. */
export type PodResourcesMethod = 'List' | 'GetAllocatableResources' | 'Get';

/** Upstream's names in metrics and texts. */
const METHOD_NAMES: Readonly<Record<PodResourcesMethod, string>> = {
  List: 'list',
  GetAllocatableResources: 'get_allocatable',
  Get: 'get',
};

export class PodResourcesMetrics extends Instruments {
  readonly #total = counter(
    this.registry,
    `${PREFIX}requests_total`,
    '[ALPHA] Cumulative number of requests to the PodResource endpoint. Broken down by server api version.',
    API_VERSION_LABELS,
  );
  readonly #requests = this.#ofEach('requests', '');
  readonly #errors = this.#ofEach('errors', ' which returned error');

  #ofEach(kind: 'requests' | 'errors', outcome: string) {
    const counterOf = (method: PodResourcesMethod) => {
      const help = `[ALPHA] Number of requests to the PodResource ${method} endpoint${outcome}. Broken down by server api version.`;
      return counter(this.registry, `${PREFIX}${kind}_${METHOD_NAMES[method]}`, help, API_VERSION_LABELS);
    };
    return {
      List: counterOf('List'),
      GetAllocatableResources: counterOf('GetAllocatableResources'),
      Get: counterOf('Get'),
    };
  }

  asked(method: PodResourcesMethod): void {
    this.#total.inc(VERSION);
    this.#requests[method].inc(VERSION);
  }

  /** Counts a request for the list of v1alpha1, which is part of the total only. */
  askedOlder(): void {
    this.#total.inc({ server_api_version: 'v1alpha1' });
  }

  failed(method: PodResourcesMethod): void {
    this.#errors[method].inc(VERSION);
  }
}
