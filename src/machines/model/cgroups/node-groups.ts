/**
 * The node's own cgroups and their limits: for all pods, for the two QoS levels, and for daemons with reserved
 * resources.
 *
 * Pure. Upstream: pkg/kubelet/cm/node_container_manager_linux.go and qos_container_manager_linux.go.
 *
 * systemd names each level by all levels above it (`/a.slice/a-b.slice`); a dash separates levels, so a dash within a
 * name is written as an underscore.
 */
import type { StringMap } from '../configuration/field-types.ts';
import type { CgroupDriver, CgroupResources, DesiredCgroup } from '../operations/cgroup.ts';
import type { StatsPlace } from '../operations/stats.ts';
import { type Decider, hasBehavior } from '../settings/behaviors.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { type Amounts, amountsOf, cpuShares, pageSizeName } from '../spec/resources.ts';
import { milliUnits, nanoOf, wholeUnits } from '../values/quantity.ts';
import type { NodeResources } from './allocatable.ts';

export interface NodeGroupSettings extends Decider {
  readonly cgroupDriver: CgroupDriver;
  readonly cgroupRoot: string;
  /** Huge page sizes of the machine as in the kernel's file names: `2MB`. */
  readonly hugePageSizes: readonly string[];
  readonly enforceNodeAllocatable: readonly string[];
  readonly kubeReservedCgroup: string;
  readonly systemReservedCgroup: string;
  /** The percentage of the requests of Guaranteed and Burstable pods that lower levels may not use; `null` for none. */
  readonly memoryReservedPercent: number | null;
  /** Requested memory is protected: the gate MemoryQoS, with the policy `TieredReservation`. */
  readonly memoryQoS: boolean;
  /** The gate MemoryQoS alone. */
  readonly hasMemoryQoS?: boolean;
  /** The CPUs of the machine if no manager gives them out: `0-3`. */
  readonly cpus?: string;
}

/** The sum of the requests of active pods, by QoS level. Decimal text: bytes, thousandths of a CPU. */
export interface QOSDemand {
  readonly burstableCpuMilli: string;
  readonly burstableMemoryBytes: string;
  readonly guaranteedMemoryBytes: string;
}

export const NO_DEMAND: QOSDemand = { burstableCpuMilli: '0', burstableMemoryBytes: '0', guaranteedMemoryBytes: '0' };

const LEAST_SHARES = '2';
const HUGE_PAGES = 'hugepages-';
/** More than any machine has: huge pages are limited per pod, not per level. */
const UNBOUNDED = String(2n ** 62n);

/**
 * The cgroup of all pods: limited to the node's allocatable resources, or to its capacity if allocatable is not
 * enforced.
 */
export function nodeAllocatableGroup(settings: NodeGroupSettings, resources: NodeResources): DesiredCgroup {
  const enforced = settings.enforceNodeAllocatable.includes('pods');
  const limits = enforced ? resources.podsLimit : { ...resources.capacity, pid: resources.pidMax };
  return {
    driver: settings.cgroupDriver,
    path: nodeAllocatablePath(settings),
    resources: { ...limitsOf(limits), ...pagesOf(settings, limits), ...cpusOf(settings) },
  };
}

/** With its CPUs a slice has the cpuset controller, which systemd would otherwise take from it. */
const cpusOf = (settings: NodeGroupSettings): CgroupResources =>
  hasBehavior(settings, 'groupsAsKubelet') && settings.cpus !== undefined ? { cpus: settings.cpus } : {};

/** Where memory is limited, huge pages are, too: to none where none are counted. */
const pagesOf = (settings: NodeGroupSettings, limits: StringMap): CgroupResources =>
  hasBehavior(settings, 'groupsAsKubelet') ? hugePages(amountsOf(limits), settings.hugePageSizes) : {};

/** Limits of every huge page size of the machine: no group may use huge pages that are not among these amounts. */
export function hugePages(amounts: Amounts, sizes: readonly string[]): CgroupResources {
  if (sizes.length === 0) return {};
  const limits = new Map(
    Object.entries(amounts)
      .filter(([name]) => name.startsWith(HUGE_PAGES))
      .map(([name, amount]) => [pageSizeName(name.slice(HUGE_PAGES.length)), String(wholeUnits(amount))]),
  );
  return { hugePageBytes: Object.fromEntries(sizes.map((size) => [size, limits.get(size) ?? '0'])) };
}

