/** Spans of requests, with the names and attributes of the kubelet's. */
import type { IncomingMessage } from 'node:http';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { expect, it } from 'vitest';
import { requestSpan } from '../../../src/actors/tracing/request-spans.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = `00-${TRACE}-b7ad6b7169203331-01`;

function bench() {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  return { tracer: provider.getTracer('test'), finished: () => exporter.getFinishedSpans() };
}

const request = (headers: IncomingMessage['headers']) => ({
  method: 'POST',
  path: '/exec/default/web/app',
  raw: {
    headers: { host: 'node:10250', 'user-agent': 'kubectl', ...headers },
    httpVersion: '1.1',
    socket: { encrypted: true, remoteAddress: '192.0.2.7', remotePort: 4711 },
  } as unknown as IncomingMessage,
});
const ROUTE = '/exec/:namespace/:pod/:container';

it('a request belongs to the span of its client', () => {
  const { tracer, finished } = bench();
  const span = requestSpan(tracer, ROUTE, request({ traceparent: PARENT }));
  expect(span.traceparent).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`));
  span.end(200);
  expect(finished()).toMatchObject([
    {
      name: '/exec/{podNamespace}/{podID}/{containerName}',
      parentSpanContext: { spanId: 'b7ad6b7169203331' },
      attributes: {
        'client.address': '192.0.2.7',
        'http.request.method': 'POST',
        'http.response.status_code': 200,
        'http.route': '/exec/{podNamespace}/{podID}/{containerName}',
        'network.peer.address': '192.0.2.7',
        'network.peer.port': 4711,
        'network.protocol.version': '1.1',
        'server.address': 'kubelet',
        'server.port': 10250,
        'url.path': '/exec/default/web/app',
        'url.scheme': 'https',
        'user_agent.original': 'kubectl',
      },
    },
  ]);
});

it('a port without authentication begins its own trace, linked to that of the client', () => {
  const { tracer, finished } = bench();
  requestSpan(tracer, '/metrics', request({ traceparent: PARENT }), true).end(500);
  const [span] = finished();
  expect(span?.spanContext().traceId).not.toBe(TRACE);
  expect(span?.links).toMatchObject([{ context: { traceId: TRACE } }]);
  expect(span?.status.code).toBe(2);
});

it('what a stranger writes is cut', () => {
  const { tracer, finished } = bench();
  const long = 'x'.repeat(100_000);
  requestSpan(tracer, ROUTE, { ...request({ 'user-agent': long, 'x-forwarded-for': long }), path: long }).end(404);
  const sizes = Object.values(finished()[0]!.attributes).map((value) => String(value).length);
  expect(Math.max(...sizes)).toBe(1_024);
});
