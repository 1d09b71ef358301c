/**
 * The cgroup hierarchies of this machine: the mounts of version 1, one per controller, or the single tree of version 2.
 * Also the files, in each version, that hold the limits of a cgroup.
 *
 * A hybrid machine (controllers in version 1, an empty version 2 beside them) counts as version 1. The mounts are read
 * once and cached: they do not change while a node runs. Invariant: the order of a list of files is the order of
 * writing; a period comes before its quota.
 */
import { readFile } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import type { CgroupResources } from '../../machines/model/operations/cgroup.ts';
import { parseMounts } from '../host/kernel/mounts.ts';

export interface CgroupFile {
  /** The controller in version 1; empty in version 2. */
  readonly controller: string;
  readonly name: string;
  readonly value: string;
  /** The file may be missing, because the kernel lacks the controller. */
  readonly optional: boolean;
}

const DEFAULT_PERIOD_US = '100000';
const [LEAST_SHARES, MOST_SHARES] = [2n, 262_144n];
const [LEAST_WEIGHT, MOST_WEIGHT] = [1n, 10_000n];

const required = (controller: string, name: string, value: string): CgroupFile => ({
  controller,
  name,
  value,
  optional: false,
});
const optional = (controller: string, name: string, value: string): CgroupFile => ({
  ...required(controller, name, value),
  optional: true,
});

/** Memory of zero bytes is not a limit, as in the runtimes: it would end every process of the group. */
export const isLimit = (memoryBytes: string | undefined): memoryBytes is string =>
  memoryBytes !== undefined && memoryBytes !== '0';

/** systemd has no limit of zero processes. */
export const atLeastOne = (pids: string): string => (pids === '0' ? '1' : pids);

export function filesOfVersion1(resources: CgroupResources): readonly CgroupFile[] {
  const { cpuShares, cpuPeriodUs, cpuQuotaUs, memoryBytes, pids, hugePageBytes = {} } = resources;
  return [
    ...(isLimit(memoryBytes) ? [required('memory', 'memory.limit_in_bytes', memoryBytes)] : []),
    ...(cpuShares === undefined ? [] : [required('cpu', 'cpu.shares', cpuShares)]),
    ...(cpuPeriodUs === undefined ? [] : [required('cpu', 'cpu.cfs_period_us', cpuPeriodUs)]),
    ...(cpuQuotaUs === undefined ? [] : [required('cpu', 'cpu.cfs_quota_us', cpuQuotaUs)]),
    ...(pids === undefined ? [] : [required('pids', 'pids.max', atLeastOne(pids))]),
    ...Object.entries(hugePageBytes).flatMap(([size, bytes]) => [
      optional('hugetlb', `hugetlb.${size}.limit_in_bytes`, bytes),
      optional('hugetlb', `hugetlb.${size}.rsvd.limit_in_bytes`, bytes),
    ]),
  ];
}

export function filesOfVersion2(resources: CgroupResources): readonly CgroupFile[] {
  const { cpuShares, cpuPeriodUs, cpuQuotaUs, memoryBytes, pids, cpus, hugePageBytes = {}, unified = {} } = resources;
  return [
    ...(isLimit(memoryBytes) ? [required('', 'memory.max', memoryBytes === '-1' ? 'max' : memoryBytes)] : []),
    ...(cpuShares === undefined ? [] : [required('', 'cpu.weight', cpuWeight(BigInt(cpuShares)).toString())]),
    ...(cpuQuotaUs === undefined
      ? []
      : [required('', 'cpu.max', `${cpuQuotaUs === '-1' ? 'max' : cpuQuotaUs} ${cpuPeriodUs ?? DEFAULT_PERIOD_US}`)]),
    ...(pids === undefined ? [] : [required('', 'pids.max', atLeastOne(pids))]),
    ...(cpus === undefined ? [] : [optional('', 'cpuset.cpus', cpus)]),
    ...Object.entries(hugePageBytes).flatMap(([size, bytes]) => [
      optional('', `hugetlb.${size}.max`, bytes),
      optional('', `hugetlb.${size}.rsvd.max`, bytes),
    ]),
    ...Object.entries(unified).map(([name, value]) => required('', name, value)),
  ];
}

/**
 * The version 2 weight of these shares, on the straight line through minimum and maximum of both, as in the kubelet:
 * for its own groups (all pods, levels, pods) it does not use the curve of newer container runtimes.
 */
export function cpuWeight(shares: bigint): bigint {
  if (shares <= LEAST_SHARES) return LEAST_WEIGHT;
  if (shares >= MOST_SHARES) return MOST_WEIGHT;
  return LEAST_WEIGHT + ((shares - LEAST_SHARES) * (MOST_WEIGHT - LEAST_WEIGHT)) / (MOST_SHARES - LEAST_SHARES);
}

export interface Hierarchies {
  readonly version: 1 | 2;
  /** Mount points by controller (`cpu`, `name=systemd`, `unified`); version 2 has one entry with an empty name. */
  readonly mounts: ReadonlyMap<string, string>;
}

const UNIFIED = '/sys/fs/cgroup';
/** The version 2 tree beside version 1: it has no controllers, but runtimes create groups in it as well. */
const HYBRID_UNIFIED = 'unified';
/** Options of a version 1 mount that name no controller. */
const PLAIN_OPTIONS = new Set(['rw', 'ro', 'xattr', 'noprefix', 'clone_children', 'relatime', 'all', 'none']);

/** `root` is a prefix for a machine that is described by files. */
export async function readHierarchies(root: string): Promise<Hierarchies> {
  const found = parseMounts(await readFile(`${root}/proc/self/mountinfo`, 'utf8'));
  if (found.findLast(({ point }) => point === UNIFIED)?.type === 'cgroup2') {
    return { version: 2, mounts: new Map([['', `${root}${UNIFIED}`]]) };
  }
  const mounts = new Map<string, string>();
  for (const { type, point, options } of found) {
    if (type === 'cgroup2') mounts.set(HYBRID_UNIFIED, `${root}${point}`);
    if (type !== 'cgroup') continue;
    for (const option of options) {
      if (!PLAIN_OPTIONS.has(option) && !option.startsWith('release_agent')) mounts.set(option, `${root}${point}`);
    }
  }
  if ([...mounts.keys()].every((controller) => controller === HYBRID_UNIFIED))
    throw new OperationError('failed to find cgroup mounts', { code: 'ENOENT' });
  return { version: 1, mounts };
}

/** Controllers whose group must exist for the cgroup to exist; `hugetlb` only if it is mounted. */
const REQUIRED_CONTROLLERS = ['cpu', 'cpuacct', 'cpuset', 'memory', 'pids', 'hugetlb', 'name=systemd'];

/** The folders without which the cgroup does not exist, one per hierarchy. */
export const requiredFolders = ({ version, mounts }: Hierarchies, path: string): readonly string[] =>
  version === 2
    ? [`${mounts.get('')}${path}`]
    : unique(REQUIRED_CONTROLLERS.flatMap((controller) => mounts.get(controller) ?? [])).map(
        (mount) => `${mount}${path}`,
      );

export const foldersOf = ({ mounts }: Hierarchies, path: string): readonly string[] =>
  unique([...mounts.values()]).map((mount) => `${mount}${path}`);

const unique = (texts: readonly string[]): string[] => [...new Set(texts)];
