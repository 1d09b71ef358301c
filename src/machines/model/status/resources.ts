/**
 * Resources in a status: a container's from the runtime, a pod's from its spec.
 *
 * Invariant: a value below the kernel's resolution is published as requested, not as rounded by the kernel.
 */

import type { ContainerStatus as CriContainerStatus, LinuxContainerResources } from '../api/cri.ts';
import type { Container, ContainerStatus, Pod, PodStatus, ResourceRequirements } from '../api/pod.ts';
import { type Decider, hasBehavior } from '../settings/behaviors.ts';
import { hasPodLevelResources } from '../spec/qos.ts';
import { type Amounts, isSidecar, podLimits, podOverhead, podRequests } from '../spec/resources.ts';
import {
  amountOf,
  formatBinary,
  formatDecimal,
  formatQuantity,
  fromMilli,
  fromWhole,
  milliUnits,
  nanoOf,
} from '../values/quantity.ts';
import { memoize } from '../values/same.ts';
import { pickKeys, valueIn } from '../values/tables.ts';

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

type Sums = Required<Pick<PodStatus, 'resources'>> & Pick<PodStatus, 'allocatedResources'>;

/** The sums of the pod, with its overhead: the requested resources, and during a resize the current ones. */
export function podResourceStatus(
  node: Decider,
  pod: Pod,
  resized: Pod = pod,
): Pick<PodStatus, 'allocatedResources' | 'resources'> {
  const sumsOf = hasBehavior(node, 'detailsAsKubelet') ? podSums : unformattedSums;
  return resized === pod ? sumsOf(pod) : { ...sumsOf(pod), resources: sumsOf(resized).resources };
}

/** Without `detailsAsKubelet`. */
const unformattedSums = memoize((pod: Pod): Sums => {
  const overhead = podOverhead(pod);
  const sums = (amounts: Amounts): List =>
    Object.fromEntries(
      Object.entries(amounts).map(([name, amount]) => {
        const total = amount + (overhead[name] ?? 0n);
        return [name, isInBytes(name) ? formatBinary(total) : formatDecimal(total)] as const;
      }),
    );
  return statusOf(sums(podRequests(pod)), sums(podLimits(pod)));
});

const isInBytes = (name: string): boolean =>
  name === 'memory' || name === 'ephemeral-storage' || name.startsWith('hugepages-');

const podSums = memoize((pod: Pod): Sums => {
  const { overhead = {} } = pod.spec;
  const requests = { ...Object.fromEntries(Object.keys(overhead).map((name) => [name, 0n])), ...podRequests(pod) };
  const limits = podLimits(pod);
  const limited = pickKeys(overhead, (name) => (limits[name] ?? 0n) !== 0n);
  return statusOf(
    formatted(pod, requests, (resources) => ({ ...resources?.limits, ...resources?.requests }), overhead),
    formatted(pod, limits, (resources) => resources?.limits ?? {}, limited),
  );
});

const statusOf = (requests: List, limits: List): Sums => ({
  ...(isEmpty(requests) ? {} : { allocatedResources: requests }),
  resources: { ...(isEmpty(limits) ? {} : { limits }), ...(isEmpty(requests) ? {} : { requests }) },
});

const isEmpty = (list: List): boolean => Object.keys(list).length === 0;

type ListOf = (resources: ResourceRequirements | undefined) => List;

/** The sums as text, each in the format of the first amount in it that is not zero, as by `Quantity.Add` upstream. */
function formatted(pod: Pod, amounts: Amounts, listOf: ListOf, overhead: List): List {
  const addends = addendsOf(pod, listOf);
  const texts = Object.entries(amounts).map(([name, amount]) => {
    const parts = [...addends(name, amount), overhead[name] ?? '0'].map(amountOf);
    const format = parts.find(({ nano }) => nano !== 0n)?.format ?? 'decimalSI';
    return [name, formatQuantity({ nano: amount + amountOf(overhead[name] ?? '0').nano, format })] as const;
  });
  return Object.fromEntries(texts);
}

/** What an amount is the sum of, in the order of upstream's addition. */
function addendsOf({ spec }: Pod, listOf: ListOf): (name: string, amount: bigint) => readonly string[] {
  const ofPod = hasPodLevelResources(spec.resources) ? listOf(spec.resources) : {};
  const inits = spec.initContainers ?? [];
  const running = byName([...spec.containers, ...inits.filter(isSidecar)], listOf);
  const before = byName(
    inits.filter((each) => !isSidecar(each)),
    listOf,
  );
  return (name, amount) => {
    const own = valueIn(ofPod, name);
    if (own !== undefined) return [own];
    const together = running.get(name) ?? [];
    if (amount <= together.reduce((sum, text) => sum + amountOf(text).nano, 0n)) return together;
    return (before.get(name) ?? []).toSorted((a, b) => (amountOf(b).nano > amountOf(a).nano ? 1 : -1));
  };
}

/** Of thousands of resources and containers, by name the amounts of the containers that have some. */
function byName(containers: readonly Container[], listOf: ListOf): ReadonlyMap<string, readonly string[]> {
  const amounts = new Map<string, string[]>();
  for (const { resources } of containers) {
    for (const [name, text] of Object.entries(listOf(resources))) {
      const earlier = amounts.get(name);
      if (earlier === undefined) amounts.set(name, [text]);
      else earlier.push(text);
    }
  }
  return amounts;
}
