/**
 * `/metrics` and its sub-resources in the formats of Prometheus, and `/stats/summary` as JSON.
 *
 * Metric families as Prometheus' delimited protobuf messages (io.prometheus.client.MetricFamily).
 */
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { messageOf } from '../../../kernel/thrown.ts';
import { ofRunningPods, type Summary, statsText } from '../../stats/usage-types.ts';
import type { Answer, ApiRequest, Endpoint } from '../http/endpoint.ts';
import { firstHeader, json, mediaRanges, pageNotFound, prefersGzip, text } from '../http/endpoint.ts';
import { type Family, type FamilyType, inOrder, namesOf, type Sample, toText } from '../metrics/instruments.ts';
import type { NodeMetrics } from '../metrics/node-metrics.ts';

const compressed = promisify(gzip);
/** The start of this process, by which scrapers detect a restart. */
const STARTED = String(Math.floor((Date.now() - process.uptime() * 1_000) / 1_000));
const TEXT = 'text/plain; version=0.0.4; charset=utf-8';
const PROTOBUF = 'application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited';
/** Escapings of metric names for old scrapers. No name here needs one, so all are equivalent. */
const ESCAPINGS = new Set(['allow-utf-8', 'underscores', 'dots', 'values']);

/** `resetSlis` sets the counts of health checks to zero, for DELETE. */
export function metricsEndpoints(metrics: NodeMetrics, resetSlis: () => void): Endpoint[] {
  const endpoint = (path: string, collect: () => Promise<readonly Family[]>): Endpoint => ({
    path,
    methods: 'any',
    subresources: ['metrics'],
    answer: async (request) => await written(request, await collect()),
  });
  const slis = endpoint('/metrics/slis', () => metrics.slis());
  return [
    endpoint('/metrics', () => metrics.node()),
    endpoint('/metrics/cadvisor', () => metrics.cadvisor()),
    endpoint('/metrics/resource', () => metrics.resource()),
    endpoint('/metrics/probes', () => metrics.probes()),
    { ...slis, answer: (request) => (request.method === 'DELETE' ? emptied(resetSlis) : slis.answer(request)) },
  ];
}

function emptied(reset: () => void): Answer {
  reset();
  return { status: 200, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: 'metrics reset\n' };
}

async function written({ raw }: ApiRequest, families: readonly Family[]): Promise<Answer> {
  const { isProtobuf, escaping } = formOf(firstHeader(raw, 'accept'));
  const body = isProtobuf ? toProtobuf(families) : Buffer.from(toText(families));
  const headers = {
    'content-type': `${isProtobuf ? PROTOBUF : TEXT}; escaping=${escaping}`,
    'process-start-time-unix': STARTED,
  };
  if (!prefersGzip(firstHeader(raw, 'accept-encoding'))) return { status: 200, headers, body };
  return { status: 200, headers: { ...headers, 'content-encoding': 'gzip' }, body: await compressed(body) };
}

/** The first acceptable format that is supported, and the last escaping named before it. */
function formOf(accept: string): { readonly isProtobuf: boolean; readonly escaping: string } {
  let escaping = 'underscores';
  for (const { type, subtype, parameters } of mediaRanges(accept)) {
    const { escaping: named = '', version = '', proto, encoding } = parameters;
    if (ESCAPINGS.has(named)) escaping = named;
    const isMessage = `${type}/${subtype}` === 'application/vnd.google.protobuf';
    if (isMessage && proto === 'io.prometheus.client.MetricFamily' && encoding === 'delimited') {
      return { isProtobuf: true, escaping };
    }
    if (type === 'text' && subtype === 'plain' && ['', '0.0.4'].includes(version)) break;
  }
  return { isProtobuf: false, escaping };
}

/** Measures the node now. Rejects if the node has no source of statistics. */
export interface NodeStats {
  summary(options: { readonly onlyCpuAndMemory: boolean }): Promise<Summary>;
}

/** `/stats/summary`: usage of the node, its pods and their containers, measured at each request. */
export function statsEndpoints(stats: NodeStats): Endpoint[] {
  const nowhere = (path: string): Endpoint => ({ path, methods: 'any', subresources: ['stats'], answer: pageNotFound });
  return [
    {
      path: '/stats/summary',
      methods: ['GET', 'POST'],
      produces: ['application/json'],
      subresources: ['stats'],
      answer: (request) => summary(request, stats),
    },
    nowhere('/stats'),
    nowhere('/stats/*'),
  ];
}

