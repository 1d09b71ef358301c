/** Cases that only containerd can have: its crash, and its event service. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { WatchPodsItem } from '../../src/machines/model/operations/cri.ts';
import { type Containerd, containerdAvailable, startContainerd } from '../support/containerd.ts';
import { requirement } from '../support/require.ts';
import { Bench, containerIn, eventually, PATIENT } from './cri-bench.ts';

/** With so rare a relist, only an event can explain what is seen earlier. */
const NEVER_MS = 600_000;

describe.skipIf(requirement('containerd', containerdAvailable()).skip)('containerd', () => {
  let containerd: Containerd;
  let bench: Bench;
  beforeEach(async () => {
    const start = async () => {
      containerd = await startContainerd();
      return containerd;
    };
    bench = new Bench({ name: 'containerd', isolates: true, start });
    await bench.start();
  });
  afterEach(() => bench.close());

  function watch(relistPeriodMs: number) {
    const items: WatchPodsItem[] = [];
    const aborter = new AbortController();
    const input = { relistPeriodMs, inspectDeadlineMs: PATIENT.timeoutMs, inspectParallel: 4 };
    const emit = (item: WatchPodsItem) => void items.push(item);
    const watching = bench.ask('cri.watchPods', input, { signal: aborter.signal, emit });
    const stop = async () => {
      aborter.abort();
      await watching;
    };
    const exited = (uid: string) =>
      eventually(() =>
        items.map((item) => containerIn(item, uid, 'CONTAINER_EXITED')).find((container) => container !== undefined),
      );
    return { items, exited, stop };
  }

  /** Also waits until this client is connected again, because after a refusal it retries only after a while. */
  async function restarted(): Promise<void> {
    await containerd.restart();
    await eventually(() => bench.ask('cri.version', {}).catch(() => undefined));
  }

  it('containers survive its crash, and changes during it are reported afterwards', async () => {
    const { items, exited, stop } = watch(200);
    const lasting = await bench.started('sleep 600');
    const ending = await bench.started('sleep 1; exit 6');
    await restarted();
    expect(await exited(ending.uid)).toMatchObject({ exit_code: 6 });
    expect(await bench.status(lasting.containerId)).toMatchObject({ state: 'CONTAINER_RUNNING' });
    expect(items.filter(({ type }) => type === 'runtime.podRemoved')).toEqual([]);
    await stop();
  });

  it('its events are heard again after its crash, without a relist', async () => {
    const { items, exited, stop } = watch(NEVER_MS);
    await eventually(() => items.find(({ type }) => type === 'runtime.relisted'));
    await restarted();
    const { uid } = await bench.started('sleep 1');
    await exited(uid);
    await stop();
  });

  it('an exit is reported long before a polling kubelet would see it', async () => {
    const { items, exited, stop } = watch(NEVER_MS);
    await eventually(() => items.find(({ type }) => type === 'runtime.relisted'));
    const lagsMs: number[] = [];
    for (let round = 0; round < 5; round += 1) {
      const { uid, containerId, release } = await bench.held('exit 0');
      const reported = exited(uid).then(() => performance.now());
      const released = release();
      await bench.exit(containerId);
      const shownMs = performance.now();
      lagsMs.push((await reported) - shownMs);
      await released;
    }
    // Measured from the moment when a client that polls sees the change. Other work on the machine delays some of them.
    expect(Math.min(...lagsMs)).toBeLessThan(300);
    await stop();
  });
});
