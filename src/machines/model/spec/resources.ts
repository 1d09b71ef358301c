/**
 * Converts requests and limits to kernel settings: shares, quotas, limits, OOM scores.
 *
 * Also computes the sums over a pod's containers. Invariant: integers only; 64-bit values are decimal text.
 */
import type { HugepageLimit, LinuxContainerResources } from '../api/cri.ts';
import type { Container, Pod, QOSClass, ResourceRequirements } from '../api/pod.ts';
import { isMirrorPod, isStaticPod } from '../api/pod.ts';
import { type Decider, hasBehavior } from '../settings/behaviors.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { MILLI, milliUnits, type Nano, nanoOf, wholeUnits } from '../values/quantity.ts';
import { memoize } from '../values/same.ts';
import { mapValues, pickBy } from '../values/tables.ts';
import { hasPodLevelResources, podContainers, podQOS } from './qos.ts';

/** Bounds of `cpu.shares`; one CPU is 1024. */
const MIN_SHARES = 2n;
const MAX_SHARES = 262_144n;
const SHARES_PER_CPU = 1024n;
/** The smallest quota that the kernel accepts, in microseconds of CPU time per period. */
const MIN_QUOTA_US = 1000n;
const MILLI_PER_CPU = 1000n;
const UNLIMITED = '-1';

/** Scores of the OOM killer; -1000 is never killed, 1000 is first. */
const GUARANTEED_OOM_SCORE = -997;
const BEST_EFFORT_OOM_SCORE = 1000;
const MAX_BURSTABLE_OOM_SCORE = 999;
const MIN_BURSTABLE_OOM_SCORE = 1000 + GUARANTEED_OOM_SCORE;
const NODE_CRITICAL = 'system-node-critical';
const CRITICAL_PRIORITY = 2_000_000_000;

export type Amounts = Readonly<Record<string, Nano>>;

export const isSidecar = (container: Pick<Container, 'restartPolicy'>): boolean => container.restartPolicy === 'Always';

export const amountsOf = (list: Readonly<Record<string, string>> | undefined): Amounts => mapValues(list ?? {}, nanoOf);

/** Requests with the API server's default: a limit alone is also a request. */
export const requestsOf = (resources: ResourceRequirements | undefined): Amounts => ({
  ...amountsOf(resources?.limits),
  ...amountsOf(resources?.requests),
});

/** Sums by name; a pod may have tens of thousands of resources in a thousand containers. */
type Sums = Map<string, Nano>;

function add(sums: Sums, amounts: Iterable<readonly [string, Nano]>): void {
  for (const [name, amount] of amounts) sums.set(name, (sums.get(name) ?? 0n) + amount);
}

function raise(sums: Sums, amounts: Iterable<readonly [string, Nano]>): void {
  for (const [name, amount] of amounts) {
    const earlier = sums.get(name) ?? 0n;
    sums.set(name, amount > earlier ? amount : earlier);
  }
}

/**
 * The maximum that a pod uses at once: its containers and sidecars together, or an init container with the sidecars
 * before it.
 */
function aggregate(pod: Pod, amounts: (resources: ResourceRequirements | undefined) => Amounts): Amounts {
  const running: Sums = new Map();
  const initialising: Sums = new Map();
  for (const container of pod.spec.initContainers ?? []) {
    const own = Object.entries(amounts(container.resources));
    if (isSidecar(container)) add(running, own);
    else {
      raise(
        initialising,
        own.map(([name, amount]) => [name, (running.get(name) ?? 0n) + amount]),
      );
    }
  }
  for (const { resources } of pod.spec.containers) add(running, Object.entries(amounts(resources)));
  raise(running, initialising);
  return Object.fromEntries(running);
}

/** Pod-level resources take precedence. */
function podAmounts(pod: Pod, amounts: (resources: ResourceRequirements | undefined) => Amounts): Amounts {
  const { resources } = pod.spec;
  return { ...aggregate(pod, amounts), ...(hasPodLevelResources(resources) ? amounts(resources) : {}) };
}

export const podRequests = memoize((pod: Pod): Amounts => podAmounts(pod, requestsOf));

export const podLimits = memoize((pod: Pod): Amounts => podAmounts(pod, (resources) => amountsOf(resources?.limits)));

/** The overhead of the runtime class. */
export const podOverhead = (pod: Pod): Amounts => amountsOf(pod.spec.overhead);

export function cpuShares(milli: bigint): bigint {
  if (milli === 0n) return MIN_SHARES;
  const shares = (milli * SHARES_PER_CPU) / MILLI_PER_CPU;
  return shares < MIN_SHARES ? MIN_SHARES : shares > MAX_SHARES ? MAX_SHARES : shares;
}

