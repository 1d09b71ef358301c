import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { exceededLimit, StatsReader, statsPorts } from '../../../src/actors/stats/index.ts';
import type { RuntimeCall } from '../../../src/actors/stats/inventory.ts';
import type { EvictionThreshold } from '../../../src/machines/model/operations/stats.ts';
import { openStream, perform, temporaryFolder } from '../../support/host-ports.ts';
import { machineFiles } from '../../support/machine-files.ts';

const MEBIBYTE = 1_048_576;
const USAGE = 'sys/fs/cgroup/memory/memory.usage_in_bytes';
const STAT = 'sys/fs/cgroup/memory/memory.stat';

/** A runtime without pods. */
const empty = (async (name: string) =>
  ({
    ListPodSandbox: { items: [] },
    ListContainers: { containers: [] },
    ListContainerStats: { stats: [] },
    ImageFsInfo: { image_filesystems: [], container_filesystems: [] },
  })[name]) as unknown as RuntimeCall;

async function node(call = empty) {
  const root = await machineFiles('cgroup-v1', { [STAT]: 'total_inactive_file 0\n' });
  const rootDir = await temporaryFolder();
  const systemCgroups = { kubelet: '', runtime: '', misc: '' };
  const place = { nodeName: 'n', rootDir, podLogsDir: join(rootDir, 'logs'), podsCgroup: '/kubepods', systemCgroups };
  const reader = new StatsReader({ root, call });
  const total = reader.memoryTotal();
  // Replaces the file at once, as the kernel changes it, so that no reader sees half of it.
  const leave = (mebibytes: number): void => {
    const next = join(rootDir, 'usage');
    writeFileSync(next, String(total - BigInt(mebibytes * MEBIBYTE)));
    renameSync(next, join(root, USAGE));
  };
  return { ports: statsPorts(reader), place, leave, total };
}

const threshold: EvictionThreshold = {
  signal: 'memory.available',
  value: { quantity: '100Mi' },
  graceMs: 0,
  minReclaim: { quantity: '50Mi' },
};

describe('signals', () => {
  it('emit nothing without a shortage, and emit when a threshold is met and when its minimum is free again', async () => {
    const { ports, place, leave } = await node();
    leave(500);
    const watch = openStream(ports['stats.watchSignals'], { place, thresholds: [threshold], periodMs: 10 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(watch.items).toEqual([]);
    const available = (mebibytes: number) => (item: (typeof watch.items)[number]) =>
      item.type === 'signals.changed' &&
      item.observations['memory.available']?.available === String(mebibytes * MEBIBYTE);
    leave(90);
    await watch.until(available(90));
    leave(80);
    await new Promise((resolve) => setTimeout(resolve, 100));
    leave(120);
    await watch.until(available(120));
    leave(151);
    await watch.until(available(151));
    expect(watch.items).toHaveLength(3);
  });

  it('one observation has memory, processes, what pods may have, and every file system', async () => {
    const { ports, place, leave, total } = await node();
    leave(64);
    const { observations, pods } = await perform(ports['stats.observe'], { place, withPods: true });
    expect(pods).toEqual([]);
    expect(observations['memory.available']).toEqual({
      available: String(64 * MEBIBYTE),
      capacity: String(total),
    });
    expect(observations['allocatableMemory.available']).toEqual({ available: '950000000', capacity: '1000000000' });
    expect(BigInt(observations['nodefs.available']!.capacity)).toBeGreaterThan(0n);
    expect(observations['imagefs.available']).toEqual(observations['nodefs.available']);
    expect(BigInt(observations['pid.available']!.available)).toBeGreaterThan(0n);
  });

  it('images without a file system of their own lie on that of the node', async () => {
    const { ports, place } = await node();
    expect(await perform(ports['stats.diskLayout'], { place })).toEqual({
      dedicatedImageFs: false,
      splitContainerFs: false,
    });
    const lost = { ...place, rootDir: '/nowhere/at/all' };
    await expect(perform(ports['stats.diskLayout'], { place: lost })).rejects.toThrow('failed to get device for dir');
  });

  it('a runtime that does not say where it keeps images is asked again, not taken for one that has no place', async () => {
    const restarting = new Error('rpc error: code = Unavailable desc = it restarts');
    const silent = (async (name: never, ...rest: [never, never]) => {
      if (name === 'ImageFsInfo') throw restarting;
      return empty(name, ...rest);
    }) as RuntimeCall;
    const { ports, place } = await node(silent);
    await expect(perform(ports['stats.diskLayout'], { place })).rejects.toThrow('it restarts');
    await expect(perform(ports['stats.observe'], { place, withPods: false })).rejects.toThrow('it restarts');
    const watch = openStream(ports['stats.watchSignals'], { place, thresholds: [threshold], periodMs: 10 });
    await expect(watch.ended).rejects.toThrow('it restarts');
  });

  it('what cannot be read is said once, and said again when it can', async () => {
    const { place } = await node();
    const blind = new StatsReader({ root: '/nowhere', call: empty });
    const watch = openStream(statsPorts(blind)['stats.watchSignals'], { place, thresholds: [threshold], periodMs: 5 });
    await watch.until(({ type }) => type === 'signals.failed');
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(watch.items).toHaveLength(1);
  });
});

describe('storage of a pod', () => {
  const pod = { uid: 'u1', name: 'p', namespace: 'ns' };

  it('is told when a volume outgrows its limit, and when it no longer does', async () => {
    const { ports, place } = await node();
    const volume = join(place.rootDir, 'pods/u1/volumes/kubernetes.io~empty-dir/d');
    mkdirSync(volume, { recursive: true });
    const limits = { emptyDirs: { d: '1Mi' }, pod: null, containers: {} };
    const watch = openStream(ports['stats.watchStorage'], { place, pod, limits, countLayers: true, periodMs: 10 });
    writeFileSync(join(volume, 'file'), Buffer.alloc(2 * MEBIBYTE, 1));
    await watch.until(({ exceeded }) => exceeded !== null);
    writeFileSync(join(volume, 'file'), '');
    await watch.until(({ exceeded }) => exceeded === null);
    expect(watch.items.map(({ exceeded }) => exceeded)).toEqual([{ kind: 'emptyDir', name: 'd' }, null]);
  });

  const used = (bytes: number) => ({ used: BigInt(bytes), inodes: 1n, complete: true });
  const storage = {
    volumes: [],
    logs: new Map([['c', used(3 * MEBIBYTE)]]),
    hosts: used(4_096),
    layers: new Map([['c', BigInt(4 * MEBIBYTE)]]),
  };
  const none = { emptyDirs: {}, pod: null, containers: {} };

  it('logs, layers and the hosts file count for the pod; layers for a container where they fill the node`s disk', () => {
    expect(exceededLimit({ ...none, pod: '7Mi' }, storage, false)).toEqual({ kind: 'pod', name: '' });
    expect(exceededLimit({ ...none, pod: '8Mi' }, storage, true)).toBeNull();
    expect(exceededLimit({ ...none, containers: { c: '5Mi' } }, storage, true)).toEqual({
      kind: 'container',
      name: 'c',
    });
    expect(exceededLimit({ ...none, containers: { c: '5Mi' } }, storage, false)).toBeNull();
    expect(exceededLimit({ ...none, emptyDirs: { d: '1' } }, storage, true)).toBeNull();
  });
});
