/**
 * Plans a resize: which containers are updated or restarted, and the steps of the pod's cgroup, so that no container
 * ever has more than its pod. Pure.
 *
 * Upstream: pkg/kubelet/kuberuntime (computePodResizeAction, doPodResizeAction).
 */

import { required } from '../../../../kernel/xstate.ts';
import { WHOLE_POD, withAllocation } from '../../../model/allocation/request.ts';
import type { LinuxContainerResources } from '../../../model/api/cri.ts';
import type { Container, Pod, ResourceList, ResourceRequirements } from '../../../model/api/pod.ts';
import { podGroup } from '../../../model/cgroups/pod-cgroup.ts';
import type { CgroupResources } from '../../../model/operations/cgroup.ts';
import type { Allocation } from '../../../model/operations/grants.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import { containerResources, cpuQuota, cpuShares, milliOfShares, podOverhead } from '../../../model/spec/resources.ts';
import { byBytes } from '../../../model/values/go-text.ts';
import { milliUnits, nanoOf, wholeUnits } from '../../../model/values/quantity.ts';
import { valueIn } from '../../../model/values/tables.ts';

/** A container whose granted resources differ from those of its running instance. */
export interface ContainerChange {
  readonly name: string;
  /** The resize policy asks for a restart. */
  readonly restarts: boolean;
  /** The resources that change: `cpu`, `memory`. */
  readonly resources: readonly string[];
}

const RESIZABLE = ['cpu', 'memory'] as const;

export function changesOf({ spec }: Pod, actuated: Allocation): readonly ContainerChange[] {
  return [...spec.containers, ...(spec.initContainers ?? [])].flatMap((container) => {
    if (valueIn(actuated, container.name) === undefined) return [];
    const before = effective(valueIn(actuated, container.name), actuated[WHOLE_POD]);
    const after = effective(container.resources, spec.resources);
    const changed = RESIZABLE.filter((name) => differs(name, before, after));
    if (changed.length === 0) return [];
    const restarts = changed.some((name) => wantsRestart(container, name));
    return [{ name: container.name, restarts, resources: changed }];
  });
}

/** The effective limits of a container: its own, or else those of its pod. */
function effective(own: ResourceRequirements = {}, whole: ResourceRequirements = {}): ResourceRequirements {
  const inherited = RESIZABLE.flatMap((name) => {
    const limit = whole.limits?.[name];
    return limit === undefined ? [] : [[name, limit] as const];
  });
  return { ...own, limits: { ...Object.fromEntries(inherited), ...own.limits } };
}

function differs(name: string, before: ResourceRequirements, after: ResourceRequirements): boolean {
  const amount = (list: Readonly<Record<string, string>> | undefined) => nanoOf(list?.[name] ?? '0');
  return amount(before.limits) !== amount(after.limits) || amount(before.requests) !== amount(after.requests);
}

const wantsRestart = ({ resizePolicy = [] }: Container, name: string): boolean =>
  resizePolicy.some(({ resourceName, restartPolicy }) => resourceName === name && restartPolicy === 'RestartContainer');

/** One step: a change of the pod's cgroup, an update of the sandbox, or of a container. */
export type ResizeStep =
  | {
      readonly kind: 'group';
      readonly resources: CgroupResources;
      /** What the runtime is told if the change fails; absent: nothing. */
      readonly before?: LinuxContainerResources;
    }
  | {
      readonly kind: 'sandbox';
      readonly resources: LinuxContainerResources;
      /** The resource for which the runtime may refuse the resize: `memory`; absent: a refusal changes nothing. */
      readonly of?: string;
    }
  | { readonly kind: 'container'; readonly name: string; readonly resources: LinuxContainerResources };

/**
 * First memory, then CPU. For each, the pod grows before its containers and shrinks after them, and decreases come
 * before increases. `changes`: of running containers.
 */
export function resizeSteps(
  pod: Pod,
  actuated: Allocation,
  node: NodeSettings,
  changes: readonly ContainerChange[],
): readonly ResizeStep[] {
  const { before, after } = limitsBeforeAndAfter(pod, actuated, node);
  const steps: ResizeStep[] = [];
  let current = before;
  for (const { name, parts } of PHASES) {
    const apply = (part: Partial<CgroupLimits>): void => {
      const had = sandboxOf(pod, current, node);
      current = { ...current, ...part };
      const resources = sandboxOf(pod, current, node);
      if (hasBehavior(node, 'sandboxResizedFirst')) {
        steps.push({ kind: 'sandbox', resources, of: name }, { kind: 'group', resources: part, before: had });
      } else steps.push({ kind: 'group', resources: part }, { kind: 'sandbox', resources });
    };
    const live = changes.filter(({ restarts, resources }) => !restarts && resources.includes(name));
    for (const part of parts) if (grows(before[part], after[part])) apply(partOf(after, part));
    const decided = live.map((change) => containerStep(pod, actuated, node, change, name));
    steps.push(...decided.toSorted((a, b) => Number(a.takesMore) - Number(b.takesMore)).map(({ step }) => step));
    for (const part of parts.toReversed()) if (grows(after[part], before[part])) apply(partOf(after, part));
  }
  return steps;
}

