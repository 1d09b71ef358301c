/**
 * Derives from the context of `csiVolumes` which actors start and which messages they get, level-triggered. Part of
 * `csi-volumes.ts`.
 *
 * Invariant: an actor gets a message only if it differs from the last one.
 */
import { type AnyActorRef, to } from '../../../kernel/xstate.ts';
import { isDiskPlugin } from '../../model/csi/disks.ts';
import type { CSIFailure, CSILimits, CSIReport, DeviceOrder, Expansion, MountOrder } from '../../model/csi/messages.ts';
import { type DeviceId, deviceIdOf, mountPlace } from '../../model/csi/paths.ts';
import { deviceKey, limitsPeriodMs } from '../../model/csi/policy.ts';
import type { FoundVolume } from '../../model/operations/csi.ts';
import { pickKeys, valueIn } from '../../model/values/tables.ts';
import type { Context, Device, Enqueue, Listed, Mount } from './csi-volumes-setup.ts';
import {
  conflictOf,
  deviceFound,
  deviceOf,
  fits,
  isDeviceUsed,
  isNamed,
  isTaken,
  isWithoutActor,
  knownDriver,
  labelOfFirst,
  mountOf,
  podDirectoryOf,
  podFound,
  sameIfEqual,
  statusName,
  usersOf,
  volumeFound,
  volumesInUse,
} from './csi-volumes-setup.ts';
import { isKnown, isLarger } from './expansion-policy.ts';

const isListed = (context: Context): context is Listed => context.found !== null;

/** Starts actors and sends messages that are due, and returns the resulting context. */
export function reconcile(enqueue: Enqueue, before: Context): Context {
  if (!isListed(before)) return before;
  const steps = [
    beginMounts,
    beginDevices,
    noteLabels,
    noteSizes,
    sendDevices,
    sendMounts,
    sendPods,
    sendNode,
    sendPeriods,
  ];
  return steps.reduce<Listed>((context, step) => step(enqueue, context), before);
}

export function sendUsers(enqueue: Enqueue, context: Context, key: string, failure: CSIFailure): void {
  const order: MountOrder = { type: 'mount.deviceFailed', ...failure };
  for (const { id } of usersOf(context, key)) if (id !== '') enqueue.sendTo<AnyActorRef>(id, order);
}

/** With CSIVolumeHealth the driver is asked for the health of a volume once it is published. */
export function beginHealth(enqueue: Enqueue, context: Context, { id, uid, volume }: Mount): void {
  const { healthPeriodMs: periodMs, endpoints, rootDir: root } = context;
  const [endpoint, known] = [valueIn(endpoints, volume.driver), context.pods[uid]?.pod];
  if (periodMs === undefined || endpoint === undefined || !known) return;
  const { serviceAccount: _, ...pod } = known;
  const { target: path } = mountPlace({ root, podDirectory: podDirectoryOf(context, uid) }, volume);
  const input = { pod, name: volume.name, endpoint, handle: volume.handle, path, periodMs };
  enqueue.spawnChild('health', { id: healthOf(id), input });
}

/** The id of the health actor contains the id of the mount's actor. */
export const healthOf = (mount: string): string => `health-${mount}`;

export function reportMounted(enqueue: Enqueue, context: Context, uid: string): void {
  const published = context.mounts.filter((mount) => mount.uid === uid && mount.isPublished);
  const names = published.map(({ volume }) => volume.name);
  const labelled = published.filter((mount) => mountLabelOf(context, mount) !== '').map(({ volume }) => volume.name);
  const more = labelled.length === 0 ? {} : { labelled };
  if (names.length > 0) enqueue.sendTo(to('pods'), { type: 'csi.mounted', uid, names, ...more } satisfies CSIReport);
}

/** The SELinux label of a volume is that of its device. */
const mountLabelOf = (context: Context, { volume }: Mount): string =>
  (volume.isEphemeral ? undefined : deviceOf(context, deviceKey(volume)))?.label ?? '';

