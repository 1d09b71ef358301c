/**
 * The node's own groups and what each is held to: all pods, the two QoS levels, and the reserved groups of daemons.
 *
 * Pure. Upstream: pkg/kubelet/cm/node_container_manager_linux.go and qos_container_manager_linux.go.
 */

import type { StringMap } from '../configuration/field-types.ts';
import type { CgroupDriver, CgroupResources, DesiredCgroup } from '../operations/cgroup.ts';
import { cpuShares } from '../spec/resources.ts';
import { milliUnits, nanoOf, wholeUnits } from '../values/quantity.ts';
import type { NodeResources } from './allocatable.ts';
import { configuredPath, nodeAllocatablePath, qosPath } from './names.ts';

export interface NodeGroupSettings {
  readonly cgroupDriver: CgroupDriver;
  readonly cgroupRoot: string;
  /** Page sizes of the machine as the kernel's files have them: `2MB`. */
  readonly hugePageSizes: readonly string[];
  readonly enforceNodeAllocatable: readonly string[];
  readonly kubeReservedCgroup: string;
  readonly systemReservedCgroup: string;
  /** Per cent of what guaranteed and burstable pods asked for that lower levels may not use; `null`: all may. */
  readonly memoryReservedPercent: number | null;
  readonly memoryQoS: boolean;
}

/** What active pods asked for, by level. Decimal text: bytes, thousandths of a CPU. */
export interface QOSDemand {
  readonly burstableCpuMilli: string;
  readonly burstableMemoryBytes: string;
  readonly guaranteedMemoryBytes: string;
}

export const NO_DEMAND: QOSDemand = { burstableCpuMilli: '0', burstableMemoryBytes: '0', guaranteedMemoryBytes: '0' };

const LEAST_SHARES = '2';
/** More than any machine has: pages are bounded in pods, not in levels. */
const UNBOUNDED = String(2n ** 62n);

/** All pods together: the node's allocatable resources, or its capacity where allocatable is not enforced. */
export function nodeAllocatableGroup(settings: NodeGroupSettings, resources: NodeResources): DesiredCgroup {
  const enforced = settings.enforceNodeAllocatable.includes('pods');
  const limits = enforced ? resources.podsLimit : { ...resources.capacity, pid: resources.pidMax };
  return {
    driver: settings.cgroupDriver,
    path: nodeAllocatablePath(settings),
    resources: limitsOf(limits),
  };
}

/** CPU in shares, memory and processes as they are. */
function limitsOf(limits: StringMap): CgroupResources {
  const { cpu, memory, pid } = limits;
  return {
    ...(memory === undefined ? {} : { memoryBytes: String(wholeUnits(nanoOf(memory))) }),
    ...(cpu === undefined ? {} : { cpuShares: String(cpuShares(milliUnits(nanoOf(cpu)))) }),
    ...(pid === undefined ? {} : { pids: String(wholeUnits(nanoOf(pid))) }),
  };
}

/** The two levels as they are made, before it is known which pods there are. */
export const qosGroupsAtStart = (settings: NodeGroupSettings): readonly DesiredCgroup[] => [
  { driver: settings.cgroupDriver, path: qosPath(settings, 'burstable'), resources: unboundedPages(settings) },
  {
    driver: settings.cgroupDriver,
    path: qosPath(settings, 'besteffort'),
    resources: { cpuShares: LEAST_SHARES, ...unboundedPages(settings) },
  },
];

const unboundedPages = ({ hugePageSizes }: NodeGroupSettings): CgroupResources =>
  hugePageSizes.length === 0
    ? {}
    : { hugePageBytes: Object.fromEntries(hugePageSizes.map((size) => [size, UNBOUNDED])) };

