/** Starts the actors of volumes that are due, and sends them what changed. Part of `reconcile.ts`. */
import type { AnyActorRef } from '../../../kernel/xstate.ts';
import type { Expansion, MountOrder } from '../../model/csi/messages.ts';
import { deviceKey } from '../../model/csi/policy.ts';
import type { FoundVolume } from '../../model/operations/csi.ts';
import {
  type Context,
  deviceOf,
  type Enqueue,
  isTaken,
  isWithoutActor,
  knownDriver,
  type Listed,
  type Mount,
  mountOf,
  podDirectoryOf,
  podFound,
  sameIfEqual,
  usersOf,
  volumeFound,
} from './csi-volumes-setup.ts';
import { isKnown, isLarger } from './expansion-policy.ts';

/**
 * A wanted volume starts at once; one that was only found on disk starts when its pod is released, to be unpublished.
 */
export function beginMounts(enqueue: Enqueue, before: Listed): Listed {
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

export const foundOf = ({ found }: Context, uid: string): readonly FoundVolume[] =>
  (found?.volumes ?? []).filter((volume) => volume.uid === uid);

function beginMount(enqueue: Enqueue, before: Listed, { uid, volume, isWanted, existing }: Begin): Listed {
  const isThis = (each: FoundVolume) => each.uid === uid && each.spec === volume.spec;
  const mount = { id: `mount-${before.spawned}`, uid, volume, isWanted, isPublished: false, reported: '' };
  const found = before.found.volumes;
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
  enqueue.spawnChild('mount', { id: mount.id, input });
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
    device: device?.staged ?? null,
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

export function sendMounts(enqueue: Enqueue, context: Listed): Listed {
  const mounts = context.mounts.map((mount) => {
    const { type, ...known } = mountOrder(context, mount);
    const reported = JSON.stringify(known);
    if (mount.id === '' || reported === mount.reported) return mount;
    enqueue.sendTo<AnyActorRef>(mount.id, { type, ...known } satisfies MountOrder);
    return { ...mount, reported };
  });
  return { ...context, mounts: sameIfEqual(context.mounts, mounts) };
}
