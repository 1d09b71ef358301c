/** Types and derivations of `csiVolumes`: its context and events. Pure. The chart is in `csi-volumes.ts`. */

import { type Ended, type EnqueueOf, pick, setup, typed } from '../../../kernel/xstate.ts';
import type { CSIDriverSpec } from '../../model/api/pod.ts';
import { diskFound, isDiskPlugin } from '../../model/csi/disks.ts';
import type {
  CSIDriverChange,
  CSIOverdue,
  CSIPod,
  CSIReleased,
  CSIVolume,
  CSIWanted,
  DeviceReport,
  Driver,
  MountReport,
  NodeVolumes,
  StagedDevice,
} from '../../model/csi/messages.ts';
import type { DeviceId } from '../../model/csi/paths.ts';
import { deviceKey, isAttachable, isForOnePod, limitsPeriodMs, uniqueName } from '../../model/csi/policy.ts';
import { labelOf } from '../../model/csi/selinux.ts';
import { type CSIInventory, csiOperations, type FoundDevice, type FoundVolume } from '../../model/operations/csi.ts';
import { memoize } from '../../model/values/same.ts';
import { valueIn } from '../../model/values/tables.ts';
import { type ReflectorReport, reflectorMachine } from '../kube/reflector.ts';
import { csiDeviceMachine } from './device.ts';
import { diskMachine } from './disk.ts';
import { diskMountMachine } from './disk-mount.ts';
import { csiHealthMachine } from './health.ts';
import { csiMountMachine } from './mount.ts';

export interface CSIVolumesInput {
  readonly rootDir: string;
  readonly nodeName: string;
  /** See `BEHAVIORS`. */
  readonly behavior: number;
  /** The period of asking drivers for the health of the pods' volumes; absent: never. */
  readonly healthPeriodMs?: number;
  /** The agent attaches volumes itself, and does not wait for the cluster's controller. */
  readonly attachesItself?: true;
}

export interface PodOfVolumes {
  /** `null`: only the release of this pod was reported. */
  readonly pod: CSIPod | null;
  readonly volumes: readonly CSIVolume[];
  readonly isReleased: boolean;
}

export interface Mount {
  readonly id: string;
  readonly uid: string;
  readonly volume: CSIVolume;
  /** True while a pod wants the volume; false for a volume known only by its record on disk. */
  readonly isWanted: boolean;
  readonly isPublished: boolean;
  /** An earlier agent may have published the volume. */
  readonly mayBePublished: boolean;
  /** The last message to its actor, as JSON. */
  readonly reported: string;
}

export interface Device {
  readonly id: string;
  readonly key: string;
  readonly volume: DeviceId;
  readonly staged: StagedDevice | null;
  /**
   * The SELinux label of all its mounts, that of its first user; empty for none. `null`: not known yet, as the
   * CSIDriver objects are not.
   */
  readonly label: string | null;
  /** The attach limit of this node is reached: the volume cannot be attached. */
  readonly isNodeFull: boolean;
  /** The size of the volume on this node; empty if unknown. */
  readonly size: string;
  readonly reported: string;
}

export interface Context extends CSIVolumesInput {
  /** Volumes and devices that earlier agents left and that have no actor yet; `null` before the disk was read. */
  readonly found: Pick<CSIInventory, 'volumes' | 'devices'> | null;
  /** Sockets of the drivers that are registered on this node, by driver name. */
  readonly endpoints: Readonly<Record<string, string>>;
  /**
   * Drivers of volumes that earlier agents left: as they register at the start of the agent, a volume waits for them
   * without a failure, for a while.
   */
  readonly awaited: readonly string[];
  /** Specifications of the CSIDriver objects by name; `null` before they are listed. */
  readonly drivers: Readonly<Record<string, CSIDriverSpec>> | null;
  readonly node: Omit<NodeVolumes, 'type'>;
  readonly pods: Readonly<Record<string, PodOfVolumes>>;
  /** Volumes of pods, in the order in which their actors started. */
  readonly mounts: readonly Mount[];
  readonly devices: readonly Device[];
  /** The number of actors spawned so far: an id is never reused. */
  readonly spawned: number;
  /** `volumesInUse` as last sent to `nodeStatus`; `null` if nothing was sent, or the Node does not list it. */
  readonly inUse: readonly string[] | null;
  /** How often each driver is asked for its attach limit, as last sent to `pluginManager`; absent: never. */
  readonly periods: Readonly<Record<string, number>>;
}

export type Event =
  | CSIDriverChange
  | CSIOverdue
  | CSIReleased
  | CSIWanted
  | DeviceReport
  | MountReport
  | NodeVolumes
  | ReflectorReport
  | Ended
  /** The time for drivers of an earlier agent to register is over. */
  | { readonly type: 'csi.driversOverdue' }
  | { readonly type: 'csi.respawn' };

