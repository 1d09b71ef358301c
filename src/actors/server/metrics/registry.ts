/** A registry of Prometheus' client as plain families. */
import type { MetricValue, Registry } from 'prom-client';
import { type Family, numberText } from './family.ts';

export async function familiesOf(registry: Registry): Promise<Family[]> {
  const metrics = await registry.getMetricsAsJSON();
  return metrics.map(({ name, help, type, values }) => ({
    name,
    help,
    type: type as unknown as Family['type'],
    samples: values.map(({ labels, value, metricName = name }: MetricValue<string> & { metricName?: string }) => ({
      labels: Object.fromEntries(
        Object.entries(labels).map(([label, text]) => [
          label,
          label === 'le' || label === 'quantile' ? boundText(text) : String(text),
        ]),
      ),
      value,
      ...(metricName === name ? {} : { suffix: metricName.slice(name.length) }),
    })),
  }));
}

const boundText = (bound: string | number | undefined): string =>
  bound === '+Inf' ? bound : numberText(Number(bound));
