/**
 * Derives the mounts of a container from the volumes of its pod.
 *
 * Invariant: a volume that is not set up is an error; it is never left out of a container. A sub-path is never mounted
 * by its path, which processes in containers can change: it is first bind-mounted elsewhere.
 */
import type { Device, Mount, MountPropagation } from '../api/cri.ts';
import type { Container, Pod, Volume, VolumeMount } from '../api/pod.ts';
import type { SubPath } from '../operations/volume.ts';
import { hasBehavior } from '../settings/behaviors.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { expandStrictly } from './expansion.ts';
import { podDirectory } from './paths.ts';

/** A volume that is set up: the source of its mounts. */
export interface MountedVolume {
  readonly hostPath: string;
  /** The link to a block device, which cannot be mounted and has no `hostPath`. */
  readonly device?: string;
  /** The volume itself is read-only, and so are its mounts. */
  readonly readOnly?: boolean;
  /** The runtime relabels its content with the container's SELinux label. */
  readonly relabel?: boolean;
  /** A supplemental group of containers, because its members may use the volume. */
  readonly groupId?: number;
  /** The content of an image, which the runtime mounts without a `hostPath`. */
  readonly image?: {
    readonly reference: string;
    /** The runtime's reference of the image; absent while the image is missing. */
    readonly ref?: string;
  };
}

export type MountedVolumes = Readonly<Record<string, MountedVolume>>;

interface MountsInput {
  readonly pod: Pod;
  readonly container: Container;
  readonly node: Pick<NodeSettings, 'rootDir' | 'behavior'>;
  readonly volumes: MountedVolumes;
  /** The runtime can make a mount and everything mounted below it read-only. */
  readonly recursiveReadOnly: boolean;
  /** The runtime handler of the pod; empty for the default. */
  readonly handler: string;
  /** The variables of the container. */
  readonly lookup: (name: string) => string | undefined;
}

const PROPAGATION: Readonly<Record<string, MountPropagation>> = {
  HostToContainer: 'PROPAGATION_HOST_TO_CONTAINER',
  Bidirectional: 'PROPAGATION_BIDIRECTIONAL',
};

export function volumeKind(volume: Volume): string {
  if (volume.emptyDir?.medium !== undefined && volume.emptyDir.medium !== '') {
    return `emptyDir with medium ${volume.emptyDir.medium}`;
  }
  return Object.keys(volume).find((key) => key !== 'name') ?? 'none';
}

/** The volume mounts of a container in the order of its spec. Throws with the container's waiting reason. */
export function volumeMounts(input: MountsInput): readonly Mount[] {
  return (input.container.volumeMounts ?? []).map((mount, at) => {
    const volume = mountedVolume(mount, input);
    const part = subPath(mount, input.lookup);
    if (volume.image) return imageMount(mount, { ...volume, image: volume.image }, part, input);
    const path = part === '' ? volume.hostPath : subPathTarget(mount, at, input);
    return { ...criMount(mount, volume, path, input.recursiveReadOnly), ...namedSubPath(part, input) };
  });
}

/** In a pod with an image volume the kubelet names the sub-path for mounts of other volumes, too. */
function namedSubPath(part: string, { pod, node }: MountsInput): Pick<Mount, 'image_sub_path'> {
  const hasImages = (pod.spec.volumes ?? []).some((volume) => volume.image !== undefined);
  return part !== '' && hasImages && hasBehavior(node, 'detailsAsKubelet') ? { image_sub_path: part } : {};
}

/** The block devices of a container in the order of its spec. Throws with the container's waiting reason. */
export function blockDevices({ container, volumes }: Pick<MountsInput, 'container' | 'volumes'>): readonly Device[] {
  return (container.volumeDevices ?? []).map(({ name, devicePath }) => {
    if (!devicePath.startsWith('/')) throw new Error(`error DevicePath \`${devicePath}\` must be an absolute path`);
    const volume = Object.hasOwn(volumes, name) ? volumes[name] : undefined;
    if (volume?.device === undefined) {
      throw new Error(`cannot find volume "${name}" to pass into container "${container.name}"`);
    }
    const permissions = volume.readOnly === true ? 'r' : 'mrw';
    return { container_path: devicePath, host_path: volume.device, permissions };
  });
}