function sendPods(enqueue: Enqueue, context: Listed): Listed {
  const gone = Object.entries(context.pods).filter(
    ([uid, { isReleased }]) =>
      isReleased && context.mounts.every((mount) => mount.uid !== uid) && foundOf(context, uid).length === 0,
  );
  for (const [uid] of gone) enqueue.sendTo(to('pods'), { type: 'csi.unmounted', uid } satisfies CSIReport);
  const uids = new Set(gone.map(([uid]) => uid));
  return { ...context, pods: pickKeys(context.pods, (uid) => !uids.has(uid)) };
}

/** CSIDriver objects decide which volumes are attached; nothing is sent before they are listed. */
function sendNode(enqueue: Enqueue, context: Listed): Listed {
  const { mounts, devices, found } = context;
  const all = [...[...mounts, ...devices].map(({ volume }) => volume), ...found.volumes, ...found.devices];
  if (context.drivers === null && !all.every(({ driver }) => isDiskPlugin(driver))) return context;
  const inUse = volumesInUse(context);
  if (JSON.stringify(inUse) === JSON.stringify(context.inUse)) return context;
  enqueue.sendTo(to('nodeStatus'), { type: 'node.reported', reports: { volumesInUse: inUse } });
  return { ...context, inUse };
}

/** How often drivers are asked for their attach limit: of registered drivers, and of those asked before. */
function sendPeriods(enqueue: Enqueue, context: Listed): Listed {
  const { drivers, endpoints, periods: before } = context;
  if (drivers === null) return context;
  const names = [...new Set([...Object.keys(endpoints), ...Object.keys(before)])];
  const periods = names.map(
    (name) => [name, Object.hasOwn(endpoints, name) ? limitsPeriodMs(valueIn(drivers, name)) : 0] as const,
  );
  for (const [name, periodMs] of periods) {
    if (periodMs === (valueIn(before, name) ?? 0)) continue;
    enqueue.sendTo(to('pluginManager'), { type: 'csi.limitsFollowed', name, periodMs } satisfies CSILimits);
  }
  return { ...context, periods: Object.fromEntries(periods.filter(([, periodMs]) => periodMs > 0)) };
}

/** A device starts with its first user; an unused one that was found on disk starts in order to be unstaged. */
function beginDevices(enqueue: Enqueue, before: Listed): Listed {
  const unused = before.found.devices.filter((device) => !isDeviceUsed(before, deviceKey(device)));
  const crashed = before.devices.filter(({ id }) => id === '').map(({ volume }) => volume);
  const desired = before.mounts.flatMap(({ volume, isWanted }) =>
    volume.isEphemeral || !isWanted ? [] : [deviceIdOf(volume)],
  );
  const begins = new Map<string, DeviceId>();
  for (const id of [...crashed, ...desired, ...unused.map(deviceFound)]) {
    const key = deviceKey(id);
    if (isWithoutActor(deviceOf(before, key)) && !begins.has(key)) begins.set(key, id);
  }
  const begin = (context: Listed, [key, volume]: [string, DeviceId]) =>
    beginDevice(enqueue, context, { key, volume, existing: deviceOf(before, key) });
  return [...begins].reduce(begin, before);
}

/** `existing`: the entry of an actor that crashed. */
type BeginDevice = Pick<Device, 'key' | 'volume'> & { readonly existing: Device | undefined };

/** A device that an earlier agent staged has the label of its record. */
function foundLabel(context: Listed, key: string): string | null {
  const found = context.found.devices.find((device) => deviceKey(device) === key);
  return found === undefined ? labelOfFirst(context, key) : (found.label ?? '');
}

