/** The status of a runtime, followed over a real socket. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { connectRuntime, type RuntimeConnection } from '../../../src/actors/runtime/index.ts';
import type { RuntimeStatusItem } from '../../../src/machines/model/operations/runtime.ts';
import { FakeRuntime, never } from '../cri/fake-runtime.ts';

const condition = (type: string) => ({ type, status: true });
const versionOf = (runtime_version: string) => async () => ({ runtime_name: 'containerd', runtime_version });

let fake: FakeRuntime;
let connection: RuntimeConnection;
let items: RuntimeStatusItem[];
let aborter: AbortController;
const callOf = <Input>(input: Input) => ({
  id: 0,
  input,
  resume: false,
  signal: aborter.signal,
  emit: (item: RuntimeStatusItem) => void items.push(item),
});

beforeEach(async () => {
  aborter = new AbortController();
  items = [];
  fake = await FakeRuntime.start({
    Version: versionOf('2.0.0'),
    Status: () => ({ status: { conditions: [condition('RuntimeReady'), condition('NetworkReady')] } }),
  });
  connection = connectRuntime({ info: () => {}, warn: () => {}, error: () => {} } as never);
  const connect = { endpoint: fake.endpoint, imageEndpoint: '', requestTimeoutMs: 1_000 };
  await connection.ports['runtime.connect'](callOf(connect) as never);
});
afterEach(async () => {
  vi.restoreAllMocks();
  aborter.abort();
  await connection.close({ stopContainers: false });
  await fake.close();
});

it('that hangs has failed after a while, and says for how long it was silent', async () => {
  vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => {
    const limit = new AbortController();
    if (ms === 25_000) setTimeout(() => limit.abort(), 100);
    return limit.signal;
  });
  const watching = connection.ports['runtime.watchStatus'](callOf({ periodMs: 5 }) as never);
  await expect.poll(() => items.length).toBe(1);
  fake.handlers.Status = never;
  await expect.poll(() => items.length).toBe(2);
  expect(items[1]).toEqual({
    type: 'runtime.statusFailed',
    message: 'rpc error: code = DeadlineExceeded desc = context deadline exceeded',
    silentMs: expect.any(Number),
  });
  expect((items[1] as { silentMs: number }).silentMs).toBeGreaterThanOrEqual(100);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(items).toHaveLength(2);
  aborter.abort();
  await watching;
});

it('has the version of the runtime, also of one that was replaced, and stays up without one', async () => {
  const versions = () => items.map((item) => (item.type === 'runtime.statusChanged' ? item.version : item.message));
  const watching = connection.ports['runtime.watchStatus'](callOf({ periodMs: 5 }) as never);
  await expect.poll(versions).toEqual(['2.0.0']);
  fake.handlers.Version = versionOf('2.1.0');
  await expect.poll(versions).toEqual(['2.0.0', '2.1.0']);
  delete fake.handlers.Version;
  await expect.poll(versions).toEqual(['2.0.0', '2.1.0', undefined]);
  aborter.abort();
  await watching;
});
