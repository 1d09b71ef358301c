/**
 * The reduced and ordered state of a pod in the runtime. Pure.
 *
 * Defines how observations are merged: a later one wins, and an instance never goes back from exited to running or from
 * running to created, whatever the order of arrival.
 */

import type { ContainerState, ContainerStatus, PodSandboxStatus } from '../api/cri.ts';
import type { PodRuntimeStatus } from '../operations/cri.ts';
import { legacyLogName } from '../spec/paths.ts';
import { memoize } from '../values/same.ts';

export interface DeadContainer {
  readonly id: string;
  readonly name: string;
  readonly restartCount: number;
  /** Nanoseconds since the epoch, decimal. */
  readonly createdAt: string;
  /** The path of its log; empty if unknown. */
  readonly logPath: string;
  readonly linkName: string;
}

/** From a pod to `containerGC`: its dead instances that may be removed; empty if none may. */
export interface GarbageChanged {
  readonly type: 'garbage.changed';
  readonly uid: string;
  readonly dead: readonly DeadContainer[];
  /** Replaced sandboxes without containers. */
  readonly sandboxes: readonly string[];
  /** No container of the pod runs. */
  readonly over: boolean;
  /** It was ended by the node: its leftovers are removed with the next collection. */
  readonly isEvicted?: true;
}

/** From a pod to `imageGC`: the images of all its containers, dead ones included; empty if there are none. */
export interface ImagesInUse {
  readonly type: 'images.inUse';
  readonly uid: string;
  readonly refs: readonly string[];
}

/** The facts about one instance in the runtime that the agent needs. */
export interface ContainerFacts {
  readonly id: string;
  readonly restartCount: number;
  readonly state: 'created' | 'running' | 'exited' | 'unknown';
  /** Hash of the definition that it was created from; empty if the runtime does not know it. */
  readonly hash: string;
  readonly exitCode: number;
  readonly reason: string;
  readonly startedAtMs: number;
  readonly finishedAtMs: number;
  /** The runtime cancelled its start because its client disconnected: the container never ran, and did not fail. */
  readonly cutOff: boolean;
  /** The path of its termination message; empty without one. */
  readonly messageFile: string;
  /** The log to read if that file is empty; empty unless the policy requests it. */
  readonly messageLog: string;
}

const HASH = 'io.kubernetes.container.hash';
const RESTART_COUNT = 'io.kubernetes.container.restartCount';
const MESSAGE_PATH = 'io.kubernetes.container.terminationMessagePath';
const MESSAGE_POLICY = 'io.kubernetes.container.terminationMessagePolicy';

export const emptyRuntime = (uid: string, name: string, namespace: string, observedAtMs: number): PodRuntimeStatus => ({
  uid,
  name,
  namespace,
  sandboxes: [],
  containers: [],
  observedAtMs,
});

/** The status of a sandbox without labels and annotations that neither decisions nor the pod's status need. */
export const slimmedSandbox = (status: PodSandboxStatus): PodSandboxStatus => ({
  ...status,
  labels: {},
  annotations: {},
});

/** The status of a container without labels, and without mounts except images and the termination message. */
export const slimmedContainer = (status: ContainerStatus): ContainerStatus => ({
  ...status,
  labels: {},
  mounts: status.mounts
    .filter(({ container_path, image }) => container_path === status.annotations[MESSAGE_PATH] || Boolean(image?.image))
    .map(({ container_path, host_path, image }) => ({
      ...(image?.image ? { image: { image: image.image } } : {}),
      ...(container_path === undefined ? {} : { container_path }),
      ...(host_path === undefined ? {} : { host_path }),
    })),
});

const CONTAINER_RANK: Readonly<Record<ContainerState, number>> = {
  CONTAINER_CREATED: 0,
  CONTAINER_UNKNOWN: 1,
  CONTAINER_RUNNING: 1,
  CONTAINER_EXITED: 2,
};

