/**
 * Usage and limits of one cgroup, the same for cgroup v1 and v2.
 *
 * Invariants: no state between reads; a missing controller gives `null`, never zero; numbers include descendants. As in
 * cAdvisor, the working set is the usage without the inactive file cache.
 */
import { statSync } from 'node:fs';
import { readLegacy } from './cgroup-v1.ts';
import { readUnified } from './cgroup-v2.ts';
import type { Hierarchy } from './hierarchy.ts';
import type { CgroupUsage } from './usage-types.ts';

/** `root` is the prefix of /proc. */
export function readUsage(hierarchy: Hierarchy, cgroup: string, root: string): CgroupUsage {
  return hierarchy.version === 2 ? readUnified(hierarchy, cgroup, root) : readLegacy(hierarchy, cgroup, root);
}

/** When the cgroup was created, by its folder; `null` if it is removed. */
export function createdAtMs(hierarchy: Hierarchy, cgroup: string): number | null {
  const folder = hierarchy.folder('memory', cgroup) ?? hierarchy.folder('cpuacct', cgroup);
  const file = hierarchy.version === 2 ? 'cgroup.events' : 'cgroup.clone_children';
  try {
    return Math.round(statSync(`${folder}/${file}`).mtimeMs);
  } catch {
    return null;
  }
}
