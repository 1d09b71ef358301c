/**
 * The content of `/metrics/slis`: the last result of each health check, and the count of each result.
 *
 * As in upstream, a check counts when a client of `/healthz` causes it; the path of a single check does not count.
 */
import { Registry } from 'prom-client';
import { counter, type Family, familiesOf, gauge } from '../instruments.ts';

export class Healthchecks {
  readonly #registry = new Registry();
  readonly #last = gauge(
    this.#registry,
    'kubernetes_healthcheck',
    '[STABLE] This metric records the result of a single healthcheck.',
    ['name', 'type'],
  );
  readonly #total = counter(
    this.#registry,
    'kubernetes_healthchecks_total',
    '[STABLE] This metric records the results of all healthcheck.',
    ['name', 'type', 'status'],
  );

  readonly checked = (name: string, healthy: boolean): void => {
    const labels = { name, type: 'healthz' };
    this.#last.set(labels, healthy ? 1 : 0);
    this.#total.inc({ ...labels, status: healthy ? 'success' : 'error' });
  };

  reset(): void {
    this.#registry.resetMetrics();
  }

  families(): Promise<Family[]> {
    return familiesOf(this.#registry);
  }
}
