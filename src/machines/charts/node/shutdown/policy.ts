/**
 * The order in which pods end when the machine shuts down, and the time of each group.
 *
 * Pure. Upstream: pkg/kubelet/nodeshutdown/nodeshutdown_manager.go.
 */

import type { KubeletConfiguration } from '../../../model/configuration/fields.ts';
import { type NodePod, SYSTEM_CRITICAL_PRIORITY } from '../../../model/eviction/ranking.ts';
import type { ShutdownPeriod } from '../../../model/settings/node-settings.ts';
import { millisecondsOf } from '../../../model/values/time.ts';

type Settings = Pick<
  KubeletConfiguration,
  'shutdownGracePeriod' | 'shutdownGracePeriodCriticalPods' | 'shutdownGracePeriodByPodPriority'
>;

const MS_PER_SECOND = 1_000;

/** The configured groups, or those of the two plain periods. Empty: shutdown is not graceful. */
export function shutdownPeriods(settings: Settings): readonly ShutdownPeriod[] {
  const byPriority = (settings.shutdownGracePeriodByPodPriority ?? []).map(
    ({ priority, shutdownGracePeriodSeconds }) => ({ priority, graceSeconds: shutdownGracePeriodSeconds }),
  );
  if (byPriority.length > 0) return byPriority.sort((a, b) => a.priority - b.priority);
  const totalMs = millisecondsOf(settings.shutdownGracePeriod);
  const criticalMs = millisecondsOf(settings.shutdownGracePeriodCriticalPods);
  if (totalMs === 0 || criticalMs > totalMs) return [];
  return [
    { priority: 0, graceSeconds: Math.trunc((totalMs - criticalMs) / MS_PER_SECOND) },
    { priority: SYSTEM_CRITICAL_PRIORITY, graceSeconds: Math.trunc(criticalMs / MS_PER_SECOND) },
  ];
}

/** The total time of all groups: the delay that logind has to grant. */
export const periodRequestedSeconds = (periods: readonly ShutdownPeriod[]): number =>
  periods.reduce((sum, { graceSeconds }) => sum + graceSeconds, 0);

/** Index of the group for a priority: the highest group that does not start above it, or else the lowest. */
export function groupOf(periods: readonly ShutdownPeriod[], priority: number): number {
  const index = periods.findLastIndex((period) => period.priority <= priority);
  return Math.max(0, index);
}

export const podsOfGroup = (
  periods: readonly ShutdownPeriod[],
  group: number,
  pods: Readonly<Record<string, NodePod>>,
): [uid: string, pod: NodePod][] =>
  Object.entries(pods).filter(([, { priority }]) => groupOf(periods, priority) === group);

/** The grace period of a pod: its own, or its group's if that is shorter. */
export const graceOf = ({ graceSeconds }: NodePod, period: ShutdownPeriod): number =>
  Math.min(graceSeconds, period.graceSeconds);