/** The sub-paths to bind before the container is created. Throws as {@link volumeMounts}. */
export function volumeSubPaths(input: MountsInput): readonly SubPath[] {
  return (input.container.volumeMounts ?? []).flatMap((mount, at) => {
    const path = subPath(mount, input.lookup);
    if (path === '') return [];
    const { hostPath, image } = mountedVolume(mount, input);
    if (image) return [];
    const target = subPathTarget(mount, at, input);
    return [{ container: input.container.name, volume: mount.name, volumePath: hostPath, subPath: path, target }];
  });
}

function mountedVolume(mount: VolumeMount, { container, volumes }: MountsInput): MountedVolume {
  const volume = Object.hasOwn(volumes, mount.name) ? volumes[mount.name] : undefined;
  if (volume !== undefined && volume.device === undefined) return volume;
  throw new Error(`cannot find volume "${mount.name}" to mount into container "${container.name}"`);
}

const subPathTarget = ({ name }: VolumeMount, at: number, { pod, container, node }: MountsInput): string =>
  `${podDirectory(pod, node)}/volume-subpaths/${name}/${container.name}/${at}`;

function criMount(mount: VolumeMount, volume: MountedVolume, hostPath: string, canRecurse: boolean): Mount {
  const propagation = PROPAGATION[mount.mountPropagation ?? ''];
  const readOnly = mount.readOnly === true || volume.readOnly === true;
  return {
    container_path: absolute(mount.mountPath),
    host_path: hostPath,
    ...(readOnly ? { readonly: true } : {}),
    ...(propagation === undefined ? {} : { propagation }),
    ...(isRecursive(mount, canRecurse) ? { recursive_read_only: true } : {}),
    ...(volume.relabel === true ? { selinux_relabel: true } : {}),
  };
}

/** An image is always read-only. Its sub-path is resolved by the runtime, within the image. */
function imageMount(
  mount: VolumeMount,
  volume: MountedVolume & Required<Pick<MountedVolume, 'image'>>,
  part: string,
  { pod, node, recursiveReadOnly, handler }: MountsInput,
): Mount {
  const { reference, ref } = volume.image;
  if (ref === undefined) throw new Error(`the image of volume "${mount.name}" is not on the node: ${reference}`);
  const annotations = pod.metadata.annotations ?? {};
  return {
    ...criMount(mount, { ...volume, readOnly: true }, '', recursiveReadOnly),
    image: {
      image: ref,
      user_specified_image: reference,
      ...(handler === '' || hasBehavior(node, 'detailsAsKubelet') ? {} : { runtime_handler: handler }),
      ...(Object.keys(annotations).length === 0 ? {} : { annotations: { ...annotations } }),
    },
    ...(part === '' ? {} : { image_sub_path: part }),
  };
}

/** Throws if a recursive read-only mount is requested and not possible. */
export function isRecursive(mount: VolumeMount, canRecurse: boolean): boolean {
  const { name, readOnly, mountPropagation = 'None', recursiveReadOnly: wanted = 'Disabled' } = mount;
  if (wanted === 'Disabled') return false;
  const failure = `failed to resolve recursive read-only mode: volume "${name}" requested recursive read-only mode, but`;
  if (readOnly !== true) throw new Error(`${failure} it is not read-only`);
  if (mountPropagation !== 'None')
    throw new Error(`${failure} it is not compatible with propagation "${mountPropagation}"`);
  if (wanted === 'Enabled' && !canRecurse) throw new Error(`${failure} it is not supported by the runtime`);
  return canRecurse;
}
/** The path made absolute, as runtimes require. */
export const absolute = (path: string): string => (path.startsWith('/') ? path : `/${path}`);

function subPath(mount: VolumeMount, lookup: (name: string) => string | undefined): string {
  const { subPathExpr = '', subPath: plain = '' } = mount;
  if (subPathExpr === '') return checkedSubPath(plain);
  const { text, missing } = expandStrictly(subPathExpr, lookup);
  if (missing.length > 0) throw new Error(`missing value for ${[...new Set(missing)].toSorted().join(', ')}`);
  return checkedSubPath(text);
}

function checkedSubPath(path: string): string {
  if (path.startsWith('/')) throw new Error(`error SubPath \`${path}\` must not be an absolute path`);
  if (path.split('/').includes('..')) {
    throw new Error(`unable to provision SubPath \`${path}\`: must not contain '..'`);
  }
  return path;
}