async function summary(request: ApiRequest, stats: NodeStats) {
  const asked = request.query.get('only_cpu_and_memory') ?? [];
  const onlyCpuAndMemory = asked.length === 1 && asked[0] === 'true';
  try {
    const measured = await stats.summary({ onlyCpuAndMemory });
    return json(statsText(ofRunningPods(measured), 1));
  } catch (error) {
    return text(500, `Internal Error: ${messageOf(error)}`);
  }
}

const TYPES: Readonly<Record<FamilyType, number>> = { counter: 0, gauge: 1, summary: 2, histogram: 4 };
/** Field of a Metric that holds a plain value, by type. */
const PLAIN: Readonly<Partial<Record<FamilyType, number>>> = { gauge: 2, counter: 3 };
const SUMMARY = 4;
const HISTOGRAM = 7;
const TIMESTAMP = 6;

export function toProtobuf(families: readonly Family[]): Buffer {
  const messages = inOrder(families).map((family) => {
    const head = [textField(1, family.name), textField(2, family.help), varintField(3, TYPES[family.type])];
    const body = Buffer.concat([...head, ...metricsOf(family).map((metric) => bytes(4, metric))]);
    return Buffer.concat([varint(body.length), body]);
  });
  return Buffer.concat(messages);
}

function metricsOf({ type, samples }: Family): Buffer[] {
  const plain = PLAIN[type];
  if (plain !== undefined) {
    return samples.map(({ labels, value, timestampMs }) =>
      Buffer.concat([...labelFields(labels), bytes(plain, double(1, value)), ...timeField(timestampMs)]),
    );
  }
  const groups = Object.values(Object.groupBy(samples, ({ labels }) => JSON.stringify(ownLabels(labels))));
  return groups.map((group = []) => distribution(type, group));
}

const ownLabels = ({ le: _le, quantile: _quantile, ...own }: Sample['labels']): Sample['labels'] => own;

function distribution(type: FamilyType, samples: readonly Sample[]): Buffer {
  const valueOf = (suffix: string) => samples.find((sample) => sample.suffix === suffix)?.value ?? 0;
  const isHistogram = type === 'histogram';
  const parts = samples
    .map(({ labels, value }) => ({ bound: labels['le'] ?? labels['quantile'], value }))
    .flatMap(({ bound: text, value }) => {
      if (text === undefined) return [];
      const bound = numberOf(text);
      const fields = isHistogram ? [varintField(1, value), double(2, bound)] : [double(1, bound), double(2, value)];
      return bytes(3, Buffer.concat(fields));
    });
  const body = Buffer.concat([varintField(1, valueOf('_count')), double(2, valueOf('_sum')), ...parts]);
  return Buffer.concat([
    ...labelFields(ownLabels(samples[0]?.labels ?? {})),
    bytes(isHistogram ? HISTOGRAM : SUMMARY, body),
  ]);
}

const numberOf = (value: string): number => (value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value));

const labelFields = (labels: Sample['labels']): Buffer[] =>
  namesOf(labels).map((name) => bytes(1, Buffer.concat([textField(1, name), textField(2, labels[name] ?? '')])));

const timeField = (ms: number | undefined): Buffer[] => (ms === undefined ? [] : [varintField(TIMESTAMP, ms)]);

function varint(value: number): Buffer {
  const out: number[] = [];
  let rest = BigInt(Math.trunc(value));
  for (; rest > 127n; rest >>= 7n) out.push(Number(rest & 127n) | 128);
  return Buffer.from([...out, Number(rest)]);
}

const varintField = (field: number, value: number): Buffer => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field: number, value: Buffer): Buffer =>
  Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);
const textField = (field: number, value: string): Buffer => bytes(field, Buffer.from(value));

function double(field: number, value: number): Buffer {
  const buffer = Buffer.alloc(9);
  buffer[0] = (field << 3) | 1;
  buffer.writeDoubleLE(value, 1);
  return buffer;
}
