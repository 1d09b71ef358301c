/**
 * The node's conditions, from the reports of its subsystems. Reasons and messages are upstream's
 * (pkg/kubelet/nodestatus/setters.go), byte for byte.
 *
 * A condition keeps its transition time until its status changes; the heartbeat is the time of the report.
 */
import type { NodeCondition } from '../../../model/api/pod.ts';
import { aggregate } from '../../../model/values/go-text.ts';
import { rfc3339 } from '../../../model/values/time.ts';
import type { NodeReports } from './facts.ts';

interface Verdict {
  readonly type: string;
  readonly status: 'True' | 'False';
  readonly reason: string;
  readonly message: string;
}

const pressure = (type: string, has: boolean, yes: readonly [string, string], no: readonly [string, string]) => {
  const [reason, message] = has ? yes : no;
  return { type, status: has ? 'True' : 'False', reason, message } as const;
};

const memory = ({ memoryPressure }: NodeReports): Verdict =>
  pressure(
    'MemoryPressure',
    memoryPressure,
    ['KubeletHasInsufficientMemory', 'kubelet has insufficient memory available'],
    ['KubeletHasSufficientMemory', 'kubelet has sufficient memory available'],
  );

const disk = ({ diskPressure }: NodeReports): Verdict =>
  pressure(
    'DiskPressure',
    diskPressure,
    ['KubeletHasDiskPressure', 'kubelet has disk pressure'],
    ['KubeletHasNoDiskPressure', 'kubelet has no disk pressure'],
  );

const pid = ({ pidPressure }: NodeReports): Verdict =>
  pressure(
    'PIDPressure',
    pidPressure,
    ['KubeletHasInsufficientPID', 'kubelet has insufficient PID available'],
    ['KubeletHasSufficientPID', 'kubelet has sufficient PID available'],
  );

const STORAGE = 'ephemeral-storage';
const REQUIRED_CAPACITY = ['cpu', 'memory', 'pods', STORAGE];

/** All errors that keep the node from being ready, in upstream's order, without duplicates. */
export function readinessErrors(reports: NodeReports): string[] {
  const required = REQUIRED_CAPACITY.filter((name) => name !== STORAGE || reports.ignoresStorage !== true);
  const missing = required.filter((name) => reports.capacity[name] === undefined);
  const errors = [
    ...reports.runtimeErrors,
    reports.networkError,
    reports.storageError,
    reports.shuttingDown ? 'node is shutting down' : '',
    missing.length > 0 ? `missing node capacity for resources: ${missing.join(', ')}` : '',
  ];
  return [...new Set(errors.filter((error) => error !== ''))];
}

function ready(reports: NodeReports): Verdict {
  const errors = readinessErrors(reports);
  return errors.length === 0
    ? { type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'kubelet is posting ready status' }
    : { type: 'Ready', status: 'False', reason: 'KubeletNotReady', message: aggregate(errors) };
}

/**
 * The conditions that this node owns, after those of other clients, which keep their place and their text.
 * @param before conditions of the Node as last known
 */
export function nodeConditions(
  reports: NodeReports,
  before: readonly NodeCondition[],
  nowMs: number,
): readonly NodeCondition[] {
  const at = rfc3339(nowMs);
  const reported = [memory(reports), disk(reports), pid(reports), ready(reports)].map((verdict): NodeCondition => {
    const known = before.find(({ type }) => type === verdict.type);
    const lastTransitionTime = known?.status === verdict.status ? (known.lastTransitionTime ?? at) : at;
    return { ...verdict, lastHeartbeatTime: at, lastTransitionTime };
  });
  const byType = new Map(reported.map((condition) => [condition.type, condition]));
  const kept = before.map((condition) => byType.get(condition.type) ?? condition);
  return [...kept, ...reported.filter(({ type }) => !before.some((condition) => condition.type === type))];
}

const EVENTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  MemoryPressure: { True: 'NodeHasInsufficientMemory', False: 'NodeHasSufficientMemory' },
  DiskPressure: { True: 'NodeHasDiskPressure', False: 'NodeHasNoDiskPressure' },
  PIDPressure: { True: 'NodeHasInsufficientPID', False: 'NodeHasSufficientPID' },
  Ready: { True: 'NodeReady', False: 'NodeNotReady' },
};

/** Reasons of the events about changed conditions. A node that starts as not ready records none, as upstream. */
export function transitionEvents(before: readonly NodeCondition[], after: readonly NodeCondition[]): string[] {
  return after.flatMap(({ type, status }) => {
    const known = before.find((condition) => condition.type === type);
    if (known?.status === status || (known === undefined && type === 'Ready' && status === 'False')) return [];
    const reason = EVENTS[type]?.[status];
    return reason === undefined ? [] : [reason];
  });
}
