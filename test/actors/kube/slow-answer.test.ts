/**
 * An answer of an API server that begins and never ends: byte by byte, or without further bytes on an open connection.
 */
import { Readable } from 'node:stream';
import { afterEach, expect, it, vi } from 'vitest';
import { KubeClient } from '../../../src/actors/kube/client.ts';
import type { Transport } from '../../../src/actors/kube/transport.ts';

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
