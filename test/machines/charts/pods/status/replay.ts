/**
 * Gives the facts of a recording to `podStatus`, line by line of the kubelet's published statuses.
 *
 * The events of the runtime, the probes and the user come from the recording: which instances of a container existed,
 * how they ended, why one was not started. The times of the kubelet's relists are not recorded: a few moments are
 * possible (sandbox ready or not, pod stopped or not, killed or not), and their order is fixed. A line is reproduced if
 * one of them gives exactly its status.
 */
import type {
  ContainerStatus as CriContainerStatus,
  PodSandboxStatus,
} from '../../../../../src/machines/model/api/cri.ts';
import { CONFIG_SOURCE_ANNOTATION, type Pod, type PodStatus } from '../../../../../src/machines/model/api/pod.ts';
import { podMessages, waitingReasons } from '../../../../../src/machines/model/reasons/reasons.ts';
import { isForeignCondition } from '../../../../../src/machines/model/status/conditions.ts';
import {
  type PodStage,
  type PodStatusFacts,
  podStatus,
  publishedStatus,
  rejectedStatus,
} from '../../../../../src/machines/model/status/pod-status.ts';
import { node, type Recorded, type Recording, type StatusLine } from '../../../model/spec/recordings.ts';

const NOW_MS = Date.UTC(2026, 0, 1);
const STAGES: readonly PodStage[] = ['sync', 'stopped', 'terminated'];
const SANDBOXES = ['none', 'ready', 'notReady'] as const;
const DEFAULT_REASONS: ReadonlySet<string> = new Set([
  waitingReasons.containerCreating,
  waitingReasons.podInitializing,
]);

interface Moment {
  readonly stage: PodStage;
  readonly sandbox: (typeof SANDBOXES)[number];
  readonly order: 'none' | 'failure' | 'kill';
}

interface Position {
  readonly moment: Moment;
  readonly previous: PodStatus | null;
  readonly published: PodStatus | null;
  /** The same facts give the same status a second time. */
  readonly stable: boolean;
}

export interface Difference {
  readonly line: StatusLine;
  readonly expected: unknown;
  readonly nearest: unknown;
}

export interface Replayed {
  readonly equal: number;
  readonly differences: readonly Difference[];
  /** Lines after which the same facts gave another status. */
  readonly unstable: readonly StatusLine[];
}

const START: Position = {
  moment: { stage: 'sync', sandbox: 'none', order: 'none' },
  previous: null,
  published: null,
  stable: true,
};

/** All lines of one pod object (one uid). A line that cannot be reproduced is skipped. */
export function replay(recording: Recording, uid: string, lines: readonly StatusLine[]): Replayed {
  let position = START;
  const differences: Difference[] = [];
  const unstable: StatusLine[] = [];
  for (const line of lines) {
    const expected = normal(line.status);
    const from = position;
    const tries = moments(from.moment).map((moment) => step(recording, uid, line, from, moment));
    const hit = tries.find(({ published }) => JSON.stringify(normal(published)) === JSON.stringify(expected));
    if (hit === undefined) {
      const nearest = tries.map(({ published }) => normal(published)).toSorted(byLikeness(expected))[0];
      differences.push({ line, expected, nearest });
    } else {
      position = hit;
      if (!hit.stable) unstable.push(line);
    }
  }
  return { equal: lines.length - differences.length, differences, unstable };
}

/** All moments from the given one on, nearest first. */
function moments(from: Moment): readonly Moment[] {
  const stages = STAGES.slice(STAGES.indexOf(from.stage));
  const orders: ReadonlyArray<Moment['order']> = from.order === 'none' ? ['none', 'failure', 'kill'] : [from.order];
  return stages.flatMap((stage) => orders.flatMap((order) => SANDBOXES.map((sandbox) => ({ stage, sandbox, order }))));
}

