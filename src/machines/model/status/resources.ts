/**
 * Resources in a status: a container's from the runtime, a pod's from its spec.
 *
 * Invariant: a value below the kernel's resolution is published as requested, not as rounded by the kernel.
 */

import type { ContainerStatus as CriContainerStatus, LinuxContainerResources } from '../api/cri.ts';
import type { Container, ContainerStatus, Pod, PodStatus } from '../api/pod.ts';
import { type Amounts, podLimits, podOverhead, podRequests } from '../spec/resources.ts';
import { formatBinary, formatDecimal, fromMilli, fromWhole, milliUnits, nanoOf } from '../values/quantity.ts';
import { memoize } from '../values/same.ts';

/** Thousandths of a CPU below which quota and shares no longer follow the amount. */
const MIN_LIMIT_MILLI = 10n;
const MIN_REQUEST_MILLI = 2n;
const SHARES_PER_CPU = 1024n;
const MILLI_PER_CPU = 1000n;

type List = Readonly<Record<string, string>>;

/** The resources of a container, once the runtime has it. */
export function containerResourceStatus(
  container: Container,
  current: CriContainerStatus,
  showsClaims: boolean,
  /**
   * The container's current requests during a resize, because the runtime does not know memory requests; absent: those
   * of its definition.
   */
  actuated: List | undefined = container.resources?.requests,
): Pick<ContainerStatus, 'resources' | 'allocatedResources'> {
  const { requests, limits, claims } = container.resources ?? {};
  const actual = current.state === 'CONTAINER_RUNNING' ? current.resources?.linux : undefined;
  return {
    ...(requests === undefined ? {} : { allocatedResources: requests }),
    resources: {
      ...(limits === undefined ? {} : { limits: actualLimits(limits, actual ?? {}) }),
      ...(requests === undefined ? {} : { requests: actualRequests(requests, actual ?? {}, actual && actuated) }),
      ...(showsClaims && claims !== undefined ? { claims } : {}),
    },
  };
}

function actualLimits(limits: List, { cpu_quota, cpu_period, memory_limit_in_bytes }: LinuxContainerResources): List {
  const quota = BigInt(cpu_quota ?? '0');
  const period = BigInt(cpu_period ?? '0');
  const memory = BigInt(memory_limit_in_bytes ?? '0');
  const milli = quota > 0n && period > 0n ? (quota * MILLI_PER_CPU) / period : 0n;
  return {
    ...limits,
    ...(isCpuChange(milli, limits.cpu, MIN_LIMIT_MILLI) ? { cpu: formatDecimal(fromMilli(milli)) } : {}),
    ...(memory > 0n ? { memory: formatBinary(fromWhole(memory)) } : {}),
  };
}

function actualRequests(asked: List, { cpu_shares }: LinuxContainerResources, actuated: List = asked): List {
  const requests = actuated.memory === undefined ? asked : { ...asked, memory: actuated.memory };
  const shares = BigInt(cpu_shares ?? '0');
  const milli = (shares * MILLI_PER_CPU + SHARES_PER_CPU - 1n) / SHARES_PER_CPU;
  return isCpuChange(milli, requests.cpu, MIN_REQUEST_MILLI)
    ? { ...requests, cpu: formatDecimal(fromMilli(milli)) }
    : requests;
}

const isCpuChange = (milli: bigint, asked: string | undefined, smallest: bigint): boolean =>
  milli > smallest || (milli > 0n && asked !== undefined && milliUnits(nanoOf(asked)) > smallest);

/** The sums of the pod, with its overhead: the requested resources, and during a resize the current ones. */
export const podResourceStatus = (pod: Pod, resized: Pod = pod): Pick<PodStatus, 'allocatedResources' | 'resources'> =>
  resized === pod ? podSums(pod) : { ...podSums(pod), resources: podSums(resized).resources };

const podSums = memoize((pod: Pod): Required<Pick<PodStatus, 'resources'>> & Pick<PodStatus, 'allocatedResources'> => {
  const overhead = podOverhead(pod);
  const requests = formatted(podRequests(pod), overhead);
  const limits = formatted(podLimits(pod), overhead);
  return {
    ...(isEmpty(requests) ? {} : { allocatedResources: requests }),
    resources: { ...(isEmpty(limits) ? {} : { limits }), ...(isEmpty(requests) ? {} : { requests }) },
  };
});

const isEmpty = (list: List): boolean => Object.keys(list).length === 0;

function formatted(amounts: Amounts, overhead: Amounts): List {
  const texts = Object.entries(amounts).map(([name, amount]) => {
    const total = amount + (overhead[name] ?? 0n);
    return [name, isInBytes(name) ? formatBinary(total) : formatDecimal(total)] as const;
  });
  return Object.fromEntries(texts);
}

const isInBytes = (name: string): boolean =>
  name === 'memory' || name === 'ephemeral-storage' || name.startsWith('hugepages-');
