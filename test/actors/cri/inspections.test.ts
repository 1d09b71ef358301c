/** One inspection serves all earlier requests, and no later one. */
import { expect, it, onTestFinished } from 'vitest';
import { CallsInProgress } from '../../../src/actors/cri/calls-in-progress.ts';
import { connectRuntime } from '../../../src/actors/cri/client.ts';
import { Inspections, inspectPod, PodIds } from '../../../src/actors/cri/inspect.ts';
import { DEFAULT_RELIST_PERIODS } from '../../../src/actors/cri/relist-timer.ts';
import { PodWatcher } from '../../../src/actors/cri/watch-pods.ts';
import type { PodRuntimeStatus, WatchPodsItem } from '../../../src/machines/model/operations/cri.ts';
import { FakeRuntime, fakePod } from './fake-runtime.ts';

const seen = (observedAtMs: number): PodRuntimeStatus => ({
  uid: 'u',
  name: 'p',
  namespace: 'ns',
  sandboxes: [],
  containers: [],
  observedAtMs,
});

it('serves a request from before it began', async () => {
  const inspections = new Inspections();
  const moment = inspections.moment();
  const own = inspections.take('u', () => Promise.resolve(seen(1)));
  expect(await inspections.after('u', moment)).toEqual(seen(1));
  expect(await own).toEqual(seen(1));
});

it('serves neither a request made while it ran, nor one for another pod', () => {
  const inspections = new Inspections();
  const moment = inspections.moment();
  void inspections.take('u', () => new Promise(() => {}));
  expect(inspections.after('u', inspections.moment())).toBeUndefined();
  expect(inspections.after('other', moment)).toBeUndefined();
});

it('is forgotten soon, whether it saw something or failed', async () => {
  const inspections = new Inspections();
  const moment = inspections.moment();
  await inspections.take('u', () => Promise.resolve(seen(1)));
  await expect(inspections.take('v', () => Promise.reject(new Error('no runtime')))).rejects.toThrow('no runtime');
  await expect
    .poll(() => [inspections.after('u', moment), inspections.after('v', moment)])
    .toEqual([undefined, undefined]);
});

it('an event and the inspection that the pod takes after it are one inspection', async () => {
  const fake = await FakeRuntime.start();
  fake.pods.set('a', fakePod('a'));
  const client = connectRuntime({ endpoint: fake.endpoint });
  const aborter = new AbortController();
  const items: WatchPodsItem[] = [];
  const inspections = new Inspections();
  const podIds = new PodIds();
  const watcher = new PodWatcher({
    client,
    inspections,
    own: new CallsInProgress(),
    podIds,
    emit: (item) => void items.push(item),
    signal: aborter.signal,
    relistPeriodMs: 600_000,
    inspectDeadlineMs: 60_000,
    inspectParallel: 4,
    requestTimeoutMs: 60_000,
    periods: DEFAULT_RELIST_PERIODS,
    now: Date.now,
    warn: () => {},
  });
  const running = watcher.run();
  onTestFinished(async () => {
    aborter.abort();
    await running;
    client.close();
    await fake.close();
  });
  await expect.poll(() => items.map(({ type }) => type)).toContain('runtime.relisted');
  const before = fake.count('ListPodSandbox');
  fake.pods.set('a', fakePod('a', 'CONTAINER_EXITED'));
  watcher.hint({ id: 'container-a', outcome: 'exited' });
  await inspections.take('a', () => inspectPod(client, 'a', { timeoutMs: 60_000, podIds, observedAtMs: Date.now() }));
  await expect.poll(() => items.filter(({ type }) => type === 'runtime.podChanged')).toHaveLength(2);
  expect(fake.count('ListPodSandbox') - before).toBe(1);
});
