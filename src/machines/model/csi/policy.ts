/**
 * The volumes of pods as a CSI driver publishes them, the requests to the drivers, and the errors before a driver is
 * called. Pure.
 *
 * Invariant: every text for users is upstream's. Upstream: pkg/volume/csi.
 */
import { sha256 } from '../../../kernel/xstate.ts';
import type { CSIDriverSpec, Pod, Volume, VolumeAttachment } from '../api/pod.ts';
import type { NodePublishRequest, NodeStageRequest, VolumeCapability, VolumeData } from '../operations/csi.ts';
import type { BoundVolume, Content } from '../operations/volume.ts';
import { type Decider, hasBehavior } from '../settings/behaviors.ts';
import type { CSIPod, CSIVolume, Driver, StagedDevice } from './messages.ts';
import { migratedOfPod } from './migration.ts';
import { withLabel } from './selinux.ts';

/** The capabilities that a driver reports: see `csi.capabilities`. */
export type Capabilities = readonly string[];
export type Secrets = Readonly<Record<string, Content>>;

export const PLUGIN = 'kubernetes.io/csi';
const PERSISTENT = 'Persistent';
const EPHEMERAL = 'Ephemeral';

export const deviceKey = ({ driver, handle }: Pick<CSIVolume, 'driver' | 'handle'>): string => `${driver}^${handle}`;
/** The name of the volume in the Node's status. */
export const uniqueName = (key: string): string => `${PLUGIN}/${key}`;
export const ephemeralHandle = (uid: string, volume: string): string => `csi-${sha256(`${uid}${volume}`)}`;
export const attachmentName = ({ driver, handle }: Pick<CSIVolume, 'driver' | 'handle'>, nodeName: string): string =>
  `csi-${sha256(`${handle}${driver}${nodeName}`)}`;

export const notRegistered = (driver: string): string =>
  `driver name ${driver} not found in the list of registered CSI drivers`;

/** Without a CSIDriver object a volume has to be attached. */
export const isAttachable = ({ spec }: Driver): boolean => spec?.attachRequired !== false;

/**
 * Why the driver does not support this kind of volume; empty if it does. Upstream does not check this for block
 * devices.
 */
export function modeRefusal({ driver, isEphemeral, isBlock }: CSIVolume, spec: CSIDriverSpec | null): string {
  if (isBlock) return '';
  const mode = isEphemeral ? EPHEMERAL : PERSISTENT;
  if (spec === null && !isEphemeral) return '';
  const refusal = `volume mode "${mode}" not supported by driver ${driver}`;
  if (spec === null) return `${refusal} (no CSIDriver object)`;
  const modes = spec.volumeLifecycleModes ?? [PERSISTENT];
  if (modes.includes(mode)) return '';
  return `${refusal} (only supports [${modes.map((each) => JSON.stringify(each)).join(' ')}])`;
}

/** True for a volume that only one pod may use. */
export const isForOnePod = ({ accessModes }: CSIVolume): boolean =>
  accessModes.length === 1 && accessModes[0] === 'ReadWriteOncePod';
export const TAKEN = 'volume uses the ReadWriteOncePod access mode and is already in use by another pod';

/** The state of an attachment: attached, pending (`null`), or the error. */
export function attachmentOf({ metadata, status }: VolumeAttachment): StagedDevice['publishContext'] | string | null {
  if (metadata?.deletionTimestamp !== undefined) return 'volume attachment is being deleted';
  if (status?.attached === true) return status.attachmentMetadata ?? {};
  return status?.attachError?.message ?? null;
}

/** The status code of gRPC. */
const RESOURCE_EXHAUSTED = 8;

export const isNodeFull = ({ status }: VolumeAttachment): boolean =>
  status?.attachError?.errorCode === RESOURCE_EXHAUSTED;

/** The period of asking a driver for its attach limit; 0: only at registration. */
export const limitsPeriodMs = (spec: CSIDriverSpec | null | undefined): number =>
  (spec?.nodeAllocatableUpdatePeriodSeconds ?? 0) * 1_000;