const isOfDriver = ({ driver }: { readonly driver: string }): boolean => !isDiskPlugin(driver);

export const csiVolumesSetup = setup({
  types: typed<{ input: CSIVolumesInput; context: Context; events: Event }>(),
  actors: {
    device: csiDeviceMachine,
    disk: diskMachine,
    diskMount: diskMountMachine,
    health: csiHealthMachine,
    mount: csiMountMachine,
    reflector: reflectorMachine,
    ...pick(csiOperations, 'csi.inventory'),
  },
  guards: {
    isUsed: ({ context: { pods, found, endpoints } }) =>
      Object.keys(endpoints).length > 0 ||
      Object.values(pods).some(({ volumes }) => volumes.some(isOfDriver)) ||
      (found?.volumes ?? []).some(isOfDriver) ||
      (found?.devices ?? []).some(isOfDriver),
  },
});

export type Enqueue = EnqueueOf<typeof csiVolumesSetup>;

export const podDirectoryOf = ({ rootDir }: Context, uid: string): string => `${rootDir}/pods/${uid}`;

/** The plugin of a disk is always here; whether its volumes are attached by others decides the configuration alone. */
function driverOf({ endpoints, drivers, attachesItself }: Context, name: string): Driver {
  if (isDiskPlugin(name))
    return { endpoint: null, spec: { attachRequired: attachesItself !== true, seLinuxMount: true } };
  const endpoint = valueIn(endpoints, name) ?? null;
  const known = attachesItself === true ? { endpoint, attachesItself } : { endpoint };
  return drivers === null ? known : { ...known, spec: valueIn(drivers, name) ?? null };
}

/** A driver as the actors of volumes know it: nothing, while it is awaited. */
export function knownDriver(context: Context, name: string): Driver {
  const driver = driverOf(context, name);
  return driver.endpoint === null && context.awaited.includes(name) ? { endpoint: null } : driver;
}

/** The description of a volume known only by its record on disk: enough to unpublish it. */
export const volumeFound = ({ spec, driver, handle, isEphemeral, isBlock, folder }: FoundVolume): CSIVolume => ({
  name: spec,
  spec,
  driver,
  handle,
  isEphemeral,
  isBlock,
  readOnly: false,
  fsType: '',
  attributes: {},
  accessModes: [],
  mountOptions: [],
  stageSecret: null,
  publishSecret: null,
  expandSecret: null,
  size: null,
  fsGroup: null,
  fsGroupOnlyTop: false,
  ...(folder === undefined ? {} : { disk: diskFound(driver, folder) }),
});

/** The device that an earlier agent left. */
export const deviceFound = ({ driver, handle, block, folder }: FoundDevice): DeviceId => ({
  driver,
  handle,
  block,
  ...(folder === undefined ? {} : { disk: diskFound(driver, folder) }),
});

export const podFound = (uid: string): CSIPod => ({ kind: 'Pod', namespace: '', name: '', uid, serviceAccount: '' });

const NO_MOUNTS: readonly Mount[] = [];

const mountsByDevice = memoize((mounts: readonly Mount[]) =>
  Map.groupBy(
    mounts.filter(({ volume }) => !volume.isEphemeral),
    ({ volume }) => deviceKey(volume),
  ),
);

export const usersOf = ({ mounts }: Pick<Context, 'mounts'>, key: string): readonly Mount[] =>
  mountsByDevice(mounts).get(key) ?? NO_MOUNTS;

const devicesByKey = memoize((devices: readonly Device[]) => new Map(devices.map((device) => [device.key, device])));

export const deviceOf = ({ devices }: Pick<Context, 'devices'>, key: string): Device | undefined =>
  devicesByKey(devices).get(key);

/** The key of a pod's volume among all mounts. */
const volumeKey = (uid: string, spec: string): string => `${uid}/${spec}`;

const mountsByVolume = memoize(
  (mounts: readonly Mount[]) => new Map(mounts.map((mount) => [volumeKey(mount.uid, mount.volume.spec), mount])),
);

export const mountOf = ({ mounts }: Pick<Context, 'mounts'>, uid: string, spec: string): Mount | undefined =>
  mountsByVolume(mounts).get(volumeKey(uid, spec));

const isFoundElsewhere = ({ found }: Context, key: string, uid: string): boolean =>
  (found?.volumes ?? []).some((each) => !each.isEphemeral && each.uid !== uid && deviceKey(each) === key);

/** Whether another pod mounted the volume first, and only one pod may use it. */
export function isTaken(context: Context, { uid, volume }: Mount): boolean {
  if (!isForOnePod(volume)) return false;
  const key = deviceKey(volume);
  return usersOf(context, key)[0]?.uid !== uid || isFoundElsewhere(context, key, uid);
}

/**
 * The driver of a missing volume that has no room left on this node and reports its limit periodically; `null` if there
 * is none.
 */
