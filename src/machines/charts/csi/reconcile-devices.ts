/** Starts the actors of devices that are due, and sends them what changed. Part of `reconcile.ts`. */
import type { AnyActorRef } from '../../../kernel/xstate.ts';
import type { DeviceOrder } from '../../model/csi/messages.ts';
import { type DeviceId, deviceIdOf } from '../../model/csi/places.ts';
import { deviceKey } from '../../model/csi/policy.ts';
import {
  type Context,
  type Device,
  deviceOf,
  type Enqueue,
  isDeviceUsed,
  isNamed,
  isWithoutActor,
  knownDriver,
  type Listed,
  sameIfEqual,
  usersOf,
} from './csi-volumes-setup.ts';
import { isKnown } from './expansion-policy.ts';

/** A device starts with its first user; an unused one that was found on disk starts in order to be unstaged. */
export function beginDevices(enqueue: Enqueue, before: Listed): Listed {
  const unused = before.found.devices.filter((device) => !isDeviceUsed(before, deviceKey(device)));
  const crashed = before.devices.filter(({ id }) => id === '').map(({ volume }) => volume);
  const desired = before.mounts.flatMap(({ volume, isWanted }) =>
    volume.isEphemeral || !isWanted ? [] : [deviceIdOf(volume)],
  );
  const begins = new Map<string, DeviceId>();
  for (const id of [...crashed, ...desired, ...unused]) {
    const key = deviceKey(id);
    if (isWithoutActor(deviceOf(before, key)) && !begins.has(key)) begins.set(key, id);
  }
  const begin = (context: Listed, [key, volume]: [string, DeviceId]) =>
    beginDevice(enqueue, context, { key, volume, existing: deviceOf(before, key) });
  return [...begins].reduce(begin, before);
}

/** `existing`: the entry of an actor that crashed. */
type BeginDevice = Pick<Device, 'key' | 'volume'> & { readonly existing: Device | undefined };

function beginDevice(enqueue: Enqueue, before: Listed, { key, volume, existing }: BeginDevice): Listed {
  const device = {
    id: `device-${before.spawned}`,
    key,
    volume,
    staged: null,
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
  enqueue.spawnChild('device', { id: device.id, input });
  return noteDevice(context, key, { reported: JSON.stringify(known) });
}

/** The size that a volume had when its first user began is its size on this node. */
export function noteSizes(_enqueue: Enqueue, context: Listed): Listed {
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

function deviceOrder(context: Context, { key, volume }: Device): DeviceOrder {
  return {
    type: 'device.known',
    driver: knownDriver(context, volume.driver),
    volume: usersOf(context, key).find(({ isWanted }) => isWanted)?.volume ?? null,
    isUsed: isDeviceUsed(context, key),
    isReported: isNamed(context.node.inUse, key),
    isAttached: isNamed(context.node.attached, key),
  };
}

export function sendDevices(enqueue: Enqueue, context: Listed): Listed {
  const devices = context.devices.map((device) => {
    const { type, ...known } = deviceOrder(context, device);
    const reported = JSON.stringify(known);
    if (device.id === '' || reported === device.reported) return device;
    enqueue.sendTo<AnyActorRef>(device.id, { type, ...known } satisfies DeviceOrder);
    return known.isUsed ? { ...device, reported } : { ...device, reported, staged: null };
  });
  return { ...context, devices: sameIfEqual(context.devices, devices) };
}