/** A driver with this capability distinguishes one writer from several on one node. */
function accessMode([mode = 'ReadWriteOnce']: readonly string[], capabilities: Capabilities): string {
  const isPrecise = capabilities.includes('SINGLE_NODE_MULTI_WRITER');
  switch (mode) {
    case 'ReadWriteOnce':
      return isPrecise ? 'SINGLE_NODE_MULTI_WRITER' : 'SINGLE_NODE_WRITER';
    case 'ReadWriteOncePod':
      return isPrecise ? 'SINGLE_NODE_SINGLE_WRITER' : 'SINGLE_NODE_WRITER';
    case 'ReadOnlyMany':
      return 'MULTI_NODE_READER_ONLY';
    case 'ReadWriteMany':
      return 'MULTI_NODE_MULTI_WRITER';
    default:
      return 'UNKNOWN';
  }
}

/** The driver changes the volume's group itself. */
const mountsForGroup = (capabilities: Capabilities): boolean => capabilities.includes('VOLUME_MOUNT_GROUP');
export const stages = (capabilities: Capabilities): boolean => capabilities.includes('STAGE_UNSTAGE_VOLUME');

/** `group`: the driver assigns it to the files; `label`: of the files, by SELinux. Empty for none. */
export const capabilityOf = (
  { isBlock, fsType, mountOptions, accessModes }: CSIVolume,
  capabilities: Capabilities,
  { group = '', label = '' } = {},
): VolumeCapability => ({
  ...(isBlock
    ? { block: {} }
    : { mount: { fs_type: fsType, mount_flags: withLabel(mountOptions, label), volume_mount_group: group } }),
  access_mode: { mode: accessMode(accessModes, capabilities) },
});

const groupOf = ({ fsGroup }: CSIVolume, capabilities: Capabilities): string =>
  fsGroup !== null && mountsForGroup(capabilities) ? String(fsGroup) : '';

const mountCapability = (volume: CSIVolume, { capabilities, label }: RequestInput): VolumeCapability =>
  capabilityOf(volume, capabilities, { group: groupOf(volume, capabilities), label });

interface RequestInput {
  readonly capabilities: Capabilities;
  readonly secrets: Secrets;
  /** The SELinux label; empty for none. */
  readonly label: string;
}

/** `staging`: the staging path. */
export const stageRequest = (
  volume: CSIVolume,
  staging: string,
  more: RequestInput & { readonly publishContext: Readonly<Record<string, string>> },
): NodeStageRequest => ({
  volume_id: volume.handle,
  publish_context: more.publishContext,
  staging_target_path: staging,
  volume_capability: mountCapability(volume, more),
  secrets: more.secrets,
  volume_context: volume.attributes,
});

export const publishRequest = (
  volume: CSIVolume,
  target: string,
  more: RequestInput & { pod: CSIPod; spec: CSIDriverSpec | null; device: StagedDevice | null } & Decider,
): NodePublishRequest => ({
  volume_id: volume.handle,
  publish_context: more.device?.publishContext ?? {},
  staging_target_path: more.device?.stagingPath ?? '',
  target_path: target,
  volume_capability: mountCapability(volume, more),
  readonly: volume.readOnly,
  secrets: more.secrets,
  volume_context: { ...volume.attributes, ...podInfo(volume, more) },
});

/** The pod's attributes for the driver. */
function podInfo(
  { isEphemeral, isBlock }: CSIVolume,
  { pod, spec, behavior }: { readonly pod: CSIPod; readonly spec: CSIDriverSpec | null } & Decider,
): Readonly<Record<string, string>> {
  const isLeftOut = isBlock && !hasBehavior({ behavior }, 'blockDevicesAsKubelet');
  if (spec?.podInfoOnMount !== true || isLeftOut) return {};
  return {
    'csi.storage.k8s.io/pod.name': pod.name,
    'csi.storage.k8s.io/pod.namespace': pod.namespace,
    'csi.storage.k8s.io/pod.uid': pod.uid,
    'csi.storage.k8s.io/serviceAccount.name': pod.serviceAccount,
    'csi.storage.k8s.io/ephemeral': String(isEphemeral),
  };
}

