/** How a container's status says what it mounts. */
import type { Container, ContainerStatus } from '../../api/pod.ts';

export function mountStatuses({ volumeMounts = [] }: Container): Pick<ContainerStatus, 'volumeMounts'> {
  if (volumeMounts.length === 0) return {};
  return {
    volumeMounts: volumeMounts.map(({ name, mountPath, readOnly, recursiveReadOnly }) => ({
      name,
      mountPath,
      ...(readOnly === true ? { readOnly, recursiveReadOnly: recursiveReadOnly ?? 'Disabled' } : {}),
    })),
  };
}
