/** The parts of a container's status that follow from its spec and its cgroup: resources and mounts. */
import type { ContainerStatus as CriContainerStatus } from '../../api/cri.ts';
import type { Container, ContainerStatus, Pod } from '../../api/pod.ts';

/** Resources are known as soon as the runtime has the container. */
export function resourceStatuses(
  _pod: Pod,
  container: Container,
  _current: CriContainerStatus,
): Pick<ContainerStatus, 'resources' | 'allocatedResources'> {
  const { requests, limits } = container.resources ?? {};
  return {
    ...(requests === undefined ? {} : { allocatedResources: requests }),
    resources: {
      ...(limits === undefined ? {} : { limits }),
      ...(requests === undefined ? {} : { requests }),
    },
  };
}

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
