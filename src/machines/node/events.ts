/** Events about the node itself, word for word upstream's (pkg/kubelet/events/event.go). */

/** What an event is about: the node, by name alone. */
export const nodeRef = (nodeName: string) => ({ kind: 'Node', namespace: '', name: nodeName, uid: '' }) as const;

export const starting = { eventType: 'Normal', reason: 'Starting', message: 'Starting kubelet.' } as const;

export const cgroupV1 = {
  eventType: 'Warning',
  reason: 'CgroupV1',
  message:
    'cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. Please migrate to ' +
    'cgroup v2. More information at https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1',
} as const;
