/** The health endpoint over real connections, with the texts of a recorded kubelet. */
import { createServer } from 'node:http';
import { expect, it, onTestFinished, vi } from 'vitest';
import { healthzPort } from '../../../src/actors/server/endpoints/health.ts';
import type { Checks } from '../../../src/actors/server/node-pods.ts';
import { openStream } from '../../support/host-ports.ts';

const healthz =
  (checks?: Checks) =>
  (call: Parameters<typeof healthzPort>[0]): Promise<null> =>
    healthzPort(call, checks);

async function serve(checks?: Checks) {
  const stream = openStream(healthz(checks), { address: '127.0.0.1', port: 0 });
  const item = await stream.until(() => true);
  if (item.type !== 'healthz.listening') throw new Error(item.message);
  const get = async (path: string, method = 'GET') => {
    const answer = await fetch(`http://127.0.0.1:${item.port}${path}`, { method, redirect: 'manual' });
    return { status: answer.status, body: await answer.text(), type: answer.headers.get('content-type') };
  };
  return { stream, item, get };
}

const TEXT = 'text/plain; charset=utf-8';
const PATIENCE = { timeout: 60_000 };

it('all is well', async () => {
  const { get } = await serve({ log: () => null, syncloop: () => null });
  const ok = { status: 200, body: 'ok', type: TEXT };
  for (const path of ['/healthz', '/healthz/ping', '/healthz/log', '/healthz/syncloop', '/healthz?exclude=ping']) {
    expect(await get(path), path).toEqual(ok);
  }
  expect(await get('/healthz?verbose')).toEqual({
    status: 200,
    body: '[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n',
    type: TEXT,
  });
  expect(await get('/healthz', 'HEAD')).toMatchObject({ status: 200, body: '' });
});

it('a check that fails is named; why is told only on its own path', async () => {
  const { get } = await serve({ syncloop: () => 'sync Loop took longer than expected' });
  expect(await get('/healthz')).toEqual({
    status: 500,
    body: '[+]ping ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n',
    type: TEXT,
  });
  expect(await get('/healthz/syncloop')).toMatchObject({
    status: 500,
    body: 'internal server error: sync Loop took longer than expected\n',
  });
  expect(await get('/healthz?exclude=syncloop')).toMatchObject({ status: 200, body: 'ok' });
});

it('nothing else answers here', async () => {
  const { get } = await serve();
  for (const path of ['/', '/healthz/', '/healthz/nope', '/debug/pprof', '/stats', '/logs', '/metrics', '/%']) {
    expect((await get(path)).status, path).toBeGreaterThanOrEqual(400);
  }
  expect(await get('/metrics')).toEqual({ status: 404, body: '404 page not found\n', type: TEXT });
  expect(await get('/healthz', 'POST')).toEqual({ status: 200, body: 'ok', type: TEXT });
});

it('the port is given back when the machine lost interest', async () => {
  const { stream, item } = await serve();
  await stream.close();
  await expect(fetch(`http://127.0.0.1:${item.port}/healthz`)).rejects.toThrow('fetch failed');
});

it('a port that is taken is said once, and served as soon as it is free', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => other.once('listening', resolve));
  onTestFinished(() => void other.close());
  const address = other.address();
  if (typeof address !== 'object' || address === null) throw new Error('not listening on a port');
  const { port } = address;
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const stream = openStream(healthz(), { address: '127.0.0.1', port });
  await vi.waitFor(() => expect(stream.items).toHaveLength(1), PATIENCE);
  expect(stream.items[0]).toMatchObject({
    type: 'healthz.failed',
    message: expect.stringMatching(`Failed to start healthz server on 127.0.0.1:${port}: .*EADDRINUSE`),
  });
  await vi.advanceTimersByTimeAsync(5_000);
  await new Promise((resolve) => setImmediate(resolve));
  expect(stream.items).toHaveLength(1);
  await new Promise((resolve) => other.close(resolve));
  await vi.waitFor(async () => {
    await vi.advanceTimersByTimeAsync(5_000);
    expect(stream.last).toEqual({ type: 'healthz.listening', address: '127.0.0.1', port });
  }, PATIENCE);
});
