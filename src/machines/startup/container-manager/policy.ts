/** The container manager's input, and the pure rules by which it accepts a machine and names its cgroups. */

import { gatesOf } from '../../configuration/fields/feature-gates.ts';
import {
  alphaCpuOptions,
  memoryManagerError,
  parseQosReserved,
} from '../../configuration/validation/resource-managers.ts';
import { numaNodesOf } from '../../model/allocation/memory-state.ts';
import { type NodeFacts, type NodeResources, nodeResources } from '../../model/cgroups/allocatable.ts';
import {
  configuredPath,
  groupName,
  type NodeGroupSettings,
  nodeAllocatableGroup,
  nodeAllocatablePath,
  qosGroupsAtStart,
  reservedGroups,
  rootPath,
  stepsOf,
} from '../../model/cgroups/node-groups.ts';
import type { DesiredCgroup } from '../../model/operations/cgroup.ts';
import type { MachineInfo } from '../../model/operations/host.ts';
import { type Decider, hasBehavior } from '../../model/settings/behaviors.ts';
import type { ResourceManagers } from '../../model/settings/node-settings.ts';
import { formatCpuSet } from '../../model/values/cpu-set.ts';
import type { Parsed } from '../../model/values/go-text.ts';
import { hugePageName, resourceManagers } from '../context/derive-settings.ts';
import type { EstablishedContext } from '../context/types.ts';

export interface ContainerManagerInput extends NodeGroupSettings, Decider {
  readonly nodeName: string;
  readonly machineInfo: MachineInfo;
  /** The runtime puts its containers into cgroups. The embedded one does not, so none are created for it. */
  readonly usesCgroups: boolean;
  readonly cgroupsPerQOS: boolean;
  readonly kubeletCgroups: string;
  readonly runtimeCgroups: string;
  readonly systemCgroups: string;
  readonly failCgroupV1: boolean;
  readonly failSwapOn: boolean;
  readonly protectKernelDefaults: boolean;
  /** Kernel settings belong to the host and are not changed (gate KubeletInUserNamespace). */
  readonly isInUserNamespace?: boolean;
  readonly cpuManagerPolicy: string;
  readonly cpuManagerPolicyOptions: Readonly<Record<string, string>>;
  /** With more NUMA nodes no resource is aligned. */
  readonly maxNumaNodes: number;
  readonly memoryManagerPolicy: string;
  /** Why the memory manager cannot work with the reserved memory on this machine; empty if it can. */
  readonly memoryManagerError: string;
  /** The managers of exclusive resources. */
  readonly managers: ResourceManagers;
  /** The root directory of the kubelet, with its checkpoints. */
  readonly rootDir: string;
  readonly oomScoreAdj: number;
  /** A path on the file system of the pods; empty if local storage is not counted. */
  readonly storagePath: string;
  readonly reservations: Parameters<typeof nodeResources>[0];
}

/** A name without a slash is below the root, as upstream. */
const absolute = (path: string): string => (path === '' || path.startsWith('/') ? path : `/${path}`);

/** The context must have the runtime and the machine. */
export function containerManagerInput(context: EstablishedContext): ContainerManagerInput {
  const { config, flags, machineInfo } = context;
  return {
    behavior: context.input.behavior,
    nodeName: context.node.nodeName,
    machineInfo,
    ...cgroupSettings(context),
    ...managerSettings(context),
    failCgroupV1: config.failCgroupV1,
    failSwapOn: config.failSwapOn,
    protectKernelDefaults: config.protectKernelDefaults,
    ...(gatesOf(config)('KubeletInUserNamespace') && !config.protectKernelDefaults ? { isInUserNamespace: true } : {}),
    rootDir: flags.rootDir,
    oomScoreAdj: config.oomScoreAdj,
    storagePath: config.localStorageCapacityIsolation ? flags.rootDir : '',
    hugePageSizes: machineInfo.hugePageKib.map(hugePageName),
    reservations: {
      kubeReserved: config.kubeReserved,
      systemReserved: config.systemReserved,
      evictionHard: config.evictionHard,
      maxPods: config.maxPods,
      podsPerCore: config.podsPerCore,
      reservedSystemCPUs: config.reservedSystemCPUs,
      ignoreEviction: flags.experimentalAllocatableIgnoreEviction,
    },
  };
}

