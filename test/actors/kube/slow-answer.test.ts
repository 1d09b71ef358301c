/**
 * An answer of an API server that begins and never ends: byte by byte, or without further bytes on an open connection.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { afterEach, expect, it, vi } from 'vitest';
import { KubeClient } from '../../../src/actors/kube/client.ts';
import type { Kubeconfig } from '../../../src/actors/kube/kubeconfig.ts';
import { Transport } from '../../../src/actors/kube/transport.ts';

afterEach(() => vi.useRealTimers());

const FIVE_MINUTES_MS = 300_000;

it.each([
  ['a success', 200],
  ['a refusal', 500],
])('the end of %s that does not come is given up after five minutes', async (_, statusCode) => {
  vi.useFakeTimers();
  const body = new Readable({ read() {} });
  const drip = setInterval(() => body.push(' '), 1_000);
  body.once('close', () => clearInterval(drip));
  const transport = { server: 'https://server', request: async () => ({ statusCode, headers: {}, body }) };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the parts that the client uses
  const client = new KubeClient({
    transport: transport as unknown as Transport,
    userAgent: 'test',
    limit: null,
    timeoutMs: 0,
  });
  const { signal } = new AbortController();
  const failed = expect(client.call({ method: 'GET', path: '/api/v1/pods', signal })).rejects.toMatchObject({
    code: 'ETIMEDOUT',
    retriable: true,
  });
  await vi.advanceTimersByTimeAsync(FIVE_MINUTES_MS - 1_000);
  expect(body.destroyed).toBe(false);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(body.destroyed).toBe(true);
  await failed;
});

it('a refusal of the credentials that never ends is one after five seconds', async () => {
  let asked = 0;
  const server = createServer((_, response) => {
    asked += 1;
    response.writeHead(401);
    const drip = setInterval(() => response.write(' '), 100);
    response.once('close', () => clearInterval(drip));
    // The second answer is read by the client, which has its own limits.
    if (asked > 1) response.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const config = { server: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, insecure: false, user: {} };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the parts that are used
  const transport = new Transport(config as unknown as Kubeconfig, null);
  const { signal } = new AbortController();
  const request = { method: 'GET', path: '/', headers: {}, signal, headersTimeoutMs: 0 } as const;
  await expect(transport.request(request)).resolves.toMatchObject({ statusCode: 401 });
  expect(asked).toBe(2);
  await transport.closeConnections();
  server.close();
  server.closeAllConnections();
}, 30_000);
