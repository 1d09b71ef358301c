/** Requests that are traced: when a span begins and ends, and what the endpoint's calls carry. */
import { afterEach, expect, it } from 'vitest';
import { ApiServer, type ApiServerOptions } from '../../../../src/actors/server/http/api-server.ts';
import { text } from '../../../../src/actors/server/http/endpoint.ts';
import { Listener } from '../../../../src/actors/server/tls/listener.ts';
import { traceparent } from '../../../../src/actors/tracing/propagation.ts';

const opened: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

async function serving(gate: ApiServerOptions['gate']) {
  const spans: string[] = [];
  const answer = () => text(200, traceparent() ?? 'none');
  const api = await new ApiServer({
    endpoints: [{ path: '/run/:namespace', methods: ['GET'], subresources: ['proxy'], answer }],
    gate,
    traced: (route, { method, path }) => {
      spans.push(`${method} ${path} by ${route}`);
      return { traceparent: 'span', end: (status) => spans.push(`ended ${status}`) };
    },
  }).open();
  const listener = new Listener({ address: '127.0.0.1', port: 0, accept: (socket) => api.accept(socket), tls: null });
  opened.push(listener, api);
  const port = await listener.listen();
  return { spans, get: (path: string) => fetch(`http://127.0.0.1:${port}${path}`).then((answered) => answered.text()) };
}

it('an authorized request has a span, which its calls carry, until it is answered', async () => {
  const { spans, get } = await serving(async () => null);
  expect(await get('/run/a')).toBe('span');
  await expect.poll(() => spans).toEqual(['GET /run/a by /run/:namespace', 'ended 200']);
});

it('neither a refused request nor one without an endpoint has a span', async () => {
  const { spans, get } = await serving(async () => text(401, 'Unauthorized'));
  expect(await get('/run/a')).toBe('Unauthorized');
  await get('/other');
  expect(spans).toEqual([]);
});
