/**
 * Ranks pods for eviction when a resource of the node is short. Pure. Upstream: pkg/kubelet/eviction/helpers.go.
 */
import type { DiskLayout, DiskUse, EvictionSignal, EvictionThreshold, PodUse } from '../operations/stats.ts';
import type { NodePod } from './facts.ts';
import { isHard, resourceOf, type StarvedResource } from './thresholds.ts';

/** A pod that may be evicted, and its usage; `null` when nothing could be measured. */
export interface Candidate {
  readonly uid: string;
  readonly pod: NodePod;
  readonly use: PodUse | null;
}

/** The parts of a pod's disk usage that count for a file system. */
interface Measured {
  readonly layers: boolean;
  readonly logs: boolean;
  readonly volumes: boolean;
}

/** The parts of a pod that count for the file system of this signal. */
function measuredFor(signal: EvictionSignal, { dedicatedImageFs, splitContainerFs }: DiskLayout): Measured {
  const everything = { layers: true, logs: true, volumes: true };
  if (!dedicatedImageFs) return everything;
  const isImageFs = signal.startsWith('imagefs.');
  if (splitContainerFs) return isImageFs ? { layers: false, logs: false, volumes: false } : everything;
  return signal.startsWith('nodefs.')
    ? { layers: false, logs: true, volumes: true }
    : { layers: true, logs: false, volumes: false };
}

type Amount = 'bytes' | 'inodes';
export const amountOf = (use: DiskUse | null | undefined, what: Amount): bigint => BigInt(use?.[what] ?? '0');

function diskUse({ pod, use }: Candidate, parts: Measured, what: Amount): bigint {
  const containers = (use?.containers ?? []).map(
    ({ rootfs, logs }) => (parts.layers ? amountOf(rootfs, what) : 0n) + (parts.logs ? amountOf(logs, what) : 0n),
  );
  const volumes = parts.volumes ? pod.localVolumes.map((name) => amountOf(use?.volumes[name], what)) : [];
  return [...containers, ...volumes].reduce((sum, each) => sum + each, 0n);
}

interface Ranked {
  readonly candidate: Candidate;
  readonly isMeasured: boolean;
  readonly exceeds: boolean;
  /** The usage above the request; for process ids, the number of processes. */
  readonly excess: bigint;
}

function ranked(candidate: Candidate, resource: StarvedResource, parts: Measured): Ranked {
  const { pod, use } = candidate;
  const isMeasured = use !== null;
  if (resource === 'pids') return { candidate, isMeasured, exceeds: false, excess: BigInt(use?.processes ?? '0') };
  if (resource === 'memory') {
    const excess = BigInt(use?.workingSetBytes ?? '0') - BigInt(pod.requests.memory);
    return { candidate, isMeasured, exceeds: excess > 0n, excess };
  }
  const used = diskUse(candidate, parts, resource === 'inodes' ? 'inodes' : 'bytes');
  const requested = BigInt(pod.requests['ephemeral-storage']);
  return { candidate, isMeasured, exceeds: used > (resource === 'inodes' ? 0n : requested), excess: used - requested };
}

const first = (a: boolean, b: boolean): number => Number(b) - Number(a);
const larger = (a: bigint, b: bigint): number => (a === b ? 0 : a > b ? -1 : 1);

function compare(a: Ranked, b: Ranked): number {
  if (!a.isMeasured || !b.isMeasured) return first(!a.isMeasured, !b.isMeasured);
  return (
    first(a.exceeds, b.exceeds) || a.candidate.pod.priority - b.candidate.pod.priority || larger(a.excess, b.excess)
  );
}

/** For process ids priority comes first, then the number of processes. */
const compareProcesses = (a: Ranked, b: Ranked): number =>
  a.candidate.pod.priority - b.candidate.pod.priority ||
  first(!a.isMeasured, !b.isMeasured) ||
  larger(a.excess, b.excess);

/** In the order of eviction: pods above their request first, then the lowest priority, then the largest excess. */
export function rankedForEviction(
  candidates: readonly Candidate[],
  signal: EvictionSignal,
  layout: DiskLayout,
): readonly Candidate[] {
  const resource = resourceOf(signal);
  const parts = measuredFor(signal, layout);
  return candidates
    .map((candidate) => ranked(candidate, resource, parts))
    .sort(resource === 'pids' ? compareProcesses : compare)
    .map(({ candidate }) => candidate);
}

/** What can be reclaimed on the node before a pod has to be evicted. */
export function reclaimable(
  signal: EvictionSignal,
  { dedicatedImageFs, splitContainerFs }: DiskLayout,
): { readonly containers: boolean; readonly images: boolean } {
  const resource = resourceOf(signal);
  if (resource === 'memory' || resource === 'pids') return { containers: false, images: false };
  if (!dedicatedImageFs) return { containers: true, images: true };
  const isImageFs = signal.startsWith('imagefs.');
  if (splitContainerFs) return { containers: !isImageFs, images: isImageFs };
  const isNodeFs = signal.startsWith('nodefs.');
  return { containers: !isNodeFs, images: !isNodeFs };
}

/** The grace period of a pod that must end at once, in seconds. */
export const IMMEDIATE_GRACE_SECONDS = 1;

/** `podGraceSeconds`: the longest; `null` for no bound. */
export function evictionGrace(
  threshold: EvictionThreshold,
  maxPodGraceSeconds: number,
  podGraceSeconds: number | null,
): number {
  if (isHard(threshold)) return IMMEDIATE_GRACE_SECONDS;
  return Math.min(maxPodGraceSeconds, podGraceSeconds ?? maxPodGraceSeconds);
}
