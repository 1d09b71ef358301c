/** `/metrics` and its sub-resources in the formats of Prometheus, and `/stats/summary` as JSON. */
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { messageOf } from '../../../kernel/thrown.ts';
import { ofRunningPods, type Summary, statsText } from '../../stats/usage-types.ts';
import { type Answer, firstHeader, json, mediaRanges, pageNotFound, prefersGzip, text } from '../http/answer.ts';
import { type ApiRequest, type Endpoint, first } from '../http/endpoint.ts';
import { type Family, toText } from '../metrics/instruments.ts';
import type { NodeMetrics } from '../metrics/node-metrics.ts';
import { toProtobuf } from '../metrics/protobuf.ts';

const compressed = promisify(gzip);
/** The start of this process, by which scrapers detect a restart. */
const STARTED = String(Math.floor((Date.now() - process.uptime() * 1_000) / 1_000));
const TEXT = 'text/plain; version=0.0.4; charset=utf-8';
const PROTOBUF = 'application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited';
/** Escapings of metric names for old scrapers. No name here needs one, so all are equivalent. */
const ESCAPINGS = new Set(['allow-utf-8', 'underscores', 'dots', 'values']);

export function metricsEndpoints(metrics: NodeMetrics): Endpoint[] {
  const endpoint = (path: string, collect: () => Promise<readonly Family[]>): Endpoint => ({
    path,
    methods: 'any',
    subresources: ['metrics'],
    answer: async (request) => await written(request, await collect()),
  });
  return [
    endpoint('/metrics', () => metrics.node()),
    endpoint('/metrics/cadvisor', () => metrics.cadvisor()),
    endpoint('/metrics/resource', () => metrics.resource()),
    endpoint('/metrics/probes', () => metrics.probes()),
    endpoint('/metrics/slis', () => metrics.slis()),
  ];
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
  const onlyCpuAndMemory = /^(1|t|T|TRUE|true|True)$/.test(first(request, 'only_cpu_and_memory') ?? '');
  try {
    const measured = await stats.summary({ onlyCpuAndMemory });
    return json(statsText(ofRunningPods(measured), 1));
  } catch (error) {
    return text(500, `Internal Error: ${messageOf(error)}`);
  }
}
