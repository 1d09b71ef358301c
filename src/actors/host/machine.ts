/**
 * Facts of this machine: the user of this process, host name, capacity, identities, cgroups.
 *
 * The facts are only read, except that a tmpfs is mounted on a machine with swap. A missing identity is empty text, as
 * in the Go kubelet; memory and cgroups are required.
 */
import { access, mkdtemp, readdir, readFile, rmdir } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { OperationError } from '../../kernel/json.ts';
import type { Port } from '../../kernel/operation.ts';
import { codeOf } from '../../kernel/thrown.ts';
import { hugePageResource } from '../../machines/model/allocation/memory-state.ts';
import type { CgroupInfo, hostOperations, MachineInfo } from '../../machines/model/operations/host.ts';
import { readTopology } from '../stats/topology.ts';
import type { Mounter } from '../volume/mounter.ts';
import { parseMounts } from './kernel/mounts.ts';

type Operations = typeof hostOperations;
const BYTES_PER_KIB = 1_024n;

/** `mounter`: probes the kernel's features; `null` for a machine that is described by files. */
export function machinePorts(root: string, mounter: Mounter | null) {
  const permissions: Port<Operations['host.permissions']> = async () => ({ uid: process.getuid?.() ?? -1 });
  const hostName: Port<Operations['host.hostname']> = async () => {
    const name = hostname().trim().toLowerCase();
    if (name === '') throw new OperationError('empty hostname is invalid');
    return { hostname: name };
  };
  const machineInfo: Port<Operations['host.machineInfo']> = async () => {
    const info = await readMachineInfo(root);
    const isSwapped = info.swapBytes !== '0' && mounter !== null && !(await takesNoswap(mounter));
    return isSwapped ? { ...info, noswap: false } : info;
  };
  const cgroups: Port<Operations['host.cgroups']> = async () => readCgroups(root);
  return {
    'host.permissions': permissions,
    'host.hostname': hostName,
    'host.machineInfo': machineInfo,
    'host.cgroups': cgroups,
  };
}

/**
 * Whether tmpfs has the option `noswap`, probed by mounting, because distributions backport the option to older
 * kernels. False without permission to mount: then no tmpfs is mounted.
 */
async function takesNoswap(mounter: Mounter): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'tmpfs-noswap-test-'));
  try {
    await mounter.mount('tmpfs', folder, ['noswap']);
    await mounter.unmount(folder);
    return true;
  } catch (error) {
    return codeOf(error) !== 'EINVAL';
  } finally {
    await rmdir(folder);
  }
}

async function readMachineInfo(root: string): Promise<MachineInfo> {
  const first = (...paths: readonly string[]) => firstText(paths.map((path) => `${root}${path}`));
  const [cpuinfo, meminfo, release, osRelease, machineId, systemUuid, bootId, pidMax, threads] = await Promise.all([
    readFile(`${root}/proc/cpuinfo`, 'utf8'),
    readFile(`${root}/proc/meminfo`, 'utf8'),
    first('/proc/sys/kernel/osrelease'),
    first('/etc/os-release', '/usr/lib/os-release'),
    first('/etc/machine-id', '/var/lib/dbus/machine-id'),
    first(
      '/sys/class/dmi/id/product_uuid',
      '/proc/device-tree/system-id',
      '/proc/device-tree/vm,uuid',
      '/etc/machine-id',
    ),
    first('/proc/sys/kernel/random/boot_id'),
    first('/proc/sys/kernel/pid_max'),
    first('/proc/sys/kernel/threads-max'),
  ]);
  const [hugePageKib, throttledCpus] = await Promise.all([hugePageSizes(root), cpusWithThrottling(root)]);
  return {
    cores: cpuinfo.match(/^processor\b.*:/gm)?.length ?? 1,
    memoryBytes: memory(meminfo, 'MemTotal').toString(),
    swapBytes: memory(meminfo, 'SwapTotal').toString(),
    kernelVersion: release,
    osImage: prettyName(osRelease),
    machineId,
    systemUuid,
    bootId,
    hugePageKib,
    hugePageTotals: await hugePageTotals(root, hugePageKib),
    pidMax: smallest([pidMax, threads]),
    architecture: GO_ARCHITECTURES[process.arch] ?? process.arch,
    appArmor: (await first('/sys/module/apparmor/parameters/enabled')) === 'Y',
    ...(await readSELinux(root)),
    ...(throttledCpus.length === 0 ? {} : { throttledCpus }),
    topology: readTopology(root),
  };
}

/** The CPUs with a folder of counters of thermal throttling: those of Intel, outside of virtual machines. */
async function cpusWithThrottling(root: string): Promise<number[]> {
  const folder = `${root}/sys/devices/system/cpu`;
  const names = await readdir(folder).catch(() => []);
  const cpus = names.flatMap((name) => /^cpu(\d+)$/.exec(name)?.[1] ?? []).map(Number);
  const found = await Promise.all(cpus.map((cpu) => exists(`${folder}/cpu${cpu}/thermal_throttle`)));
  return cpus.filter((_, at) => found[at]).sort((a, b) => a - b);
}

/** Upstream's file with the labels of containers; the policy's own is used if it is missing. */
const CONTAINER_LABELS = '/usr/share/containers/selinux/contexts';

