/**
 * The folders in a volume on which a container mounts other volumes. Pure. The volume is read-only for containers, so a
 * runtime cannot create them there.
 *
 * Upstream: pkg/volume/util/nested_volumes.go.
 */
import type { Container, EphemeralContainer, Pod } from '../api/pod.ts';
import { podContainers } from '../spec/qos.ts';
import { byBytes } from '../values/go-text.ts';
import { cleanPath } from '../values/paths.ts';
import { memoize } from '../values/same.ts';

/** Their paths relative to the volume; none that is below another one. Throws with the text for `FailedMount`. */
export function nestedFolders(volume: string, pod: Pod): readonly string[] {
  const { outside, folders } = mountsOf(pod);
  const path = outside.get(volume);
  if (path !== undefined) throw new Error(`invalid container mount point ${path}`);
  return [...(folders.get(volume) ?? [])];
}

interface Mounts {
  /** By volume, a path of it that leads out of its container. */
  readonly outside: Map<string, string>;
  /** By volume, the folders in it. */
  readonly folders: Map<string, Set<string>>;
}

/** Of all volumes at once: a pod may have thousands, and as many mounts. */
const mountsOf = memoize((pod: Pod): Mounts => {
  const mounts: Mounts = { outside: new Map(), folders: new Map() };
  for (const container of [...podContainers(pod), ...(pod.spec.ephemeralContainers ?? [])]) add(mounts, container);
  return mounts;
});

function add({ outside, folders }: Mounts, { volumeMounts = [] }: Container | EphemeralContainer): void {
  // With a slash at its end, a path is followed by all that is below it: one look at each is enough.
  const points = volumeMounts.map(({ name, mountPath }) => ({ name, path: `${cleanPath(mountPath)}/` }));
  const around: typeof points = [];
  for (const point of points.toSorted((a, b) => byBytes(a.path, b.path))) {
    if (point.path.startsWith('../')) outside.set(point.name, point.path.slice(0, -1));
    while (around.length > 0 && !point.path.startsWith(around.at(-1)!.path)) around.pop();
    const outer = around.at(-1);
    around.push(point);
    if (outer === undefined || outer.path === point.path) continue;
    const found = folders.get(outer.name) ?? new Set();
    folders.set(outer.name, found.add(point.path.slice(outer.path.length, -1)));
  }
}
