/**
 * The paths of a CSI volume. Pure. Other agents of the node rely on upstream's layout.
 *
 * A volume with a file system has a folder for the node, by its handle, and one in the pod, by its PersistentVolume; a
 * block device has its folders by its PersistentVolume, below `volumeDevices`.
 */
import { sha256 } from '../../../kernel/xstate.ts';
import type { BlockMount, BlockStage } from '../operations/csi.ts';
import type { CSIVolume, DiskOfVolume } from './messages.ts';

const PLUGIN = 'kubernetes.io/csi';
const POD_PLUGIN = 'kubernetes.io~csi';
const BLOCK = `plugins/${PLUGIN}/volumeDevices`;

/** A volume shared between the pods of the node. `block`: the name of the PersistentVolume of a block device. */
export interface DeviceId {
  readonly driver: string;
  readonly handle: string;
  readonly block: string | null;
  /** Absent for a volume of a CSI driver. */
  readonly disk?: Omit<DiskOfVolume, 'source'>;
}

export const deviceIdOf = ({ driver, handle, spec, isBlock, disk }: CSIVolume): DeviceId => ({
  driver,
  handle,
  block: isBlock ? spec : null,
  ...(disk ? { disk: { folder: disk.folder, uniqueName: disk.uniqueName } } : {}),
});

interface DevicePlace {
  /** The folder of the record. */
  readonly directory: string;
  /** The driver's staging path. */
  readonly staging: string;
  readonly block: BlockStage | null;
}

export function devicePlace(root: string, { driver, handle, block }: DeviceId): DevicePlace {
  if (block === null) {
    const directory = `${root}/plugins/${PLUGIN}/${driver}/${sha256(handle)}`;
    return { directory, staging: `${directory}/globalmount`, block: null };
  }
  const folder = `${root}/${BLOCK}/${block}`;
  const staging = `${root}/${BLOCK}/staging/${block}`;
  return { directory: `${folder}/data`, staging, block: { staging, published: publishedFolder(root, block), folder } };
}

const publishedFolder = (root: string, spec: string): string => `${root}/${BLOCK}/publish/${spec}`;

/** The folders of the node and of the pod. */
interface Folders {
  readonly root: string;
  readonly podDirectory: string;
}

interface MountPlace {
  /** The folder of the record, or of the driver's target path. */
  readonly directory: string;
  /** The driver's target path. */
  readonly target: string;
  readonly block: BlockMount | null;
}

export function mountPlace(
  { root, podDirectory }: Folders,
  { spec, isBlock }: Pick<CSIVolume, 'spec' | 'isBlock'>,
): MountPlace {
  if (!isBlock) {
    const directory = `${podDirectory}/volumes/${POD_PLUGIN}/${spec}`;
    return { directory, target: `${directory}/mount`, block: null };
  }
  const uid = podDirectory.slice(podDirectory.lastIndexOf('/') + 1);
  const directory = publishedFolder(root, spec);
  const target = `${directory}/${uid}`;
  const link = `${podDirectory}/volumeDevices/${POD_PLUGIN}/${spec}`;
  return { directory, target, block: { target, link, map: `${root}/${BLOCK}/${spec}/dev/${uid}` } };
}

/** The folder with the bind mounts of all pods' paths to a block device. */
export const mapFolder = ({ map }: BlockMount): string => map.slice(0, map.lastIndexOf('/'));
export const linkFolder = ({ link }: BlockMount): string => link.slice(0, link.lastIndexOf('/'));
