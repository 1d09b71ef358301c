/**
 * Statuses of containers, from the runtime's state, the statuses published before, and the waiting reasons of the
 * agent.
 *
 * Selects the current and the last instance of each container. Invariants: a container that has run is never shown as
 * if it had not; init containers have the order of the spec, others are sorted by name.
 */

import type { ContainerStatus as CriContainerStatus } from '../api/cri.ts';
import type { Container, ContainerState, ContainerStatus, Pod, ResourceRequirements, VolumeMount } from '../api/pod.ts';
import type { PodRuntimeStatus } from '../operations/cri.ts';
import { lostContainerMessages, terminatedReasons, UNKNOWN_EXIT_CODE, waitingReasons } from '../reasons/reasons.ts';
import { containerAnnotationKeys } from '../spec/annotations.ts';
import { isSidecar } from '../spec/resources.ts';
import { shouldRestart } from '../spec/restart.ts';
import { isRecursive } from '../spec/volumes.ts';
import { byName, isSame } from '../values/same.ts';
import { valueIn } from '../values/tables.ts';
import { milliseconds, rfc3339 } from '../values/time.ts';
import { containerResourceStatus } from './resources.ts';
import { instancesOf } from './runtime-facts.ts';

export interface Waiting {
  readonly reason: string;
  readonly message: string;
}

export interface ContainerFacts {
  readonly pod: Pod;
  readonly runtime: PodRuntimeStatus | null;
  readonly runtimeName: string;
  /** Images are named as by the runtime, even if that is their id: behavior `imagesAsKubelet`. */
  readonly imageAsNamed: boolean;
  /** The runtime can make mounts recursively read-only. */
  readonly canRecurse: boolean;
  /** The resources in a status name the claims of the container; not on a node of 0.2.0. */
  readonly showsClaims: boolean;
  /** Why a container that should run does not, by name. */
  readonly waiting: Readonly<Record<string, Waiting>>;
  /** Containers that the agent stops or has stopped to restart them. */
  readonly replacing: readonly string[];
  /** Results of startup and readiness probes by name; absent: no such probe, or no result yet. */
  readonly started: Readonly<Record<string, boolean>>;
  readonly ready: Readonly<Record<string, boolean>>;
  /** Restarts before the start of the agent (or its soft state), by name. */
  readonly restartCounts: Readonly<Record<string, number>>;
  readonly previous: readonly ContainerStatus[];
  /** By container, its current resources during a resize. */
  readonly actuated: Readonly<Record<string, ResourceRequirements | undefined>>;
  /** All containers of the pod are being restarted: a missing instance was removed for that. */
  readonly restartingAll: boolean;
}