/** The inverse: the least amount with this number of shares. */
export const milliOfShares = (shares: bigint): bigint =>
  shares < MIN_SHARES ? 0n : (shares * MILLI_PER_CPU + SHARES_PER_CPU - 1n) / SHARES_PER_CPU;

/** 0: no quota. */
export function cpuQuota(milli: bigint, periodUs: bigint): bigint {
  if (milli === 0n) return 0n;
  const quota = (milli * periodUs) / MILLI_PER_CPU;
  return quota < MIN_QUOTA_US ? MIN_QUOTA_US : quota;
}

type ResourceSettings = Pick<
  NodeSettings,
  | 'cpuCFSQuota'
  | 'cpuCFSQuotaPeriodUs'
  | 'cgroupVersion'
  | 'memoryQoS'
  | 'allocatable'
  | 'killsSingleProcess'
  | 'swapControllerAvailable'
  | 'limitedSwapBytes'
  | 'hugePageSizes'
  | 'memoryCapacityBytes'
  | 'admission'
>;

/** CPU and memory in CRI's fields; zeros are left out, because they mean "not specified". */
function linuxResources(requests: Amounts, limits: Amounts, node: ResourceSettings): LinuxContainerResources {
  const limitMilli = milliUnits(limits.cpu ?? 0n);
  const period = BigInt(node.cpuCFSQuotaPeriodUs);
  const quota = node.cpuCFSQuota ? cpuQuota(limitMilli, period) : 0n;
  const memory = wholeUnits(limits.memory ?? 0n);
  return {
    ...(node.cpuCFSQuota ? { cpu_period: String(period) } : {}),
    ...(quota === 0n ? {} : { cpu_quota: String(quota) }),
    cpu_shares: String(cpuShares(requests.cpu === undefined ? limitMilli : milliUnits(requests.cpu))),
    ...(memory === 0n ? {} : { memory_limit_in_bytes: String(memory) }),
    ...(node.cgroupVersion === 2 && node.killsSingleProcess !== true ? { unified: { 'memory.oom.group': '1' } } : {}),
  };
}

/** `resources` of a sandbox: all containers together, without the overhead. */
export const sandboxResources = (pod: Pod, node: ResourceSettings & Decider): LinuxContainerResources => ({
  ...linuxResources(podRequests(pod), podLimits(pod), node),
  ...(hasBehavior(node, 'resourcesAsKubelet') && ownsCpus(pod, node) && node.cpuCFSQuota
    ? { cpu_quota: UNLIMITED }
    : {}),
});

/** Whether the pod has exclusive CPUs, whose time is not limited. */
export const ownsCpus = (pod: Pod, { admission }: Pick<NodeSettings, 'admission'>): boolean =>
  admission?.cpuManager !== undefined && podContainers(pod).some((container) => exclusiveCount(pod, container) > 0);

/** `overhead` of a sandbox; empty if its runtime class has none. */
export function sandboxOverhead(pod: Pod, node: ResourceSettings): LinuxContainerResources {
  const overhead = podOverhead(pod);
  return Object.keys(overhead).length === 0 ? {} : linuxResources(overhead, overhead, node);
}

/** A container without its own limits is limited by those of its pod; time on exclusive CPUs is not limited. */
export function containerResources(
  pod: Pod,
  container: Container,
  node: ResourceSettings & Decider,
): LinuxContainerResources {
  const podLevel = hasPodLevelResources(pod.spec.resources) ? amountsOf(pod.spec.resources?.limits) : {};
  const limits = { ...pick(podLevel), ...positive(amountsOf(container.resources?.limits)) };
  const resources = linuxResources(requestsOf(container.resources), limits, node);
  const unified = { ...resources.unified, ...memoryQoSOf(pod, container, node) };
  const hasOwnCpus = node.admission?.cpuManager !== undefined && exclusiveCount(pod, container) > 0;
  return {
    ...resources,
    ...(Object.keys(unified).length === 0 ? {} : { unified }),
    ...(hasOwnCpus && node.cpuCFSQuota ? { cpu_quota: UNLIMITED } : {}),
    oom_score_adj: String(oomScoreAdj(pod, container, node)),
    ...(node.hugePageSizes === undefined || node.hugePageSizes.length === 0
      ? {}
      : { hugepage_limits: hugepageLimits(pagesOf(pod, container, node), node.hugePageSizes) }),
    ...swapLimit({ ...resources, unified }, node, swapOf(pod, container, node)),
  };
}

