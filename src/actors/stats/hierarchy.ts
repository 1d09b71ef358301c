/**
 * Finds cgroups for reading: the folder of a cgroup under each controller, its children, and those of pods and
 * containers.
 *
 * A cgroup is named as /proc/<pid>/cgroup names it: `/` for the root, `/kubepods/besteffort/pod…` below. Pods and
 * containers: with cgroupfs `pod<uid>/<container id>`, with systemd `…-pod<uid with _>.slice/<runtime>-<id>.scope`.
 */
import { readHierarchies } from '../cgroup/hierarchies.ts';
import { folders } from './kernel-text.ts';

export type Controller = 'cpu' | 'cpuacct' | 'memory' | 'pids' | 'blkio';

export interface Hierarchy {
  readonly version: 1 | 2;
  /** The folder of a cgroup in the tree of this controller; `null` if the controller is not mounted. */
  folder(controller: Controller, cgroup: string): string | null;
  /** Names of the cgroups directly below. */
  children(cgroup: string): readonly string[];
}

export const below = (cgroup: string, name: string): string => (cgroup === '/' ? `/${name}` : `${cgroup}/${name}`);

/** `root` is the prefix of /proc and /sys. */
export async function hierarchyOf(root: string): Promise<Hierarchy> {
  const { version, mounts } = await readHierarchies(root);
  const folder = (controller: Controller, cgroup: string): string | null => {
    const mount = mounts.get(version === 2 ? '' : controller);
    return mount === undefined ? null : `${mount}${cgroup === '/' ? '' : cgroup}`;
  };
  const tree: Controller = version === 2 || mounts.has('memory') ? 'memory' : 'cpuacct';
  return {
    version,
    folder,
    children: (cgroup) => {
      const path = folder(tree, cgroup);
      return path === null ? [] : folders(path);
    },
  };
}

export interface PodCgroup {
  readonly uid: string;
  readonly cgroup: string;
  /** Cgroups of containers and of the sandbox, by id. */
  readonly containers: ReadonlyMap<string, string>;
}

const QOS_CGROUP = /(^|-)(burstable|besteffort)(\.slice)?$/;
const POD_CGROUP = /^pod(.+)$/;
const POD_SLICE = /-pod([^-]+)\.slice$/;
const CONTAINER = /^(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?$/;

/** `podsCgroup` is `/kubepods`, `/kubepods.slice`, ...; empty if pods have no cgroup of their own. */
export function podCgroups(hierarchy: Hierarchy, podsCgroup: string): PodCgroup[] {
  if (podsCgroup === '') return [];
  return hierarchy.children(podsCgroup).flatMap((name) => {
    const cgroup = below(podsCgroup, name);
    if (QOS_CGROUP.test(name)) return hierarchy.children(cgroup).flatMap((pod) => podOf(hierarchy, cgroup, pod));
    return podOf(hierarchy, podsCgroup, name);
  });
}

function podOf(hierarchy: Hierarchy, parent: string, name: string): PodCgroup[] {
  const uid = POD_CGROUP.exec(name)?.[1] ?? POD_SLICE.exec(name)?.[1]?.replaceAll('_', '-');
  if (uid === undefined) return [];
  const cgroup = below(parent, name);
  const containers = hierarchy.children(cgroup).flatMap((child): [string, string][] => {
    const id = CONTAINER.exec(child)?.[1];
    return id === undefined ? [] : [[id, below(cgroup, child)]];
  });
  return [{ uid, cgroup, containers: new Map(containers) }];
}