/** Names of cgroups, and the limits enforced in them. */
function cgroupSettings({ config, flags, runtime }: EstablishedContext) {
  const isOn = gatesOf(config);
  const parsed = parseQosReserved(config.qosReserved);
  const qosReserved = parsed.error === undefined ? parsed.value : {};
  return {
    usesCgroups: !runtime.embedded,
    cgroupsPerQOS: config.cgroupsPerQOS,
    cgroupRoot: absolute(config.cgroupRoot) || (config.cgroupsPerQOS ? '/' : ''),
    cgroupDriver: runtime.cgroupDriver ?? (config.cgroupDriver as 'cgroupfs' | 'systemd'),
    kubeletCgroups: config.kubeletCgroups,
    runtimeCgroups: flags.runtimeCgroups,
    systemCgroups: config.systemCgroups,
    enforceNodeAllocatable: config.enforceNodeAllocatable,
    kubeReservedCgroup: config.kubeReservedCgroup,
    systemReservedCgroup: config.systemReservedCgroup,
    memoryReservedPercent: isOn('QOSReserved') ? (qosReserved['memory'] ?? null) : null,
    memoryQoS: isOn('MemoryQoS') && config.memoryReservationPolicy === 'TieredReservation',
    ...(isOn('MemoryQoS') ? { hasMemoryQoS: true } : {}),
  };
}

/** The managers of CPUs and memory. */
const managerSettings = ({ config, machineInfo, input }: EstablishedContext) => ({
  cpuManagerPolicy: config.cpuManagerPolicy,
  cpuManagerPolicyOptions: config.cpuManagerPolicyOptions,
  maxNumaNodes: Number(config.topologyManagerPolicyOptions['max-allowable-numa-nodes'] ?? MAX_NUMA_NODES),
  memoryManagerPolicy: config.memoryManagerPolicy,
  memoryManagerError: memoryManagerError(config, memoryMachine(machineInfo))?.error ?? '',
  managers: resourceManagers(input.behavior, config, machineInfo),
  ...(config.cpuManagerPolicy === 'none' && machineInfo.topology.cpus.length > 0
    ? { cpus: formatCpuSet(machineInfo.topology.cpus.map(({ id }) => id).toSorted((left, right) => left - right)) }
    : {}),
});

/** Upstream's error why a machine cannot be a node. A policy that cannot be enforced prevents the start. */
export function refusalOf(input: ContainerManagerInput, cgroupVersion: 1 | 2): string {
  if (cgroupVersion === 1 && input.failCgroupV1) {
    return (
      'kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and will be ' +
      'removed in a future release'
    );
  }
  if (input.failSwapOn && BigInt(input.machineInfo.swapBytes) > 0n) {
    return 'running with swap on is not supported, please disable swap or set --fail-swap-on flag to false';
  }
  return cpuRefusal(input) || alignmentRefusal(input) || memoryRefusal(input);
}

function cpuRefusal(input: ContainerManagerInput): string {
  const { cpuManagerPolicy, cpuManagerPolicyOptions, usesCgroups } = input;
  if (cpuManagerPolicy === 'none') return '';
  const policy = `the CPU manager policy ${JSON.stringify(cpuManagerPolicy)}`;
  if (!usesCgroups) return `${policy} needs a runtime that keeps containers in cgroups; the embedded one does not`;
  const [option] = hasBehavior(input, 'alphaCpuOptions') ? [] : alphaCpuOptions(cpuManagerPolicyOptions);
  if (option === undefined) return '';
  return `the option ${JSON.stringify(option)} of ${policy} is not supported by this kubelet; leave it out`;
}

/** The number of sets of NUMA nodes to compare doubles with each node. */
function alignmentRefusal({ managers, maxNumaNodes }: ContainerManagerInput): string {
  const nodes = managers.topology?.nodes.length ?? 0;
  return nodes > maxNumaNodes ? `unsupported on machines with more than ${maxNumaNodes} NUMA Nodes` : '';
}

/** Upstream's default of `max-allowable-numa-nodes`. */
const MAX_NUMA_NODES = 8;

function memoryRefusal({ memoryManagerPolicy, memoryManagerError: error, usesCgroups }: ContainerManagerInput): string {
  if (memoryManagerPolicy === 'None' || error !== '') return error;
  const policy = `the memory manager policy ${JSON.stringify(memoryManagerPolicy)}`;
  return usesCgroups ? '' : `${policy} needs a runtime that keeps containers in cgroups; the embedded one does not`;
}

const memoryMachine = (machine: MachineInfo) => ({
  memoryBytes: machine.memoryBytes,
  nodes: numaNodesOf(machine).map(({ id }) => id),
});

