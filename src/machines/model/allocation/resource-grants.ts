/** The exclusive resources that `allocation` has granted to containers. Pure. */
import type { QOSClass, ResourceRequirements } from '../api/pod.ts';
import type { QOSDemand } from '../cgroups/node-groups.ts';
import type { DeviceResponse } from '../operations/devices.ts';
import type { Allocation, ExclusiveCpus, Grant, Holding, MemoryBlock, MemoryBlocks } from '../operations/grants.ts';
import { hasBehavior } from '../settings/behaviors.ts';
import type { NodeSettings, ResourceManagers } from '../settings/node-settings.ts';
import { nanoOf } from '../values/quantity.ts';
import { isSame } from '../values/same.ts';
import { mapValues, valueIn } from '../values/tables.ts';
import { CPU_STATE_FILE, MEMORY_STATE_FILE, notRestored } from './checkpoint.ts';
import { type PodCpus, sharedCpus } from './cpu-manager.ts';
import { cpuEntries, cpuStateProblem, cpuStateText } from './cpu-state-file.ts';
import { deviceSetup, idsOf } from './device-state.ts';
import {
  memoryEntries,
  memoryMismatch,
  memoryState,
  memoryStateProblem,
  memoryStateText,
} from './memory-state-file.ts';
import type { ResourcesHandedOver } from './messages.ts';
import { infeasible, type ResizeRefusal } from './predicates.ts';
import { type AdmissionRequest, WHOLE_POD } from './request.ts';
import { type Assignment, assign, type DeviceKnowledge } from './resource-assignment.ts';

type Settings = Pick<NodeSettings, 'admission'>;
type Grants = Readonly<Record<string, Grant>>;
/** By uid of a pod. */
type Holdings = Readonly<Record<string, Holding>>;

/** The shared CPUs; empty on a node without exclusive CPUs. */
const sharedBy = ({ admission }: Settings, grants: Holdings): string =>
  admission?.cpuManager === undefined ? '' : sharedCpus(admission.cpuManager, Object.values(grants));

/** The sum of the requests of Guaranteed and Burstable pods. */
export function demandOf(grants: Grants): QOSDemand {
  const sum = (qos: QOSClass, name: string): string =>
    String(
      Object.values(grants)
        .filter(({ demand }) => demand.qos === qos)
        .reduce((total, { demand }) => total + BigInt(demand.requests[name] ?? '0'), 0n),
    );
  return {
    burstableCpuMilli: sum('Burstable', 'cpu'),
    burstableMemoryBytes: sum('Burstable', 'memory'),
    guaranteedMemoryBytes: sum('Guaranteed', 'memory'),
  };
}

/** Everything that single containers hold. */
export function resourcesHeld(settings: Settings, grants: Holdings): ResourcesHeld {
  const all = Object.entries(grants);
  return {
    type: 'resources.held',
    cpus: Object.fromEntries(all.flatMap(([uid, { cpus }]) => (cpus === undefined ? [] : [[uid, cpus]]))),
    shared: sharedBy(settings, grants),
    memory: Object.fromEntries(all.flatMap(([uid, { memory }]) => (memory === undefined ? [] : [[uid, memory]]))),
  };
}

/** The resources that other pods hold, and the devices of the node. */
interface Given extends DeviceKnowledge {
  readonly grants: Holdings;
  /** Resources assigned to pods whose plugins have not answered yet. */
  readonly promised: readonly Holding[];
}

/** The resources of an admitted pod; it keeps those that it already has. */
export function assignedTo(
  { admission }: Settings,
  { uid, containers = [] }: AdmissionRequest,
  { grants, promised, ...knowledge }: Given,
): Assignment {
  const before = grants[uid];
  if (before !== undefined) return holdingIn(before);
  const others = [...Object.values(grants), ...promised];
  return admission === undefined ? {} : assign(admission, containers, others, knowledge);
}

