/** What `/metrics/slis` says: the result of each check now, and how often each result was seen. */
import type { NodeView } from '../../node-view.ts';
import { type Family, gaugeOf, one, type Sample } from '../family.ts';

/** Each look at the checks counts, as upstream's own rounds do. */
export class HealthcheckCounts {
  readonly #counts = new Map<string, number>();

  families({ checks }: NodeView): Family[] {
    const results = Object.entries(checks)
      .map(([name, check]) => ({ name, healthy: check() === null }))
      .toSorted((left, right) => (left.name < right.name ? -1 : 1));
    for (const { name, healthy } of results) {
      const key = JSON.stringify({ name, status: healthy ? 'success' : 'error', type: 'healthz' });
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
    }
    return [
      gaugeOf(
        'kubernetes_healthcheck',
        '[STABLE] This metric records the result of a single healthcheck.',
        results.map(({ name, healthy }) => one(healthy ? 1 : 0, { name, type: 'healthz' })),
      ),
      {
        name: 'kubernetes_healthchecks_total',
        help: '[STABLE] This metric records the results of all healthcheck.',
        type: 'counter',
        samples: [...this.#counts].map(([key, count]) => one(count, JSON.parse(key) as Sample['labels'])),
      },
    ];
  }
}
