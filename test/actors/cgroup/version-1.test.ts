/** `cgroup.*` on the real cgroup v1 of this machine, each test below a root of its own. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { cgroupPorts } from '../../../src/actors/cgroup/index.ts';
import { cgroupExists, cgroupV1Available, cgroupValue, ownCgroupRoot } from '../../support/cgroups.ts';
import { OpenStream, perform } from '../../support/host-ports.ts';
import { requirement } from '../../support/require.ts';

const { skip } = requirement('cgroup-v1', cgroupV1Available());
const driver = 'cgroupfs' as const;
const ports = cgroupPorts();
const POD = { cpuShares: '153', cpuPeriodUs: '100000', cpuQuotaUs: '15000', memoryBytes: '50331648', pids: '100' };

function sleeper(): number {
  const child = spawn('sleep', ['600'], { stdio: 'ignore' });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child.pid!;
}

const into = (path: string, pid: number) => {
  for (const controller of ['cpu', 'memory', 'pids']) {
    writeFileSync(`/sys/fs/cgroup/${controller}${path}/cgroup.procs`, String(pid));
  }
};

describe.skipIf(skip)('a group of version 1', () => {
  it('is made in every hierarchy, with its groups above, and held to its values', async () => {
    const root = ownCgroupRoot();
    const path = `${root}/kubepods/burstable/pod1`;
    expect((await perform(ports['cgroup.missing'], { path })).missing).toContain(`/sys/fs/cgroup/cpu${path}`);
    await perform(ports['cgroup.ensure'], { driver, path, resources: POD });
    expect(await perform(ports['cgroup.missing'], { path })).toEqual({ missing: [] });
    expect(cgroupValue('cpu', path, 'cpu.shares')).toBe('153');
    expect(cgroupValue('cpu', path, 'cpu.cfs_quota_us')).toBe('15000');
    expect(cgroupValue('cpu', path, 'cpu.cfs_period_us')).toBe('100000');
    expect(cgroupValue('memory', path, 'memory.limit_in_bytes')).toBe('50331648');
    expect(cgroupValue('pids', path, 'pids.max')).toBe('100');
    expect(cgroupValue('cpuset', path, 'cpuset.cpus')).toBe(cgroupValue('cpuset', '/', 'cpuset.cpus'));
    expect(cgroupValue('cpu', `${root}/kubepods`, 'cpu.shares')).toBe('1024');
  });

  it('takes a shorter period and a smaller quota at once, below a parent with a quota of its own', async () => {
    const root = ownCgroupRoot();
    await perform(ports['cgroup.ensure'], {
      driver,
      path: `${root}/p`,
      resources: { cpuPeriodUs: '100000', cpuQuotaUs: '50000' },
    });
    const path = `${root}/p/c`;
    await perform(ports['cgroup.ensure'], { driver, path, resources: { cpuPeriodUs: '100000', cpuQuotaUs: '50000' } });
    await perform(ports['cgroup.update'], { driver, path, resources: { cpuPeriodUs: '50000', cpuQuotaUs: '10000' } });
    expect(cgroupValue('cpu', path, 'cpu.cfs_quota_us')).toBe('10000');
    await perform(ports['cgroup.update'], { driver, path, resources: { cpuPeriodUs: '50000', cpuQuotaUs: '-1' } });
    expect(cgroupValue('cpu', path, 'cpu.cfs_quota_us')).toBe('-1');
  });

  it('keeps memory in whole pages, and is not written again for less than one', async () => {
    const path = `${ownCgroupRoot()}/p`;
    await perform(ports['cgroup.ensure'], { driver, path, resources: { memoryBytes: '10000001' } });
    expect(cgroupValue('memory', path, 'memory.limit_in_bytes')).toBe('9998336');
    await perform(ports['cgroup.ensure'], { driver, path, resources: { memoryBytes: '10000001' } });
    expect(cgroupValue('memory', path, 'memory.limit_in_bytes')).toBe('9998336');
  });

  it('that is not there is not updated, and its folders are named', async () => {
    const path = `${ownCgroupRoot()}/gone`;
    await expect(perform(ports['cgroup.update'], { driver, path, resources: POD })).rejects.toMatchObject({
      code: 'ENOENT',
      message: expect.stringContaining(`cgroup "${path}" has some missing paths: `),
    });
  });

  it('is not an answer where the path is none', async () => {
    for (const path of ['/a/../b', 'a', '/a//b', '/a\0b']) {
      await expect(perform(ports['cgroup.ensure'], { driver, path, resources: {} })).rejects.toThrow('not the path');
    }
  });

  it('is removed with what runs in it and below it, and removing it again is done', async () => {
    const root = ownCgroupRoot();
    const path = `${root}/kubepods/podx`;
    await perform(ports['cgroup.ensure'], { driver, path: `${path}/container`, resources: {} });
    const child = spawn('sleep', ['600'], { stdio: 'ignore' });
    const ended = once(child, 'exit');
    into(`${path}/container`, child.pid!);
    await perform(ports['cgroup.destroy'], { driver, paths: [path], within: root });
    expect(await ended).toEqual([null, 'SIGKILL']);
    expect(cgroupExists(path)).toBe(false);
    expect(cgroupExists(`${root}/kubepods`)).toBe(true);
    await perform(ports['cgroup.destroy'], { driver, paths: [path], within: root });
  });

  it('says how much memory it uses', async () => {
    const path = `${ownCgroupRoot()}/p`;
    const input = { path, containers: ['c1', 'c2', 'c3'] };
    for (const group of ['', '/c1', '/cri-containerd-c2.scope', '/crio-conmon-c3.scope']) {
      await perform(ports['cgroup.ensure'], { driver, path: `${path}${group}`, resources: {} });
    }
    expect((await perform(ports['cgroup.memoryUsage'], input)).containers).toEqual({ c1: '0', c2: '0' });
    into(`${path}/c1`, sleeper());
    const { bytes, containers } = await perform(ports['cgroup.memoryUsage'], input);
    expect(Number(bytes)).toBeGreaterThanOrEqual(Number(containers['c1']));
  });
});

describe.skipIf(skip)('pods on disk', () => {
  it('are found by the names of their groups, wherever one was left in a single hierarchy', async () => {
    const root = ownCgroupRoot();
    const parents = [`${root}/kubepods`, `${root}/kubepods/burstable`, `${root}/kubepods/besteffort`];
    for (const path of [`${parents[0]}/pod1`, `${parents[1]}/pod2`, `${parents[1]}/other`]) {
      await perform(ports['cgroup.ensure'], { driver, path, resources: {} });
    }
    expect(await perform(ports['cgroup.listPods'], { driver, parents })).toEqual({
      pods: [
        { uid: '1', path: `${root}/kubepods/pod1` },
        { uid: '2', path: `${root}/kubepods/burstable/pod2` },
      ],
    });
  });
});

describe.skipIf(skip)('groups that are held', () => {
  it('get their values back each period, and only a change between working and failing is said', async () => {
    const root = ownCgroupRoot();
    const path = `${root}/burstable`;
    await perform(ports['cgroup.ensure'], { driver, path, resources: {} });
    const desired = [{ driver, path, resources: { cpuShares: '204' } }];
    const held = new OpenStream<{ message: string }>((signal, emit) =>
      ports['cgroup.hold']({ id: 1, resume: false, input: { group: 'levels', desired, periodMs: 20 }, signal, emit }),
    );
    await held.until(({ message }) => message === '');
    writeFileSync(`/sys/fs/cgroup/cpu${path}/cpu.shares`, '2');
    await expect.poll(() => cgroupValue('cpu', path, 'cpu.shares')).toBe('204');
    await perform(ports['cgroup.destroy'], { driver, paths: [path], within: root });
    await held.until(({ message }) => message.includes('has some missing paths'));
    expect(held.items).toHaveLength(2);
  });

  it('gather this process, or fail with why, and leave the first process alone', async () => {
    const own = await perform(ports['cgroup.own'], {}).then(
      ({ path }) => path,
      (error: Error) => error.message,
    );
    expect(own).toMatch(/^\/|^cpu and memory cgroup hierarchy not unified\. {2}cpu: /);
  });
});
