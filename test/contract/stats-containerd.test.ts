/** Statistics of real containers, in the cgroups of this machine. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { StatsReader } from '../../src/actors/stats/reader.ts';
import type { PodStats } from '../../src/actors/stats/usage-types.ts';
import { type Containerd, containerdAvailable, startContainerd } from '../support/containerd.ts';
import { requirement } from '../support/require.ts';
import { Bench, eventually, PATIENT } from './cri-bench.ts';

const MEBIBYTE = 1024n * 1024n;
/** Uses a core, holds 32 MiB of anonymous memory in a tmpfs, and writes 8 MiB into its own layer. */
const BUSY = `head -c 33554432 /dev/zero > /dev/shm/held; head -c 8388608 /dev/zero > /layer; sync; echo ready
while :; do :; done`;
/** Longer than the shortest interval for a rate. */
const WINDOW_MS = 1_500;

describe.skipIf(requirement('containerd', containerdAvailable()).skip)('statistics on containerd', () => {
  let containerd: Containerd;
  let bench: Bench;
  let reader: StatsReader;
  let rootDir: string;
  let pods: string;

  beforeAll(async () => {
    const start = async () => (containerd = await startContainerd());
    bench = new Bench({ name: 'containerd', isolates: true, start });
    await bench.start();
    reader = new StatsReader({ call: (...asked) => bench.client.call(...asked) });
    rootDir = join(containerd.directory, 'kubelet');
    pods = `${containerd.cgroupParent}/kubepods`;
  });
  afterAll(() => bench.close());

  const place = () => ({
    nodeName: 'node',
    rootDir,
    podLogsDir: join(rootDir, 'logs'),
    podsCgroup: pods,
    systemCgroups: { kubelet: '', runtime: '', misc: '' },
  });

  async function podStats(uid: string): Promise<PodStats> {
    const summary = await reader.summary(place());
    const found = summary.pods.find(({ podRef }) => podRef.uid === uid);
    if (!found) throw new Error(`no statistics of pod ${uid}`);
    return found;
  }

  async function timed(uid: string) {
    const beganMs = performance.now();
    const stats = await podStats(uid);
    return { stats, usage: Number(stats.cpu?.usageCoreNanoSeconds), beganMs, endedMs: performance.now() };
  }

  /** The statistics of a pod that uses as much of a core as it gets: the rate must match its counter. */
  async function rated(uid: string): Promise<PodStats> {
    let before = await timed(uid);
    while (before.usage < 0.3e9) {
      await sleep(WINDOW_MS);
      before = await timed(uid);
    }
    await sleep(WINDOW_MS);
    const after = await timed(uid);
    const burned = (after.usage - before.usage) * 1e3;
    const rate = Number(after.stats.cpu?.usageNanoCores);
    expect(rate).toBeGreaterThanOrEqual((0.99 * burned) / (after.endedMs - before.beganMs));
    expect(rate).toBeLessThanOrEqual((1.01 * burned) / (after.beganMs - before.endedMs));
    expect(rate).toBeGreaterThan(0);
    expect(rate).toBeLessThan(2e9);
    return after.stats;
  }

  it('a busy container, its pod and the pods together are measured from their cgroups', async () => {
    const config = bench.pod();
    const uid = config.metadata!.uid!;
    const parent = `${pods}/besteffort/pod${uid}`;
    const linux = { ...config.linux, cgroup_parent: parent };
    const sandbox = await bench.sandbox({ ...config, linux });
    const containerId = await bench.container(sandbox, BUSY);
    await bench.ask('cri.startContainer', { containerId });
    mkdirSync(`${rootDir}/pods/${uid}/volumes/kubernetes.io~empty-dir/cache`, { recursive: true });
    writeFileSync(`${rootDir}/pods/${uid}/volumes/kubernetes.io~empty-dir/cache/file`, Buffer.alloc(2 ** 20, 1));
    await eventually(async () => ((await bench.log(sandbox)).length > 0 ? true : undefined));
    const stats = await rated(uid);
    const [container] = stats.containers;
    expect(container?.memory?.workingSetBytes).toBeGreaterThan(32n * MEBIBYTE);
    expect(container?.memory?.workingSetBytes).toBeLessThan(200n * MEBIBYTE);
    expect(stats.memory?.workingSetBytes).toBeGreaterThan(container!.memory!.workingSetBytes!);
    expect(stats.volume).toMatchObject([{ name: 'cache' }]);
    expect(stats.volume![0]!.usedBytes).toBeGreaterThanOrEqual(MEBIBYTE);
    // containerd measures layers every 10 s.
    const measured = await vi.waitUntil(
      async () => {
        const now = await podStats(uid);
        return (now.containers[0]?.rootfs?.usedBytes ?? 0n) >= 8n * MEBIBYTE ? now : undefined;
      },
      { timeout: PATIENT.timeoutMs, interval: 500 },
    );
    expect(measured['ephemeral-storage']?.usedBytes).toBeGreaterThanOrEqual(9n * MEBIBYTE);
    expect(stats.network?.interfaces.map(({ name }) => name)).toContain('eth0');
    const { node } = await reader.summary(place());
    expect(node.systemContainers?.map(({ name }) => name)).toEqual(['pods']);
    expect(node.runtime?.imageFs?.usedBytes).toBeGreaterThan(0n);
    const samples = await reader.cgroups(place());
    const own = samples.filter(({ labels }) => labels?.pod === config.metadata?.name);
    expect(own.filter(({ labels }) => labels?.container === 'app')).toHaveLength(1);
    expect(own.filter(({ labels }) => labels?.container === '')).toHaveLength(2);
  });
});