/** Merges an observation into the known state; an older observation changes nothing. */
export function mergedStatus(known: PodRuntimeStatus | null, seen: PodRuntimeStatus): PodRuntimeStatus {
  if (!known) return seen;
  if (seen.observedAtMs < known.observedAtMs) return known;
  const byId = new Map(known.containers.map((container) => [container.id, container]));
  return {
    ...seen,
    containers: seen.containers.map((container) => laterContainer(byId.get(container.id), container)),
    sandboxes: seen.sandboxes.map((sandbox) =>
      laterSandbox(
        known.sandboxes.find(({ id }) => id === sandbox.id),
        sandbox,
      ),
    ),
  };
}

/** An instance only advances: of two observations the one with the further state is the later one. */
const laterContainer = (before: ContainerStatus | undefined, seen: ContainerStatus): ContainerStatus =>
  before && CONTAINER_RANK[before.state] > CONTAINER_RANK[seen.state] ? before : seen;

const laterSandbox = (before: PodSandboxStatus | undefined, seen: PodSandboxStatus): PodSandboxStatus =>
  before?.state === 'SANDBOX_NOTREADY' ? before : seen;

const replaced = <Status extends { readonly id: string }>(all: readonly Status[], status: Status): Status[] =>
  all.some(({ id }) => id === status.id)
    ? all.map((each) => (each.id === status.id ? status : each))
    : [status, ...all];

/** The known state with one observed container, whenever it was observed. */
export function withContainer(known: PodRuntimeStatus, seen: ContainerStatus): PodRuntimeStatus {
  const before = known.containers.find(({ id }) => id === seen.id);
  const status = laterContainer(before, seen);
  return status === before ? known : { ...known, containers: replaced(known.containers, status) };
}

/** The known state with one observed sandbox. */
export function withSandbox(known: PodRuntimeStatus, seen: PodSandboxStatus): PodRuntimeStatus {
  const before = known.sandboxes.find(({ id }) => id === seen.id);
  const status = laterSandbox(before, seen);
  return status === before ? known : { ...known, sandboxes: replaced(known.sandboxes, status) };
}

/** Decimal text of nanoseconds as whole milliseconds. */
export const milliseconds = (nanoseconds: string): number => Number(nanoseconds.slice(0, -6) || '0');

/** Decimal text; containerd gives a sandbox whose network failed a negative creation time. */
const ageText = ({ created_at }: { readonly created_at: string }): string =>
  created_at.startsWith('-') ? '' : created_at;

function newer(one: { readonly created_at: string }, other: { readonly created_at: string }): number {
  const [a, b] = [ageText(one), ageText(other)];
  return b.length - a.length || (b < a ? -1 : Number(b > a));
}

const restartCountOf = ({ annotations, metadata }: ContainerStatus): number =>
  Number(annotations[RESTART_COUNT] ?? metadata?.attempt ?? 0);

const instancesByName = memoize(({ containers }: PodRuntimeStatus): ReadonlyMap<string, readonly ContainerStatus[]> => {
  const found = Map.groupBy(containers, ({ metadata }) => metadata?.name ?? '');
  for (const each of found.values()) each.sort((a, b) => restartCountOf(b) - restartCountOf(a) || newer(a, b));
  return found;
});

/** All instances of one container, newest first: by number, because the clock may have been set back in between. */
export const instancesOf = (status: PodRuntimeStatus | null, name: string): readonly ContainerStatus[] =>
  (status && instancesByName(status).get(name)) ?? [];

export const sandboxesOf = (status: PodRuntimeStatus | null): PodSandboxStatus[] =>
  [...(status?.sandboxes ?? [])].sort((a, b) => (b.metadata?.attempt ?? 0) - (a.metadata?.attempt ?? 0) || newer(a, b));

/** Whether its newest instance belongs to the current sandbox, not to a replaced one. */
export function hasBegunInSandbox(status: PodRuntimeStatus | null, name: string): boolean {
  const [sandbox] = sandboxesOf(status);
  const [instance] = instancesOf(status, name);
  return sandbox?.state === 'SANDBOX_READY' && instance !== undefined && newer(sandbox, instance) >= 0;
}

