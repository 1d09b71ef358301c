/**
 * `cgroup.*` of version 2: the written files, in a tree of plain files; and creating and removing groups on the unified
 * hierarchy of this machine, if it has one (all of its controllers may belong to version 1).
 */

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { cpuWeight } from '../../../src/actors/cgroup/hierarchies.ts';
import { cgroupPorts } from '../../../src/actors/cgroup/index.ts';
import { removeCgroupRoot } from '../../support/cgroups.ts';
import { perform, temporaryFolder } from '../../support/host-ports.ts';
import { requirement } from '../../support/require.ts';

const MOUNTINFO = '30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n';
const LIMITS = ['cpu.weight', 'cpu.max', 'cpuset.cpus', 'memory.max', 'memory.min', 'memory.high', 'pids.max'];
const FILES = [...LIMITS, 'hugetlb.2MB.max', 'hugetlb.2MB.rsvd.max'];
const UNIFIED = '/sys/fs/cgroup/unified';
const driver = 'cgroupfs' as const;

/** A machine that consists of files: the files of a group exist already, as the kernel would create them. */
async function machine(...groups: readonly string[]) {
  const root = await temporaryFolder();
  mkdirSync(join(root, 'proc/self'), { recursive: true });
  writeFileSync(join(root, 'proc/self/mountinfo'), MOUNTINFO);
  writeFileSync(join(root, 'proc/self/cgroup'), '0::/system.slice/kubelet.service\n');
  const all = new Set(groups.flatMap((path) => above(path)));
  for (const path of ['/', ...all]) {
    const folder = join(root, 'sys/fs/cgroup', path);
    mkdirSync(folder, { recursive: true });
    for (const file of FILES) writeFileSync(join(folder, file), 'max');
    writeFileSync(join(folder, 'cgroup.controllers'), 'cpuset cpu io memory pids\n');
    writeFileSync(join(folder, 'cgroup.subtree_control'), 'memory\n');
    writeFileSync(join(folder, 'cgroup.procs'), '');
  }
  const value = (path: string, file: string) => readFileSync(join(root, 'sys/fs/cgroup', path, file), 'utf8');
  return { ports: cgroupPorts({ root }), value, root };
}

const above = (path: string): string[] => (path === '/' ? [] : [...above(dirname(path)), path]);

