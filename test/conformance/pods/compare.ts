/**
 * The compared parts of a run: the requests to the runtime for each container and sandbox, the order in which
 * containers started and stopped, and the status of each pod before its removal and at its end.
 *
 * Recorded and live runs use the same functions. Calls that race (containers of one rank, probes, clean-up) are
 * compared as sets. RemoveContainer is not compared, because RemovePodSandbox removes the remaining containers of a
 * sandbox.
 */

import { normal } from '../../machines/charts/pods/status/replay.ts';
import { canonical } from '../../machines/model/spec/canonical.ts';
import type { Recorded, Recording } from '../../machines/model/spec/recordings.ts';
import type { RecordedCall } from '../../support/cri-proxy.ts';
import type { Published } from './golden-node.ts';
import { isServiceVariable, type Names } from './names.ts';
import type { Played } from './play.ts';

/** One call with the names of the recordings. */
export interface ComparedCall {
  readonly method: string;
  readonly request: Recorded;
  readonly response?: Recorded;
}

/** By subject (`p/c:0 CreateContainer`), its content. */
export type Facts = Readonly<Record<string, unknown>>;

interface Instance {
  readonly pod: string;
  readonly container: string;
  /** The number of the instance of one container in one pod, from 0. */
  readonly nth: number;
  readonly isRegular: boolean;
}

/** The requests of a run to the runtime. */
function requestFacts(recording: Recording, calls: readonly ComparedCall[]): Facts {
  const facts: Record<string, unknown> = {};
  const instances = new Map<string, Instance>();
  const sandboxes = new Map<string, string>();
  const counts = new Map<string, number>();
  const count = (name: string): number => counts.set(name, (counts.get(name) ?? -1) + 1).get(name)!;
  const add = (subject: string, what: unknown): void => {
    const before = (facts[subject] ?? []) as unknown[];
    const isKnown = before.some((each) => JSON.stringify(each) === JSON.stringify(what));
    facts[subject] = isKnown ? before : [...before, what];
  };
  for (const { method, request, response } of calls) {
    const config = request.config ?? {};
    const instance = instances.get(request.container_id);
    const subject = instance && `${instance.pod}/${instance.container}:${instance.nth}`;
    if (method === 'RunPodSandbox') {
      const name = `${config.metadata.name} sandbox:${count(config.metadata.name)}`;
      sandboxes.set(response?.pod_sandbox_id ?? '', name);
      facts[`${name} RunPodSandbox`] = compared(request);
    } else if (method === 'CreateContainer') {
      const pod = request.sandbox_config.metadata.name;
      const container = config.metadata.name;
      const nth = count(`${pod}/${container}`);
      instances.set(response?.container_id ?? '', {
        pod,
        container,
        nth,
        isRegular: isRegular(recording, pod, container),
      });
      facts[`${pod}/${container}:${nth} CreateContainer`] = compared(request);
    } else if (method === 'PullImage') add(`${request.sandbox_config.metadata.name} PullImage`, compared(request));
    else if (method === 'ExecSync') {
      add(`${subject} ExecSync`, { cmd: request.cmd, timeout: Number(request.timeout ?? 0) });
    } else if (method === 'StopContainer') add(`${subject} StopContainer`, { timeout: Number(request.timeout ?? 0) });
    else if (method === 'StartContainer') facts[`${subject} StartContainer`] = true;
    else if (method === 'StopPodSandbox') facts[`${sandboxes.get(request.pod_sandbox_id)} StopPodSandbox`] = true;
    else if (method === 'RemovePodSandbox') facts[`${sandboxes.get(request.pod_sandbox_id)} RemovePodSandbox`] = true;
  }
  const ordered = (method: string) =>
    ranked(
      calls.filter((call) => call.method === method),
      instances,
    );
  return {
    ...facts,
    'order of CreateContainer': ordered('CreateContainer'),
    'order of StopContainer': ordered('StopContainer'),
  };
}

