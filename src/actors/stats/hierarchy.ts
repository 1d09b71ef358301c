/**
 * Cgroups for reading: the folder of a group under each controller, and the groups below it.
 *
 * A cgroup is named as /proc/<pid>/cgroup names it: `/` for the root, `/kubepods/besteffort/pod…` below.
 */
import { readHierarchies } from '../cgroup/hierarchies.ts';
import { folders } from './kernel-text.ts';

export type Controller = 'cpu' | 'cpuacct' | 'memory' | 'pids' | 'blkio';

export interface Hierarchy {
  readonly version: 1 | 2;
  /** The folder of a cgroup in the tree of this controller; `null` when the controller is not mounted. */
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