function step(recording: Recording, uid: string, line: StatusLine, from: Position, moment: Moment): Position {
  const facts = factsOf(recording, uid, line, moment);
  const rejection = rejectionOf(line);
  if (rejection !== null) {
    const status = rejectedStatus(facts.pod, rejection, NOW_MS);
    return { moment, previous: status, published: status, stable: true };
  }
  const isKilledNow = moment.order === 'kill' && from.moment.order !== 'kill';
  const kill = isKilledNow ? evictionOf(recording) : undefined;
  const killed =
    kill === undefined ? from.previous : podStatus({ ...facts, stage: 'sync', previous: from.previous, kill });
  const status = podStatus({ ...facts, previous: killed });
  const again = podStatus({ ...facts, previous: status });
  const published = publishedStatus(status, from.published, moment.stage === 'sync');
  return {
    moment,
    previous: status,
    published,
    stable: JSON.stringify(normal(again)) === JSON.stringify(normal(status)),
  };
}

function rejectionOf({ status }: StatusLine): { reason: string; message: string } | null {
  const prefix = podMessages.rejected('');
  const isRejected = status.message?.startsWith(prefix) === true;
  return isRejected ? { reason: status.reason, message: status.message.slice(prefix.length) } : null;
}

function evictionOf(recording: Recording): { reason: string; message: string } | undefined {
  const event = recording.writes.find(({ body }) => body?.reason === 'Evicted')?.body;
  return event === undefined ? undefined : { reason: event.reason, message: event.message };
}

export function factsOf(recording: Recording, uid: string, line: StatusLine, moment: Moment): PodStatusFacts {
  const pod = podOf(recording, uid, line);
  const { status } = line;
  const all: readonly Recorded[] = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
  const containers = [...(pod.spec.initContainers ?? []), ...pod.spec.containers];
  const isProbed = ({ name }: Recorded): boolean =>
    containers.some((each) => each.name === name && (each.startupProbe ?? each.readinessProbe) !== undefined);
  const results = (field: 'started' | 'ready'): Record<string, boolean> =>
    Object.fromEntries(all.filter(isProbed).map((each) => [each.name, each[field]]));
  const isOverdue = moment.order === 'failure' && pod.spec.activeDeadlineSeconds !== undefined;
  return {
    pod,
    node,
    nowMs: NOW_MS,
    previous: null,
    stage: moment.stage,
    runtime: {
      uid,
      name: pod.metadata.name,
      namespace: pod.metadata.namespace,
      sandboxes: sandboxesOf(pod, status, moment.sandbox),
      containers: all.flatMap((each) => instancesOf(recording, each)),
      observedAtMs: NOW_MS,
    },
    waiting: Object.fromEntries(
      all.filter(hasOwnReason).map(({ name, state }) => [name, { message: '', ...state.waiting }]),
    ),
    started: results('started'),
    ready: results('ready'),
    ...(isOverdue ? { failure: { reason: 'DeadlineExceeded', message: podMessages.deadlineExceeded } } : {}),
  };
}

const hasOwnReason = ({ state }: Recorded): boolean =>
  state.waiting?.reason !== undefined && !DEFAULT_REASONS.has(state.waiting.reason);

/** The pod as the kubelet knew it when it wrote the status, by the generation in the status. */
function podOf(recording: Recording, uid: string, line: StatusLine): Pod {
  const { observedGeneration, conditions = [] } = line.status;
  const pod = recording.podAt(uid, line.at, observedGeneration);
  if (pod === undefined) throw new Error(`${recording.name}: no object with uid ${uid}`);
  const { generation: _, ...metadata } = pod.metadata;
  const isStatic = metadata.annotations?.[CONFIG_SOURCE_ANNOTATION] === 'file';
  const isDeleted = line.deletionTimestamp !== undefined && observedGeneration === line.generation && !isStatic;
  return {
    ...pod,
    metadata: {
      ...metadata,
      ...(observedGeneration === undefined ? {} : { generation: observedGeneration }),
      ...(isDeleted ? { deletionTimestamp: '<time>' } : {}),
    },
    status: { conditions: conditions.filter(isForeignCondition) },
  };
}

function sandboxesOf(pod: Pod, status: Recorded, state: Moment['sandbox']): readonly PodSandboxStatus[] {
  if (state === 'none') return [];
  const isHost = pod.spec.hostNetwork === true;
  const ip = isHost ? '' : (status.podIP ?? '<ip>');
  const sandbox: PodSandboxStatus = {
    id: 'sandbox',
    state: state === 'ready' ? 'SANDBOX_READY' : 'SANDBOX_NOTREADY',
    created_at: '1',
    network: { ip, additional_ips: [] },
    linux: { namespaces: { options: { network: isHost ? 'NODE' : 'POD' } } },
    labels: {},
    annotations: {},
    runtime_handler: '',
  };
  return status.podIP === undefined && state === 'ready' && !isHost ? [withoutAddress(sandbox)] : [sandbox];
}