/** The two levels as their pods need them. */
export function qosGroups(
  settings: NodeGroupSettings,
  resources: NodeResources,
  demand: QOSDemand,
): readonly DesiredCgroup[] {
  const [burstable, bestEffort] = memoryLimits(settings, resources, demand);
  const desired = (path: string, more: CgroupResources): DesiredCgroup => ({
    driver: settings.cgroupDriver,
    path,
    resources: { ...unboundedPages(settings), ...more },
  });
  return [
    ...guaranteedMinimum(settings, demand),
    desired(qosPath(settings, 'burstable'), {
      cpuShares: String(cpuShares(BigInt(demand.burstableCpuMilli))),
      ...burstable,
      ...minimum(settings, BigInt(demand.burstableMemoryBytes)),
    }),
    desired(qosPath(settings, 'besteffort'), { cpuShares: LEAST_SHARES, ...bestEffort }),
  ];
}

const WHOLE = 100n;

/** Lower levels are kept out of the memory that higher ones asked for; what they use already they keep. */
function memoryLimits(
  { memoryReservedPercent }: NodeGroupSettings,
  { podsLimit }: NodeResources,
  { guaranteedMemoryBytes, burstableMemoryBytes }: QOSDemand,
): readonly [CgroupResources, CgroupResources] {
  if (memoryReservedPercent === null) return [{}, {}];
  const percent = BigInt(memoryReservedPercent);
  const all = wholeUnits(nanoOf(podsLimit['memory'] ?? '0'));
  const burstable = all - (BigInt(guaranteedMemoryBytes) * percent) / WHOLE;
  const bestEffort = burstable - (BigInt(burstableMemoryBytes) * percent) / WHOLE;
  return [
    { memoryBytes: String(burstable), memoryAtLeastUsed: true },
    { memoryBytes: String(bestEffort), memoryAtLeastUsed: true },
  ];
}

/** Of version 2, where the node keeps memory for its pods (MemoryQoS): what was asked for is not reclaimed. */
const minimum = ({ memoryQoS }: NodeGroupSettings, bytes: bigint): CgroupResources =>
  memoryQoS && bytes > 0n ? { unified: { 'memory.min': String(bytes) } } : {};

function guaranteedMinimum(settings: NodeGroupSettings, demand: QOSDemand): readonly DesiredCgroup[] {
  const bytes = BigInt(demand.guaranteedMemoryBytes) + BigInt(demand.burstableMemoryBytes);
  const resources = minimum(settings, bytes);
  if (resources.unified === undefined) return [];
  return [{ driver: settings.cgroupDriver, path: nodeAllocatablePath(settings), resources }];
}

/** A group of daemons that must exist and is held to what is reserved for it. */
export interface ReservedGroup {
  readonly desired: DesiredCgroup;
  /** How a failure begins. */
  readonly failure: string;
  /** The event when it is held. */
  readonly success: string;
}

export function reservedGroups(settings: NodeGroupSettings, resources: NodeResources): readonly ReservedGroup[] {
  const { systemReservedCgroup, kubeReservedCgroup } = settings;
  return [
    ...reservedGroup(settings, 'system', systemReservedCgroup, resources.systemReserved),
    ...reservedGroup(settings, 'kube', kubeReservedCgroup, resources.kubeReserved),
  ];
}

function reservedGroup(
  { enforceNodeAllocatable: enforced, cgroupDriver: driver }: NodeGroupSettings,
  who: 'system' | 'kube',
  cgroup: string,
  reserved: StringMap,
): readonly ReservedGroup[] {
  const isWhole = enforced.includes(`${who}-reserved`);
  if (!isWhole && !enforced.includes(`${who}-reserved-compressible`)) return [];
  const { cpuShares: shares, ...incompressible } = limitsOf(reserved);
  const cpu = shares === undefined ? {} : { cpuShares: shares };
  const name = `${who === 'system' ? 'System' : 'Kube'} Reserved ${isWhole ? '' : 'Compressible '}Cgroup Limits`;
  return [
    {
      desired: {
        driver,
        path: configuredPath(cgroup, driver),
        resources: isWhole ? { ...cpu, ...incompressible } : cpu,
      },
      failure: `Failed to enforce ${name} on "${cgroup}"`,
      success: `Updated limits on ${who} reserved cgroup ${cgroup}`,
    },
  ];
}
