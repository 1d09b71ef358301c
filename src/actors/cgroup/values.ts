/**
 * Converts the limits of a cgroup to files of its version: file, hierarchy and text. Pure.
 *
 * Invariant: the order of the list is the order of writing; a period comes before its quota.
 */
import type { CgroupResources } from '../../machines/model/operations/cgroup.ts';

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
const MOST_WEIGHT = 10_000n;

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

export function filesOfVersion1(resources: CgroupResources): readonly CgroupFile[] {
  const { cpuShares, cpuPeriodUs, cpuQuotaUs, memoryBytes, pids, hugePageBytes = {} } = resources;
  return [
    ...(memoryBytes === undefined ? [] : [required('memory', 'memory.limit_in_bytes', memoryBytes)]),
    ...(cpuShares === undefined ? [] : [required('cpu', 'cpu.shares', cpuShares)]),
    ...(cpuPeriodUs === undefined ? [] : [required('cpu', 'cpu.cfs_period_us', cpuPeriodUs)]),
    ...(cpuQuotaUs === undefined ? [] : [required('cpu', 'cpu.cfs_quota_us', cpuQuotaUs)]),
    ...(pids === undefined ? [] : [required('pids', 'pids.max', pids)]),
    ...Object.entries(hugePageBytes).map(([size, bytes]) =>
      optional('hugetlb', `hugetlb.${size}.limit_in_bytes`, bytes),
    ),
  ];
}

export function filesOfVersion2(resources: CgroupResources): readonly CgroupFile[] {
  const { cpuShares, cpuPeriodUs, cpuQuotaUs, memoryBytes, pids, hugePageBytes = {}, unified = {} } = resources;
  return [
    ...(memoryBytes === undefined ? [] : [required('', 'memory.max', memoryBytes === '-1' ? 'max' : memoryBytes)]),
    ...(cpuShares === undefined ? [] : [required('', 'cpu.weight', cpuWeight(BigInt(cpuShares)).toString())]),
    ...(cpuQuotaUs === undefined
      ? []
      : [required('', 'cpu.max', `${cpuQuotaUs === '-1' ? 'max' : cpuQuotaUs} ${cpuPeriodUs ?? DEFAULT_PERIOD_US}`)]),
    ...(pids === undefined ? [] : [required('', 'pids.max', pids)]),
    ...Object.entries(hugePageBytes).map(([size, bytes]) => optional('', `hugetlb.${size}.max`, bytes)),
    ...Object.entries(unified).map(([name, value]) => required('', name, value)),
  ];
}

/**
 * The version 2 weight equivalent to these shares: a curve through minimum, default and maximum of both, as in the
 * container runtimes. Source: opencontainers/cgroups, ConvertCPUSharesToCgroupV2Value.
 */
export function cpuWeight(shares: bigint): bigint {
  if (shares <= LEAST_SHARES) return 1n;
  if (shares >= MOST_SHARES) return MOST_WEIGHT;
  const log = Math.log2(Number(shares));
  const exponent = (log * log + 125 * log) / 612 - 7 / 34;
  return BigInt(Math.ceil(10 ** exponent));
}