/** The cgroup roots that upstream logs: the root of node allocatable, and the three optional cgroups. */
export const cgroupRoots = (input: ContainerManagerInput) => ({
  nodeAllocatable: input.cgroupsPerQOS ? nodeAllocatablePath(input) : input.cgroupRoot,
  kubelet: input.kubeletCgroups,
  runtime: input.runtimeCgroups,
  system: input.systemCgroups,
});

export const resourcesOf = (input: ContainerManagerInput, storageBytes: string | null): Parsed<NodeResources> =>
  nodeResources(input.reservations, { machine: input.machineInfo, storageBytes } satisfies NodeFacts, input);

/** A cgroup as printed by upstream: `["kubepods" "burstable"]`. */
const printedGroup = (path: string): string => printed(stepsOf(path));

const printed = (name: readonly string[]): string => `[${name.map((level) => JSON.stringify(level)).join(' ')}]`;

/** The configured root as the kernel shows it. */
export const rootOf = (input: ContainerManagerInput): string =>
  hasBehavior(input, 'groupsAsKubelet') ? rootPath(input) : input.cgroupRoot;

export function missingRoot(input: ContainerManagerInput, version: 1 | 2, missing: readonly string[]): string {
  if (missing.length === 0) return '';
  const name = printedGroup(input.cgroupRoot);
  const why =
    version === 2 && hasBehavior(input, 'groupsAsKubelet')
      ? unreadable(name, rootOf(input))
      : `cgroup ${name} ${MISSING_PATHS}: ${missing.join(', ')}`;
  return `invalid configuration: ${why}`;
}

const MISSING_PATHS = 'has some missing paths';

/** Upstream's words for a cgroup of version 2 that is missing. */
const unreadable = (name: string, path: string): string =>
  `could not read controllers for cgroup ${name}: open /sys/fs/cgroup${path}/cgroup.controllers: ` +
  'no such file or directory';

/** Why the group of daemons at `path` cannot be limited: it is missing, as `message` says. */
export function missingGroup(input: ContainerManagerInput, version: 1 | 2, path: string, message: string): string {
  if (!hasBehavior(input, 'groupsAsKubelet')) return `${printedGroup(path)} cgroup does not exist`;
  const name = nameOf(input, path);
  const isGone = message.includes(MISSING_PATHS);
  return version === 2 && isGone ? unreadable(name, path) : message.replace(JSON.stringify(path), () => name);
}

/** The name of a cgroup in events, without the notation of its driver. */
export const nameOf = (input: ContainerManagerInput, path: string): string =>
  hasBehavior(input, 'groupsAsKubelet') ? printed(groupName(path, input.cgroupDriver)) : printedGroup(path);

/** Kernel settings that a node needs, with upstream's values. */
export const KERNEL_SETTINGS = {
  'vm/overcommit_memory': 1,
  'vm/panic_on_oom': 0,
  'kernel/panic': 10,
  'kernel/panic_on_oops': 1,
  'kernel/keys/root_maxkeys': 1_000_000,
  'kernel/keys/root_maxbytes': 25_000_000,
} as const;

/** A cgroup that has to be set up before a pod may run. */
export interface SetUpStep {
  readonly desired: DesiredCgroup;
  /** The cgroup is created if missing; otherwise it must exist. */
  readonly isMade: boolean;
  /** The start of the error message; used in an event as well if `event` is not empty. */
  readonly failure: string;
  readonly event: string;
}

export function setUpSteps(input: ContainerManagerInput, resources: NodeResources): readonly SetUpStep[] {
  const levels = qosGroupsAtStart(input).map((desired, at) => ({
    desired,
    isMade: true,
    failure: `failed to initialize top level QOS containers: failed to create top level ${QOS_CLASSES[at]} QOS cgroup : `,
    event: '',
  }));
  const reserved = reservedGroups(input, resources).map(({ desired, failure, success }) => ({
    desired,
    isMade: false,
    failure: `${failure}: `,
    event: success,
  }));
  const pods = { desired: nodeAllocatableGroup(input, resources), isMade: true, failure: '', event: '' };
  return input.cgroupsPerQOS ? [pods, ...levels, ...reserved] : reserved;
}

const QOS_CLASSES = ['Burstable', 'BestEffort'];

/** The cgroup of one pod. */
export interface PodGroup {
  readonly uid: string;
  readonly path: string;
}

export const orphansOf = (uids: readonly string[], groups: readonly PodGroup[]): readonly string[] =>
  groups.filter(({ uid }) => !uids.includes(uid)).map(({ path }) => path);

/** Cgroups of daemons are named as paths, whatever the driver. */
export const daemonGroup = (name: string): string => configuredPath(name, 'cgroupfs');
