/**
 * Which cgroups are pods and containers: found by walking the tree below the pods' cgroup.
 *
 * Names: with cgroupfs `pod<uid>/<container id>`, with systemd `…-pod<uid with _>.slice/<runtime>-<id>.scope`.
 */
import { below, type Hierarchy } from './hierarchy.ts';

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

/** `podsCgroup` is `/kubepods`, `/kubepods.slice`, ...; empty when pods have no cgroup of their own. */
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