describe('a group of version 2', () => {
  it('is held to the same limits in the files of its version', async () => {
    const path = '/kubepods/burstable/pod1';
    const { ports, value } = await machine(path);
    await perform(ports['cgroup.ensure'], {
      driver,
      path,
      resources: {
        cpuShares: '1024',
        cpuPeriodUs: '100000',
        cpuQuotaUs: '15000',
        memoryBytes: '50331648',
        pids: '100',
        cpus: '0-3',
        hugePageBytes: { '2MB': '4194304', '1GB': '0' },
        unified: { 'memory.min': '1048576', 'memory.high': '2097152' },
      },
    });
    expect(Object.fromEntries(FILES.map((file) => [file, value(path, file)]))).toEqual({
      'cpu.weight': '39',
      'cpu.max': '15000 100000',
      'cpuset.cpus': '0-3',
      'memory.max': '50331648',
      'memory.min': '1048576',
      'memory.high': '2097152',
      'pids.max': '100',
      'hugetlb.2MB.max': '4194304',
      'hugetlb.2MB.rsvd.max': '4194304',
    });
  });

  it('is not left behind by the requests of pods that are deleted while they start', async () => {
    const { ports, root } = await machine('/kubepods/besteffort');
    const within = '/kubepods';
    const paths = Array.from({ length: 50 }, (_, at) => `${within}/besteffort/pod${at}`);
    await Promise.all(
      paths.map(async (path) => {
        const start = new AbortController();
        const input = { driver, path, resources: {} };
        const made = ports['cgroup.ensure']({ id: 1, input, resume: false, signal: start.signal, emit: () => {} });
        await setImmediate();
        start.abort();
        await Promise.allSettled([made, perform(ports['cgroup.destroy'], { driver, paths: [path], within })]);
      }),
    );
    expect(
      readdirSync(join(root, 'sys/fs/cgroup/kubepods/besteffort')).filter((name) => name.startsWith('pod')),
    ).toEqual([]);
  });

  it('is made before a thousand others are removed', async () => {
    const path = '/kubepods/besteffort/pod-next';
    const { ports, root } = await machine(path);
    let removed = 0;
    const removals = Array.from({ length: 1_000 }, async (_, at) => {
      const paths = [`/kubepods/besteffort/pod${at}`];
      mkdirSync(join(root, 'sys/fs/cgroup', paths[0]!));
      await perform(ports['cgroup.destroy'], { driver, paths, within: '/kubepods' });
      removed++;
    });
    await setImmediate();
    await perform(ports['cgroup.ensure'], { driver, path, resources: {} });
    expect(removed).toBeLessThan(500);
    await Promise.all(removals);
  });

  it('may use all there is where nothing limits it', async () => {
    const { ports, value } = await machine('/p');
    await perform(ports['cgroup.update'], {
      driver,
      path: '/p',
      resources: { cpuQuotaUs: '-1', cpuPeriodUs: '100000', memoryBytes: '-1' },
    });
    expect([value('/p', 'cpu.max'), value('/p', 'memory.max')]).toEqual(['max 100000', 'max']);
  });

  it('hands down every controller that its groups above have and did not hand down', async () => {
    const { ports, value } = await machine('/kubepods/p');
    await perform(ports['cgroup.ensure'], { driver, path: '/kubepods/p', resources: {} });
    expect(value('/', 'cgroup.subtree_control')).toMatch(/^\+(cpu|cpuset|pids|io)/);
    expect(value('/kubepods/p', 'cgroup.subtree_control')).toBe('memory\n');
  });

  it('fails by name where a controller was not handed down to it', async () => {
    const { ports } = await machine();
    await expect(
      perform(ports['cgroup.ensure'], { driver, path: '/kubepods', resources: { memoryBytes: '1' } }),
    ).rejects.toThrow(/failed to write "1" to .*\/kubepods\/memory\.max: no such file or directory/);
  });

  it.each([
    ['/', '/'],
    ['/', '/kubepods'],
    ['/kubepods', '/kubepods'],
    ['/system.slice', '/kubepods'],
    ['/kubepods-other/p', '/kubepods'],
    ['/kubepods/p', '/'],
  ])('%s is not removed for %s, and nobody in it is killed', async (path, within) => {
    const { ports, root } = await machine(path);
    const child = spawn('sleep', ['600'], { stdio: 'ignore' });
    onTestFinished(() => void child.kill('SIGKILL'));
    writeFileSync(join(root, 'sys/fs/cgroup', path, 'cgroup.procs'), `${child.pid}\n`);
    await expect(perform(ports['cgroup.destroy'], { driver, paths: [path], within })).rejects.toMatchObject({
      code: 'EXDEV',
    });
    expect([child.exitCode, child.signalCode]).toEqual([null, null]);
    expect(child.kill(0)).toBe(true);
  });

  it('of this process is the one of the unified hierarchy', async () => {
    const { ports } = await machine();
    expect(await perform(ports['cgroup.own'], {})).toEqual({ path: '/system.slice/kubelet.service' });
  });
});

describe('the weight of shares, as in the kubelet', () => {
  it.each([
    [2n, 1n],
    [102n, 4n],
    [1_024n, 39n],
    [2_048n, 79n],
    [262_144n, 10_000n],
  ])('%s is %s', (shares, weight) => expect(cpuWeight(shares)).toBe(weight));

  it('grows with the shares', () => {
    const weights = Array.from({ length: 2_000 }, (_, index) => cpuWeight(BigInt(2 + index * 131)));
    expect(weights.every((weight, index) => index === 0 || weight >= weights[index - 1]!)).toBe(true);
  });
});

const { skip } = requirement(
  'cgroup-v2',
  existsSync(join(UNIFIED, 'cgroup.controllers')) ? null : `no cgroup v2 at ${UNIFIED}`,
);

describe.skipIf(skip)('the unified hierarchy of this machine', () => {
  it('gets groups made, listed and removed', async () => {
    const root = await temporaryFolder();
    mkdirSync(join(root, 'proc/self'), { recursive: true });
    mkdirSync(join(root, 'sys/fs'), { recursive: true });
    writeFileSync(join(root, 'proc/self/mountinfo'), MOUNTINFO);
    symlinkSync(UNIFIED, join(root, 'sys/fs/cgroup'));
    const ports = cgroupPorts({ root });
    const own = `/statelet-${randomBytes(4).toString('hex')}`;
    onTestFinished(() => removeCgroupRoot(own));
    const path = `${own}/kubepods/pod1`;
    await perform(ports['cgroup.ensure'], { driver, path, resources: {} });
    expect(existsSync(`${UNIFIED}${path}/cgroup.procs`)).toBe(true);
    expect(await perform(ports['cgroup.listPods'], { driver, parents: [`${own}/kubepods`] })).toEqual({
      pods: [{ uid: '1', path }],
    });
    await perform(ports['cgroup.destroy'], { driver, paths: [path], within: own });
    expect(existsSync(`${UNIFIED}${path}`)).toBe(false);
    expect(existsSync(`${UNIFIED}${own}/kubepods`)).toBe(true);
  });
});