export function containerStatuses(facts: ContainerFacts): readonly ContainerStatus[] {
  return facts.pod.spec.containers
    .map((container) => containerStatus(container, facts, false))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

export function initContainerStatuses(facts: ContainerFacts): readonly ContainerStatus[] {
  return (facts.pod.spec.initContainers ?? []).map((container) => containerStatus(container, facts, true));
}

/** An ephemeral container has neither probes nor readiness. */
export function ephemeralContainerStatuses(facts: ContainerFacts): readonly ContainerStatus[] {
  return (facts.pod.spec.ephemeralContainers ?? [])
    .map((container) => {
      const { started: _never, ...status } = containerStatus(container, facts, false);
      return { ...status, ready: false };
    })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** The inputs of a container's status that differ between containers. */
interface StatusInputs {
  readonly previous: ContainerStatus | undefined;
  readonly current: CriContainerStatus | undefined;
  readonly last: CriContainerStatus | undefined;
}

interface CachedStatus extends StatusInputs {
  readonly facts: readonly unknown[];
  readonly status: ContainerStatus;
}

/**
 * The last status of each container of a specification. A pod may have a thousand, of which a turn changes one: a
 * status is recomputed only when an input changed, and keeps its identity if its content is unchanged.
 */
const statusCache = new WeakMap<Container, CachedStatus>();

function containerStatus(container: Container, facts: ContainerFacts, isInit: boolean): ContainerStatus {
  const previous = byName(facts.previous, container.name);
  const [current, last] = instancesOf(facts.runtime, container.name);
  const instances = { previous, current, last };
  const containerFacts = factsFor(container, facts, isInit);
  const before = statusCache.get(container);
  if (before && hasSameInputs(before, instances, containerFacts)) return before.status;
  const made = buildStatus(container, facts, isInit, instances);
  const status = previous !== undefined && isSame(made, previous) ? previous : made;
  statusCache.set(container, { ...instances, facts: containerFacts, status });
  return status;
}

const hasSameInputs = (before: CachedStatus, seen: StatusInputs, facts: readonly unknown[]): boolean =>
  before.previous === seen.previous &&
  before.current === seen.current &&
  before.last === seen.last &&
  before.facts.every((each, at) => each === facts[at]);

/** The facts of the pod that concern one container; strings, numbers and booleans, except the pod itself. */
function factsFor(container: Container, facts: ContainerFacts, isInit: boolean): readonly unknown[] {
  const { name } = container;
  const { pod, runtimeName, canRecurse, showsClaims, waiting, replacing, started, ready, restartCounts } = facts;
  const why = valueIn(waiting, name);
  const memory = valueIn(facts.actuated, name)?.requests?.memory;
  const isForgettable = isInit && hasAnyRegularInstance(facts);
  const isReplaced = replacing.includes(name);
  const probes = [valueIn(started, name), valueIn(ready, name)];
  const pods = [pod, runtimeName, canRecurse, showsClaims, facts.restartingAll, isForgettable, isInit];
  return [...pods, why?.reason, why?.message, isReplaced, ...probes, valueIn(restartCounts, name), memory];
}

function buildStatus(
  container: Container,
  facts: ContainerFacts,
  isInit: boolean,
  { previous, current, last }: StatusInputs,
): ContainerStatus {
  const found =
    current === undefined
      ? withoutInstance(container, facts, previous, isInit && !isSidecar(container))
      : withInstance(container, facts, previous, current, last);
  return withProbes(container, withWaiting(container, facts, found, current, isInit), facts, isInit);
}

/** The status of a container without an instance: not created yet, or lost. */
function withoutInstance(
  container: Container,
  facts: ContainerFacts,
  previous: ContainerStatus | undefined,
  isPlainInit: boolean,
): ContainerStatus {
  const { pod, restartCounts, canRecurse } = facts;
  if (facts.restartingAll && previous !== undefined && previous.state?.waiting === undefined) {
    return restartedWithAll(container, facts, previous);
  }
  if (previous?.state?.terminated !== undefined) return previous;
  const reason =
    (pod.spec.initContainers ?? []).length > 0 ? waitingReasons.podInitializing : waitingReasons.containerCreating;
  const isLost = previous?.state?.running !== undefined && previous.lastState?.terminated === undefined;
  const restarts = previous?.restartCount ?? valueIn(restartCounts, container.name) ?? 0;
  const isRestart = isLost && pod.metadata.deletionTimestamp === undefined;
  const isForgotten = isPlainInit && !facts.restartingAll && hasAnyRegularInstance(facts);
  return {
    ...waitingStatus(container, canRecurse),
    state: isForgotten ? FORGOTTEN_INIT : { waiting: { reason } },
    lastState: isLost ? lost(lostContainerMessages.deleted) : (previous?.lastState ?? {}),
    restartCount: isRestart ? restarts + 1 : restarts,
  };
}

/** Regular containers start when all init containers have succeeded, including those that the runtime has removed. */
const hasAnyRegularInstance = ({ pod, runtime }: ContainerFacts): boolean =>
  pod.spec.containers.some(({ name }) => instancesOf(runtime, name).length > 0);

const FORGOTTEN_INIT: ContainerState = {
  terminated: { exitCode: 0, reason: terminatedReasons.completed, message: lostContainerMessages.forgottenInit },
};

const waitingStatus = (container: Container, canRecurse: boolean) => ({
  name: container.name,
  ready: false,
  image: container.image ?? '',
  imageID: '',
  started: false,
  ...mountStatuses(container, canRecurse),
});

/** The instance was removed to restart all containers, however it had ended. */
function restartedWithAll(
  container: Container,
  { canRecurse }: ContainerFacts,
  { restartCount }: ContainerStatus,
): ContainerStatus {
  const reason = waitingReasons.restartingAllContainers;
  const message = lostContainerMessages.restartingAll;
  return {
    ...waitingStatus(container, canRecurse),
    state: { waiting: { reason, message } },
    lastState: { terminated: { exitCode: UNKNOWN_EXIT_CODE, reason, message } },
    restartCount: restartCount + 1,
  };
}

const lost = (message: string): ContainerState => ({
  terminated: { exitCode: UNKNOWN_EXIT_CODE, reason: terminatedReasons.containerStatusUnknown, message },
});

function withInstance(
  container: Container,
  facts: ContainerFacts,
  previous: ContainerStatus | undefined,
  current: CriContainerStatus,
  last: CriContainerStatus | undefined,
): ContainerStatus {
  const { canRecurse } = facts;
  const containerID = `${facts.runtimeName}://${current.id}`;
  const isUnknown = current.state === 'CONTAINER_UNKNOWN';
  if (isUnknown && previous?.state?.terminated !== undefined && previous.containerID === containerID) return previous;
  const isLost = isUnknown && previous?.state?.running !== undefined;
  const isFirst = last === undefined && previous?.containerID !== containerID;
  return {
    name: container.name,
    state: isLost ? lost(lostContainerMessages.terminated) : seenState(container, facts, previous, current),
    lastState:
      last === undefined ? rememberedLastState(previous, containerID) : stateOf(last, facts.runtimeName, previous),
    ready: false,
    restartCount: isLost ? (previous.restartCount ?? 0) + 1 : restarts(container, facts, previous, current, isFirst),
    image: shownImage(container, facts, current),
    imageID: current.image_ref,
    containerID,
    started: false,
    ...containerResourceStatus(
      container,
      current,
      facts.showsClaims,
      valueIn(facts.actuated, container.name)?.requests,
    ),
    ...mountStatuses(container, canRecurse),
    ...userOf(current),
  };
}

function shownImage({ image }: Container, { imageAsNamed }: ContainerFacts, current: CriContainerStatus): string {
  const { image: named, user_specified_image: specified } = current.image ?? {};
  return (imageAsNamed ? named || specified : specified || named) || image || '';
}

/**
 * The number never decreases, even if the runtime has removed earlier instances; then the next one continues the count.
 */
function restarts(
  { name }: Container,
  { restartCounts }: ContainerFacts,
  previous: ContainerStatus | undefined,
  current: CriContainerStatus,
  isFirst: boolean,
): number {
  const currentCount = restartCountOf(current) ?? valueIn(restartCounts, name) ?? 0;
  if (previous === undefined || previous.restartCount < currentCount) return currentCount;
  const isNext = current.state === 'CONTAINER_RUNNING' && previous.state?.terminated !== undefined && isFirst;
  return isNext ? previous.restartCount + 1 : previous.restartCount;
}

/** The last state is kept if the runtime removes ended instances too early. */
function rememberedLastState(previous: ContainerStatus | undefined, containerID: string): ContainerState {
  if (previous?.state?.terminated !== undefined && previous.containerID !== containerID) {
    return { terminated: previous.state.terminated };
  }
  return previous?.lastState ?? {};
}

function restartCountOf({ annotations, metadata }: CriContainerStatus): number | undefined {
  const text = annotations[containerAnnotationKeys.restartCount];
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : metadata?.attempt;
}

/** A replaced instance is published as running until the next one runs, or is prevented from running. */
function seenState(
  { name }: Container,
  { replacing, waiting, runtimeName }: ContainerFacts,
  previous: ContainerStatus | undefined,
  current: CriContainerStatus,
): ContainerState {
  const isSame = previous?.state?.running !== undefined && previous.containerID === `${runtimeName}://${current.id}`;
  if (isSame && replacing.includes(name) && valueIn(waiting, name) === undefined) return previous.state;
  return stateOf(current, runtimeName, previous);
}

function stateOf(
  status: CriContainerStatus,
  runtimeName: string,
  previous: ContainerStatus | undefined,
): ContainerState {
  const containerID = `${runtimeName}://${status.id}`;
  const before = [previous?.state, previous?.lastState].find((each) => each?.terminated?.containerID === containerID);
  const message = status.message || before?.terminated?.message;
  switch (status.state) {
    case 'CONTAINER_RUNNING':
      return { running: { startedAt: rfc3339(milliseconds(status.started_at)) } };
    case 'CONTAINER_EXITED':
      return {
        terminated: {
          exitCode: status.exit_code,
          ...(status.reason === '' ? {} : { reason: status.reason }),
          ...(message ? { message } : {}),
          startedAt: rfc3339(milliseconds(status.started_at)),
          finishedAt: rfc3339(milliseconds(status.finished_at)),
          containerID,
        },
      };
    default:
      return { waiting: {} };
  }
}

function userOf({ user }: CriContainerStatus): Pick<ContainerStatus, 'user'> {
  if (user?.linux === undefined) return {};
  const { uid, gid, supplemental_groups: groups } = user.linux;
  return {
    user: {
      linux: {
        uid: Number(uid),
        gid: Number(gid),
        ...(groups.length === 0 ? {} : { supplementalGroups: groups.map(Number) }),
      },
    },
  };
}

/** The waiting reason of a container that should run; its last end becomes the last state. */
function withWaiting(
  container: Container,
  { pod, waiting }: ContainerFacts,
  status: ContainerStatus,
  current: CriContainerStatus | undefined,
  isInit: boolean,
): ContainerStatus {
  const why = valueIn(waiting, container.name);
  if (why === undefined || !isToBeStarted(pod, container, current, isInit)) return status;
  const { reason, message } = why;
  return {
    ...status,
    state: { waiting: { reason, ...(message === '' ? {} : { message }) } },
    ...(status.state?.terminated === undefined ? {} : { lastState: { terminated: status.state.terminated } }),
  };
}

function isToBeStarted(
  pod: Pod,
  container: Container,
  current: CriContainerStatus | undefined,
  isInit: boolean,
): boolean {
  if (pod.metadata.deletionTimestamp !== undefined) return false;
  if (current === undefined) return true;
  if (current.state === 'CONTAINER_RUNNING') return false;
  if (current.state !== 'CONTAINER_EXITED') return true;
  if ((pod.spec.ephemeralContainers ?? []).some(({ name }) => name === container.name)) return false;
  // A restarted sidecar also shows its success.
  if (isInit && current.exit_code === 0) return false;
  return shouldRestart({ pod, container, exitCode: current.exit_code });
}

function withProbes(
  container: Container,
  status: ContainerStatus,
  { started, ready }: ContainerFacts,
  isInit: boolean,
): ContainerStatus {
  const isRunning = status.state?.running !== undefined;
  const isStarted = isRunning && (valueIn(started, container.name) ?? container.startupProbe === undefined);
  if (isInit && !isSidecar(container)) {
    return { ...status, started: isStarted, ready: status.state?.terminated?.exitCode === 0 };
  }
  const isReady = isStarted && (valueIn(ready, container.name) ?? container.readinessProbe === undefined);
  return { ...status, started: isStarted, ready: isReady };
}

/** The volume mounts in a container's status. */
function mountStatuses({ volumeMounts = [] }: Container, canRecurse: boolean): Pick<ContainerStatus, 'volumeMounts'> {
  if (volumeMounts.length === 0) return {};
  return {
    volumeMounts: volumeMounts.map((mount) => ({
      name: mount.name,
      mountPath: mount.mountPath,
      ...(mount.readOnly === true ? { readOnly: true, recursiveReadOnly: recursion(mount, canRecurse) } : {}),
    })),
  };
}

/** The effective recursive read-only setting; a container whose requested setting is not possible does not run. */
function recursion(mount: VolumeMount, canRecurse: boolean): string {
  try {
    return isRecursive(mount, canRecurse) ? 'Enabled' : 'Disabled';
  } catch {
    return 'Disabled';
  }
}
