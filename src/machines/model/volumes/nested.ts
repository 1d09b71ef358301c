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
  // With a slash at its end, a path is followed by all that is below it: one look at each is enough.
  const points = volumeMounts.map(({ name, mountPath }) => ({ name, path: `${cleanPath(mountPath)}/` }));
  const outside = points.find(({ name, path }) => name === volume && path.startsWith('../'));
  if (outside) throw new Error(`invalid container mount point ${outside.path.slice(0, -1)}`);
  const around: typeof points = [];
  return points
    .toSorted((a, b) => byBytes(a.path, b.path))
    .flatMap((point) => {
      while (around.length > 0 && !point.path.startsWith(around.at(-1)!.path)) around.pop();
      const outer = around.at(-1);
      around.push(point);
      const isBelow = outer?.name === volume && outer.path !== point.path;
      return isBelow ? [point.path.slice(outer.path.length, -1)] : [];
    });
}
