/** How a container's status says what it mounts. */
import type { Container, ContainerStatus, VolumeMount } from '../api/pod.ts';
import { isRecursive } from '../spec/volumes.ts';

export function mountStatuses(
  { volumeMounts = [] }: Container,
  canRecurse: boolean,
): Pick<ContainerStatus, 'volumeMounts'> {
  if (volumeMounts.length === 0) return {};
  return {
    volumeMounts: volumeMounts.map((mount) => ({
      name: mount.name,
      mountPath: mount.mountPath,
      ...(mount.readOnly === true ? { readOnly: true, recursiveReadOnly: recursion(mount, canRecurse) } : {}),
    })),
  };
}

/** What comes of it; a container that cannot have what it asks for has none of it. */
function recursion(mount: VolumeMount, canRecurse: boolean): string {
  try {
    return isRecursive(mount, canRecurse) ? 'Enabled' : 'Disabled';
  } catch {
    return 'Disabled';
  }
}
