/** The messages of evictions. Texts are upstream's, byte for byte. Upstream: pkg/kubelet/eviction/helpers.go. */
import type {
  DiskUse,
  EvictionThreshold,
  Observations,
  PodUse,
  StorageExceeded,
  StorageLimits,
} from '../operations/stats.ts';
import { formatBinary, fromWhole, nanoOf } from '../values/quantity.ts';
import type { NodePod } from './facts.ts';
import { amountOf, type Candidate } from './ranking.ts';
import { amountText, resourceOf, type StarvedResource, thresholdText } from './thresholds.ts';

export interface EvictionMessage {
  readonly message: string;
  /** Annotations of the event. */
  readonly annotations: Readonly<Record<string, string>>;
}

export const thresholdEvent = (resource: StarvedResource) => ({
  type: 'Warning' as const,
  reason: 'EvictionThresholdMet',
  message: `Attempting to reclaim ${resource}`,
});

interface Why {
  readonly resource: StarvedResource;
  readonly due: readonly EvictionThreshold[];
  readonly observations: Observations;
}

export function evictionMessage({ pod, use }: Candidate, why: Why): EvictionMessage {
  const { resource } = why;
  const containers = use === null ? [] : exceedingContainers(pod, use, resource);
  const parts = [
    `The node was low on resource: ${resource}. `,
    thresholdSentence(why),
    ...(use === null ? [] : podSentence(pod, use, resource)),
    ...containers.map(
      ({ name, used, asked }) =>
        `Container ${name} was using ${used}, request is ${asked}, has larger consumption of ${resource}. `,
    ),
  ];
  if (use === null) return { message: parts.join(''), annotations: {} };
  const annotations = {
    ...podAnnotations(pod, use, resource),
    offending_containers: containers.map(({ name }) => name).join(','),
    offending_containers_usage: containers.map(({ used }) => used).join(','),
    starved_resource: resource,
  };
  return { message: parts.join(''), annotations };
}

function thresholdSentence({ resource, due, observations }: Why): string {
  for (const threshold of due) {
    const observed = observations[threshold.signal];
    if (resourceOf(threshold.signal) !== resource || observed === undefined) continue;
    const available = amountText(threshold.signal, BigInt(observed.available));
    return `Threshold quantity: ${thresholdText(threshold, observed)}, available: ${available}. `;
  }
  return '';
}

const bytesText = (bytes: bigint): string => formatBinary(fromWhole(bytes));

function podMemory({ podMemoryRequest }: NodePod, use: PodUse, resource: StarvedResource): string | null {
  if (resource !== 'memory' || podMemoryRequest === null || use.workingSetBytes === null) return null;
  return bytesText(BigInt(use.workingSetBytes));
}

function podSentence(pod: NodePod, use: PodUse, resource: StarvedResource): string[] {
  const used = podMemory(pod, use, resource);
  if (used === null) return [];
  return [
    `Pod ${pod.name} was using ${used}, request is ${pod.podMemoryRequest}, has larger consumption of ${resource}. `,
  ];
}

function podAnnotations(pod: NodePod, use: PodUse, resource: StarvedResource): Record<string, string> {
  const used = podMemory(pod, use, resource);
  return used === null ? {} : { offending_pod: pod.name, offending_pod_usage: used };
}

interface Exceeding {
  readonly name: string;
  readonly used: string;
  readonly asked: string;
}

function exceedingContainers(pod: NodePod, use: PodUse, resource: StarvedResource): Exceeding[] {
  return use.containers.flatMap(({ name, workingSetBytes, rootfs, logs }) => {
    const requests = pod.containerRequests[name];
    if (requests === undefined) return [];
    const request = requests[resource] ?? '0';
    const used = containerUse(resource, workingSetBytes, rootfs, logs);
    if (used === null || fromWhole(used) <= nanoOf(request)) return [];
    return [{ name, used: bytesText(used), asked: request }];
  });
}

function containerUse(
  resource: StarvedResource,
  workingSetBytes: string | null,
  rootfs: DiskUse | null,
  logs: DiskUse | null,
): bigint | null {
  if (resource === 'memory') return workingSetBytes === null ? null : BigInt(workingSetBytes);
  if (resource !== 'ephemeral-storage' || rootfs === null || logs === null) return null;
  return amountOf(rootfs, 'bytes') + amountOf(logs, 'bytes');
}

/** The messages for a pod that exceeds its local storage. Texts are upstream's, byte for byte. */
export function storageMessage({ kind, name }: StorageExceeded, limits: StorageLimits): string {
  if (kind === 'emptyDir') return `Usage of EmptyDir volume "${name}" exceeds the limit "${limits.emptyDirs[name]}". `;
  if (kind === 'pod') return `Pod ephemeral local storage usage exceeds the total limit of containers ${limits.pod}. `;
  return `Container ${name} exceeded its local ephemeral storage limit "${limits.containers[name]}". `;
}
