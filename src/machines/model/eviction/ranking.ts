/**
 * The facts about a pod for the managers of the node (eviction, shutdown), and the ranking of pods for eviction when a
 * resource is short. Pure.
 *
 * Upstream: pkg/kubelet/eviction/helpers.go.
 *
 * The facts are sent by the pod's actor when it starts, when its configuration changes, and for the last time when none
 * of its containers runs any more.
 */
import { DEFAULT_GRACE_SECONDS, isMirrorPod, isStaticPod, type Pod } from '../api/pod.ts';
import type {
  DiskLayout,
  DiskUse,
  EvictionSignal,
  EvictionThreshold,
  PodUse,
  StorageLimits,
} from '../operations/stats.ts';
import { hasBehavior, NEWEST_BEHAVIOR } from '../settings/behaviors.ts';
import { hasPodLevelResources, podContainers } from '../spec/qos.ts';
import { amountsOf, podLimits, podRequests } from '../spec/resources.ts';
import { formatBinary, formatDecimal, type Nano, wholeUnits } from '../values/quantity.ts';
import { pickKeys, valueIn } from '../values/tables.ts';
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
  const volumes = parts.volumes ? pod.localVolumes.map((name) => amountOf(valueIn(use?.volumes, name), what)) : [];
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

/** Pods with at least this priority are system-critical, and never evicted. */
export const SYSTEM_CRITICAL_PRIORITY = 2_000_000_000;
const EPHEMERAL_STORAGE = 'ephemeral-storage';

export interface NodePod {
  readonly name: string;
  readonly namespace: string;
  readonly priority: number;
  /** True for static pods and critical ones: never evicted, always admitted. */
  readonly isCritical: boolean;
  readonly graceSeconds: number;
  /** The sum of the requests of the pod, in bytes. */
  readonly requests: { readonly memory: string; readonly 'ephemeral-storage': string };
  /** The memory request in `spec.resources`, as written; `null` without one. */
  readonly podMemoryRequest: string | null;
  /** Requests by container, init containers included, as written. */
  readonly containerRequests: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Volumes that use the node's disk. */
  readonly localVolumes: readonly string[];
  /** Limits of local storage as written; `null` without any. */
  readonly storage: StorageLimits | null;
}

/** `pod: null`: no container of the pod runs any more. */
export interface NodePodChanged {
  readonly type: 'node.podChanged';
  readonly uid: string;
  readonly pod: NodePod | null;
  /** The pod's resources are free too: its volumes are unmounted, its cgroup is removed. */
  readonly isReclaimed?: true;
}

const isCriticalPod = (pod: Pod): boolean =>
  isStaticPod(pod) || isMirrorPod(pod) || (pod.spec.priority ?? 0) >= SYSTEM_CRITICAL_PRIORITY;

export function nodePod(pod: Pod, node: { readonly behavior: number } = { behavior: NEWEST_BEHAVIOR }): NodePod {
  const requests = podRequests(pod);
  return {
    name: pod.metadata.name,
    namespace: pod.metadata.namespace,
    priority: pod.spec.priority ?? 0,
    isCritical: isCriticalPod(pod),
    graceSeconds: pod.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS,
    requests: {
      memory: wholeUnits(requests.memory ?? 0n).toString(),
      'ephemeral-storage': wholeUnits(requests[EPHEMERAL_STORAGE] ?? 0n).toString(),
    },
    podMemoryRequest: hasPodLevelResources(pod.spec.resources) ? (pod.spec.resources.requests?.memory ?? null) : null,
    containerRequests: Object.fromEntries(
      podContainers(pod).map(({ name, resources }) => [name, requested(resources?.requests)]),
    ),
    localVolumes: localVolumes(pod),
    storage: storageLimits(pod, hasBehavior(node, 'evictionAsKubelet')),
  };
}

const RANKED = ['memory', EPHEMERAL_STORAGE];

const requested = (requests: Readonly<Record<string, string>> = {}): Record<string, string> =>
  pickKeys(requests, (resource) => RANKED.includes(resource));

type Volume = NonNullable<Pod['spec']['volumes']>[number];

const isOnDisk = ({ emptyDir }: Volume): boolean => emptyDir !== undefined && (emptyDir.medium ?? '') === '';

const localVolumes = (pod: Pod): string[] =>
  (pod.spec.volumes ?? []).flatMap((volume) =>
    volume.hostPath || volume.configMap || volume.gitRepo || isOnDisk(volume) ? [volume.name] : [],
  );

function limitOf({ name, resources }: Pod['spec']['containers'][number]): [string, string][] {
  const limit = resources?.limits?.[EPHEMERAL_STORAGE];
  return limit === undefined || (amountsOf({ limit })['limit'] ?? 0n) === 0n ? [] : [[name, limit]];
}

function storageLimits(pod: Pod, asKubelet: boolean): StorageLimits | null {
  const emptyDirs = (pod.spec.volumes ?? []).flatMap(({ name, emptyDir }): [string, string][] => {
    const limit = emptyDir?.sizeLimit;
    return limit === undefined || (amountsOf({ limit })['limit'] ?? 0n) <= 0n ? [] : [[name, limit]];
  });
  const containers = pod.spec.containers.flatMap(limitOf);
  const inits = asKubelet ? (pod.spec.initContainers ?? []).flatMap(limitOf) : [];
  const whole = podLimits(pod)[EPHEMERAL_STORAGE];
  if (emptyDirs.length === 0 && containers.length === 0 && whole === undefined) return null;
  return {
    emptyDirs: Object.fromEntries(emptyDirs),
    pod: whole === undefined ? null : sumText(whole, [...containers, ...inits][0]?.[1] ?? ''),
    containers: Object.fromEntries(containers),
  };
}

/** A sum is written in the format of its first part. */
const sumText = (whole: Nano, first: string): string =>
  first.endsWith('i') ? formatBinary(whole) : formatDecimal(whole);
