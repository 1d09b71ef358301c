/**
 * Derives from the context of `csiVolumes` which actors start and which messages they get, level-triggered. Part of
 * `csi-volumes.ts`.
 *
 * Invariant: an actor gets a message only if it differs from the last one.
 */
import { type AnyActorRef, to } from '../../../kernel/xstate.ts';
import type { CSIFailure, CSILimits, CSIReport, MountOrder } from '../../model/csi/messages.ts';
import { mountPlace } from '../../model/csi/places.ts';
import { limitsPeriodMs } from '../../model/csi/policy.ts';
import {
  type Context,
  type Enqueue,
  type Listed,
  type Mount,
  podDirectoryOf,
  usersOf,
  volumesInUse,
} from './csi-volumes-setup.ts';
import { beginDevices, noteSizes, sendDevices } from './reconcile-devices.ts';
import { beginMounts, foundOf, sendMounts } from './reconcile-mounts.ts';

const isListed = (context: Context): context is Listed => context.found !== null;

/** Starts actors and sends messages that are due, and returns the resulting context. */
export function reconcile(enqueue: Enqueue, before: Context): Context {
  if (!isListed(before)) return before;
  const steps = [beginMounts, beginDevices, noteSizes, sendDevices, sendMounts, sendPods, sendNode, sendPeriods];
  return steps.reduce<Listed>((context, step) => step(enqueue, context), before);
}

export function sendUsers(enqueue: Enqueue, context: Context, key: string, failure: CSIFailure): void {
  const order: MountOrder = { type: 'mount.deviceFailed', ...failure };
  for (const { id } of usersOf(context, key)) if (id !== '') enqueue.sendTo<AnyActorRef>(id, order);
}

/** With CSIVolumeHealth the driver is asked for the health of a volume once it is published. */
export function beginHealth(enqueue: Enqueue, context: Context, { id, uid, volume }: Mount): void {
  const { healthPeriodMs: periodMs, endpoints, rootDir: root } = context;
  const [endpoint, known] = [endpoints[volume.driver], context.pods[uid]?.pod];
  if (periodMs === undefined || endpoint === undefined || !known) return;
  const { serviceAccount: _, ...pod } = known;
  const { target: path } = mountPlace({ root, podDirectory: podDirectoryOf(context, uid) }, volume);
  const input = { pod, name: volume.name, endpoint, handle: volume.handle, path, periodMs };
  enqueue.spawnChild('health', { id: healthOf(id), input });
}

/** The id of the health actor contains the id of the mount's actor. */
export const healthOf = (mount: string): string => `health-${mount}`;

export function reportMounted(enqueue: Enqueue, { mounts }: Context, uid: string): void {
  const published = mounts.filter((mount) => mount.uid === uid && mount.isPublished);
  const names = published.map(({ volume }) => volume.name);
  if (names.length > 0) enqueue.sendTo(to('pods'), { type: 'csi.mounted', uid, names } satisfies CSIReport);
}

function sendPods(enqueue: Enqueue, context: Listed): Listed {
  const gone = Object.entries(context.pods).filter(
    ([uid, { isReleased }]) =>
      isReleased && context.mounts.every((mount) => mount.uid !== uid) && foundOf(context, uid).length === 0,
  );
  for (const [uid] of gone) enqueue.sendTo(to('pods'), { type: 'csi.unmounted', uid } satisfies CSIReport);
  const uids = new Set(gone.map(([uid]) => uid));
  return { ...context, pods: Object.fromEntries(Object.entries(context.pods).filter(([uid]) => !uids.has(uid))) };
}

/** CSIDriver objects decide which volumes are attached; nothing is sent before they are listed. */
function sendNode(enqueue: Enqueue, context: Listed): Listed {
  const { mounts, devices, found } = context;
  const isEmpty = mounts.length + devices.length + found.volumes.length + found.devices.length === 0;
  if (context.drivers === null && !isEmpty) return context;
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
  const periods = names.map((name) => [name, name in endpoints ? limitsPeriodMs(drivers[name]) : 0] as const);
  for (const [name, periodMs] of periods) {
    if (periodMs === (before[name] ?? 0)) continue;
    enqueue.sendTo(to('pluginManager'), { type: 'csi.limitsFollowed', name, periodMs } satisfies CSILimits);
  }
  return { ...context, periods: Object.fromEntries(periods.filter(([, periodMs]) => periodMs > 0)) };
}