/** The limits of a cgroup; `-1` for none. */
type CgroupLimits = Required<Pick<CgroupResources, 'memoryBytes' | 'cpuQuotaUs' | 'cpuPeriodUs' | 'cpuShares'>>;
type Part = Exclude<keyof CgroupLimits, 'cpuPeriodUs'>;

/** Limits grow before requests, so that no request is ever above its limit. */
const PHASES: readonly { readonly name: string; readonly parts: readonly Part[] }[] = [
  { name: 'memory', parts: ['memoryBytes'] },
  { name: 'cpu', parts: ['cpuQuotaUs', 'cpuShares'] },
];
const UNLIMITED = '-1';
const LEAST_SHARES = '2';

const limitsOf = (
  { memoryBytes = UNLIMITED, cpuQuotaUs = UNLIMITED, cpuPeriodUs, cpuShares = LEAST_SHARES }: CgroupResources,
  node: NodeSettings,
): CgroupLimits => ({
  memoryBytes,
  cpuQuotaUs,
  cpuPeriodUs: cpuPeriodUs ?? String(node.cpuCFSQuotaPeriodUs),
  cpuShares,
});

/** The pod's cgroup as it is, and as it should be. */
const limitsBeforeAndAfter = (
  pod: Pod,
  actuated: Allocation,
  node: NodeSettings,
): { readonly before: CgroupLimits; readonly after: CgroupLimits } => ({
  before: limitsOf(podGroup(withAllocation(pod, actuated), node).resources, node),
  after: limitsOf(podGroup(pod, node).resources, node),
});

/** A quota is written together with its period. */
const partOf = (limits: CgroupLimits, part: Part): Partial<CgroupLimits> => ({
  [part]: limits[part],
  ...(part === 'cpuQuotaUs' ? { cpuPeriodUs: limits.cpuPeriodUs } : {}),
});

function grows(from: string, to: string): boolean {
  if (from === UNLIMITED) return false;
  return to === UNLIMITED || BigInt(to) > BigInt(from);
}

/** The value of a cgroup v1 without memory limit. */
const NO_LIMIT_V1 = '9223372036854771712';

/** The cgroup in the sandbox's update, without the overhead of the runtime class. */
function sandboxOf(pod: Pod, limits: CgroupLimits, { cgroupVersion }: NodeSettings): LinuxContainerResources {
  const { cpu = 0n, memory = 0n } = podOverhead(pod);
  const overheadMilli = milliUnits(cpu);
  const noLimit = cgroupVersion === 1 ? NO_LIMIT_V1 : UNLIMITED;
  const quotaUs = BigInt(limits.cpuQuotaUs) - cpuQuota(overheadMilli, BigInt(limits.cpuPeriodUs));
  const shares = cpuShares(milliOfShares(BigInt(limits.cpuShares)) - overheadMilli);
  const bytes = limits.memoryBytes === UNLIMITED ? noLimit : String(BigInt(limits.memoryBytes) - wholeUnits(memory));
  return {
    cpu_period: limits.cpuPeriodUs,
    cpu_quota: limits.cpuQuotaUs === UNLIMITED ? UNLIMITED : String(quotaUs),
    cpu_shares: overheadMilli === 0n ? limits.cpuShares : String(shares),
    memory_limit_in_bytes: bytes,
  };
}

/**
 * The update of one resource of a container: its new amount, and the current amounts of the others, including those of
 * its pod. Upstream names each request in an update; for an absent one it sends the minimum shares, not those of the
 * pod's limit.
 */