function beginDevice(enqueue: Enqueue, before: Listed, { key, volume, existing }: BeginDevice): Listed {
  const device = {
    id: `device-${before.spawned}`,
    key,
    volume,
    staged: null,
    label: existing === undefined ? foundLabel(before, key) : existing.label,
    isNodeFull: false,
    size: '',
    reported: '',
  };
  const found = before.found.devices;
  const context = {
    ...before,
    found: { ...before.found, devices: found.filter((each) => deviceKey(each) !== key) },
    devices: [...before.devices.filter((each) => each !== existing), device],
    spawned: before.spawned + 1,
  };
  const { type: _, ...known } = deviceOrder(context, device);
  const { rootDir: root, nodeName, behavior } = before;
  const mayBeStaged = existing !== undefined || found.some((each) => deviceKey(each) === key);
  const input = { ...known, key, root, nodeName, behavior, id: device.volume, mayBeStaged };
  enqueue.spawnChild(volume.disk ? 'disk' : 'device', { id: device.id, input });
  return noteDevice(context, key, { reported: JSON.stringify(known) });
}

/** A device gets the label of its first user once the CSIDriver objects are known. */
function noteLabels(_enqueue: Enqueue, context: Listed): Listed {
  const devices = context.devices.map((device) => {
    const label = device.label ?? labelOfFirst(context, device.key);
    return label === device.label ? device : { ...device, label };
  });
  return { ...context, devices: sameIfEqual(context.devices, devices) };
}

/** The size that a volume had when its first user began is its size on this node. */
function noteSizes(_enqueue: Enqueue, context: Listed): Listed {
  const devices = context.devices.map((device) => {
    if (device.size !== '') return device;
    const had = usersOf(context, device.key).find(({ volume }) => isKnown(volume.size?.had ?? ''))?.volume.size?.had;
    return had === undefined ? device : { ...device, size: had };
  });
  return { ...context, devices: sameIfEqual(context.devices, devices) };
}

const noteDevice = (context: Listed, key: string, more: Partial<Device>): Listed => ({
  ...context,
  devices: context.devices.map((device) => (device.key === key ? { ...device, ...more } : device)),
});

/** The volume of a pod has the name that the cluster knows; a record on disk may lack a part of it. */
function deviceOrder(context: Context, device: Device): DeviceOrder {
  const { key, volume: id, label } = device;
  const user = usersOf(context, key).find((mount) => mount.isWanted && fits(context, mount, device));
  const volume = user?.volume ?? null;
  const name = statusName(volume ?? id);
  return {
    type: 'device.known',
    driver: knownDriver(context, id.driver),
    volume,
    label: label ?? '',
    isUsed: isDeviceUsed(context, key),
    isReported: isNamed(context.node.inUse, name),
    isAttached: isNamed(context.node.attached, name),
  };
}

function sendDevices(enqueue: Enqueue, context: Listed): Listed {
  const devices = context.devices.map((device) => {
    const { type, ...known } = deviceOrder(context, device);
    const reported = JSON.stringify(known);
    if (device.id === '' || reported === device.reported) return device;
    enqueue.sendTo<AnyActorRef>(device.id, { type, ...known } satisfies DeviceOrder);
    return known.isUsed ? { ...device, reported } : { ...device, reported, staged: null };
  });
  return { ...context, devices: sameIfEqual(context.devices, devices) };
}

/**
 * A wanted volume starts at once; one that was only found on disk starts when its pod is released, to be unpublished.
 */
function beginMounts(enqueue: Enqueue, before: Listed): Listed {
  const crashed = before.mounts.filter(({ id }) => id === '');
  const due = Object.entries(before.pods).flatMap(([uid, { volumes, isReleased }]): Wanted[] =>
    isReleased
      ? foundOf(before, uid).map((found) => ({ uid, volume: volumeFound(found), isWanted: false }))
      : volumes.map((volume) => ({ uid, volume, isWanted: true })),
  );
  const begins = new Map<string, Begin>();
  for (const { uid, volume, isWanted } of [...crashed, ...due]) {
    const [key, existing] = [`${uid}/${volume.spec}`, mountOf(before, uid, volume.spec)];
    if (isWithoutActor(existing) && !begins.has(key)) begins.set(key, { uid, volume, isWanted, existing });
  }
  return [...begins.values()].reduce((context, begin) => beginMount(enqueue, context, begin), before);
}