/** The status shows a sandbox, but not its address yet: the kubelet had inspected the pod in between. */
function withoutAddress(sandbox: PodSandboxStatus): PodSandboxStatus {
  const { network: _, ...rest } = sandbox;
  return rest;
}

const SCHEME = 'containerd://';

/** The instances in a container's status, newest first. */
function instancesOf(recording: Recording, status: Recorded): readonly CriContainerStatus[] {
  const { state, lastState, containerID } = status;
  const current = containerID?.slice(SCHEME.length);
  const last = lastState.terminated;
  const lastId = last?.containerID?.slice(SCHEME.length);
  const instances: CriContainerStatus[] = [];
  if (current !== undefined && current !== lastId) instances.push(instance(recording, status, current, state));
  if (current === lastId && current !== undefined) instances.push(instance(recording, status, current, lastState));
  if (lastId !== undefined && lastId !== current) instances.push(instance(recording, status, lastId, lastState));
  return instances;
}

function instance(recording: Recording, status: Recorded, id: string, state: Recorded): CriContainerStatus {
  const created = recording.calls.find(({ response }) => response?.container_id === id);
  if (created === undefined) throw new Error(`${recording.name}: no CreateContainer for ${id}`);
  const { annotations, metadata } = created.request.config;
  const ended = state.terminated;
  const isRunning = state.running !== undefined;
  return {
    id,
    metadata,
    state: isRunning ? 'CONTAINER_RUNNING' : ended === undefined ? 'CONTAINER_CREATED' : 'CONTAINER_EXITED',
    created_at: String(created.at + 1),
    started_at: ended?.startedAt === EPOCH ? '0' : TIME_NS,
    finished_at: ended === undefined ? '0' : TIME_NS,
    exit_code: ended?.exitCode ?? 0,
    image: { image: status.image },
    image_ref: status.imageID,
    reason: ended?.reason ?? '',
    message: ended?.message ?? '',
    labels: {},
    annotations,
    mounts: [],
    log_path: '',
    image_id: status.imageID,
    stop_signal: 'SIGTERM',
    resources: { linux: textual(created.request.config.linux.resources) },
    ...(status.user === undefined ? {} : { user: userOf(status.user) }),
  };
}

const EPOCH = '1970-01-01T00:00:00Z';
const TIME_NS = String(BigInt(NOW_MS) * 1_000_000n);

/** The recordings have 64-bit integers as numbers. */
const textual = (resources: Recorded): Recorded =>
  Object.fromEntries(
    Object.entries(resources).map(([key, value]) => [key, typeof value === 'number' ? String(value) : value]),
  );

const userOf = ({ linux }: Recorded): NonNullable<CriContainerStatus['user']> => ({
  linux: {
    uid: String(linux.uid),
    gid: String(linux.gid),
    supplemental_groups: (linux.supplementalGroups ?? []).map(String),
  },
});

/**
 * Times as `<time>` except the epoch, absent fields for null, and without the pod's `resources`, which are read from
 * cgroups.
 */
export function normal(status: unknown): Recorded {
  const { resources: _, ...rest }: Recorded = status;
  return sorted(rest);
}

function sorted(value: unknown, key = ''): unknown {
  if (Array.isArray(value)) return value.map((item) => sorted(item));
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value)
      .map(([name, each]) => [name, sorted(each, name)] as const)
      .filter(([, each]) => each !== null && each !== undefined);
    return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }
  const isTime = /^(startTime|startedAt|finishedAt|lastTransitionTime)$/.test(key) && typeof value === 'string';
  return isTime && value !== EPOCH ? '<time>' : value;
}

const byLikeness =
  (expected: unknown) =>
  (a: unknown, b: unknown): number =>
    likeness(b, expected) - likeness(a, expected);

function likeness(a: unknown, b: unknown): number {
  const text = JSON.stringify(b);
  const parts = JSON.stringify(a).split(/[{},]/);
  return parts.filter((part) => text.includes(part)).length - parts.length;
}
