/**
 * The phase of a pod.
 *
 * Derived only from the statuses of its containers. Invariant: `Succeeded` and `Failed` are final: no container of the
 * pod will ever run again.
 */
import type { Container, ContainerState, ContainerStatus, Pod, PodPhase } from '../api/pod.ts';
import { isStaticPod } from '../api/pod.ts';
import { terminatedReasons } from '../reasons/reasons.ts';
import { isSidecar } from '../spec/resources.ts';
import { shouldRestart } from '../spec/restart.ts';
import { byName } from '../values/same.ts';

export interface PhaseFacts {
  readonly pod: Pod;
  readonly initContainerStatuses: readonly ContainerStatus[];
  readonly containerStatuses: readonly ContainerStatus[];
  /** The pod is stopped for good: its restart policy no longer counts. */
  readonly stopped: boolean;
  /** Containers that are being stopped to be restarted, however they end. */
  readonly comingAgain?: readonly string[];
  /** The current sandbox has a regular container; absent: by the statuses, which also show those of earlier ones. */
  readonly hasBegun?: boolean;
}

export const isTerminalPhase = (phase: string | undefined): boolean => phase === 'Succeeded' || phase === 'Failed';

interface Counts {
  running: number;
  waiting: number;
  stopped: number;
  succeeded: number;
  unknown: number;
}

export function podPhase(facts: PhaseFacts): PodPhase {
  const { pod, initContainerStatuses, containerStatuses, hasBegun = hasAnyContainerStarted(containerStatuses) } = facts;
  const initContainers = pod.spec.initContainers ?? [];
  const init = initProgress(facts, initContainers);
  if (init.failed) return 'Failed';
  const counts: Counts = { running: 0, waiting: 0, stopped: 0, succeeded: 0, unknown: 0 };
  const sidecarsPending = countSidecars(initContainers, initContainerStatuses, counts);
  for (const container of pod.spec.containers) count(statusOf(containerStatuses, container), counts);
  if (init.pending || (sidecarsPending && !hasBegun)) return 'Pending';
  if (counts.waiting > 0) return 'Pending';
  if (counts.running > 0 && counts.unknown === 0) return 'Running';
  if (counts.running === 0 && counts.stopped > 0 && counts.unknown === 0) return phaseOfStopped(facts, counts);
  return 'Pending';
}

const statusOf = (statuses: readonly ContainerStatus[], container: Container): ContainerStatus | undefined =>
  byName(statuses, container.name);

/** Plain init containers: whether one has still to run, and whether one failed for good. */
function initProgress(
  { pod, initContainerStatuses: statuses, comingAgain = [] }: PhaseFacts,
  containers: readonly Container[],
): { pending: boolean; failed: boolean } {
  let pending = false;
  let failed = false;
  for (const container of containers.filter((each) => !isSidecar(each))) {
    const status = statusOf(statuses, container);
    const ended = status?.state?.terminated ?? (status?.state?.waiting && status.lastState?.terminated);
    if (ended === undefined) pending = true;
    else if (comingAgain.includes(container.name)) continue;
    else if (ended.exitCode !== 0 && restartsNever(pod, container, ended)) failed = true;
  }
  return { pending, failed };
}

type Ended = NonNullable<ContainerState['terminated']>;

/** Deleting the pod does not make a failure final that would otherwise be retried. */
function restartsNever(pod: Pod, container: Container, { exitCode, reason }: Ended): boolean {
  if (reason === terminatedReasons.restartingAllContainers) return false;
  const { deletionTimestamp: _, ...metadata } = pod.metadata;
  return !shouldRestart({ pod: { ...pod, metadata }, container, exitCode });
}

/** True while a sidecar has still to start. An ended one does not count: it will be restarted. */
function countSidecars(
  containers: readonly Container[],
  statuses: readonly ContainerStatus[],
  counts: Counts,
): boolean {
  let pending = false;
  for (const container of containers.filter(isSidecar)) {
    const status = statusOf(statuses, container);
    if (status?.state?.running !== undefined) {
      counts.running += 1;
      if (status.started !== true) pending = true;
    } else if (status?.state?.waiting !== undefined && status.lastState?.terminated === undefined) {
      counts.waiting += 1;
      pending = true;
    } else if (status?.state?.terminated === undefined && status?.lastState?.terminated === undefined) {
      counts.unknown += 1;
    }
  }
  return pending;
}

function count(status: ContainerStatus | undefined, counts: Counts): void {
  if (status?.state?.running !== undefined) counts.running += 1;
  else if (status?.state?.terminated !== undefined) {
    counts.stopped += 1;
    if (status.state.terminated.exitCode === 0) counts.succeeded += 1;
  } else if (status?.state?.waiting !== undefined) {
    if (status.lastState?.terminated === undefined) counts.waiting += 1;
    else counts.stopped += 1;
  } else counts.unknown += 1;
}

function phaseOfStopped(facts: PhaseFacts, counts: Counts): PodPhase {
  const { pod, stopped, containerStatuses, comingAgain = [] } = facts;
  const allSucceeded = counts.stopped === counts.succeeded;
  if (stopped && !isStaticPod(pod)) return allSucceeded ? 'Succeeded' : 'Failed';
  const comesAgain = (container: Container): boolean =>
    comingAgain.includes(container.name) || willRestart(pod, container, containerStatuses);
  if (pod.spec.containers.some(comesAgain)) return 'Running';
  return allSucceeded ? 'Succeeded' : 'Failed';
}

function willRestart(pod: Pod, container: Container, statuses: readonly ContainerStatus[]): boolean {
  const status = statusOf(statuses, container);
  const ended = status?.state?.terminated ?? status?.lastState?.terminated;
  return ended !== undefined && !restartsNever(pod, container, ended);
}

export const hasAnyContainerStarted = (statuses: readonly ContainerStatus[]): boolean =>
  statuses.some(({ state }) => state?.running !== undefined || state?.terminated !== undefined);
