/**
 * What a change of resources means for what runs: which containers are told, which begin anew, and what the group of
 * the pod is held to on the way, so that no container ever has more than its pod. Pure.
 *
 * Upstream: pkg/kubelet/kuberuntime (computePodResizeAction, doPodResizeAction).
 */
import type { Container, Pod, ResourceRequirements } from '../../api/pod.ts';
import type { NodeSettings } from '../../node-settings.ts';
import type { CgroupResources, CgroupWish } from '../../operations/cgroup.ts';
import { byBytes } from '../../startup/configuration/go-text.ts';
import { type Allocation, withAllocation } from '../allocation/request.ts';
import { parseQuantity } from '../spec/quantity.ts';
import { podGroup } from './pod-cgroup.ts';

/** A container whose resources are others than those of its running instance. */
export interface ContainerChange {
  readonly name: string;
  /** Its policy wants a new instance. */
  readonly restarts: boolean;
}

const RESIZABLE = ['cpu', 'memory'] as const;

export function changesOf({ spec }: Pod, actuated: Allocation): readonly ContainerChange[] {
  return [...spec.containers, ...(spec.initContainers ?? [])].flatMap((container) => {
    const before = actuated[container.name];
    if (before === undefined) return [];
    const changed = RESIZABLE.filter((name) => differs(name, before, container.resources ?? {}));
    if (changed.length === 0) return [];
    return [{ name: container.name, restarts: changed.some((name) => wantsRestart(container, name)) }];
  });
}

function differs(name: string, before: ResourceRequirements, after: ResourceRequirements): boolean {
  const amount = (list: Readonly<Record<string, string>> | undefined) => parseQuantity(list?.[name] ?? '0');
  return amount(before.limits) !== amount(after.limits) || amount(before.requests) !== amount(after.requests);
}

const wantsRestart = ({ resizePolicy = [] }: Container, name: string): boolean =>
  resizePolicy.some(({ resourceName, restartPolicy }) => resourceName === name && restartPolicy === 'RestartContainer');

/** The group while its containers change: the larger one of both limits. */
export function groupOnTheWay(pod: Pod, actuated: Allocation, node: NodeSettings): CgroupWish {
  const before = podGroup(withAllocation(pod, actuated), node);
  const after = podGroup(pod, node);
  const quota = larger(before.resources.cpuQuotaUs, after.resources.cpuQuotaUs);
  return {
    ...after,
    resources: {
      memoryBytes: larger(before.resources.memoryBytes, after.resources.memoryBytes),
      ...periodOf(after.resources, before.resources),
      cpuQuotaUs: quota,
    },
  };
}

/** The group in the end: what nothing limits any more is told so, because it was limited before. */
export function groupInTheEnd(pod: Pod, node: NodeSettings): CgroupWish {
  const { resources, ...target } = podGroup(pod, node);
  return {
    ...target,
    resources: { memoryBytes: UNLIMITED, cpuQuotaUs: UNLIMITED, ...periodOf(resources, {}), ...resources },
  };
}

const UNLIMITED = '-1';

const periodOf = (first: CgroupResources, second: CgroupResources): CgroupResources => {
  const period = first.cpuPeriodUs ?? second.cpuPeriodUs;
  return period === undefined ? {} : { cpuPeriodUs: period };
};

function larger(a: string | undefined, b: string | undefined): string {
  if (a === undefined || b === undefined || a === UNLIMITED || b === UNLIMITED) return UNLIMITED;
  return BigInt(a) > BigInt(b) ? a : b;
}

/** A limit of memory below what is in use is refused, as it would kill the pod. */
export function memoryProblem(wish: CgroupWish, usedBytes: string): string {
  const limit = wish.resources.memoryBytes ?? UNLIMITED;
  if (limit === UNLIMITED || BigInt(usedBytes) <= BigInt(limit)) return '';
  return `attempting to set pod memory limit (${limit}) below current usage (${usedBytes})`;
}

/** What events about a resize tell of the pod, as upstream writes it. */
export function resizeSummary({ metadata, spec }: Pod, error = ''): string {
  const told = (containers: readonly Container[]) =>
    containers.map(({ name, resources = {} }) => ({ name, resources: inOrder(resources) }));
  const sidecars = told((spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always'));
  return JSON.stringify({
    ...(sidecars.length === 0 ? {} : { initContainers: sidecars }),
    containers: told(spec.containers),
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
