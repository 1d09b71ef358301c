import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { hostPorts } from '../../../src/actors/host/index.ts';
import { machinePorts } from '../../../src/actors/host/machine.ts';
import { mounter } from '../../../src/actors/volume/mounter.ts';
import { physicalCoresOf, socketsOf } from '../../../src/machines/model/operations/host.ts';
import { perform, temporaryFolder } from '../../support/host-ports.ts';

/** A machine that is described by files. */
async function machine(files: Readonly<Record<string, string>>) {
  return hostPorts({ root: await described(files) });
}

async function described(files: Readonly<Record<string, string>>): Promise<string> {
  const root = await temporaryFolder();
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  }
  return root;
}

const MEMINFO = 'MemTotal:       16316416 kB\nMemFree: 1 kB\nSwapTotal:       2097148 kB\n';
const CPUINFO = 'processor\t: 0\nmodel name\t: processor: x\n\nprocessor\t: 1\n';

it('this machine has a size, a kernel and a boot', async () => {
  const info = await perform(hostPorts()['host.machineInfo'], {});
  expect(info.cores).toBeGreaterThan(0);
  expect(BigInt(info.memoryBytes)).toBeGreaterThan(1_000_000n);
  expect(info.bootId).toMatch(/^[0-9a-f-]{36}$/);
  expect(info.kernelVersion).toMatch(/^\d+\./);
});

it('size and identities are read from the machine`s files', async () => {
  const ports = await machine({
    'proc/cpuinfo': CPUINFO,
    'proc/meminfo': MEMINFO,
    'proc/sys/kernel/osrelease': '6.1.0-test\n',
    'proc/sys/kernel/random/boot_id': 'b-1\n',
    'etc/os-release': 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    'etc/machine-id': 'm-1\n',
    'sys/class/dmi/id/product_uuid': 'D-1\n',
    'sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages': '0\n',
    'sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages': '2\n',
    'proc/sys/kernel/pid_max': '4194304\n',
    'proc/sys/kernel/threads-max': '32768\n',
  });
  expect(await perform(ports['host.machineInfo'], {})).toEqual({
    cores: 2,
    memoryBytes: '16708009984',
    swapBytes: '2147479552',
    kernelVersion: '6.1.0-test',
    osImage: 'Debian GNU/Linux 12 (bookworm)',
    machineId: 'm-1',
    systemUuid: 'D-1',
    bootId: 'b-1',
    hugePageKib: [2_048, 1_048_576],
    hugePageTotals: { 'hugepages-2Mi': '4194304', 'hugepages-1Gi': '0' },
    pidMax: '32768',
    architecture: expect.stringMatching(/^(amd64|arm64)$/),
    appArmor: false,
    seLinux: false,
    topology: {
      cpus: [
        { id: 0, core: 0, socket: 0, numaNode: 0 },
        { id: 1, core: 1, socket: 0, numaNode: 0 },
      ],
      numaNodes: [],
      disks: [],
      fileSystems: [],
    },
  });
});

it('the CPUs that count their throttling are in order', async () => {
  const counters = 'thermal_throttle/core_throttle_count';
  const ports = await machine({
    'proc/cpuinfo': CPUINFO,
    'proc/meminfo': MEMINFO,
    'sys/devices/system/cpu/possible': '0-10\n',
    [`sys/devices/system/cpu/cpu10/${counters}`]: '0\n',
    [`sys/devices/system/cpu/cpu2/${counters}`]: '0\n',
    'sys/devices/system/cpu/cpu1/online': '1\n',
    [`sys/devices/system/cpu/cpufreq/${counters}`]: '0\n',
  });
  expect(await perform(ports['host.machineInfo'], {})).toMatchObject({ throttledCpus: [2, 10] });
});

it('identities that the machine does not have are empty; one stands in for the other', async () => {
  const ports = await machine({
    'proc/cpuinfo': 'processor 0: version = FF\nprocessor 1: version = FF\n',
    'proc/meminfo': MEMINFO,
    'var/lib/dbus/machine-id': 'dbus\n',
    'proc/device-tree/vm,uuid': 'tree\0',
    'usr/lib/os-release': "PRETTY_NAME='Flat'\n",
  });
  expect(await perform(ports['host.machineInfo'], {})).toMatchObject({
    cores: 2,
    osImage: 'Flat',
    machineId: 'dbus',
    systemUuid: 'tree',
    bootId: '',
  });
});

const MOUNT = (point: string, type: string, options: string) =>
  `30 23 0:26 / ${point} rw - ${type} ${type} ${options}\n`;