export function fullDriver({ pods, devices, drivers }: Context, uid: string): string | null {
  const full = new Set(devices.filter(({ isNodeFull }) => isNodeFull).map(({ key }) => key));
  const missing = (pods[uid]?.volumes ?? []).filter((volume) => !volume.isEphemeral && full.has(deviceKey(volume)));
  return missing.find(({ driver }) => limitsPeriodMs(drivers?.[driver]) > 0)?.driver ?? null;
}

/** Names of a pod's volumes that are not published, and of those that are not attached. */
export function missingVolumes(context: Context, uid: string) {
  const isPublished = ({ spec }: CSIVolume) => mountOf(context, uid, spec)?.isPublished ?? false;
  const isAttached = (volume: CSIVolume) =>
    volume.isEphemeral ||
    !isAttachable(driverOf(context, volume.driver)) ||
    isNamed(context.node.attached, statusName(volume));
  const unmounted = (context.pods[uid]?.volumes ?? []).filter((volume) => !isPublished(volume));
  const names = (volumes: readonly CSIVolume[]) => volumes.map(({ name }) => name).toSorted();
  return { unmounted: names(unmounted), unattached: names(unmounted.filter((volume) => !isAttached(volume))) };
}

const foundByDevice = memoize(
  (found: readonly FoundVolume[]) => new Set(found.filter(({ isEphemeral }) => !isEphemeral).map(deviceKey)),
);

/** True while a volume of the device is in use, or may still be. */
export const isDeviceUsed = (context: Context, key: string): boolean =>
  isMounted(context, key) || (context.found !== null && foundByDevice(context.found.volumes).has(key));

function isMounted(context: Context, key: string): boolean {
  const users = usersOf(context, key);
  const device = deviceOf(context, key);
  return device === undefined ? users.length > 0 : users.some((mount) => fits(context, mount, device));
}

/** The label that the volume of a pod needs; `null` while the CSIDriver objects are not known. */
function neededLabel(context: Context, { volume }: Mount): string | null {
  const { spec } = driverOf(context, volume.driver);
  return spec === undefined ? null : labelOf(volume, spec);
}

/**
 * False for a volume of a pod that needs another label than the device has: the device is unstaged first, and staged
 * again with that label. A volume that is published, or may be, uses the device in any case.
 */
export function fits(context: Context, mount: Mount, { label }: Device): boolean {
  const { isPublished, mayBePublished, isWanted } = mount;
  if (label === null || isPublished || mayBePublished || !isWanted) return true;
  const needed = neededLabel(context, mount);
  return needed === null || needed === label;
}

/** The label that its first user gives to a device; `null` while it is not known. */
export function labelOfFirst(context: Context, key: string): string | null {
  const user = usersOf(context, key).find(({ isWanted }) => isWanted);
  return user === undefined ? null : neededLabel(context, user);
}

/** The label with which other pods use the device, if this pod needs another one; `null` if there is no conflict. */
export function conflictOf(context: Context, mount: Mount, device: Device): string | null {
  if (mount.volume.seLinuxLabel === undefined || fits(context, mount, device)) return null;
  const isInUse = usersOf(context, device.key).some((each) => each.isWanted && fits(context, each, device));
  return isInUse ? device.label : null;
}

const setOf = memoize((names: readonly string[]) => new Set(names));

export const isNamed = (names: readonly string[], name: string): boolean => setOf(names).has(name);

/** The name of the volume in the Node's status. */
export const statusName = (volume: Pick<DeviceId, 'driver' | 'handle' | 'disk'>): string =>
  volume.disk?.uniqueName ?? uniqueName(deviceKey(volume));

/** The volumes that the Node must list: a volume that is used, or not unstaged yet, must not be detached. */
export function volumesInUse(context: Context): readonly string[] {
  const { mounts, devices, found, attachesItself } = context;
  if (attachesItself === true) return [];
  const volumes = [...mounts.map(({ volume }) => volume), ...(found?.volumes ?? []).map(volumeFound)];
  const all = [
    ...volumes.filter(({ isEphemeral }) => !isEphemeral),
    ...devices.map(({ volume }) => volume),
    ...(found?.devices ?? []).map(deviceFound),
  ];
  const attachable = all.filter(({ driver }) => isAttachable(driverOf(context, driver)));
  return [...new Set(attachable.map(statusName))].toSorted();
}

/** The context after the volumes on disk were listed; nothing starts before. */
export type Listed = Context & { readonly found: NonNullable<Context['found']> };

export const isWithoutActor = (entry: { readonly id: string } | undefined): boolean =>
  entry === undefined || entry.id === '';

/** The previous list if no entry changed, so that memoized derivations stay valid. */
export const sameIfEqual = <Entry>(before: readonly Entry[], after: readonly Entry[]): readonly Entry[] =>
  after.every((entry, at) => entry === before[at]) ? before : after;