/** Memory that may be reclaimed, also in a container that was protected before its resize. */
const UNPROTECTED = { 'memory.min': '0', 'memory.low': '0' } as const;

function memoryQoSOf(
  pod: Pod,
  { resources }: Container,
  node: ResourceSettings & Decider,
): Readonly<Record<string, string>> {
  const memory = requestsOf(resources).memory ?? 0n;
  const limit = wholeUnits(amountsOf(resources?.limits).memory ?? 0n);
  const reserved = reservedMemory(podQOS(pod), memory, node);
  const isReset = hasBehavior(node, 'groupsAsKubelet') && Object.keys(reserved).length === 0;
  return {
    ...(isReset && node.cgroupVersion === 2 && node.memoryQoS ? UNPROTECTED : reserved),
    ...throttledMemory({ request: wholeUnits(memory), limit }, node),
  };
}

/**
 * Bytes of swap that a container may use under `LimitedSwap`: its request's share of the node's memory. None if it must
 * not swap, or its request equals its limit.
 */
function swapOf(
  pod: Pod,
  { resources }: Container,
  { limitedSwapBytes, memoryCapacityBytes }: Pick<NodeSettings, 'limitedSwapBytes' | 'memoryCapacityBytes'>,
): bigint {
  const requested = wholeUnits(requestsOf(resources).memory ?? 0n);
  const limit = wholeUnits(amountsOf(resources?.limits).memory ?? 0n);
  const capacity = BigInt(memoryCapacityBytes);
  if (limitedSwapBytes === undefined || isCritical(pod) || podQOS(pod) !== 'Burstable') return 0n;
  if (requested === 0n || requested === limit || requested > capacity) return 0n;
  return BigInt(Math.trunc((Number(requested) / Number(capacity)) * Number(limitedSwapBytes)));
}

export const isCritical = (pod: Pod): boolean =>
  isStaticPod(pod) || isMirrorPod(pod) || (pod.spec.priority ?? 0) >= CRITICAL_PRIORITY;

/** The limit of memory and swap together. */
function swapLimit(
  { memory_limit_in_bytes: memory, unified = {} }: LinuxContainerResources,
  { cgroupVersion, swapControllerAvailable: canLimitSwap = false }: ResourceSettings,
  swap: bigint,
): LinuxContainerResources {
  if (!canLimitSwap || cgroupVersion === undefined) return {};
  if (cgroupVersion === 2) return { unified: { ...unified, 'memory.swap.max': String(swap) } };
  return memory === undefined ? {} : { memory_swap_limit_in_bytes: memory };
}

/** The limits that may be of huge pages: those of a container without own ones are those of its pod. */
const pagesOf = ({ spec }: Pod, { resources }: Container, decider: Decider): Amounts => ({
  ...(hasBehavior(decider, 'groupsAsKubelet') ? amountsOf(spec.resources?.limits) : {}),
  ...amountsOf(resources?.limits),
});

const pick = ({ cpu, memory }: Amounts): Amounts => ({
  ...(cpu === undefined ? {} : { cpu }),
  ...(memory === undefined ? {} : { memory }),
});

/** A limit of zero counts as none. */
const positive = (amounts: Amounts): Amounts => pickBy(amounts, (amount) => amount > 0n);

const HUGEPAGES_PREFIX = 'hugepages-';
const KIBIBYTE = 1024n;
const PAGE_UNITS = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];

/** Limits for every huge page size of the machine: a container may not use pages that it does not request. */
function hugepageLimits(limits: Amounts, sizes: readonly string[]): readonly HugepageLimit[] {
  const limitsBySize = new Map(
    Object.entries(limits)
      .filter(([name]) => name.startsWith(HUGEPAGES_PREFIX))
      .map(([name, amount]) => [pageSizeName(name.slice(HUGEPAGES_PREFIX.length)), wholeUnits(amount)]),
  );
  return sizes.map((size) => {
    const limit = limitsBySize.get(size);
    return limit === undefined || limit === 0n ? { page_size: size } : { page_size: size, limit: String(limit) };
  });
}

/** `2Mi` as in the kernel's folder names: `2MB`. */
export function pageSizeName(quantity: string): string {
  let size = wholeUnits(nanoOf(quantity));
  let unit = 0;
  while (size % KIBIBYTE === 0n && size > 0n && unit < PAGE_UNITS.length - 1) {
    size /= KIBIBYTE;
    unit += 1;
  }
  return `${size}${PAGE_UNITS[unit]}`;
}