type Wanted = Pick<Mount, 'uid' | 'volume' | 'isWanted'>;
/** `existing`: the entry of an actor that crashed. */
type Begin = Wanted & { readonly existing: Mount | undefined };

const foundOf = ({ found }: Context, uid: string): readonly FoundVolume[] =>
  (found?.volumes ?? []).filter((volume) => volume.uid === uid);

function beginMount(enqueue: Enqueue, before: Listed, { uid, volume, isWanted, existing }: Begin): Listed {
  const isThis = (each: FoundVolume) => each.uid === uid && each.spec === volume.spec;
  const found = before.found.volumes;
  const mayBePublished = existing?.mayBePublished === true || existing?.isPublished === true || found.some(isThis);
  const mount = {
    id: `mount-${before.spawned}`,
    uid,
    volume,
    isWanted,
    isPublished: false,
    mayBePublished,
    reported: '',
  };
  const context = {
    ...before,
    found: { ...before.found, volumes: found.filter((each) => !isThis(each)) },
    mounts: existing ? before.mounts.map((each) => (each === existing ? mount : each)) : [...before.mounts, mount],
    spawned: before.spawned + 1,
  };
  const { type: _, ...known } = mountOrder(context, mount);
  const { rootDir: root, nodeName, behavior } = before;
  const input = {
    ...known,
    id: mount.id,
    root,
    nodeName,
    behavior,
    volume,
    podDirectory: podDirectoryOf(before, uid),
    pod: before.pods[uid]?.pod ?? podFound(uid),
    mayBePublished: existing !== undefined || found.some(isThis),
  };
  enqueue.spawnChild(volume.disk ? 'diskMount' : 'mount', { id: mount.id, input });
  return noteMountReported(context, mount.id, JSON.stringify(known));
}

const noteMountReported = (context: Listed, id: string, reported: string): Listed => ({
  ...context,
  mounts: context.mounts.map((mount) => (mount.id === id ? { ...mount, reported } : mount)),
});

function mountOrder(context: Context, mount: Mount): Extract<MountOrder, { type: 'mount.known' }> {
  const { volume, uid } = mount;
  const device = volume.isEphemeral ? undefined : deviceOf(context, deviceKey(volume));
  return {
    type: 'mount.known',
    driver: knownDriver(context, volume.driver),
    device: device !== undefined && fits(context, mount, device) ? device.staged : null,
    label: device?.label ?? '',
    conflict: device === undefined ? null : conflictOf(context, mount, device),
    isTaken: isTaken(context, mount),
    isReleased: context.pods[uid]?.isReleased ?? false,
    expansion: expansionOf(context, mount, device?.size ?? ''),
  };
}

/** One of the mounts of a device expands it: the oldest that containers may use, or else the oldest. */
function expansionOf(context: Context, { id, volume }: Mount, has: string): Expansion | null {
  const { size } = volume;
  if (size === null || !isKnown(has) || !isLarger(size.wanted, has)) return null;
  const users = usersOf(context, deviceKey(volume)).filter(({ isWanted }) => isWanted);
  const user = users.find(({ isPublished }) => isPublished) ?? users[0];
  return user?.id === id ? { claim: size.claim, to: size.wanted, status: size.status } : null;
}

function sendMounts(enqueue: Enqueue, context: Listed): Listed {
  const mounts = context.mounts.map((mount) => {
    const { type, ...known } = mountOrder(context, mount);
    const reported = JSON.stringify(known);
    if (mount.id === '' || reported === mount.reported) return mount;
    enqueue.sendTo<AnyActorRef>(mount.id, { type, ...known } satisfies MountOrder);
    return { ...mount, reported };
  });
  return { ...context, mounts: sameIfEqual(context.mounts, mounts) };
}