/** Limits of a cgroup: CPU in shares, memory and processes unchanged. */
function limitsOf(limits: StringMap): CgroupResources {
  const { cpu, memory, pid } = limits;
  return {
    ...(memory === undefined ? {} : { memoryBytes: String(wholeUnits(nanoOf(memory))) }),
    ...(cpu === undefined ? {} : { cpuShares: String(cpuShares(milliUnits(nanoOf(cpu)))) }),
    ...(pid === undefined ? {} : { pids: String(wholeUnits(nanoOf(pid))) }),
  };
}

/** The two QoS levels at the start, before any pod is known. */
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

/** The two QoS levels according to the requests of their pods. */
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
      ...protectedMemory(settings, reclaimsBurstable(settings), BigInt(demand.burstableMemoryBytes)),
    }),
    desired(qosPath(settings, 'besteffort'), { cpuShares: LEAST_SHARES, ...bestEffort }),
  ];
}

const WHOLE = 100n;

/** Lower levels may not use the memory that higher ones request; memory already in use stays. */
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

/** With MemoryQoS on cgroup v2, the memory that pods request is protected from reclaim as long as they exist. */
function protectedMemory(settings: NodeGroupSettings, file: MemoryFile, bytes: bigint): CgroupResources {
  const { memoryQoS, hasMemoryQoS = memoryQoS } = settings;
  const least = memoryQoS ? bytes : 0n;
  const isSet = hasBehavior(settings, 'groupsAsKubelet') ? hasMemoryQoS : least > 0n;
  return isSet ? { unified: { [file]: String(least) } } : {};
}

/** Memory that is never reclaimed, or only if nothing else is left. */
type MemoryFile = 'memory.min' | 'memory.low';

const reclaimsBurstable = (settings: NodeGroupSettings): MemoryFile =>
  hasBehavior(settings, 'groupsAsKubelet') ? 'memory.low' : 'memory.min';

function guaranteedMinimum(settings: NodeGroupSettings, demand: QOSDemand): readonly DesiredCgroup[] {
  const bytes = BigInt(demand.guaranteedMemoryBytes) + BigInt(demand.burstableMemoryBytes);
  const resources = protectedMemory(settings, 'memory.min', bytes);
  if (resources.unified === undefined) return [];
  return [{ driver: settings.cgroupDriver, path: nodeAllocatablePath(settings), resources }];
}

/** A cgroup of daemons that must exist and is limited to its reserved resources. */
export interface ReservedGroup {
  readonly desired: DesiredCgroup;
  /** The start of the error message. */
  readonly failure: string;
  /** The event once its limits are enforced. */
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
  settings: NodeGroupSettings,
  who: 'system' | 'kube',
  cgroup: string,
  reserved: StringMap,
): readonly ReservedGroup[] {
  const { enforceNodeAllocatable: enforced, cgroupDriver: driver } = settings;
  const isWhole = enforced.includes(`${who}-reserved`);
  if (!isWhole && !enforced.includes(`${who}-reserved-compressible`)) return [];
  const { cpuShares: shares, ...incompressible } = limitsOf(reserved);
  const cpu = { ...(shares === undefined ? {} : { cpuShares: shares }), ...cpusOf(settings) };
  const name = `${who === 'system' ? 'System' : 'Kube'} Reserved ${isWhole ? '' : 'Compressible '}Cgroup Limits`;
  return [
    {
      desired: {
        driver,
        path: hasBehavior(settings, 'groupsAsKubelet') ? daemonPath(cgroup, driver) : configuredPath(cgroup, driver),
        resources: isWhole
          ? { ...cpu, ...incompressible, ...pagesOf(settings, reserved), ...keptMemory(settings, incompressible) }
          : cpu,
      },
      failure: `Failed to enforce ${name} on "${cgroup}"`,
      success: `Updated limits on ${who} reserved cgroup ${cgroup}`,
    },
  ];
}

/** With MemoryQoS the memory that is reserved for daemons is never reclaimed. */
const keptMemory = (settings: NodeGroupSettings, { memoryBytes }: CgroupResources): CgroupResources =>
  hasBehavior(settings, 'groupsAsKubelet') && settings.hasMemoryQoS === true && memoryBytes !== undefined
    ? { unified: { 'memory.min': memoryBytes } }
    : {};

