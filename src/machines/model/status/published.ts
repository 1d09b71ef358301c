/**
 * Which part of a pod's status may be published.
 *
 * Invariant: a pod is not published as ended while one of its containers may still run, because others then reuse
 * what it holds.
 */
import type { PodStatus } from '../api/pod.ts';
import { conditionReasons } from '../reasons/reasons.ts';
import { isTerminalPhase } from './phase.ts';

/** `published` is the last published status, `null` at first. */
export function publishedStatus(
  status: PodStatus,
  published: PodStatus | null,
  couldHaveRunningContainers: boolean,
): PodStatus {
  const isEnding = isTerminalPhase(status.phase) && !isTerminalPhase(published?.phase);
  if (!isEnding || !couldHaveRunningContainers) return isTerminalPhase(status.phase) ? unready(status) : status;
  const { reason: _reason, message: _message, ...rest } = status;
  return {
    ...rest,
    phase: published?.phase ?? 'Pending',
    ...(published?.reason === undefined ? {} : { reason: published.reason }),
    ...(published?.message === undefined ? {} : { message: published.message }),
  };
}

/** A pod that has ended is not ready, even if its containers were when its end was ordered. */
function unready(status: PodStatus): PodStatus {
  const reason = status.phase === 'Failed' ? conditionReasons.podFailed : conditionReasons.podCompleted;
  const conditions = status.conditions?.map((condition) => {
    const isReadiness = condition.type === 'Ready' || condition.type === 'ContainersReady';
    return isReadiness && condition.status === 'True' ? { ...condition, status: 'False', reason } : condition;
  });
  return conditions === undefined ? status : { ...status, conditions };
}