/** The policy's label for files of containers (upstream: opencontainers/selinux), with `user:role:type:level`. */
async function readSELinux(root: string): Promise<Pick<MachineInfo, 'seLinux' | 'seLinuxFileLabel'>> {
  const seLinux = await hasSELinux(root);
  if (!seLinux) return { seLinux };
  const policy = valueFrom(await firstText([`${root}/etc/selinux/config`]), 'SELINUXTYPE') ?? '';
  const paths = [CONTAINER_LABELS, `/etc/selinux/${policy}/contexts/lxc_contexts`].map((path) => `${root}${path}`);
  const label = valueFrom(await firstText(paths), 'file') ?? '';
  return LABEL.test(label) ? { seLinux, seLinuxFileLabel: label } : { seLinux };
}

const LABEL = /^[^:\s]+:[^:\s]+:[^:\s]+(:\S+)?$/;

/** The value of a line like `file = "system_u:object_r:container_file_t:s0"`. */
const valueFrom = (text: string, key: string): string | undefined =>
  text
    .split('\n')
    .map((line) => line.split('=', 2).map((part) => part.trim()))
    .find(([name]) => name === key)?.[1]
    ?.replaceAll('"', '');

/** Whether SELinux is active: its file system exists, and this process has a label of a loaded policy. */
async function hasSELinux(root: string): Promise<boolean> {
  const mounts = parseMounts(await readFile(`${root}/proc/self/mountinfo`, 'utf8').catch(() => ''));
  if (!mounts.some(({ type }) => type === 'selinuxfs')) return false;
  const label = await firstText([`${root}/proc/thread-self/attr/current`, `${root}/proc/self/attr/current`]);
  return label !== 'kernel';
}

/** Node's names of architectures that Go names differently. */
const GO_ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386', ppc64: 'ppc64le' };
const PID_MAX_DEFAULT = 32_768n;

/** The smallest of the values that the machine reports. */
function smallest(texts: readonly string[]): string {
  const numbers = texts.filter((text) => /^\d+$/.test(text)).map(BigInt);
  return String(numbers.reduce((least, each) => (each < least ? each : least), numbers[0] ?? PID_MAX_DEFAULT));
}

async function hugePageTotals(root: string, sizes: readonly number[]): Promise<Record<string, string>> {
  const totals = sizes.map(async (kib) => {
    const pages = await firstText([`${root}/sys/kernel/mm/hugepages/hugepages-${kib}kB/nr_hugepages`]);
    return [hugePageResource(kib), String(BigInt(pages || '0') * BigInt(kib) * BYTES_PER_KIB)] as const;
  });
  return Object.fromEntries(await Promise.all(totals));
}

/** The sizes of huge pages, from the names of folders like `hugepages-2048kB`. */
async function hugePageSizes(root: string): Promise<number[]> {
  const names = await readdir(`${root}/sys/kernel/mm/hugepages`).catch(() => []);
  const sizes = names.flatMap((name) => /^hugepages-(\d+)kB$/.exec(name)?.[1] ?? []);
  return sizes.map(Number).sort((a, b) => a - b);
}

/** The content of the first file that is not empty. */
async function firstText(paths: readonly string[]): Promise<string> {
  for (const path of paths) {
    const text = await readFile(path, 'utf8').catch(() => '');
    const trimmed = text.replaceAll('\0', '').trim();
    if (trimmed !== '') return trimmed;
  }
  return '';
}

function memory(meminfo: string, field: 'MemTotal' | 'SwapTotal'): bigint {
  const kibibytes = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(meminfo)?.[1];
  if (kibibytes === undefined) throw new OperationError(`/proc/meminfo has no ${field}`);
  return BigInt(kibibytes) * BYTES_PER_KIB;
}

function prettyName(osRelease: string): string {
  const value = /^PRETTY_NAME=(.*)$/m.exec(osRelease)?.[1] ?? 'Linux';
  return value.replace(/^(["'])(.*)\1$/, '$2');
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

/** A hybrid machine (v1 controllers, v2 only for systemd) counts as v1, where its controllers are. */
export async function readCgroups(root: string): Promise<CgroupInfo> {
  const mounts = parseMounts(await readFile(`${root}/proc/self/mountinfo`, 'utf8'));
  if (mounts.findLast(({ point }) => point === '/sys/fs/cgroup')?.type === 'cgroup2') {
    const controllers = await readFile(`${root}/sys/fs/cgroup/cgroup.controllers`, 'utf8');
    const cgroup = /^0::(\/.*)$/m.exec(await firstText([`${root}/proc/self/cgroup`]))?.[1] ?? '/';
    const swapCounted = await exists(`${root}/sys/fs/cgroup${cgroup}/memory.swap.max`);
    return { version: 2, controllers: controllers.split(/\s+/).filter((name) => name !== ''), swapCounted };
  }
  const known = enabledControllers(await firstText([`${root}/proc/cgroups`]));
  const options = new Set(mounts.filter(({ type }) => type === 'cgroup').flatMap((mount) => mount.options));
  const controllers = known.filter((name) => options.has(name));
  const swapCounted = await exists(`${root}/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes`);
  if (controllers.length > 0) return { version: 1, controllers, swapCounted };
  throw new OperationError(
    'no cgroup hierarchy is mounted below /sys/fs/cgroup: mount cgroup2 there, or the controllers of cgroup v1',
    { code: 'ENOENT' },
  );
}

function enabledControllers(cgroups: string): readonly string[] {
  return cgroups.split('\n').flatMap((line) => {
    const [name = '', , , enabled] = line.split(/\s+/);
    return enabled === '1' ? [name] : [];
  });
}