const holdingIn = ({ cpus, memory, devices }: Holding): Holding => ({
  ...(cpus === undefined ? {} : { cpus }),
  ...(memory === undefined ? {} : { memory }),
  ...(devices === undefined ? {} : { devices }),
});

/** The devices of containers, by pod uid. */
export const devicesHeldBy = (grants: Holdings) => ({
  type: 'devices.held' as const,
  held: Object.fromEntries(
    Object.entries(grants).flatMap(([uid, { devices }]) => (devices === undefined ? [] : [[uid, devices] as const])),
  ),
});

/** The pod's part of the grant. */
export interface PodShares {
  /** Absent: the node gives no exclusive CPUs. */
  readonly cpus?: PodCpus;
  /** By container, the NUMA nodes of its memory: `0,1`. Absent: no container has assigned ones. */
  readonly memoryNodes?: Readonly<Record<string, string>>;
  /** By container, its devices. Absent: no container has any. */
  readonly devices?: Readonly<Record<string, ContainerDevices>>;
}

export interface ContainerDevices {
  readonly ids: Readonly<Record<string, readonly string[]>>;
  readonly setup: DeviceResponse;
}

export function podShares(settings: Settings, grants: Holdings, uid: string): PodShares {
  const { cpus = {}, memory, devices } = grants[uid] ?? {};
  return {
    ...(settings.admission?.cpuManager === undefined
      ? {}
      : { cpus: { exclusive: cpus, shared: sharedBy(settings, grants) } }),
    ...(memory === undefined ? {} : { memoryNodes: mapValues(memory, nodesOf) }),
    ...(devices === undefined
      ? {}
      : {
          devices: mapValues(devices, (resources) => ({
            ids: mapValues(resources, idsOf),
            setup: deviceSetup(resources),
          })),
        }),
  };
}

const nodesOf = (blocks: readonly MemoryBlock[]): string =>
  [...new Set(blocks.flatMap(({ numaAffinity }) => numaAffinity))].toSorted((a, b) => a - b).join(',');

/** A container's exclusive resources cannot be resized, nor those of the whole pod if the gate for that is off. */
export function pinnedResize(
  settings: Settings & Pick<NodeSettings, 'behavior' | 'undeclared'>,
  { request, allocation: wanted }: { readonly request: AdmissionRequest; readonly allocation: Allocation },
  given: Allocation,
): ResizeRefusal | null {
  if (request.demand.qos === 'Burstable' && changesSwapLimit(request, given, wanted)) {
    return infeasible('In-place resize of containers with swap is not supported.');
  }
  const gate = 'InPlacePodLevelResourcesVerticalScaling';
  const isUndeclared = hasBehavior(settings, 'podDetailsAsKubelet') && settings.undeclared?.includes(gate) === true;
  if (isUndeclared && !isSame(given[WHOLE_POD], wanted[WHOLE_POD])) return infeasible(`${gate} is disabled`);
  const { admission } = settings;
  if (request.demand.qos !== 'Guaranteed') return null;
  const isOther = (resource: string): boolean =>
    Object.keys(given).some((name) => requestOf(given, name, resource) !== requestOf(wanted, name, resource));
  if (admission?.cpuManager !== undefined && isOther('cpu')) return pinned('CPU Manager policy "static"');
  return admission?.memoryManager !== undefined && isOther('memory') ? pinned('Memory Manager policy "Static"') : null;
}

const pinned = (policy: string): ResizeRefusal =>
  infeasible(`Resize is infeasible for Guaranteed Pods alongside ${policy}`);

const requestOf = (allocation: Allocation, name: string, resource: string): string =>
  valueIn(allocation, name)?.requests?.[resource] ?? '';

/** True if the resize changes the swap limit of some container. */
function changesSwapLimit({ swapping = [] }: AdmissionRequest, given: Allocation, wanted: Allocation): boolean {
  return swapping.some((name) => {
    const [before, after] = [valueIn(given, name), valueIn(wanted, name)].map((each) =>
      nanoOf(each?.requests?.['memory'] ?? '0'),
    );
    return before !== after && (maySwap(valueIn(given, name)) || maySwap(valueIn(wanted, name)));
  });
}

