/**
 * Assigns exclusive resources to the containers of one pod, in start order: devices, CPUs, then memory. Pure.
 * Invariant: a pod gets all of them or none.
 */
import type { DeviceQuestion } from '../operations/devices.ts';
import type { Holding } from '../operations/grants.ts';
import type { ResourceManagers } from '../settings/node-settings.ts';
import { allocateCpus, type CpuProgress, cpuHints } from './cpu-manager.ts';
import type { DeviceAnswers, DeviceInventory, DeviceProgress } from './device-manager.ts';
import { allocateDevices, deviceHints } from './device-manager.ts';
import type { Devices } from './device-state.ts';
import { allocateMemory, type MemoryProgress, memoryHints } from './memory-manager.ts';
import type { ExclusiveRequest, Rejection } from './request.ts';
import { align, type NumaHint, type ProviderHints } from './topology-manager.ts';

/** Devices and answers of plugins; absent without plugins. */
export interface DeviceKnowledge {
  readonly devices: Devices;
  readonly answers: DeviceAnswers;
  readonly hintsOnAllNodes?: boolean;
}

type AssignmentRequest = { readonly question: DeviceQuestion };

/** The assigned resources, a rejection, or a request that a plugin has to answer first. */
export type Assignment = Holding | Refused | AssignmentRequest;

interface Progress {
  readonly devices: DeviceProgress;
  readonly cpu: CpuProgress;
  readonly memory: MemoryProgress;
}

const NOTHING: Progress = {
  devices: { given: {}, reusable: {} },
  cpu: { cpus: {}, reusable: [] },
  memory: { blocks: {}, inits: [] },
};

/** No provider has a preference. */
const ANYWHERE: NumaHint = { nodes: null, preferred: false };

type Refused = { readonly rejection: Rejection };

/** The node while one pod is evaluated. */
interface Node extends ResourceManagers {
  readonly grants: readonly Holding[];
  readonly inventory: DeviceInventory;
}

const NO_DEVICES: DeviceKnowledge = { devices: {}, answers: {} };

export function assign(
  managers: ResourceManagers,
  requests: readonly ExclusiveRequest[],
  grants: readonly Holding[],
  knowledge: DeviceKnowledge = NO_DEVICES,
): Assignment {
  const others = grants.flatMap((grant) => (grant.devices === undefined ? [] : [grant.devices]));
  const node = { ...managers, grants, inventory: { ...knowledge, others, nodes: managers.topology?.nodes ?? [] } };
  const ofPod = managers.topology?.scope === 'pod' ? hintFor(node, NOTHING, podRequest(requests)) : null;
  let progress = NOTHING;
  for (const request of requests) {
    const hint = ofPod ?? hintFor(node, progress, request);
    if ('rejection' in hint) return hint;
    const step = assignToContainer(node, progress, request, hint);
    if (!('cpu' in step)) return step;
    progress = step;
  }
  return holdingOf(progress);
}

const holdingOf = ({ devices: { given }, cpu: { cpus }, memory: { blocks } }: Progress): Holding => ({
  ...(Object.keys(cpus).length === 0 ? {} : { cpus }),
  ...(Object.keys(blocks).length === 0 ? {} : { memory: blocks }),
  ...(Object.keys(given).length === 0 ? {} : { devices: given }),
});

type Wanted = Pick<ExclusiveRequest, 'cpus' | 'memory' | 'devices'>;

function hintFor(
  { topology, cpuManager, memoryManager, grants, inventory }: Node,
  { devices, cpu, memory }: Progress,
  wanted: Wanted,
): NumaHint | Refused {
  if (topology === undefined) return ANYWHERE;
  const cpus: ProviderHints =
    cpuManager === undefined || wanted.cpus === undefined
      ? {}
      : { cpu: cpuHints({ settings: cpuManager, grants, progress: cpu }, wanted.cpus) };
  return align(topology, [
    wanted.devices === undefined ? {} : deviceHints(inventory, devices, wanted.devices),
    cpus,
    memoryManager === undefined || wanted.memory === undefined
      ? {}
      : hintsOfMemory(memoryHints({ settings: memoryManager, grants, progress: memory }, wanted.memory), wanted.memory),
  ]);
}

/** Memory that no node has gets no hint: the assignment then rejects it. */
const hintsOfMemory = (hints: readonly NumaHint[], amounts: Readonly<Record<string, string>>): ProviderHints =>
  hints.length === 0 ? {} : Object.fromEntries(Object.keys(amounts).map((type) => [type, hints]));

/**
 * The maximum that a pod uses at once: its containers and sidecars together, or an init container with the sidecars
 * before it.
 */
function podRequest(requests: readonly ExclusiveRequest[]): Wanted {
  const most = (of: (request: ExclusiveRequest) => bigint): bigint => {
    let [running, peak] = [0n, 0n];
    for (const request of requests) {
      const sum = running + of(request);
      if (!request.isInit) running = sum;
      if (sum > peak) peak = sum;
    }
    return peak;
  };
  const types = [...new Set(requests.flatMap(({ memory = {} }) => Object.keys(memory)))].toSorted();
  const cpus = most((request) => BigInt(request.cpus ?? 0));
  const names = [...new Set(requests.flatMap(({ devices = {} }) => Object.keys(devices)))].toSorted();
  const devices = names.map((name) => [name, Number(most((request) => BigInt(request.devices?.[name] ?? 0)))]);
  const memory = types.map((type) => [type, String(most((request) => BigInt(request.memory?.[type] ?? '0')))]);
  return {
    ...(cpus === 0n ? {} : { cpus: Number(cpus) }),
    ...(types.length === 0 ? {} : { memory: Object.fromEntries(memory) }),
    ...(names.length === 0 ? {} : { devices: Object.fromEntries(devices) }),
  };
}

function assignToContainer(
  node: Node,
  progress: Progress,
  request: ExclusiveRequest,
  hint: NumaHint,
): Progress | Refused | AssignmentRequest {
  const { cpuManager, memoryManager, grants, inventory } = node;
  const devices =
    request.devices === undefined
      ? progress.devices
      : allocateDevices(inventory, progress.devices, { ...request, devices: request.devices }, hint);
  if (!('given' in devices)) return devices;
  const cpu =
    cpuManager === undefined || request.cpus === undefined
      ? progress.cpu
      : allocateCpus(
          { settings: cpuManager, grants, progress: progress.cpu },
          { ...request, cpus: request.cpus },
          hint.nodes,
        );
  if ('rejection' in cpu) return cpu;
  const memory =
    memoryManager === undefined || request.memory === undefined
      ? progress.memory
      : allocateMemory(
          { settings: memoryManager, grants, progress: progress.memory },
          { ...request, memory: request.memory },
          hint,
        );
  return 'rejection' in memory ? memory : { devices, cpu, memory };
}
