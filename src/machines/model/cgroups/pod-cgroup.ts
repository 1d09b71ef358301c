/**
 * The path and limits of a pod's cgroup. Pure.
 *
 * Upstream: pkg/kubelet/cm/helpers_linux.go (ResourceConfigForPod), pod_container_manager_linux.go.
 */
import type { Pod, QOSClass } from '../api/pod.ts';
import type { CgroupDriver, CgroupResources, DesiredCgroup } from '../operations/cgroup.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { isPositive, podContainers, podQOS } from '../spec/qos.ts';
import {
  type Amounts,
  cpuQuota,
  cpuShares,
  ownsCpus,
  podLimits,
  podOverhead,
  podRequests,
  reservedMemory,
} from '../spec/resources.ts';
import { milliUnits, type Nano, wholeUnits } from '../values/quantity.ts';
import { hugePages, nodeAllocatablePath, podPath, type QOSLevel } from './node-groups.ts';

const LEAST_SHARES = '2';

const levelOf = (pod: Pod): QOSLevel | null => {
  const qos = podQOS(pod);
  return qos === 'Guaranteed' ? null : (qos.toLowerCase() as QOSLevel);
};

export const podGroup = (pod: Pod, node: NodeSettings): DesiredCgroup => ({
  driver: node.cgroupDriver,
  path: podPath(node, levelOf(pod), pod.metadata.uid),
  resources: podGroupResources(pod, node),
});

/** The name as upstream prints it: `[kubepods burstable pod<uid>]`. */
export function podGroupName({ pod, node }: { readonly pod: Pod | null; readonly node: NodeSettings }): string {
  if (pod === null) return '[]';
  const path = podPath({ ...node, cgroupDriver: 'cgroupfs' }, levelOf(pod), pod.metadata.uid);
  return `[${path.split('/').slice(1).join(' ')}]`;
}

/** Possible paths of this pod's cgroup; of all levels if only its uid is known. */
export function podGroups({
  pod,
  uid,
  node,
}: {
  readonly pod: Pod | null;
  readonly uid: string;
  readonly node: NodeSettings;
}): { readonly driver: CgroupDriver; readonly paths: readonly string[]; readonly within: string } {
  const levels = pod === null ? ([null, 'burstable', 'besteffort'] as const) : [levelOf(pod)];
  const paths = levels.map((level) => podPath(node, level, uid));
  return { driver: node.cgroupDriver, paths, within: nodeAllocatablePath(node) };
}

function podGroupResources(pod: Pod, node: NodeSettings): CgroupResources {
  const requests = withOverhead(pod, podRequests(pod));
  return {
    ...cpuAndMemory(pod, node, requests),
    ...(node.podPidsLimit > 0 ? { pids: String(node.podPidsLimit) } : {}),
    ...hugePages(requests, node.hugePageSizes ?? []),
    ...reservation(podQOS(pod), requests['memory'] ?? 0n, node),
  };
}

const withOverhead = (pod: Pod, amounts: Amounts): Amounts => {
  const overhead = podOverhead(pod);
  const names = new Set([...Object.keys(amounts), ...Object.keys(overhead)]);
  return Object.fromEntries([...names].map((name) => [name, (amounts[name] ?? 0n) + (overhead[name] ?? 0n)]));
};

/** Limits of the whole pod: only if every container has one, or the pod itself. */
function cpuAndMemory(pod: Pod, node: NodeSettings, requests: Amounts): CgroupResources {
  const qos = podQOS(pod);
  if (qos === 'BestEffort') return { cpuShares: LEAST_SHARES };
  const limits = podLimits(pod);
  const overhead = podOverhead(pod);
  const limit = (name: 'cpu' | 'memory'): Nano => {
    const amount = limits[name] ?? 0n;
    return amount === 0n ? 0n : amount + (overhead[name] ?? 0n);
  };
  const isBounded = (name: 'cpu' | 'memory'): boolean => qos === 'Guaranteed' || bounds(pod, name);
  const memory = wholeUnits(limit('memory'));
  return {
    cpuShares: String(cpuShares(milliUnits(requests['cpu'] ?? 0n))),
    ...(isBounded('cpu') ? quota(milliUnits(limit('cpu')), node, ownsCpus(pod, node)) : {}),
    ...(isBounded('memory') && memory > 0n ? { memoryBytes: String(memory) } : {}),
  };
}

/** The memory limit of the whole pod including its overhead, in bytes; 0 for none. */
export const memoryBound = (pod: Pod, node: NodeSettings): bigint =>
  BigInt(cpuAndMemory(pod, node, {}).memoryBytes ?? '0');

const bounds = (pod: Pod, name: 'cpu' | 'memory'): boolean =>
  isPositive(pod.spec.resources?.limits?.[name]) ||
  podContainers(pod).every(({ resources }) => isPositive(resources?.limits?.[name]));

const UNLIMITED = '-1';

function quota(milli: bigint, node: NodeSettings, isFree: boolean): CgroupResources {
  const period = BigInt(node.cpuCFSQuotaPeriodUs);
  const us = cpuQuota(milli, period);
  if (us === 0n) return {};
  return { cpuPeriodUs: String(period), cpuQuotaUs: node.cpuCFSQuota && !isFree ? String(us) : UNLIMITED };
}

function reservation(qos: QOSClass, memory: Nano, node: NodeSettings): CgroupResources {
  const unified = reservedMemory(qos, memory, node);
  return Object.keys(unified).length === 0 ? {} : { unified };
}
