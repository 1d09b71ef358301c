/**
 * The facts about a pod for the managers of the node (eviction, shutdown): enough to rank it, to limit its storage, and
 * to explain its end.
 *
 * Pure. Sent by the pod's actor when it starts, when its configuration changes, and for the last time when none of its
 * containers runs any more.
 */
import { DEFAULT_GRACE_SECONDS, isMirrorPod, isStaticPod, type Pod } from '../api/pod.ts';
import type { StorageLimits } from '../operations/stats.ts';
import { hasBehavior, NEWEST_BEHAVIOR } from '../settings/behaviors.ts';
import { hasPodLevelResources, podContainers } from '../spec/qos.ts';
import { amountsOf, podLimits, podRequests } from '../spec/resources.ts';
import { formatBinary, formatDecimal, type Nano, wholeUnits } from '../values/quantity.ts';

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
  Object.fromEntries(Object.entries(requests).filter(([resource]) => RANKED.includes(resource)));

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
