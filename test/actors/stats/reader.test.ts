import { mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { cadvisorFamilies } from '../../../src/actors/server/metrics/usage/cadvisor.ts';
import type { RuntimeCall } from '../../../src/actors/stats/inventory.ts';
import { StatsReader } from '../../../src/actors/stats/reader.ts';
import { type PodStats, statsText } from '../../../src/actors/stats/usage-types.ts';
import type { ContainerStats } from '../../../src/machines/model/api/cri.ts';
import { temporaryFolder } from '../../support/host-ports.ts';
import { type MachineName, machineFiles } from '../../support/machine-files.ts';

const UID = '11111111-2222-3333-4444-555555555555';
const CONTAINER = 'a'.repeat(64);
const SANDBOX = 'b'.repeat(64);
const NOW = 1_800_000_000_000;

const layer = { timestamp: `${NOW}000000`, used_bytes: { value: '4096' }, inodes_used: { value: '2' } };

/** A runtime with one pod. It refuses all unknown calls. */
const runtime = (mountpoint: string, stats: Partial<ContainerStats> = {}): RuntimeCall =>
  (async (name: string) => {
    const answers: Record<string, unknown> = {
      ListPodSandbox: {
        items: [{ id: SANDBOX, created_at: '1750000000000000000', metadata: { uid: UID, name: 'p', namespace: 'ns' } }],
      },
      ListContainers: {
        containers: [
          {
            id: CONTAINER,
            pod_sandbox_id: SANDBOX,
            created_at: '1750000001000000000',
            metadata: { name: 'c' },
            image: { image: 'sha256:1' },
          },
        ],
      },
      ListImages: { images: [{ id: 'sha256:1', repo_tags: ['img:1', 'img:2'], repo_digests: ['img@sha256:3'] }] },
      PodSandboxStatus: { info: { info: '{"image":"pause:3"}' } },
      ListContainerStats: { stats: [{ attributes: { id: CONTAINER }, writable_layer: layer, ...stats }] },
      ImageFsInfo: {
        image_filesystems: [{ ...layer, fs_id: { mountpoint }, used_bytes: { value: '9999' } }],
        container_filesystems: [],
      },
    };
    return answers[name];
  }) as unknown as RuntimeCall;

/** A runtime that fails while `isDown`. */
function failing(call: RuntimeCall) {
  const state = { isDown: false };
  const failed = (async (...args: Parameters<RuntimeCall>) => {
    if (state.isDown) throw new Error('the runtime is down');
    return await call(...args);
  }) as RuntimeCall;
  return { state, call: failed };
}

interface NodeOptions {
  readonly podsCgroup?: string;
  readonly stats?: Partial<ContainerStats>;
  readonly now?: () => number;
}

async function node(machine: MachineName, options: NodeOptions = {}) {
  const root = await machineFiles(machine);
  const rootDir = await temporaryFolder();
  const volumes = join(rootDir, 'pods', UID, 'volumes');
  for (const volume of ['kubernetes.io~empty-dir/cache', 'kubernetes.io~secret/key']) {
    mkdirSync(join(volumes, volume), { recursive: true });
    writeFileSync(join(volumes, volume, 'file'), Buffer.alloc(8_192, 1));
  }
  const logs = join(rootDir, 'logs', `ns_p_${UID}`, 'c');
  mkdirSync(logs, { recursive: true });
  writeFileSync(join(logs, '0.log'), Buffer.alloc(4_096, 1));
  const podsCgroup = options.podsCgroup ?? (machine === 'cgroup-v1' ? '/kubepods' : '/kubepods.slice');
  const systemCgroups = { kubelet: '', runtime: '', misc: '' };
  const place = { nodeName: 'n', rootDir, podLogsDir: join(rootDir, 'logs'), podsCgroup, systemCgroups };
  const { state, call } = failing(runtime(rootDir, options.stats));
  const reader = new StatsReader({ root, call, now: options.now ?? (() => NOW) });
  return { reader, place, volumes, state };
}

describe.each(['cgroup-v1', 'cgroup-v2'] as const)('a machine of %s', (machine) => {
  it('tells of a container what its cgroup counts', async () => {
    const { reader, place } = await node(machine);
    const { pods } = await reader.summary(place);
    expect(pods[0]?.podRef).toEqual({ name: 'p', namespace: 'ns', uid: UID });
    expect(pods[0]?.startTime).toBe('2025-06-15T15:06:40.000Z');
    expect(pods[0]?.containers[0]).toMatchObject({
      name: 'c',
      startTime: '2025-06-15T15:06:41.000Z',
      cpu: { usageCoreNanoSeconds: 7_000_000_000n },
      memory: {
        usageBytes: 50_000_000n,
        workingSetBytes: 30_000_000n,
        rssBytes: 25_000_000n,
        availableBytes: 104_857_600n - 30_000_000n,
        pageFaults: 321n,
        majorPageFaults: 7n,
      },
      // On cgroup v1 the limit is that of memory and swap together.
      swap: {
        swapUsageBytes: 8_192n,
        swapAvailableBytes: (machine === 'cgroup-v1' ? 104_857_600n : 0n) + 1_048_576n - 8_192n,
      },
      rootfs: { usedBytes: 4_096n, inodesUsed: 2n },
    });
  });

  it('tells of a pod its cgroup, its network, its processes and its volumes', async () => {
    const { reader, place } = await node(machine);
    const [pod] = (await reader.summary(place)).pods;
    expect(pod).toMatchObject({
      cpu: { usageCoreNanoSeconds: 8_000_000_000n, psi: { some: {}, full: {} } },
      memory: { workingSetBytes: 40_000_000n },
      // Without the threads of its cgroup and the process of its sandbox.
      process_stats: { process_count: 2n },
      network: { name: 'eth0', rxBytes: 2_264_600n, rxErrors: 3n, txBytes: 987_654n, txErrors: 5n },
    });
    expect(pod?.memory).not.toHaveProperty('availableBytes');
    expect(pod?.network?.interfaces).toHaveLength(1);
    expect(pod?.volume?.map(({ name }) => name).toSorted()).toEqual(['cache', 'key']);
    const cache = pod!.volume!.find(({ name }) => name === 'cache')!;
    const { usedBytes: logs = 0n, inodesUsed } = pod!.containers[0]!.logs!;
    // One file with one block; its folder does not count.
    expect([logs, inodesUsed]).toEqual([4_096n, 1n]);
    // On a real node a secret is in memory and does not count for the disk.
    expect(pod!['ephemeral-storage']!.usedBytes).toBe(cache.usedBytes! + logs + 4_096n);
  });

  it('measures no volume where that is turned off', async () => {
    const { reader, place } = await node(machine);
    const [pod] = (await reader.summary(place, { withoutVolumes: true })).pods;
    expect(pod).not.toHaveProperty('volume');
    expect(pod!['ephemeral-storage']!.usedBytes).toBe(4_096n + 4_096n);
  });

  it('tells of claims how full what they are bound to is, wherever that lies, and nothing of what is gone', async () => {
    const { reader, place, volumes } = await node(machine);
    const mounted = join(volumes, 'kubernetes.io~csi/pvc-1/mount');
    mkdirSync(mounted, { recursive: true });
    mkdirSync(join(volumes, 'kubernetes.io~local-volume/pv'), { recursive: true });
    const ofDriver = { name: 'data', pvcRef: { name: 'of-driver', namespace: 'ns' }, time: '', usedBytes: 5n };
    const claims = {
      host: { claim: 'of-host', path: place.rootDir },
      lost: { claim: 'lost', path: join(place.rootDir, 'lost') },
      local: { claim: 'of-local', path: join(volumes, 'kubernetes.io~local-volume/pv') },
    };
    const [pod] = (await reader.summary(place, { claims: { [UID]: claims }, ofDrivers: { [UID]: [ofDriver] } })).pods;
    const named = Object.fromEntries(pod!.volume!.map(({ name, pvcRef }) => [name, pvcRef]));
    const pvc = (name: string) => ({ name, namespace: 'ns' });
    const ofClaims = { data: pvc('of-driver'), host: pvc('of-host'), local: pvc('of-local') };
    expect(named).toEqual({ cache: undefined, key: undefined, ...ofClaims });
    expect(pod!.volume!.find(({ name }) => name === 'data')).toBe(ofDriver);
    const data = pod!.volume!.find(({ name }) => name === 'host')!;
    expect(data.usedBytes! + data.availableBytes!).toBeLessThanOrEqual(data.capacityBytes!);
  });

  it('tells of the node its memory, its processes and the cgroup of all pods', async () => {
    const { reader, place } = await node(machine);
    const { node: stats } = await reader.summary(place);
    expect(stats.startTime).toBe('2023-11-14T22:13:20.000Z');
    expect(stats.memory!.availableBytes).toBe(reader.memoryTotal() - stats.memory!.workingSetBytes!);
    expect(stats.systemContainers).toMatchObject([
      { name: 'pods', memory: { workingSetBytes: 50_000_000n, availableBytes: 950_000_000n } },
    ]);
    expect(stats.runtime?.imageFs).toMatchObject({ usedBytes: 9_999n, inodesUsed: 2n });
    expect(stats.runtime?.containerFs).toMatchObject({ usedBytes: 9_999n, inodesUsed: 2n });
    expect(stats.runtime?.containerFs?.capacityBytes).toBe(stats.runtime?.imageFs?.capacityBytes);
    expect(stats.rlimit!.maxpid).toBeGreaterThan(stats.rlimit!.curproc);
    expect(stats.network?.name).toBe('eth0');
  });

  it('names every cgroup for cAdvisor`s metrics, with its io, its limits and its owner', async () => {
    const { reader, place } = await node(machine);
    const samples = await reader.cgroups(place);
    const container = samples.find(({ labels }) => labels?.container === 'c')!;
    expect(container.labels).toEqual({ container: 'c', pod: 'p', namespace: 'ns', image: 'img:1', name: CONTAINER });
    expect(container.usage.io.devices).toEqual([
      { device: '8:0', readBytes: 4_096n, writtenBytes: 8_192n, reads: 1n, writes: 2n },
    ]);
    expect(container.usage.cpu).toMatchObject({ periods: 10n, throttledPeriods: 4n, throttled: 5_000_000n });
    expect(container.usage.memory).toMatchObject({ failures: 2n, kernel: 65_536n, maxUsage: 50_004_096n });
    expect(container.limits.cpuShares).toBe(2n);
    const sandbox = samples.find(({ labels }) => labels?.name === SANDBOX)!;
    expect(sandbox.labels?.image).toBe('pause:3');
    expect(sandbox.interfaces?.map(({ name }) => name)).toEqual(['eth0']);
    expect(samples.find(({ cgroup }) => cgroup === '/')?.labels).toBeNull();
  });
});

it('cgroups are measured while the runtime is down, with the names that it gave last; a summary needs it', async () => {
  const { reader, place, state } = await node('cgroup-v2');
  state.isDown = true;
  const unknown = await reader.cgroups(place);
  expect(unknown.map(({ labels }) => labels)).toEqual(unknown.map(() => null));
  state.isDown = false;
  const named = (await reader.cgroups(place)).map(({ labels }) => labels);
  expect(named.filter((labels) => labels?.container === 'c')).toHaveLength(1);
  state.isDown = true;
  expect((await reader.cgroups(place)).map(({ labels }) => labels)).toEqual(named);
  await expect(reader.summary(place)).rejects.toThrow('failed to get imageFs stats: the runtime is down');
  await expect(reader.summary(place, { onlyCpuAndMemory: true })).rejects.toThrow(
    'failed to list pod stats: failed to get pod or container map: failed to list all containers: the runtime is down',
  );
});

it('waiting of a container is among cAdvisor`s metrics on cgroup v2 only', async () => {
  const families = async (machine: MachineName) => {
    const { reader, place } = await node(machine);
    const all = cadvisorFamilies(await reader.cgroups(place), { disks: [], names: new Map() });
    return all.filter(({ name, samples }) => name.startsWith('container_pressure_') && samples.length > 0);
  };
  const waits = await families('cgroup-v2');
  expect(waits.map(({ name }) => name.slice('container_pressure_'.length))).toEqual(
    ['cpu', 'memory', 'io'].flatMap((of) => [`${of}_stalled_seconds_total`, `${of}_waiting_seconds_total`]),
  );
  const ofPod = waits[1]!.samples.find(({ labels }) => labels['pod'] === 'p' && labels['name'] === '');
  expect(ofPod?.value).toBe(1.234567);
  expect(await families('cgroup-v1')).toEqual([]);
});

it.each(['cgroup-v1', 'cgroup-v2'] as const)(
  'processes of %s are not threads, and are in one cgroup',
  async (machine) => {
    const { reader, place } = await node(machine);
    const families = cadvisorFamilies(await reader.cgroups(place), { disks: [], names: new Map() });
    const valueOf = (name: string, container: string) =>
      families
        .find((family) => family.name === name)
        ?.samples.find(
          ({ labels }) => labels['pod'] === 'p' && labels['container'] === container && labels['name'] !== '',
        )?.value;
    expect(valueOf('container_processes', 'c')).toBe(2);
    const ofPods = families.find(({ name }) => name === 'container_processes')?.samples;
    expect(ofPods?.find(({ labels }) => labels['pod'] === 'p' && labels['name'] === '')?.value).toBe(0);
  },
);

it.each(['cgroup-v1', 'cgroup-v2'] as const)(
  'a container of %s without limits has no available bytes',
  async (machine) => {
    const { reader, place } = await node(machine);
    const container = (await reader.cgroups(place)).find(({ labels }) => labels?.container === 'c')!.cgroup;
    const [tree, limit, swapLimit, none] =
      machine === 'cgroup-v1'
        ? ['memory', 'memory.limit_in_bytes', 'memory.memsw.limit_in_bytes', '9223372036854771712']
        : ['', 'memory.max', 'memory.swap.max', 'max'];
    for (const file of [limit, swapLimit])
      writeFileSync(join(reader.root, 'sys/fs/cgroup', tree, container, file), none);
    const [pod] = (await reader.summary(place)).pods;
    const { memory, swap } = pod!.containers[0]!;
    expect(memory?.workingSetBytes).toBe(30_000_000n);
    expect(memory).not.toHaveProperty('availableBytes');
    expect(swap).not.toHaveProperty('swapAvailableBytes');
  },
);

it('the agent`s own cgroup is as old as the agent, others as their folders', async () => {
  let nowMs = NOW;
  const { reader, place } = await node('cgroup-v2', { now: () => nowMs });
  nowMs += 5_000;
  const kubelet = `${place.podsCgroup}/kubepods-burstable.slice`;
  for (const cgroup of ['', place.podsCgroup, kubelet]) {
    utimesSync(join(reader.root, 'sys/fs/cgroup', cgroup), 1_500_000_000, 1_500_000_000);
  }
  const groups = { ...place, systemCgroups: { ...place.systemCgroups, kubelet } };
  const { node: stats } = await reader.summary(groups, { onlyCpuAndMemory: true });
  expect(stats.systemContainers?.map(({ name, startTime }) => [name, startTime])).toEqual([
    ['kubelet', new Date(NOW).toISOString()],
    ['pods', '2017-07-14T02:40:00.000Z'],
  ]);
  expect(stats.startTime).toBe('2017-07-14T02:40:00.000Z');
});

it('the root of cgroup v2 counts no threads: its processes are counted, as by cAdvisor', async () => {
  const { reader, place } = await node('cgroup-v2');
  writeFileSync(join(reader.root, 'sys/fs/cgroup/cgroup.procs'), '1\n2\n3\n');
  const [root] = await reader.cgroups(place);
  expect(root).toMatchObject({ cgroup: '/', usage: { pids: { current: 3n, limit: null } } });
});

it('a cgroup is as old as its folder, or the file in it that is older', async () => {
  const { reader, place } = await node('cgroup-v2');
  const folder = join(reader.root, 'sys/fs/cgroup', place.podsCgroup);
  writeFileSync(join(folder, 'cgroup.events'), 'populated 1\n');
  const startOf = async () =>
    (await reader.cgroups(place)).find(({ cgroup }) => cgroup === place.podsCgroup)?.startedAtMs;
  utimesSync(folder, 1_000, 1_000);
  expect(await startOf()).toBe(1_000_000);
  utimesSync(join(folder, 'cgroup.events'), 500, 500);
  expect(await startOf()).toBe(500_000);
});

it('the monitor that CRI-O puts beside a container is not the container', async () => {
  const { reader, place } = await node('cgroup-v2');
  const samples = await reader.cgroups(place);
  const container = samples.find(({ labels }) => labels?.container === 'c')!.cgroup;
  const monitor = join(dirname(container), `crio-conmon-${CONTAINER}.scope`);
  mkdirSync(join(reader.root, 'sys/fs/cgroup', monitor));
  const named = (await reader.cgroups(place)).filter(({ labels }) => labels?.container === 'c');
  expect(named.map(({ cgroup }) => cgroup)).toEqual([container]);
});

it('what others run on the machine is not looked at for cAdvisor`s metrics', async () => {
  const { reader, place } = await node('cgroup-v1');
  const agent = '/system.slice/agent.service';
  for (const group of [agent, '/user.slice/of-somebody']) {
    mkdirSync(join(reader.root, 'sys/fs/cgroup/memory', group), { recursive: true });
  }
  const outside = async (systemCgroups: typeof place.systemCgroups) => {
    const samples = await reader.cgroups({ ...place, systemCgroups });
    const cgroups = samples.map(({ cgroup }) => cgroup);
    expect(cgroups).toEqual([...new Set(cgroups)]);
    return cgroups.filter((cgroup) => !cgroup.startsWith(place.podsCgroup));
  };
  expect(await outside(place.systemCgroups)).toEqual(['/']);
  expect(await outside({ kubelet: agent, runtime: '/', misc: '/nowhere' })).toEqual(['/', agent]);
  expect(await outside({ kubelet: '', runtime: `${place.podsCgroup}/besteffort`, misc: '' })).toEqual(['/']);
});

it('waiting is counted by cgroup v2 only; on v1 it is zero', async () => {
  const unified = await node('cgroup-v2');
  const [pod] = (await unified.reader.summary(unified.place)).pods;
  expect(pod?.cpu?.psi?.some).toEqual({ total: 1_234_567n, avg10: 1.5, avg60: 0.25, avg300: 0.05 });
  expect([pod?.memory?.psi?.full.total, pod?.io?.psi?.full.total]).toEqual([66n, 44n]);
  const legacy = await node('cgroup-v1');
  const [old] = (await legacy.reader.summary(legacy.place)).pods;
  expect(old?.cpu?.psi?.some.total).toBe(0n);
  const psi = (stats: PodStats | undefined) => {
    const { cpu, memory, io } = stats!.containers[0]!;
    return [cpu, memory, io].map((part) => part?.psi?.some.total);
  };
  expect(psi(pod)).toEqual([expect.any(BigInt), expect.any(BigInt), expect.any(BigInt)]);
  expect(psi(old)).toEqual([0n, 0n, 0n]);
});

it('the root of cgroup v2 has no counter: what is used is anonymous memory and file cache', async () => {
  const { reader, place } = await node('cgroup-v2');
  const { memory, swap } = (await reader.summary(place)).node;
  expect(memory).toMatchObject({ usageBytes: 5_000_000_000n, workingSetBytes: 4_300_000_000n });
  expect(memory?.availableBytes).toBe(16_316_416n * 1_024n - 4_300_000_000n);
  expect(swap?.swapUsageBytes).toBe((2_097_148n - 2_000_000n) * 1_024n);
});

it('only CPU and memory are told when nothing else is asked for', async () => {
  const { reader, place } = await node('cgroup-v2');
  const { node: stats, pods } = await reader.summary(place, { onlyCpuAndMemory: true });
  expect(Object.keys(stats).sort()).toEqual(['cpu', 'memory', 'nodeName', 'startTime', 'swap', 'systemContainers']);
  expect(Object.keys(pods[0]!).sort()).toEqual(['containers', 'cpu', 'memory', 'podRef', 'startTime', 'swap']);
  expect(Object.keys(pods[0]!.containers[0]!).sort()).toEqual(['cpu', 'memory', 'name', 'startTime', 'swap']);
});

it('a container without a cgroup is what the runtime counts, and its pod the sum', async () => {
  const timestamp = `${NOW}000000`;
  const stats = {
    cpu: { timestamp, usage_core_nano_seconds: { value: '123' }, usage_nano_cores: { value: '7' } },
    memory: { timestamp, working_set_bytes: { value: '4096' } },
  };
  const { reader, place } = await node('cgroup-v1', { podsCgroup: '', stats });
  const { pods, node: own } = await reader.summary(place);
  expect(pods[0]?.containers[0]).toMatchObject({ cpu: { usageCoreNanoSeconds: 123n, usageNanoCores: 7n } });
  expect(pods[0]).toMatchObject({ cpu: { usageCoreNanoSeconds: 123n }, memory: { workingSetBytes: 4_096n } });
  expect(own.systemContainers).toEqual([]);
});

it('counters beyond the safe range of a number keep every digit in JSON', () => {
  expect(statsText({ usageCoreNanoSeconds: 18_446_744_073_709_551_615n, avg10: 1.5 })).toBe(
    '{"usageCoreNanoSeconds":18446744073709551615,"avg10":1.5}',
  );
});

/** Paths to all values, with those of lists together. */
function leaves(value: unknown, path = ''): readonly string[] {
  if (typeof value !== 'object' || value === null) return [path];
  if (Array.isArray(value)) return value.flatMap((each) => leaves(each, `${path}[]`));
  return Object.entries(value).flatMap(([key, each]) => leaves(each, `${path}.${key}`));
}

it.each([
  ['full', false],
  ['only_cpu_and_memory', true],
] as const)('everything that was recorded of a kubelet is there: %s', async (name, onlyCpuAndMemory) => {
  const recorded = JSON.parse(readFileSync(new URL('../../golden/http/stats-summary.json', import.meta.url), 'utf8'));
  const { reader, place } = await node('cgroup-v1', { now: Date.now });
  const limit = join(reader.root, 'sys/fs/cgroup/memory/kubepods/besteffort', `pod${UID}`, 'memory.limit_in_bytes');
  writeFileSync(limit, '90000000\n');
  const summary = await reader.summary(place, { onlyCpuAndMemory });
  const here = new Set(leaves(JSON.parse(statsText(summary, 1))));
  const wanted = [...new Set(leaves((recorded as Record<string, unknown>)[name]))];
  expect(wanted.length).toBeGreaterThan(80);
  expect(wanted.filter((path) => !here.has(path))).toEqual([]);
});

it('everything that counts has a rate at once, also after a long silence and of the cgroups of the system', async () => {
  let agoMs = 600_000;
  const { reader, place } = await node('cgroup-v1', { now: () => Date.now() - agoMs });
  const kubelet = '/kubepods/besteffort';
  const rates = async () => {
    const { node: stats, pods } = await reader.summary({
      ...place,
      systemCgroups: { ...place.systemCgroups, kubelet },
    });
    const all = [stats, ...stats.systemContainers!, ...pods, ...pods.flatMap(({ containers }) => containers)];
    return all.map(({ cpu }) => typeof cpu?.usageNanoCores);
  };
  expect(await rates()).toEqual(Array.from({ length: 5 }, () => 'bigint'));
  agoMs = 0;
  expect(await rates()).toEqual(Array.from({ length: 5 }, () => 'bigint'));
});