export const isAlive = (container: ContainerStatus): boolean =>
  container.state === 'CONTAINER_RUNNING' || container.state === 'CONTAINER_UNKNOWN';

const STATES = {
  CONTAINER_CREATED: 'created',
  CONTAINER_RUNNING: 'running',
  CONTAINER_EXITED: 'exited',
  CONTAINER_UNKNOWN: 'unknown',
} as const;

/**
 * containerd's error of a start that it abandons because its caller disconnected; the embedded runtime's is the same.
 */
const START_ABANDONED = 'context canceled';

const wasStartAbandoned = ({ state, started_at, reason, message }: ContainerStatus): boolean =>
  state === 'CONTAINER_EXITED' &&
  milliseconds(started_at) === 0 &&
  reason === 'StartError' &&
  message.includes(START_ABANDONED);

const fallsBackToLogs = ({ annotations, exit_code, reason }: ContainerStatus): boolean =>
  annotations[MESSAGE_POLICY] === 'FallbackToLogsOnError' && exit_code !== 0 && reason !== 'ContainerCannotRun';

/** The newest instance of a container in the machines' form; `null` if the runtime has none. */
export function factsOf(status: PodRuntimeStatus | null, name: string): ContainerFacts | null {
  const newest = instancesOf(status, name)[0];
  return newest === undefined ? null : factsOfInstance(newest);
}

/** One instance in the machines' form. */
export const factsOfInstance = memoize((newest: ContainerStatus): ContainerFacts => {
  const annotations = newest.annotations;
  const path = annotations[MESSAGE_PATH];
  const mount = newest.mounts.find(({ container_path }) => path !== undefined && container_path === path);
  return {
    id: newest.id,
    restartCount: restartCountOf(newest),
    state: STATES[newest.state],
    hash: annotations[HASH] ?? '',
    exitCode: newest.exit_code,
    reason: newest.reason,
    startedAtMs: milliseconds(newest.started_at),
    finishedAtMs: milliseconds(newest.finished_at),
    cutOff: wasStartAbandoned(newest),
    messageFile: mount?.host_path ?? '',
    messageLog: fallsBackToLogs(newest) ? newest.log_path : '',
  };
});

/** Garbage of a pod: ended instances, and replaced empty sandboxes. `byNode`: the node ends the pod. */
export function garbageOf(uid: string, status: PodRuntimeStatus, byNode: boolean): GarbageChanged {
  const [newest, ...older] = sandboxesOf(status);
  const isOlder = (container: ContainerStatus): boolean => newest !== undefined && newer(newest, container) < 0;
  const dead = status.containers
    .filter(({ state }) => state === 'CONTAINER_EXITED')
    .map((container) => {
      const { id, metadata, created_at, log_path } = container;
      const name = metadata?.name ?? '';
      const linkName = legacyLogName({ metadata: status }, name, id);
      return { id, name, restartCount: restartCountOf(container), createdAt: created_at, logPath: log_path, linkName };
    });
  const isEmpty = newest?.state === 'SANDBOX_READY' && !status.containers.some(isOlder);
  const replaced = older.filter(({ state }) => state === 'SANDBOX_NOTREADY').map(({ id }) => id);
  const over = newest !== undefined && newest.state !== 'SANDBOX_READY' && dead.length === status.containers.length;
  const garbage = { type: 'garbage.changed', uid, dead, sandboxes: isEmpty ? replaced : [], over } as const;
  return byNode && over ? { ...garbage, isEvicted: true } : garbage;
}

export const imagesOf = (uid: string, status: PodRuntimeStatus): ImagesInUse => ({
  type: 'images.inUse',
  uid,
  refs: [...new Set(status.containers.flatMap(imagesOfContainer))].filter((ref) => ref !== '').sort(),
});

/** The image of a container, and the images of its volumes. */
const imagesOfContainer = ({ image_ref, image_id, mounts }: ContainerStatus): string[] => [
  image_ref,
  image_id,
  ...mounts.map(({ image }) => image?.image ?? ''),
];