it.each([
  ['a label of a policy', 'system_u:system_r:unconfined_service_t:s0\0', true],
  ['no label yet: no policy was loaded', 'kernel\0', false],
])('SELinux and %s', async (_, label, expected) => {
  const ports = await machine({
    'proc/cpuinfo': CPUINFO,
    'proc/meminfo': MEMINFO,
    'proc/self/mountinfo': MOUNT('/sys/fs/selinux', 'selinuxfs', 'rw'),
    'proc/self/attr/current': label,
  });
  expect(await perform(ports['host.machineInfo'], {})).toMatchObject({ seLinux: expected });
});

it.each([
  ['of the containers’ policy', { '/usr/share/containers/selinux/contexts': 'file = "a:b:c:s0"\n' }, 'a:b:c:s0'],
  ['of the node’s policy', {}, 'system_u:object_r:container_file_t:s0'],
  ['that is none', { 'etc/selinux/targeted/contexts/lxc_contexts': 'file = "nothing"\n' }, undefined],
])('SELinux and the label of containers’ files, %s', async (_, files, expected) => {
  const ports = await machine({
    'proc/cpuinfo': CPUINFO,
    'proc/meminfo': MEMINFO,
    'proc/self/mountinfo': MOUNT('/sys/fs/selinux', 'selinuxfs', 'rw'),
    'proc/self/attr/current': 'system_u:system_r:kubelet_t:s0\0',
    'etc/selinux/config': '# the policy\nSELINUX=enforcing\nSELINUXTYPE=targeted\n',
    'etc/selinux/targeted/contexts/lxc_contexts':
      'process = "system_u:system_r:container_t:s0"\nfile = "system_u:object_r:container_file_t:s0"\n',
    ...files,
  });
  const info = (await perform(ports['host.machineInfo'], {})) as { seLinuxFileLabel?: string };
  expect(info.seLinuxFileLabel).toBe(expected);
});

