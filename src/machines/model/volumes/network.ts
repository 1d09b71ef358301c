/**
 * Volumes on file servers: NFS, of a pod itself or behind a claim. The node's mount(8) mounts them in the pod's folder.
 *
 * Invariant: the agent changes neither group nor label of files of a server: other nodes use them, too. Upstream:
 * pkg/volume/nfs/nfs.go.
 */
import type { PersistentVolumeSpec, Volume } from '../api/pod.ts';
import type { BoundVolume, VolumeSetUp } from '../operations/volume.ts';
import { hasBehavior } from '../settings/behaviors.ts';
import { volumeDirectory } from '../spec/paths.ts';
import type { MountedVolume } from '../spec/volumes.ts';
import { parseIp } from '../values/ip.ts';
import type { PayloadInput } from './payload.ts';

export const NFS_PLUGIN = 'kubernetes.io~nfs';

export const isOnServer = (source: Pick<Volume | PersistentVolumeSpec, 'nfs'>): boolean => source.nfs != null;

/** `null` for a volume of another kind. A claim in the pod decides whether its volume is read-only, not the volume. */
export function nfsVolume(
  volume: Volume,
  bound: BoundVolume | null,
  { pod, node }: PayloadInput,
): { readonly mounted: MountedVolume; readonly setUp: VolumeSetUp } | null {
  const { nfs } = bound?.spec ?? volume;
  if (nfs == null || !hasBehavior(node, 'networkVolumes')) return null;
  const isReadOnly = bound === null ? nfs.readOnly === true : volume.persistentVolumeClaim?.readOnly === true;
  const path = volumeDirectory(pod, node, NFS_PLUGIN, bound?.name ?? volume.name);
  const setUp: VolumeSetUp = {
    kind: 'nfs',
    name: volume.name,
    ...(bound === null ? {} : { spec: bound.name }),
    source: `${hostOf(nfs.server)}:${nfs.path}`,
    path,
    options: optionsOf(bound, isReadOnly),
  };
  return { mounted: { hostPath: path, ...(isReadOnly ? { readOnly: true } : {}) }, setUp };
}

const hostOf = (server: string): string => (server.includes(':') && parseIp(server) !== null ? `[${server}]` : server);

/** Each option once, in the order of their text, as upstream. */
function optionsOf(bound: BoundVolume | null, isReadOnly: boolean): readonly string[] {
  const given = (bound?.spec.mountOptions ?? []).filter((option) => option !== '');
  return [...new Set([...given, ...(isReadOnly ? ['ro'] : [])])].toSorted();
}