function containerStep(
  pod: Pod,
  actuated: Allocation,
  node: NodeSettings,
  { name }: ContainerChange,
  resource: string,
): { readonly step: ResizeStep; readonly takesMore: boolean } {
  const container = containerOf(pod, name);
  const now = (had: ResourceRequirements = {}, wanted: ResourceRequirements = {}): ResourceRequirements =>
    withPart(resource === 'memory' ? had : withPart(had, wanted, 'memory'), wanted, resource);
  const whole = { ...pod, spec: { ...pod.spec, resources: now(actuated[WHOLE_POD], pod.spec.resources) } };
  const { limits = {}, requests = {} } = now(valueIn(actuated, name), container.resources);
  const resources = { limits, requests: { cpu: '0', ...requests } };
  const amount = ({ limits, requests }: ResourceRequirements) =>
    nanoOf(limits?.[resource] ?? requests?.[resource] ?? '0');
  const takesMore =
    amount(effective(container.resources, pod.spec.resources)) >
    amount(effective(valueIn(actuated, name), actuated[WHOLE_POD]));
  return {
    step: { kind: 'container', name, resources: containerResources(whole, { ...container, resources }, node) },
    takesMore,
  };
}

const containerOf = ({ spec }: Pod, name: string): Container => {
  const found = [...spec.containers, ...(spec.initContainers ?? [])].find((each) => each.name === name);
  return required(found, `the container ${name}`);
};

function withPart(base: ResourceRequirements, other: ResourceRequirements, name: string): ResourceRequirements {
  const merged = (from: ResourceList = {}, to: ResourceList = {}): ResourceList => {
    const { [name]: _replaced, ...rest } = from;
    return to[name] === undefined ? rest : { ...rest, [name]: to[name] };
  };
  return { limits: merged(base.limits, other.limits), requests: merged(base.requests, other.requests) };
}

export interface MemoryDecreases {
  /** The new limit of the pod's cgroup; `null` if it does not decrease. */
  readonly podBytes: string | null;
  /** The new limits of containers that keep running. */
  readonly containers: readonly { readonly name: string; readonly bytes: string }[];
}

export function memoryDecreases(
  pod: Pod,
  actuated: Allocation,
  node: NodeSettings,
  changes: readonly ContainerChange[],
): MemoryDecreases {
  const { before, after } = limitsBeforeAndAfter(pod, actuated, node);
  const live = changes.filter(({ restarts, resources }) => !restarts && resources.includes('memory'));
  const limit = ({ limits }: ResourceRequirements): string =>
    limits?.['memory'] === undefined ? UNLIMITED : String(wholeUnits(nanoOf(limits['memory'])));
  return {
    podBytes: grows(after.memoryBytes, before.memoryBytes) ? after.memoryBytes : null,
    containers: live.flatMap(({ name }) => {
      const bytes = limit(effective(containerOf(pod, name).resources, pod.spec.resources));
      return grows(bytes, limit(effective(valueIn(actuated, name), actuated[WHOLE_POD]))) ? [{ name, bytes }] : [];
    }),
  };
}

/** Memory usage in bytes, per container where it is known. */
export interface MemoryInUse {
  readonly podBytes: string;
  readonly containers: Readonly<Record<string, string>>;
}

/** A memory limit at or below the usage is refused, because processes would be killed. Upstream's text. */
export function memoryProblem({ podBytes, containers }: MemoryDecreases, used: MemoryInUse): string {
  const below = (whose: string, limit: string, current: string | undefined): string[] =>
    current === undefined || BigInt(current) < BigInt(limit)
      ? []
      : [`attempting to set ${whose} memory limit (${limit}) below current usage (${current})`];
  const problems = [
    ...(podBytes === null ? [] : below('pod', podBytes, used.podBytes)),
    ...containers.flatMap(({ name, bytes }) => below(`container "${name}"`, bytes, valueIn(used.containers, name))),
  ];
  if (problems.length === 0) return '';
  return `cannot decrease memory limits: ${problems.length === 1 ? problems[0] : `[${problems.join(', ')}]`}`;
}

/** The pod's part of the text of a resize event, as upstream writes it. */
export function resizeSummary({ metadata, spec }: Pod, error = ''): string {
  const live = (containers: readonly Container[]) =>
    containers.map(({ name, resources = {} }) => ({ name, resources: inOrder(resources) }));
  const inits = live(spec.initContainers ?? []);
  return JSON.stringify({
    ...(inits.length === 0 ? {} : { initContainers: inits }),
    containers: live(spec.containers),
    generation: metadata.generation ?? 0,
    ...(error === '' ? {} : { error }),
  });
}

const sorted = (list: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(list).toSorted(([a], [b]) => byBytes(a, b)));

const inOrder = ({ limits, requests }: ResourceRequirements) => ({
  ...(limits === undefined ? {} : { limits: sorted(limits) }),
  ...(requests === undefined ? {} : { requests: sorted(requests) }),
});
