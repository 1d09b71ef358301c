/** Converts a volume of a pod into the volume that a CSI driver publishes. Pure. */
import type { Pod, Volume } from '../api/pod.ts';
import type { BoundVolume } from '../operations/volume.ts';
import type { CSIVolume } from './messages.ts';
import { ephemeralHandle } from './policy.ts';

type Group = Pick<CSIVolume, 'fsGroup' | 'fsGroupOnlyTop'>;

const groupOf = ({ spec: { securityContext } }: Pod): Group => ({
  fsGroup: securityContext?.fsGroup ?? null,
  fsGroupOnlyTop: securityContext?.fsGroupChangePolicy === 'OnRootMismatch',
});

/** `bound`: the PersistentVolume of a claim; `null` for an inline volume. Returns `null` if no CSI driver is needed. */
export function csiVolumeOf(volume: Volume, bound: BoundVolume | null, pod: Pod): CSIVolume | null {
  if (bound) return persistent(volume, bound, pod);
  return volume.csi ? ephemeral(volume.name, volume.csi, pod) : null;
}

function persistent(volume: Volume, bound: BoundVolume, pod: Pod): CSIVolume | null {
  const { name, spec } = bound;
  const { csi, accessModes = [], mountOptions = [] } = spec;
  if (!csi) return null;
  return {
    name: volume.name,
    spec: name,
    driver: csi.driver,
    handle: csi.volumeHandle,
    isEphemeral: false,
    isBlock: spec.volumeMode === 'Block',
    readOnly: volume.persistentVolumeClaim?.readOnly ?? false,
    fsType: csi.fsType ?? '',
    attributes: csi.volumeAttributes ?? {},
    accessModes,
    mountOptions,
    stageSecret: csi.nodeStageSecretRef ?? null,
    publishSecret: csi.nodePublishSecretRef ?? null,
    expandSecret: csi.nodeExpandSecretRef ?? null,
    size: { ...bound.size, wanted: spec.capacity?.['storage'] ?? '' },
    ...groupOf(pod),
  };
}

function ephemeral(name: string, csi: NonNullable<Volume['csi']>, pod: Pod): CSIVolume {
  const secret = csi.nodePublishSecretRef?.name;
  return {
    name,
    spec: name,
    driver: csi.driver,
    handle: ephemeralHandle(pod.metadata.uid, name),
    isEphemeral: true,
    isBlock: false,
    readOnly: csi.readOnly ?? false,
    fsType: csi.fsType ?? '',
    attributes: csi.volumeAttributes ?? {},
    accessModes: [],
    mountOptions: [],
    stageSecret: null,
    publishSecret: secret === undefined ? null : { name: secret, namespace: pod.metadata.namespace },
    expandSecret: null,
    size: null,
    ...groupOf(pod),
  };
}