/** The instances in order; consecutive instances of regular containers have no order among themselves. */
function ranked(
  calls: readonly ComparedCall[],
  instances: ReadonlyMap<string, Instance>,
): Readonly<Record<string, readonly string[]>> {
  const groups: Record<string, string[][]> = {};
  let wasRegular: Record<string, boolean> = {};
  for (const { method, request, response } of calls) {
    const instance = instances.get(method === 'CreateContainer' ? response?.container_id : request.container_id);
    if (instance === undefined) continue;
    const { pod, container, nth, isRegular } = instance;
    const list = (groups[pod] ??= []);
    if (isRegular && wasRegular[pod] === true) list.at(-1)!.push(`${container}:${nth}`);
    else list.push([`${container}:${nth}`]);
    wasRegular = { ...wasRegular, [pod]: isRegular };
  }
  const flat = (list: string[][]) => [...new Set(list.flatMap((group) => group.toSorted()))];
  return Object.fromEntries(Object.entries(groups).map(([pod, list]) => [pod, flat(list)]));
}

const isRegular = ({ objects }: Recording, pod: string, container: string): boolean =>
  objects.some(
    ({ kind, metadata, spec }) =>
      kind === 'Pod' && metadata.name === pod && spec.containers.some(({ name }: Recorded) => name === container),
  );

/**
 * A request without service variables, which only a node with an API server has, and without the name of the source.
 */
function compared(request: Recorded): unknown {
  const { envs = [], ...config } = request.config ?? {};
  const own = envs.filter(({ key }: Recorded) => !isServiceVariable(key));
  return withoutSource(
    canonical(request.config === undefined ? request : { ...request, config: { ...config, envs: own } }),
  );
}

function withoutSource(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutSource);
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(([key]) => !/^kubernetes\.io\/config\.(source|seen|hash)$/.test(key));
  return Object.fromEntries(kept.map(([key, each]) => [key, withoutSource(each)]));
}

export const recordedRequests = (recording: Recording): Facts => requestFacts(recording, recording.calls);

export function liveRequests({ recording }: Played, calls: readonly RecordedCall[], names: Names): Facts {
  const own = calls.filter((call) => names.isOfCase(call));
  return requestFacts(
    recording,
    own.map((call) => names.inWordsOfTheCase(call)),
  );
}

/** By pod, the last status before the request for its removal, and the very last one. */
export function recordedStatuses({ steps, statuses }: Recording): Facts {
  const facts: Record<string, unknown> = {};
  const removedAt = new Map<string, number>(steps.filter((step) => step.delete).map((step) => [step.delete, step.at]));
  for (const { pod, at, status, deletionTimestamp } of statuses) {
    if (status.startTime === undefined) continue;
    const isBefore = at <= (removedAt.get(pod) ?? Number.POSITIVE_INFINITY) && deletionTimestamp === undefined;
    if (isBefore) facts[`${pod} status before its removal`] = comparedStatus(status);
    facts[`${pod} status at last`] = comparedStatus(status);
  }
  return facts;
}

export function liveStatuses({ removedAtMs }: Played, published: readonly Published[], names: Names): Facts {
  const facts: Record<string, unknown> = {};
  for (const { name, atMs, status } of published) {
    const pod = names.podOf(name);
    const atLast = comparedStatus(names.translated(status));
    if (atMs < (removedAtMs.get(pod) ?? Number.POSITIVE_INFINITY)) facts[`${pod} status before its removal`] = atLast;
    facts[`${pod} status at last`] = atLast;
  }
  return facts;
}

/** A static pod has no generation. */
function comparedStatus(status: Recorded): unknown {
  const { observedGeneration: _, conditions, ...rest } = status;
  return normal({ ...rest, conditions: conditions?.map(({ observedGeneration: __, ...each }: Recorded) => each) });
}

export interface Difference {
  readonly path: string;
  readonly recorded: unknown;
  readonly live: unknown;
}

/** The paths at which two values differ. */
export function differences(recorded: unknown, live: unknown, path = ''): Difference[] {
  if (JSON.stringify(recorded) === JSON.stringify(live)) return [];
  if (!isObject(recorded) || !isObject(live)) return [{ path, recorded, live }];
  const keys = [...new Set([...Object.keys(recorded), ...Object.keys(live)])];
  return keys.flatMap((key) => differences(recorded[key], live[key], path === '' ? key : `${path}.${key}`));
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null;
