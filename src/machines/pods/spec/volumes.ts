/**
 * Volumes that need nothing but the node: where they are, and how a container sees them.
 *
 * Decides which kinds the agent can set up by itself. Invariant: a volume that nobody set up is an error; it is never
 * left out of a container in silence.
 */
import type { Mount, MountPropagation } from '../../api/cri.ts';
import type { Container, Pod, Volume, VolumeMount } from '../../api/pod.ts';
import type { NodeSettings } from '../../node-settings.ts';
import { expandStrictly } from './expansion.ts';
import { volumeDirectory } from './paths.ts';

/** A volume that is set up: what a mount of it binds. */
export interface MountedVolume {
  readonly hostPath: string;
  /** The volume itself is read-only: a mount cannot be more than that. */
  readonly readOnly?: boolean;
}

export type MountedVolumes = Readonly<Record<string, MountedVolume>>;

/** A volume that this agent cannot set up, and why. */
export interface UnsupportedVolume {
  readonly name: string;
  readonly kind: string;
  readonly message: string;
}

const EMPTY_DIR_PLUGIN = 'kubernetes.io~empty-dir';

const PROPAGATION: Readonly<Record<string, MountPropagation>> = {
  HostToContainer: 'PROPAGATION_HOST_TO_CONTAINER',
  Bidirectional: 'PROPAGATION_BIDIRECTIONAL',
};

export const isDiskEmptyDir = (volume: Volume): boolean =>
  volume.emptyDir !== undefined && (volume.emptyDir.medium ?? '') === '';

/** What the pod's folder alone provides: `hostPath`, and `emptyDir` on disk. */
export function localVolumes(pod: Pod, node: Pick<NodeSettings, 'rootDir'>): MountedVolumes {
  const entries = (pod.spec.volumes ?? []).flatMap((volume): ReadonlyArray<readonly [string, MountedVolume]> => {
    if (volume.hostPath !== undefined) return [[volume.name, { hostPath: volume.hostPath.path }]];
    if (!isDiskEmptyDir(volume)) return [];
    return [[volume.name, { hostPath: volumeDirectory(pod, node, EMPTY_DIR_PLUGIN, volume.name) }]];
  });
  return Object.fromEntries(entries);
}

/** Volumes of the pod that are not in {@link localVolumes}; without another provider the pod cannot start. */
export function unsupportedVolumes(pod: Pod, mounted: MountedVolumes): readonly UnsupportedVolume[] {
  return (pod.spec.volumes ?? [])
    .filter(({ name }) => mounted[name] === undefined)
    .map((volume) => {
      const kind = volumeKind(volume);
      return {
        name: volume.name,
        kind,
        message: `volume "${volume.name}" is of kind ${kind}, which this node agent cannot set up; use hostPath or emptyDir`,
      };
    });
}

export function volumeKind(volume: Volume): string {
  if (volume.emptyDir?.medium !== undefined && volume.emptyDir.medium !== '') {
    return `emptyDir with medium ${volume.emptyDir.medium}`;
  }
  return Object.keys(volume).find((key) => key !== 'name') ?? 'none';
}

/** The volume mounts of a container in the order of its spec. Throws with the reason for the container to wait. */
export function volumeMounts(
  pod: Pod,
  container: Container,
  volumes: MountedVolumes,
  lookup: (name: string) => string | undefined,
): readonly Mount[] {
  return (container.volumeMounts ?? []).map((mount) => {
    const volume = volumes[mount.name];
    if (volume === undefined) throw new Error(missingVolume(pod, container, mount));
    return criMount(mount, volume, subPath(mount, lookup));
  });
}

function missingVolume(pod: Pod, container: Container, mount: VolumeMount): string {
  const unsupported = unsupportedVolumes(pod, {}).find(({ name }) => name === mount.name);
  const detail = unsupported === undefined ? '' : `: ${unsupported.message}`;
  return `cannot find volume "${mount.name}" to mount into container "${container.name}"${detail}`;
}

function criMount(mount: VolumeMount, volume: MountedVolume, path: string): Mount {
  const propagation = PROPAGATION[mount.mountPropagation ?? ''];
  const readOnly = mount.readOnly === true || volume.readOnly === true;
  return {
    container_path: absolute(mount.mountPath),
    host_path: path === '' ? volume.hostPath : `${volume.hostPath}/${path}`,
    ...(readOnly ? { readonly: true } : {}),
    ...(propagation === undefined ? {} : { propagation }),
    ...(readOnly && isRecursive(mount) ? { recursive_read_only: true } : {}),
  };
}

const isRecursive = ({ recursiveReadOnly }: VolumeMount): boolean => recursiveReadOnly === 'Enabled';
const absolute = (path: string): string => (path.startsWith('/') ? path : `/${path}`);

function subPath(mount: VolumeMount, lookup: (name: string) => string | undefined): string {
  const { subPathExpr = '', subPath: plain = '' } = mount;
  if (subPathExpr === '') return checkedSubPath(plain);
  const { text, missing } = expandStrictly(subPathExpr, lookup);
  if (missing.length > 0) throw new Error(`missing value for ${missing.join(', ')}`);
  return checkedSubPath(text);
}

function checkedSubPath(path: string): string {
  if (path.startsWith('/')) throw new Error(`error SubPath \`${path}\` must not be an absolute path`);
  if (path.split('/').includes('..')) {
    throw new Error(`unable to provision SubPath \`${path}\`: must not contain '..'`);
  }
  return path;
}
