/** Instruments of Prometheus' client, one line each. `help` is upstream's text with its stability in front. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

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