const maySwap = ({ requests, limits }: ResourceRequirements = {}): boolean =>
  nanoOf(requests?.['memory'] ?? '0') !== nanoOf(limits?.['memory'] ?? '0');

/** By uid of a pod. */
export interface ResourcesHeld {
  readonly type: 'resources.held';
  readonly cpus: Readonly<Record<string, ExclusiveCpus>>;
  /** The shared CPUs; empty on a node without exclusive CPUs. */
  readonly shared: string;
  readonly memory: Readonly<Record<string, MemoryBlocks>>;
}

/** The part of the checkpoint files of exclusive resources that depends on settings. Pure. */
export interface StateFileSettings {
  readonly rootDir: string;
  readonly cpuManagerPolicy: string;
  readonly memoryManagerPolicy: string;
  readonly managers: ResourceManagers;
}

export interface StateFile {
  readonly path: string;
  readonly content: string;
}

export const stateFilePaths = ({ rootDir }: Pick<StateFileSettings, 'rootDir'>): readonly string[] =>
  [CPU_STATE_FILE, MEMORY_STATE_FILE].map((name) => `${rootDir}/${name}`);

/** Upstream's error why the files of an earlier start keep the node from starting; empty if they do not. */
export function stateFilesProblem(settings: StateFileSettings, contents: readonly (string | null)[]): string {
  const { cpuManagerPolicy, memoryManagerPolicy, managers } = settings;
  const [cpuFile = '', memoryFile = ''] = stateFilePaths(settings);
  const [cpu, memory] = contents;
  const problem = cpu == null ? null : cpuStateProblem(cpu, cpuManagerPolicy, managers.cpuManager);
  if (problem !== null && problem.error !== '') {
    const error = problem.isOfMachine ? problem.error : notRestored('CPU', cpuFile, problem.error);
    return `start cpu manager error: ${error}`;
  }
  if (memory == null) return '';
  const unread = memoryStateProblem(memory, memoryManagerPolicy);
  if (unread !== '') return `start memory manager error: ${notRestored('memory', memoryFile, unread)}`;
  const mismatch = managers.memoryManager === undefined ? '' : memoryMismatch(memory, managers.memoryManager);
  return mismatch === '' ? '' : `start memory manager error: ${mismatch}`;
}

/** Resources that containers hold according to the files of an earlier start; `null` for none. */
export function handedOver(
  { cpuManagerPolicy, memoryManagerPolicy, managers }: StateFileSettings,
  [cpu, memory]: readonly (string | null | undefined)[],
): ResourcesHandedOver | null {
  const cpus = cpu == null || managers.cpuManager === undefined ? {} : cpuEntries(cpu, cpuManagerPolicy);
  const blocks = memory == null || memoryManagerPolicy === 'None' ? {} : memoryEntries(memory);
  const uids = [...new Set([...Object.keys(cpus), ...Object.keys(blocks)])];
  const holdings = uids.map((uid) => [
    uid,
    {
      ...(cpus[uid] === undefined ? {} : { cpus: cpus[uid] }),
      ...(blocks[uid] === undefined ? {} : { memory: blocks[uid] }),
    },
  ]);
  return uids.length === 0 ? null : { type: 'resources.handedOver', holdings: Object.fromEntries(holdings) };
}

/** The files with their wanted content. */
export function stateFiles(settings: StateFileSettings, { cpus, shared, memory }: ResourcesHeld): readonly StateFile[] {
  const { cpuManagerPolicy, memoryManagerPolicy, managers } = settings;
  const contents = [
    cpuStateText({ policy: cpuManagerPolicy, shared, entries: cpus }),
    memoryStateText(memoryState(memoryManagerPolicy, managers.memoryManager, memory)),
  ];
  return stateFilePaths(settings).map((path, at) => ({ path, content: contents[at] ?? '' }));
}
