/** Metrics of authentication: certificates of clients, tokens from the cache or by review. */
import type { Registry } from 'prom-client';
import type { CacheSeen } from '../../auth/cache.ts';
import { counter, gauge, histogram } from '../instruments.ts';
import { DEFAULT_BUCKETS, MS_PER_SECOND } from '../projection.ts';

/** Upstream's, in seconds: from nothing over half an hour to a year. */
const LIFETIME_BUCKETS = [
  0, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800, 345_600, 604_800, 2_592_000, 7_776_000, 15_552_000,
  31_104_000,
];
const CACHE = 'authentication_token_cache_';

export class AuthMetrics {
  readonly #lifetimes;
  /** Of the cache of tokens. Upstream's texts for these are empty. */
  readonly tokens: CacheSeen;

  constructor(registry: Registry) {
    const none = '[ALPHA] ';
    this.#lifetimes = histogram(
      registry,
      'apiserver_client_certificate_expiration_seconds',
      '[ALPHA] Distribution of the remaining lifetime on the certificate used to authenticate a request.',
      LIFETIME_BUCKETS,
    );
    const requests = counter(registry, `${CACHE}request_total`, none, ['status']);
    const durations = histogram(registry, `${CACHE}request_duration_seconds`, none, DEFAULT_BUCKETS, ['status']);
    const fetches = counter(registry, `${CACHE}fetch_total`, none, ['status']);
    const active = gauge(registry, `${CACHE}active_fetch_count`, none, ['status']);
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

  /** A client showed a certificate that is good until then, or was. */
  shown(notAfterMs: number): void {
    this.#lifetimes.observe((notAfterMs - Date.now()) / MS_PER_SECOND);
  }
}
