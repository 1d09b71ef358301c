/** Which parts of a client's head are forwarded to the runtime, and the leftovers of a tunnel when one side is gone. */
import type { IncomingMessage } from 'node:http';
import { Duplex, PassThrough } from 'node:stream';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { forwardedHeaders, join } from '../../../../src/actors/server/streaming/tunnel.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] }));
afterEach(() => void vi.useRealTimers());

const PIECES = 12;
const LINGER_MS = 10_000;

/** Several rounds of the event loop. */
async function rounds(): Promise<void> {
  for (let nth = 0; nth < 5; nth++) await new Promise((resolve) => setImmediate(resolve));
}

/** A client that reads one piece on request, of a runtime that has sent everything and disconnected. */
async function slowClient() {
  const taken: string[] = [];
  const waiting: (() => void)[] = [];
  const client = new Duplex({
    read() {},
    write(piece: Buffer, _encoding, done) {
      taken.push(String(piece));
      waiting.push(done);
    },
  });
  const runtime = new PassThrough();
  join(client, runtime);
  for (let nth = 0; nth < PIECES; nth++) {
    runtime.push(`${nth} `);
    await rounds();
  }
  runtime.destroy();
  await rounds();
  const take = async () => {
    waiting.shift()?.();
    await rounds();
  };
  return { client, taken, take };
}

it('a client that reads slowly gets everything, however long that takes', async () => {
  const { client, taken, take } = await slowClient();
  for (let nth = 0; nth < PIECES; nth++) {
    await vi.advanceTimersByTimeAsync(LINGER_MS * 0.9);
    await take();
  }
  expect(taken.join('')).toBe(Array.from({ length: PIECES }, (_, nth) => `${nth} `).join(''));
  expect(client.writableFinished).toBe(true);
});

it('a client that takes nothing more is let go', async () => {
  const { client, taken, take } = await slowClient();
  await take();
  await vi.advanceTimersByTimeAsync(2 * LINGER_MS);
  expect(client.destroyed).toBe(true);
  expect(taken).toHaveLength(2);
});

it('a side that was gone before it was joined ends the other one, and nothing is waited for afterwards', async () => {
  const client = new PassThrough();
  client.destroy();
  await rounds();
  const runtime = new PassThrough();
  join(client, runtime);
  expect(runtime.writableEnded).toBe(true);
  await vi.advanceTimersByTimeAsync(LINGER_MS);
  expect([runtime.closed, vi.getTimerCount()]).toEqual([true, 0]);
});

it('a tunnel that has ended leaves no timer', async () => {
  const [client, runtime] = [new PassThrough(), new PassThrough()];
  join(client, runtime);
  client.destroy();
  await rounds();
  runtime.destroy();
  await rounds();
  expect(vi.getTimerCount()).toBe(0);
});

const headOf = (headers: Record<string, string>) =>
  ({
    rawHeaders: Object.entries(headers).flat(),
    headers,
    socket: { remoteAddress: '192.0.2.7' },
  }) as unknown as IncomingMessage;

it.each([
  [
    { authorization: 'Bearer x', upgrade: 'SPDY/3.1' },
    { upgrade: 'SPDY/3.1', 'User-Agent': 'statelet', 'X-Forwarded-For': '192.0.2.7' },
  ],
  [
    { 'user-agent': 'kubectl', 'x-forwarded-for': '192.0.2.1' },
    { 'user-agent': 'kubectl', 'X-Forwarded-For': '192.0.2.1, 192.0.2.7' },
  ],
])('of the headers %j goes on what the runtime may see, and whose they are', (sent, gone) => {
  expect(forwardedHeaders(headOf(sent), 'http://127.0.0.1:9/exec/token')).toEqual({ Host: '127.0.0.1:9', ...gone });
});