it.each([
  ['takes noswap', 'exit 0', 'SwapTotal: 8 kB', undefined],
  ['does not know noswap', "echo 'mount: wrong fs type, bad option' >&2; exit 32", 'SwapTotal: 8 kB', false],
  ['does not know noswap, and has nothing to swap to', 'exit 32', 'SwapTotal: 0 kB', undefined],
  ['may not be asked', "echo 'mount: permission denied' >&2; exit 32", 'SwapTotal: 8 kB', undefined],
])('a kernel that %s', async (_, script, swap, noswap) => {
  const root = await described({ 'proc/cpuinfo': CPUINFO, 'proc/meminfo': `MemTotal: 8 kB\n${swap}\n` });
  const program = join(root, 'mount');
  writeFileSync(program, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const ports = machinePorts(root, mounter({ system: null, programs: { mount: program, umount: 'true' } }));
  expect((await perform(ports['host.machineInfo'], {})).noswap).toBe(noswap);
});

it('a machine without memory is an error', async () => {
  const ports = await machine({ 'proc/cpuinfo': CPUINFO, 'proc/meminfo': 'MemFree: 1 kB\n' });
  await expect(perform(ports['host.machineInfo'], {})).rejects.toThrow('/proc/meminfo has no MemTotal');
});

const CONTROLLERS =
  '#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t2\t1\t1\nmemory\t3\t1\t1\nhugetlb\t4\t1\t0\npids\t5\t1\t1\n';

it('a unified hierarchy is version 2', async () => {
  const ports = await machine({
    'proc/self/mountinfo': MOUNT('/sys/fs/cgroup', 'cgroup2', 'rw,nsdelegate'),
    'sys/fs/cgroup/cgroup.controllers': 'cpuset cpu io memory pids\n',
    'proc/self/cgroup': '0::/system.slice/statelet.service\n',
    'sys/fs/cgroup/system.slice/statelet.service/memory.swap.max': 'max\n',
  });
  expect(await perform(ports['host.cgroups'], {})).toEqual({
    version: 2,
    controllers: ['cpuset', 'cpu', 'io', 'memory', 'pids'],
    swapCounted: true,
  });
});

it('a hybrid machine is version 1: its mounted and enabled controllers count', async () => {
  const ports = await machine({
    'proc/self/mountinfo': [
      MOUNT('/sys/fs/cgroup', 'tmpfs', 'rw'),
      MOUNT('/sys/fs/cgroup/unified', 'cgroup2', 'rw'),
      MOUNT('/sys/fs/cgroup/cpu,cpuacct', 'cgroup', 'rw,cpu,cpuacct'),
      MOUNT('/sys/fs/cgroup/memory', 'cgroup', 'rw,memory'),
      MOUNT('/sys/fs/cgroup/hugetlb', 'cgroup', 'rw,hugetlb'),
    ].join(''),
    'proc/cgroups': CONTROLLERS,
  });
  expect(await perform(ports['host.cgroups'], {})).toEqual({
    version: 1,
    controllers: ['cpu', 'memory'],
    swapCounted: false,
  });
});

it('a machine without cgroups is an error that says what to do', async () => {
  const ports = await machine({ 'proc/self/mountinfo': MOUNT('/', 'ext4', 'rw'), 'proc/cgroups': CONTROLLERS });
  await expect(perform(ports['host.cgroups'], {})).rejects.toThrow('mount cgroup2 there');
});

it('name and user are those of this process', async () => {
  expect(await perform(hostPorts()['host.permissions'], {})).toEqual({ uid: process.getuid?.() });
  const { hostname } = await perform(hostPorts()['host.hostname'], {});
  expect(hostname).toBe(hostname.trim().toLowerCase());
  expect(hostname).not.toBe('');
});

it('a cache that some of a node share has a number, one of all of them has none', async () => {
  const folder = (cpu: number, index: number) => `sys/devices/system/cpu/cpu${cpu}/cache/index${index}`;
  const cache = (cpu: number, id: number, shared: string) => ({
    [`${folder(cpu, 0)}/level`]: '1\n',
    [`${folder(cpu, 0)}/id`]: `${cpu}\n`,
    [`${folder(cpu, 0)}/shared_cpu_list`]: `${cpu}\n`,
    [`${folder(cpu, 3)}/level`]: '3\n',
    [`${folder(cpu, 3)}/id`]: `${id}\n`,
    [`${folder(cpu, 3)}/shared_cpu_list`]: `${shared}\n`,
  });
  const cpuinfo = [0, 1, 2, 3].map((id) => `processor\t: ${id}\n`).join('\n');
  const cachesOf = async (files: Readonly<Record<string, string>>) => {
    const ports = await machine({ 'proc/cpuinfo': cpuinfo, 'proc/meminfo': MEMINFO, ...files });
    const { topology } = await perform(ports['host.machineInfo'], {});
    return topology.cpus.map((cpu) => cpu.cache);
  };
  const split = [0, 1, 2, 3].map((cpu) => cache(cpu, cpu < 2 ? 7 : 8, cpu < 2 ? '0-1' : '2-3'));
  expect(await cachesOf(Object.assign({}, ...split))).toEqual([7, 7, 8, 8]);
  const whole = [0, 1, 2, 3].map((cpu) => cache(cpu, 0, '0-3'));
  expect(await cachesOf(Object.assign({}, ...whole))).toEqual([undefined, undefined, undefined, undefined]);
});

it('sockets, cores, memory nodes and disks are as the machine describes them', async () => {
  const cpu = (id: number, core: number, socket: number) => ({
    [`sys/devices/system/cpu/cpu${id}/topology/core_id`]: `${core}\n`,
    [`sys/devices/system/cpu/cpu${id}/topology/physical_package_id`]: `${socket}\n`,
    [`sys/devices/system/node/node${socket}/cpu${id}/online`]: '1\n',
  });
  const ports = await machine({
    'proc/cpuinfo': [0, 1, 2, 3].map((id) => `processor\t: ${id}\n`).join('\n'),
    'proc/meminfo': MEMINFO,
    'proc/self/mountinfo':
      '25 1 8:1 / / rw - ext4 /dev/sda1 rw\n26 25 8:1 /x /bound rw - ext4 /dev/sda1 rw\n' +
      '27 25 0:20 / /proc rw - proc proc rw\n28 25 7:1 / /snap rw - squashfs /dev/loop1 ro\n',
    ...cpu(0, 0, 0),
    ...cpu(1, 0, 0),
    ...cpu(2, 0, 1),
    ...cpu(3, 1, 1),
    'sys/devices/system/node/node0/meminfo': 'Node 0 MemTotal:       1024 kB\nNode 0 MemFree: 1 kB\n',
    'sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages': '3\n',
    'sys/devices/system/node/node0/distance': '10 21\n',
    'sys/devices/system/node/node1/meminfo': 'Node 1 MemTotal:       2048 kB\n',
    'sys/block/sda/size': '2048\n',
    'sys/block/sda/dev': '8:0\n',
    'sys/block/loop0/size': '99\n',
  });
  const { topology, cores } = await perform(ports['host.machineInfo'], {});
  expect(topology).toEqual({
    cpus: [
      { id: 0, core: 0, socket: 0, numaNode: 0 },
      { id: 1, core: 0, socket: 0, numaNode: 0 },
      { id: 2, core: 0, socket: 1, numaNode: 1 },
      { id: 3, core: 1, socket: 1, numaNode: 1 },
    ],
    numaNodes: [
      { id: 0, memoryBytes: '1048576', hugePages: [{ kib: 2_048, count: 3 }], distances: [10, 21] },
      { id: 1, memoryBytes: '2097152', hugePages: [] },
    ],
    disks: [{ name: 'sda', device: '8:0', sizeBytes: '1048576' }],
    fileSystems: [{ device: '/dev/sda1', mountPoint: '/', type: 'ext4' }],
  });
  expect([cores, physicalCoresOf(topology), socketsOf(topology)]).toEqual([4, 3, 2]);
});
