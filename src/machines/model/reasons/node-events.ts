/** Events about the node itself; where upstream has one, word for word (pkg/kubelet/events/event.go). */

/** What an event is about: the node, by name alone. */
export const nodeRef = (nodeName: string) => ({ kind: 'Node', namespace: '', name: nodeName, uid: '' }) as const;

export const starting = { eventType: 'Normal', reason: 'Starting', message: 'Starting kubelet.' } as const;

/** Something that every pod needs could not be set up; the node ends. */
export const setupFailed = (message: string) =>
  ({ eventType: 'Warning', reason: 'KubeletSetupFailed', message }) as const;

/** Ours: upstream restarts the process instead. `fields` are paths of the configuration. */
export const configurationChanged = (fields: readonly string[]) =>
  ({
    eventType: 'Normal',
    reason: 'KubeletConfigChanged',
    message: `Changed while the node runs: ${fields.join(', ')}`,
  }) as const;

/** Ours: why a new configuration, or a part of it, is not in force. */
export const configurationRefused = (why: string) =>
  ({ eventType: 'Warning', reason: 'KubeletConfigRefused', message: `New configuration refused: ${why}` }) as const;

/** The machine swaps, and its kernel cannot keep a tmpfs from it. */
export const memoryOnDisk = {
  eventType: 'Warning',
  reason: 'PossibleMemoryBackedVolumesOnDisk',
  message:
    'The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) might be ' +
    'swapped to disk and should no longer be considered secure.',
} as const;

export const cgroupV1 = {
  eventType: 'Warning',
  reason: 'CgroupV1',
  message:
    'cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. Please migrate to ' +
    'cgroup v2. More information at https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1',
} as const;
