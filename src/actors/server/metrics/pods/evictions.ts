/** The age of the statistics on which an eviction was decided. */
import type { Histogram, Registry } from 'prom-client';
import type { EvictionContext } from '../../../../machines/model/eviction/policy.ts';
import { contextOf, type NodeRecord } from '../../../node-records.ts';
import { histogram } from '../instruments.ts';
import { DEFAULT_BUCKETS, MS_PER_SECOND, type Projection, type Seen } from '../projection.ts';

const EVICTION = 'kubelet/eviction';

export class Evictions implements Projection {
  readonly hears = ['message', 'result'] as const;
  readonly #ages: Histogram<'eviction_signal'>;
  #counted: EvictionContext['evictions'] = {};
  #observedAtMs: number | undefined;

  constructor(registry: Registry) {
    this.#ages = histogram(
      registry,
      'kubelet_eviction_stats_age_seconds',
      '[ALPHA] Time between when stats are collected, and when pod is evicted based on those stats by eviction signal',
      DEFAULT_BUCKETS,
      ['eviction_signal'],
    );
  }

  on(record: NodeRecord, { kernel, request }: Seen): void {
    if (record.k === 'result' && request?.name === 'stats.observe') this.#observedAtMs = request.sinceMs;
    else if (record.k === 'message' && record.from === EVICTION && record.event.type === 'pods.kill') {
      this.#went(contextOf<EvictionContext>(kernel, EVICTION)?.evictions ?? {}, kernel.now);
    }
  }

  /** Of the signals that count more pods than before. Limits of local storage are not observed by signals. */
  #went(evictions: EvictionContext['evictions'], nowMs: number): void {
    for (const [eviction_signal, count] of Object.entries(evictions)) {
      const isNew = count > (this.#counted[eviction_signal] ?? 0) && !eviction_signal.endsWith('fs.limit');
      if (!isNew || this.#observedAtMs === undefined) continue;
      this.#ages.observe({ eviction_signal }, (nowMs - this.#observedAtMs) / MS_PER_SECOND);
    }
    this.#counted = evictions;
  }
}
