/** The vocabulary of `csiVolumes`: what it knows, and what follows from it. Pure. The chart is in `csi-volumes.ts`. */
import { declaredTypes, pick, setup } from '../../../kernel/xstate.ts';
import type { CSIDriverSpec } from '../../model/api/storage.ts';
import type {
  CSIDriverNews,
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
import type { DeviceId } from '../../model/csi/places.ts';
import { deviceKey, isAttachable, isForOnePod, limitsPeriodMs, uniqueName } from '../../model/csi/policy.ts';
import { type CSIInventory, csiOperations, type FoundVolume } from '../../model/operations/csi.ts';
import type { Ended } from '../../model/pods/messages.ts';
import { type ReflectorReport, reflectorMachine } from '../kube/reflector.ts';
import { csiDeviceMachine } from './device.ts';
import { csiHealthMachine } from './health.ts';
import { csiMountMachine } from './mount.ts';

export interface CSIVolumesInput {
  readonly rootDir: string;
  readonly nodeName: string;
  /** How often drivers are asked how the volumes of pods are; absent: they are not. */
  readonly healthPeriodMs?: number;
}

export interface PodOfVolumes {
  /** `null`: only its end was heard of. */
  readonly pod: CSIPod | null;
  readonly volumes: readonly CSIVolume[];
  readonly isReleased: boolean;
}

export interface Mount {
  readonly id: string;
  readonly uid: string;
  readonly volume: CSIVolume;
  /** A pod asked for it; otherwise only its record is known. */
  readonly isWanted: boolean;
  readonly isPublished: boolean;
  /** The last message to its actor. */
  readonly reported: string;
}

export interface Device {
  readonly id: string;
  readonly key: string;
  readonly volume: DeviceId;
  readonly staged: StagedDevice | null;
  /** It cannot be attached: no more volumes fit on this node. */
  readonly isNodeFull: boolean;
  /** On this node, as far as is known; empty: not. */
  readonly size: string;
  readonly reported: string;
}

export interface Context extends CSIVolumesInput {
  /** What earlier agents left and no actor has taken over; `null`: the disk was not read yet. */
  readonly found: Pick<CSIInventory, 'volumes' | 'devices'> | null;
  /** By name of a driver that listens on this node. */
  readonly endpoints: Readonly<Record<string, string>>;
  /** By name; `null`: not known yet. */
  readonly drivers: Readonly<Record<string, CSIDriverSpec>> | null;
  readonly node: Omit<NodeVolumes, 'type'>;
  readonly pods: Readonly<Record<string, PodOfVolumes>>;
  /** In the order in which they began. */
  readonly mounts: readonly Mount[];
  readonly devices: readonly Device[];
  /** Actors that there ever were: their names are never used again. */
  readonly spawned: number;
  /** `volumesInUse` as last sent to the Node; `null`: nothing was sent, or the Node does not list it. */
  readonly inUse: readonly string[] | null;
  /** How often drivers are asked how many volumes fit on this node, as was last said; absent: they are not. */
  readonly periods: Readonly<Record<string, number>>;
}

export type Event =
  | CSIDriverNews
  | CSIOverdue
  | CSIReleased
  | CSIWanted
  | DeviceReport
  | MountReport
  | NodeVolumes
  | ReflectorReport
  | Ended
  | { readonly type: 'csi.respawn' };

export const csiVolumesSetup = setup({
  types: declaredTypes<{ input: CSIVolumesInput; context: Context; events: Event }>(),
  actors: {
    device: csiDeviceMachine,
    health: csiHealthMachine,
    mount: csiMountMachine,
    reflector: reflectorMachine,
    ...pick(csiOperations, 'csi.inventory'),
  },
  guards: {
    isUsed: ({ context: { pods, found, endpoints } }) =>
      Object.keys(endpoints).length > 0 ||
      Object.values(pods).some(({ volumes }) => volumes.length > 0) ||
      (found?.volumes.length ?? 0) + (found?.devices.length ?? 0) > 0,
  },
});

export type Enqueue = Parameters<Parameters<typeof csiVolumesSetup.enqueueActions>[0]>[0]['enqueue'];

export const podDirectoryOf = ({ rootDir }: Context, uid: string): string => `${rootDir}/pods/${uid}`;

export function driverOf({ endpoints, drivers }: Context, name: string): Driver {
  const endpoint = endpoints[name] ?? null;
  return drivers === null ? { endpoint } : { endpoint, spec: drivers[name] ?? null };
}

/** What is known of a volume of which only the record is left: enough to take it away. */
export const volumeFound = ({ spec, driver, handle, isEphemeral, isBlock }: FoundVolume): CSIVolume => ({
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
});

export const podFound = (uid: string): CSIPod => ({ kind: 'Pod', namespace: '', name: '', uid, serviceAccount: '' });

/** Mounts of one device, the oldest first. */
export const usersOf = ({ mounts }: Pick<Context, 'mounts'>, key: string): readonly Mount[] =>
  mounts.filter(({ volume }) => !volume.isEphemeral && deviceKey(volume) === key);

const isFoundElsewhere = ({ found }: Context, key: string, uid: string): boolean =>
  (found?.volumes ?? []).some((each) => !each.isEphemeral && each.uid !== uid && deviceKey(each) === key);

/** Another pod had the volume first, and only one may have it. */
export function isTaken(context: Context, { uid, volume }: Mount): boolean {
  if (!isForOnePod(volume)) return false;
  const key = deviceKey(volume);
  return usersOf(context, key)[0]?.uid !== uid || isFoundElsewhere(context, key, uid);
}

/** Of what a pod lacks, a driver that has no room for it on this node, and that is asked from time to time how much. */
export function fullDriver({ pods, devices, drivers }: Context, uid: string): string | null {
  const full = new Set(devices.filter(({ isNodeFull }) => isNodeFull).map(({ key }) => key));
  const lacking = (pods[uid]?.volumes ?? []).filter((volume) => !volume.isEphemeral && full.has(deviceKey(volume)));
  return lacking.find(({ driver }) => limitsPeriodMs(drivers?.[driver]) > 0)?.driver ?? null;
}

/** Names of a pod's volumes that are not published, and of those that are not attached. */
export function missingVolumes(context: Context, uid: string) {
  const isPublished = (volume: CSIVolume) =>
    context.mounts.some((mount) => mount.uid === uid && mount.volume.spec === volume.spec && mount.isPublished);
  const isAttached = (volume: CSIVolume) =>
    volume.isEphemeral ||
    !isAttachable(driverOf(context, volume.driver)) ||
    context.node.attached.includes(uniqueName(deviceKey(volume)));
  const unmounted = (context.pods[uid]?.volumes ?? []).filter((volume) => !isPublished(volume));
  const names = (volumes: readonly CSIVolume[]) => volumes.map(({ name }) => name).toSorted();
  return { unmounted: names(unmounted), unattached: names(unmounted.filter((volume) => !isAttached(volume))) };
}

/** Keys of the devices in use, or possibly still in use. */
export function usedKeys({ mounts, found }: Context): ReadonlySet<string> {
  const volumes = [...mounts.map(({ volume }) => volume), ...(found?.volumes ?? [])];
  return new Set(volumes.filter(({ isEphemeral }) => !isEphemeral).map(deviceKey));
}

/** What the Node has to list: a volume that is used, or not unstaged yet, must not be detached. */
export function volumesInUse(context: Context): readonly string[] {
  const { mounts, devices, found } = context;
  const volumes = [...mounts.map(({ volume }) => volume), ...(found?.volumes ?? [])];
  const all = [
    ...volumes.filter(({ isEphemeral }) => !isEphemeral),
    ...devices.map(({ volume }) => volume),
    ...(found?.devices ?? []),
  ];
  const attachable = all.filter(({ driver }) => isAttachable(driverOf(context, driver)));
  return [...new Set(attachable.map((volume) => uniqueName(deviceKey(volume))))].toSorted();
}