const SLICE = '.slice';
const NODE_ALLOCATABLE = 'kubepods';
const POD = 'pod';

export type QOSLevel = 'burstable' | 'besteffort';

interface Naming {
  readonly cgroupDriver: CgroupDriver;
  /** The configured root: levels separated by slashes, in the form of cgroupfs whatever the driver. */
  readonly cgroupRoot: string;
}

export const stepsOf = (path: string): string[] => path.split('/').filter((step) => step !== '');

function cgroupPath(steps: readonly string[], driver: CgroupDriver): string {
  if (steps.length === 0) return '/';
  if (driver === 'cgroupfs') return `/${steps.join('/')}`;
  const units = steps.map((step) => step.replaceAll('-', '_'));
  return units.map((_, depth) => `/${units.slice(0, depth + 1).join('-')}${SLICE}`).join('');
}

/** The cgroup of all pods, below which their limits are enforced. */
export const nodeAllocatablePath = ({ cgroupRoot, cgroupDriver }: Naming): string =>
  cgroupPath([...stepsOf(cgroupRoot), NODE_ALLOCATABLE], cgroupDriver);

const qosPath = ({ cgroupRoot, cgroupDriver }: Naming, level: QOSLevel): string =>
  cgroupPath([...stepsOf(cgroupRoot), NODE_ALLOCATABLE, level], cgroupDriver);

/** The cgroup of a pod. Guaranteed pods are directly below the cgroup of all pods. */
export const podPath = ({ cgroupRoot, cgroupDriver }: Naming, level: QOSLevel | null, uid: string): string =>
  cgroupPath(
    [...stepsOf(cgroupRoot), NODE_ALLOCATABLE, ...(level === null ? [] : [level]), `${POD}${uid}`],
    cgroupDriver,
  );

export const podParents = (naming: Naming): readonly string[] => [
  nodeAllocatablePath(naming),
  qosPath(naming, 'burstable'),
  qosPath(naming, 'besteffort'),
];

/** The configured root as a path of the driver. */
export const rootPath = ({ cgroupRoot, cgroupDriver }: Naming): string => cgroupPath(stepsOf(cgroupRoot), cgroupDriver);

/**
 * The cgroup that is configured for daemons as a path of the driver. For systemd its last step is the slice, in which
 * dashes separate levels: `/kube-reserved.slice` is `/kube.slice/kube-reserved.slice`.
 */
const daemonPath = (name: string, driver: CgroupDriver): string => cgroupPath(groupName(name, driver), driver);

/** The levels of a cgroup without the notation of its driver. */
export function groupName(path: string, driver: CgroupDriver): readonly string[] {
  const steps = stepsOf(path);
  if (driver === 'cgroupfs') return steps;
  const unit = steps.at(-1);
  if (unit === undefined) return [];
  const slice = unit.endsWith(SLICE) ? unit.slice(0, -SLICE.length) : unit;
  return slice.split('-').map((level) => level.replaceAll('_', '-'));
}

/** A configured cgroup (`/system.slice`, `/kube`) as a path of the driver. */
export const configuredPath = (name: string, driver: CgroupDriver): string =>
  driver === 'systemd' && stepsOf(name).every((step) => step.endsWith(SLICE))
    ? `/${stepsOf(name).join('/')}`
    : cgroupPath(stepsOf(name), driver);

type Settings = Pick<
  NodeSettings,
  'nodeName' | 'rootDir' | 'podLogsDir' | 'cgroupRoot' | 'cgroupDriver' | 'cgroupsPerQOS' | 'makesPodCgroups'
>;

const NOT_CONFIGURED = { kubelet: '', runtime: '', misc: '' };

/** The folders and cgroups in which statistics are measured, from the settings of the node. */
export const statsPlace = (
  settings: Settings,
  systemCgroups: StatsPlace['systemCgroups'] = NOT_CONFIGURED,
): StatsPlace => ({
  nodeName: settings.nodeName,
  rootDir: settings.rootDir,
  podLogsDir: settings.podLogsDir,
  podsCgroup: settings.cgroupsPerQOS && settings.makesPodCgroups !== false ? nodeAllocatablePath(settings) : '',
  systemCgroups,
});
