/**
 * The state of a pod in the runtime, reduced and ordered. Pure.
 *
 * Owns the rules by which observations are joined: a later observation wins, and one instance never goes back from
 * exited to running or from running to created, whichever observation arrives last.
 */

import type { ContainerState, ContainerStatus, PodSandboxStatus } from '../api/cri.ts';
import type { PodRuntimeStatus } from '../operations/cri.ts';
import { legacyLogName } from '../spec/index.ts';
import { memoize } from '../values/memoize.ts';

/** A dead container, for `containerGC`. */
export interface DeadContainer {
  readonly id: string;
  readonly name: string;
  readonly restartCount: number;
  /** Nanoseconds since the epoch, decimal. */
  readonly createdAt: string;
  /** The path of its log; empty when that is not known. */
  readonly logPath: string;
  /** The name of the link to its log. */
  readonly linkName: string;
}

/** From a pod to `containerGC`: its dead instances that may be removed; empty where none may. */
export interface GarbageChanged {
  readonly type: 'garbage.changed';
  readonly uid: string;
  readonly dead: readonly DeadContainer[];
  /** Sandboxes that were replaced and have no container any more. */
  readonly sandboxes: readonly string[];
  /** No container of the pod runs. */
  readonly over: boolean;
  /** It is over because the node ended it: what is left of it goes with the next collection. */
  readonly isEvicted?: true;
}

/** From a pod to `imageGC`: the images of all its containers, dead ones included; empty when there are none. */
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
  /** Hash of the definition that it was created from; empty when the runtime does not know it. */
  readonly hash: string;
  readonly exitCode: number;
  readonly reason: string;
  readonly startedAtMs: number;
  readonly finishedAtMs: number;
  /** The runtime cancelled its start because its client disconnected: it has never run, through no fault of its own. */
  readonly cutOff: boolean;
  /** The path of its termination message; empty: it has none. */
  readonly messageFile: string;
  /** The log to read when that file is empty; empty unless the policy says so. */
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

/** Without labels and annotations that neither decisions nor the status need. */
export const slimmedSandbox = (status: PodSandboxStatus): PodSandboxStatus => ({
  ...status,
  labels: {},
  annotations: {},
});

/** Without labels, and mounts other than images and that of the termination message. */
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

/** Joins an observation with the known state; an older observation changes nothing. */
export function joined(known: PodRuntimeStatus | null, seen: PodRuntimeStatus): PodRuntimeStatus {
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

/** An instance changes in one direction only: of two observations the one with the further state is the later one. */
const laterContainer = (before: ContainerStatus | undefined, seen: ContainerStatus): ContainerStatus =>
  before && CONTAINER_RANK[before.state] > CONTAINER_RANK[seen.state] ? before : seen;

const laterSandbox = (before: PodSandboxStatus | undefined, seen: PodSandboxStatus): PodSandboxStatus =>
  before?.state === 'SANDBOX_NOTREADY' ? before : seen;

const replaced = <Status extends { readonly id: string }>(all: readonly Status[], status: Status): Status[] =>
  all.some(({ id }) => id === status.id)
    ? all.map((each) => (each.id === status.id ? status : each))
    : [status, ...all];

/** The known state with one container as it was observed, whenever that was. */
export function withContainer(known: PodRuntimeStatus, seen: ContainerStatus): PodRuntimeStatus {
  const before = known.containers.find(({ id }) => id === seen.id);
  const status = laterContainer(before, seen);
  return status === before ? known : { ...known, containers: replaced(known.containers, status) };
}

/** The known state with one sandbox as it was observed. */
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

/** Instances by the name of their container. */
const instancesByName = memoize(({ containers }: PodRuntimeStatus): ReadonlyMap<string, readonly ContainerStatus[]> => {
  const found = Map.groupBy(containers, ({ metadata }) => metadata?.name ?? '');
  for (const each of found.values()) each.sort((a, b) => restartCountOf(b) - restartCountOf(a) || newer(a, b));
  return found;
});

/** All instances of one container, newest first: by number, as the clock may have been set back between two of them. */
export const instancesOf = (status: PodRuntimeStatus | null, name: string): readonly ContainerStatus[] =>
  (status && instancesByName(status).get(name)) ?? [];

export const sandboxesOf = (status: PodRuntimeStatus | null): PodSandboxStatus[] =>
  [...(status?.sandboxes ?? [])].sort((a, b) => (b.metadata?.attempt ?? 0) - (a.metadata?.attempt ?? 0) || newer(a, b));

/** True when its newest instance belongs to the present sandbox, not to one that was replaced. */
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
 * containerd's error of a start whose caller disconnected, and which it gives up; the embedded runtime's is the same.
 */
const CALLER_GONE = 'context canceled';

const wasCutOff = ({ state, started_at, reason, message }: ContainerStatus): boolean =>
  state === 'CONTAINER_EXITED' &&
  milliseconds(started_at) === 0 &&
  reason === 'StartError' &&
  message.includes(CALLER_GONE);

const fallsBackToLogs = ({ annotations, exit_code, reason }: ContainerStatus): boolean =>
  annotations[MESSAGE_POLICY] === 'FallbackToLogsOnError' && exit_code !== 0 && reason !== 'ContainerCannotRun';

/** The newest instance of a container, in the machines' form; `null` when the runtime has none. */
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
    cutOff: wasCutOff(newest),
    messageFile: mount?.host_path ?? '',
    messageLog: fallsBackToLogs(newest) ? newest.log_path : '',
  };
});

/**
 * What of a pod no longer runs: instances that ended, and sandboxes that were replaced and are empty.
 * `byNode`: the node ends the pod.
 */
export function garbageOf(uid: string, status: PodRuntimeStatus, byNode = false): GarbageChanged {
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

/** Its own image, and those that it has as volumes. */
const imagesOfContainer = ({ image_ref, image_id, mounts }: ContainerStatus): string[] => [
  image_ref,
  image_id,
  ...mounts.map(({ image }) => image?.image ?? ''),
];