/** `oom_score_adj` of a container's processes: the more memory a pod requests, the later they are killed. */
export function oomScoreAdj(pod: Pod, container: Container, node: Pick<NodeSettings, 'memoryCapacityBytes'>): number {
  if (isCritical(pod) && pod.spec.priorityClassName === NODE_CRITICAL) return GUARANTEED_OOM_SCORE;
  const qos = podQOS(pod);
  if (qos === 'Guaranteed') return GUARANTEED_OOM_SCORE;
  if (qos === 'BestEffort') return BEST_EFFORT_OOM_SCORE;
  const capacity = BigInt(node.memoryCapacityBytes);
  return capacity === 0n ? MAX_BURSTABLE_OOM_SCORE : burstableScore(decisiveRequest(pod, container), capacity);
}

/** A sidecar is never killed before the regular container with the smallest request. */
function decisiveRequest(pod: Pod, container: Container): bigint {
  const request = memoryRequest(container);
  const serves = (pod.spec.initContainers ?? []).some((init) => init.name === container.name && isSidecar(init));
  const [first = request, ...others] = pod.spec.containers.map(memoryRequest);
  const least = others.reduce((found, each) => (each < found ? each : found), first);
  return (serves && least > request ? least : request) + sharedRequest(pod);
}

const memoryRequest = ({ resources }: Container): bigint => wholeUnits(requestsOf(resources).memory ?? 0n);

function burstableScore(request: bigint, capacity: bigint): number {
  const score = 1000 - Number((1000n * request) / capacity);
  if (score < MIN_BURSTABLE_OOM_SCORE) return MIN_BURSTABLE_OOM_SCORE;
  return score === BEST_EFFORT_OOM_SCORE ? MAX_BURSTABLE_OOM_SCORE : score;
}

/** The pod's own request beyond those of its containers, in equal parts. */
function sharedRequest(pod: Pod): bigint {
  const podLevel = pod.spec.resources?.requests?.memory;
  if (podLevel === undefined) return 0n;
  const rest = wholeUnits(nanoOf(podLevel)) - wholeUnits(aggregate(pod, requestsOf).memory ?? 0n);
  return rest > 0n ? rest / BigInt(podContainers(pod).length) : 0n;
}

/** The number of exclusive CPUs of a container; 0: it uses shared CPUs. */
export function exclusiveCount(pod: Pod, { resources }: Container): number {
  if (podQOS(pod) !== 'Guaranteed' || hasPodLevelResources(pod.spec.resources)) return 0;
  const amount = nanoOf(resources?.requests?.['cpu'] ?? resources?.limits?.['cpu'] ?? '0');
  return wholeUnits(amount) * MILLI === milliUnits(amount) ? Number(wholeUnits(amount)) : 0;
}

/**
 * Files of cgroup v2 for memory beyond limits, with their values; none without the gate MemoryQoS, or with cgroup v1.
 * Upstream: KEP-2570.
 */
type Unified = Readonly<Record<string, string>>;
type MemorySettings = Pick<NodeSettings, 'memoryQoS' | 'cgroupVersion' | 'allocatable'>;

/** Bytes: limits are whole pages. */
const PAGE = 4096;

/** Memory that is never reclaimed from a Guaranteed pod, and only under pressure from a Burstable one. */
export function reservedMemory(qos: QOSClass, memory: Nano, { memoryQoS, cgroupVersion }: MemorySettings): Unified {
  const bytes = wholeUnits(memory);
  if (cgroupVersion !== 2 || memoryQoS?.reserves !== true || bytes === 0n || qos === 'BestEffort') return {};
  return { [qos === 'Guaranteed' ? 'memory.min' : 'memory.low']: String(bytes) };
}

/** The usage at which a container is throttled: between its request and its limit, or what the node has for pods. */
function throttledMemory(
  { request, limit }: { readonly request: bigint; readonly limit: bigint },
  { memoryQoS, cgroupVersion, allocatable }: MemorySettings,
): Unified {
  if (cgroupVersion !== 2 || !memoryQoS || request === limit) return {};
  const unlimited = memoryQoS.unlimited ?? allocatable?.['memory'] ?? '0';
  const most = limit === 0n ? wholeUnits(nanoOf(unlimited)) : limit;
  if (most === 0n) return {};
  const high = Number(request) + (Number(most) - Number(request)) * memoryQoS.throttlingFactor;
  const bytes = Math.floor(high / PAGE) * PAGE;
  return bytes > Number(request) ? { 'memory.high': String(bytes) } : {};
}
