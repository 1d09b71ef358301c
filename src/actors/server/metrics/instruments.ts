/** Instruments of Prometheus' client, and its registry as families. `help` is upstream's text with its stability. */
import { Counter, Gauge, Histogram, type MetricValue, type Registry } from 'prom-client';
import { type Family, numberText } from './family.ts';

type Labels<Label extends string> = readonly Label[];

export const counter = <Label extends string = never>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: Labels<Label> = [],
): Counter<Label> => new Counter({ name, help, labelNames: [...labelNames], registers: [registry] });

export const gauge = <Label extends string = never>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: Labels<Label> = [],
): Gauge<Label> => new Gauge({ name, help, labelNames: [...labelNames], registers: [registry] });

export const histogram = <Label extends string = never>(
  registry: Registry,
  name: string,
  help: string,
  buckets: readonly number[],
  labelNames: Labels<Label> = [],
): Histogram<Label> =>
  new Histogram({ name, help, buckets: [...buckets], labelNames: [...labelNames], registers: [registry] });

/** A part of the metrics that creates its instruments in one registry. */
export abstract class Instruments {
  protected readonly registry: Registry;

  constructor(registry: Registry) {
    this.registry = registry;
  }
}

/** A gauge that is read when metrics are scraped. */
export const sampledGauge = (registry: Registry, name: string, help: string, read: () => number): Gauge =>
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(read());
    },
  });

/** The contents of a Prometheus client registry as plain families. */
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
