/** `/metrics` and what is below it: everything that can be counted, for Prometheus and its kin. */

import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { mediaRanges } from '../http/accept.ts';
import type { Answer } from '../http/answer.ts';
import type { ApiRequest, Endpoint } from '../http/endpoint.ts';
import { type Family, PROTOBUF_TYPE, TEXT_TYPE, toProtobuf, toText } from '../metrics/family.ts';
import type { NodeMetrics } from '../metrics/node-metrics.ts';

const compressed = promisify(gzip);
/** When this process began: scrapers tell a restart by it. */
const STARTED = String(Math.floor((Date.now() - process.uptime() * 1_000) / 1_000));

export function metricsEndpoints(metrics: NodeMetrics): Endpoint[] {
  const endpoint = (path: string, collect: () => Promise<readonly Family[]>, canCompress: boolean): Endpoint => ({
    path,
    methods: 'any',
    subresources: ['metrics'],
    answer: async (request) => await written(request, await collect(), canCompress),
  });
  return [
    endpoint('/metrics', () => metrics.node(), true),
    endpoint('/metrics/cadvisor', () => metrics.cadvisor(), true),
    endpoint('/metrics/resource', () => metrics.resource(), false),
    endpoint('/metrics/probes', () => metrics.probes(), false),
    endpoint('/metrics/slis', () => metrics.slis(), false),
  ];
}

async function written({ raw }: ApiRequest, families: readonly Family[], canCompress: boolean): Promise<Answer> {
  const wantsMessages = mediaRanges(raw.headers.accept).some(
    ({ type, parameters }) =>
      type === 'application/vnd.google.protobuf' &&
      parameters['proto'] === 'io.prometheus.client.MetricFamily' &&
      parameters['encoding'] === 'delimited',
  );
  const body = wantsMessages ? toProtobuf(families) : Buffer.from(toText(families));
  const headers = {
    'content-type': wantsMessages ? PROTOBUF_TYPE : TEXT_TYPE,
    'process-start-time-unix': STARTED,
  };
  if (!canCompress || !takesGzip(raw.headers['accept-encoding'])) return { status: 200, headers, body };
  return { status: 200, headers: { ...headers, 'content-encoding': 'gzip' }, body: await compressed(body) };
}

const takesGzip = (header: string | string[] | undefined): boolean =>
  mediaRanges(String(header ?? '')).some(({ type }) => type === 'gzip');
