/**
 * Instruments of Prometheus' client, the families of their samples and the text of these, and the access of all metrics
 * to the kernel's records.
 *
 * `help` is upstream's text with its stability.
 */
import { Counter, Gauge, Histogram, type MetricValue, type Registry } from 'prom-client';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { PodContext } from '../../../machines/charts/pods/pod/pod-context.ts';
import { mapValues } from '../../../machines/model/values/tables.ts';
import { contextOf, type NodeEffect, type NodeRecord } from '../../node-records.ts';

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

/** A counter with one label whose counts are kept elsewhere, by the value of the label, and read by a scrape. */
export const sampledCounter = (
  registry: Registry,
  name: string,
  help: string,
  label: string,
  counts: ReadonlyMap<string, number>,
): Counter =>
  new Counter({
    name,
    help,
    labelNames: [label],
    registers: [registry],
    collect() {
      this.reset();
      for (const [value, count] of counts) this.inc({ [label]: value }, count);
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
      labels: mapValues(labels, (text, label) =>
        label === 'le' || label === 'quantile' ? boundText(text) : String(text),
      ),
      value,
      ...(metricName === name ? {} : { suffix: metricName.slice(name.length) }),
    })),
  }));
}

const boundText = (bound: string | number | undefined): string =>
  bound === '+Inf' ? bound : numberText(Number(bound));

export type FamilyType = 'counter' | 'gauge' | 'histogram' | 'summary';

export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  /** `_bucket`, `_sum`, `_count`; absent for the family's own. */
  readonly suffix?: string;
  /** Milliseconds since the epoch, for values measured before the request. */
  readonly timestampMs?: number;
}

export interface Family {
  readonly name: string;
  /** Upstream's text, with its stability as prefix: `[ALPHA] …`. */
  readonly help: string;
  readonly type: FamilyType;
  readonly samples: readonly Sample[];
}

export const gaugeOf = (name: string, help: string, samples: readonly Sample[]): Family => ({
  name,
  help,
  type: 'gauge',
  samples,
});

export const one = (value: number, labels: Sample['labels'] = {}): Sample => ({ labels, value });

/** Families without samples are omitted, as by upstream. */
export function toText(families: readonly Family[]): string {
  return inOrder(families)
    .map(({ name, help, type, samples }) => {
      const lines = samples.map(
        ({ suffix = '', labels, value, timestampMs }) =>
          `${name}${suffix}${labelText(labels)} ${numberText(value)}${timestampMs === undefined ? '' : ` ${timestampMs}`}\n`,
      );
      return `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n${lines.join('')}`;
    })
    .join('');
}

export const inOrder = (families: readonly Family[]): Family[] =>
  families
    .filter(({ samples }) => samples.length > 0)
    .toSorted((one, other) => (one.name < other.name ? -1 : Number(one.name > other.name)));

const escapeHelp = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
/** Detects labels that need escaping: few do, and a scrape may have a hundred thousand labels. */
const IS_SPECIAL = /[\\\n"]/;
const escapeLabel = (text: string): string => (IS_SPECIAL.test(text) ? escapeHelp(text).replaceAll('"', '\\"') : text);

function labelText(labels: Sample['labels']): string {
  let pairs = '';
  for (const name of namesOf(labels)) pairs += `${pairs === '' ? '' : ','}${name}="${escapeLabel(labels[name] ?? '')}"`;
  return pairs === '' ? '' : `{${pairs}}`;
}

/** The names of labels in the order of Go's encoder: by name, with the bound of a bucket or quantile last. */
export function namesOf(labels: Sample['labels']): string[] {
  const names = Object.keys(labels);
  let before: string | undefined;
  for (const name of names) {
    if (before !== undefined && isAfter(before, name)) return names.toSorted(byPlace);
    before = name;
  }
  return names;
}

const isBound = (name: string): boolean => name === 'le' || name === 'quantile';
const isAfter = (one: string, other: string): boolean => isBound(one) || (!isBound(other) && one > other);
const byPlace = (one: string, other: string): number => (isAfter(one, other) ? 1 : -1);

/** From this value on, and below a ten thousandth, Go writes an exponent of two digits. */
const EXPONENT_FROM = 1e6;
const EXPONENT_BELOW = 1e-4;

/** A number as written by Go's `%g`. */
function numberText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf';
  const magnitude = Math.abs(value);
  if (magnitude === 0 || (magnitude < EXPONENT_FROM && magnitude >= EXPONENT_BELOW)) return String(value);
  return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
}

export const MS_PER_SECOND = 1_000;
export const DEFAULT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
export const POD_START_BUCKETS = [
  0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
];

/** An unanswered operation of a machine. */
export type UnderWay = Started<NodeEffect>;
type Started<Effect> = Effect extends NodeEffect
  ? Pick<Effect, 'name' | 'input' | 'class'> & { readonly address: string; readonly sinceMs: number }
  : never;

export interface RecordContext {
  readonly kernel: Kernel;
  /** The request that a `result` or `cancel` record ends. */
  readonly request: UnderWay | undefined;
  /** How long the machines took for this turn. */
  readonly turnMs: number;
}

export type RecordKind = NodeRecord['k'];

/** A part of the metrics, derived from the records of turns, in order; `end` closes each turn. */
export interface Projection {
  /** The record kinds that it receives. */
  readonly recordKinds: readonly RecordKind[];
  on(record: NodeRecord, seen: RecordContext): void;
}

const POD = 'kubelet/pods/pod-';

/** The uid of the pod whose actor is at this address or above it; empty without one. */
export function podUidAt(address: string): string {
  if (!address.startsWith(POD)) return '';
  const end = address.indexOf('/', POD.length);
  return address.slice(POD.length, end === -1 ? undefined : end);
}

export const isPodActor = (address: string): boolean => address.startsWith(POD) && !address.includes('/', POD.length);

export const podContext = (address: string, kernel: Kernel): PodContext | undefined =>
  contextOf<PodContext>(kernel, address);

/** The context of the pod's actor, by any address below it. */
export function podContextAt(address: string, kernel: Kernel): PodContext | undefined {
  const uid = podUidAt(address);
  return uid === '' ? undefined : podContext(`${POD}${uid}`, kernel);
}