/** The group that the agent itself assigns to the files; `null` to leave them unchanged. */
export function ownershipOf(volume: CSIVolume, spec: CSIDriverSpec | null, capabilities: Capabilities) {
  const { fsGroup, fsType, accessModes, isEphemeral, isBlock, readOnly, fsGroupOnlyTop: onlyTop } = volume;
  if (fsGroup === null || readOnly || isBlock || mountsForGroup(capabilities)) return null;
  const policy = spec?.fsGroupPolicy ?? 'ReadWriteOnceWithFSType';
  const isForOneNode = isEphemeral || accessModes.some((mode) => ONE_NODE.has(mode));
  const setsGroup = policy === 'File' || (policy === 'ReadWriteOnceWithFSType' && fsType !== '' && isForOneNode);
  return setsGroup ? { groupId: fsGroup, onlyTop } : null;
}

const ONE_NODE: ReadonlySet<string> = new Set(['ReadWriteOnce', 'ReadWriteOncePod']);

/** The label that a volume is mounted with: a volume with another one has to be unmounted first. */
const labelData = (label: string): VolumeData => (label === '' ? {} : { seLinuxMountContext: label });

/** The record of the device; for a block device it is the only one. */
export const deviceData = (volume: CSIVolume, nodeName: string, label: string): VolumeData => ({
  driverName: volume.driver,
  volumeHandle: volume.handle,
  ...labelData(label),
  ...(volume.isBlock ? { specVolID: volume.spec, nodeName, attachmentID: attachmentName(volume, nodeName) } : {}),
});

export const volumeData = (volume: CSIVolume, nodeName: string, label: string): VolumeData => ({
  attachmentID: attachmentName(volume, nodeName),
  driverName: volume.driver,
  nodeName,
  specVolID: volume.spec,
  volumeHandle: volume.handle,
  volumeLifecycleMode: volume.isEphemeral ? EPHEMERAL : PERSISTENT,
  ...labelData(label),
});

type Group = Pick<CSIVolume, 'fsGroup' | 'fsGroupOnlyTop'>;

const groupOfPod = ({ spec: { securityContext } }: Pod): Group => ({
  fsGroup: securityContext?.fsGroup ?? null,
  fsGroupOnlyTop: securityContext?.fsGroupChangePolicy === 'OnRootMismatch',
});

/**
 * `bound`: the PersistentVolume of a claim; `null` for an inline volume. Returns `null` if no CSI driver is needed.
 *
 * @throws Error with upstream's text, if an inline volume of an earlier plugin is none that its driver can have
 */
export function csiVolumeOf(
  volume: Volume,
  bound: BoundVolume | null,
  { pod, node }: { readonly pod: Pod; readonly node: Decider },
): CSIVolume | null {
  if (bound) return persistent(volume, bound, pod);
  if (volume.csi) return ephemeral(volume.name, volume.csi, pod);
  const migrated = hasBehavior(node, 'networkVolumes') ? migratedOfPod(volume, pod.metadata.namespace) : null;
  return migrated && persistent(volume, { ...migrated, size: null }, pod);
}

/** `size`: of a claim; `null` for a volume of the pod itself. */
type Persistent = Pick<BoundVolume, 'name' | 'spec'> & { readonly size: BoundVolume['size'] | null };

function persistent(volume: Volume, { name, spec, size }: Persistent, pod: Pod): CSIVolume | null {
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
    size: size && { ...size, wanted: spec.capacity?.['storage'] ?? '' },
    ...groupOfPod(pod),
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
    ...groupOfPod(pod),
  };
}
