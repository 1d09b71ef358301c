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

/** Their paths relative to the volume; none that is below another one. Throws with the text for `FailedMount`. */
export function nestedFolders(volume: string, pod: Pod): readonly string[] {
  const containers = [...podContainers(pod), ...(pod.spec.ephemeralContainers ?? [])];
  return [...new Set(containers.flatMap((container) => nestedIn(volume, container)))];
}

function nestedIn(volume: string, { volumeMounts = [] }: Container | EphemeralContainer): string[] {
  const points = volumeMounts.map(({ name, mountPath }) => ({ name, path: cleanPath(mountPath) }));
  const paths = points.map(({ path }) => path).toSorted(byBytes);
  return points.flatMap(({ name, path }) => (name === volume ? outermostBelow(path, paths) : []));
}

function outermostBelow(path: string, paths: readonly string[]): string[] {
  if (path.startsWith('../')) throw new Error(`invalid container mount point ${path}`);
  const found: string[] = [];
  for (const each of paths) {
    if (!each.startsWith(`${path}/`) || found.some((outer) => each.startsWith(`${outer}/`))) continue;
    found.push(each);
  }
  return found.map((each) => each.slice(path.length + 1));
}
