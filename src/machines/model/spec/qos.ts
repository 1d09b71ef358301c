/**
 * The quality-of-service class of a pod, and the cgroup that follows from it.
 *
 * Invariants: the class is derived from the spec alone and never changes while a pod exists; it equals the API server's
 * `status.qosClass`.
 */

import type { Container, Pod, QOSClass, ResourceRequirements } from '../api/pod.ts';
import { hasBehavior } from '../settings/behaviors.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { nanoOf } from '../values/quantity.ts';
import { memoize } from '../values/same.ts';

/** The only resources that affect the class. */
const QOS_RESOURCES = ['cpu', 'memory'] as const;
const SYSTEMD_SLICE = '.slice';

/** Every container that counts for the pod's resources: init containers first, no ephemeral ones. */
export const podContainers = (pod: Pod): readonly Container[] => [
  ...(pod.spec.initContainers ?? []),
  ...pod.spec.containers,
];

export const podQOS = memoize((pod: Pod): QOSClass => {
  const podLevel = pod.spec.resources;
  const demands = hasPodLevelResources(podLevel) ? [podLevel] : podContainers(pod).map(({ resources }) => resources);
  const requested = demands.some((demand) => QOS_RESOURCES.some((name) => isPositive(demand?.requests?.[name])));
  const limited = demands.some((demand) => QOS_RESOURCES.some((name) => isPositive(demand?.limits?.[name])));
  if (!requested && !limited) return 'BestEffort';
  return demands.every(isGuaranteed) ? 'Guaranteed' : 'Burstable';
});

export const hasPodLevelResources = (resources: ResourceRequirements | undefined): resources is ResourceRequirements =>
  resources !== undefined &&
  [resources.requests, resources.limits].some((amounts) => Object.keys(amounts ?? {}).length > 0);

function isGuaranteed(resources: ResourceRequirements | undefined): boolean {
  return QOS_RESOURCES.every((name) => {
    const limit = resources?.limits?.[name];
    const request = resources?.requests?.[name] ?? limit;
    return limit !== undefined && request !== undefined && nanoOf(limit) > 0n && sameAmount(limit, request);
  });
}

export const isPositive = (quantity: string | undefined): boolean => quantity !== undefined && nanoOf(quantity) > 0n;
const sameAmount = (a: string, b: string): boolean => nanoOf(a) === nanoOf(b);

/**
 * `cgroup_parent` of a sandbox; empty for the runtime's own place. systemd's path names each level by all levels above
 * it: `/a.slice/a-b.slice`.
 */
export function cgroupParent(
  pod: Pod,
  node: Pick<NodeSettings, 'cgroupRoot' | 'cgroupDriver' | 'cgroupsPerQOS' | 'behavior'>,
): string {
  if (!node.cgroupsPerQOS)
    return hasBehavior(node, 'groupsAsKubelet') || node.cgroupRoot === '/' ? '' : node.cgroupRoot;
  const qos = podQOS(pod);
  const parts = [
    ...node.cgroupRoot.split('/').filter((part) => part !== ''),
    'kubepods',
    ...(qos === 'Guaranteed' ? [] : [qos.toLowerCase()]),
    `pod${pod.metadata.uid}`,
  ];
  if (node.cgroupDriver === 'cgroupfs') return `/${parts.join('/')}`;
  const units = parts.map((part) => part.replaceAll('-', '_'));
  return units.map((_, depth) => `/${units.slice(0, depth + 1).join('-')}${SYSTEMD_SLICE}`).join('');
}
