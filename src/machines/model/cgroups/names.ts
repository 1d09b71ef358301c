/**
 * Converts between the levels of a cgroup hierarchy and the paths of a cgroup driver.
 *
 * systemd names each level by all levels above it (`/a.slice/a-b.slice`); a dash separates levels, so a dash within a
 * name is written as an underscore. Pure.
 */
import type { CgroupDriver } from '../operations/cgroup.ts';
import type { StatsPlace } from '../operations/stats.ts';
import type { NodeSettings } from '../settings/node-settings.ts';

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

/** The path of a cgroup in the kernel. */
function cgroupPath(steps: readonly string[], driver: CgroupDriver): string {
  if (steps.length === 0) return '/';
  if (driver === 'cgroupfs') return `/${steps.join('/')}`;
  const units = steps.map((step) => step.replaceAll('-', '_'));
  return units.map((_, depth) => `/${units.slice(0, depth + 1).join('-')}${SLICE}`).join('');
}

/** The cgroup of all pods, below which their limits are enforced. */
export const nodeAllocatablePath = ({ cgroupRoot, cgroupDriver }: Naming): string =>
  cgroupPath([...stepsOf(cgroupRoot), NODE_ALLOCATABLE], cgroupDriver);

export const qosPath = ({ cgroupRoot, cgroupDriver }: Naming, level: QOSLevel): string =>
  cgroupPath([...stepsOf(cgroupRoot), NODE_ALLOCATABLE, level], cgroupDriver);

/** The cgroup of a pod. Guaranteed pods are directly below the cgroup of all pods. */
export const podPath = ({ cgroupRoot, cgroupDriver }: Naming, level: QOSLevel | null, uid: string): string =>
  cgroupPath(
    [...stepsOf(cgroupRoot), NODE_ALLOCATABLE, ...(level === null ? [] : [level]), `${POD}${uid}`],
    cgroupDriver,
  );

/** The possible parents of the cgroups of pods. */
export const podParents = (naming: Naming): readonly string[] => [
  nodeAllocatablePath(naming),
  qosPath(naming, 'burstable'),
  qosPath(naming, 'besteffort'),
];

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
