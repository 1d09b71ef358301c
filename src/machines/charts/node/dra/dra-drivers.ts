/**
 * The drivers in `draManager`: registrations, connections, and the ResourceSlices of drivers that are gone. Part of the
 * chart of `dra-manager.ts`.
 *
 * Upstream: pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go.
 */
import { line } from '../../../../kernel/xstate.ts';
import type { DraPlugin } from '../../../model/operations/dra.ts';
import { podsIn, registrationsOf } from './claim-cache.ts';
import { answerPod, type DraArgs, type DraManagerContext, podHealth, draSetup as s } from './dra-setup.ts';

/** How long a driver may be absent before its ResourceSlices are deleted: enough to replace its pod. */
const ABSENCE_MAX_MS = 30_000;

const isUsable = ({ drivers }: DraManagerContext, driver: string): boolean =>
  registrationsOf(drivers, driver).some(({ isConnected }) => isConnected);

/** Deletes the slices of a driver that stays absent; they stay if it returns in time. */
function followUse({ enqueue }: DraArgs, before: DraManagerContext, after: DraManagerContext, driver: string): void {
  if (!after.inCluster) return;
  const id = `slices-${driver}`;
  const isNew = registrationsOf(before.drivers, driver).length === 0;
  if (isUsable(after, driver)) enqueue.cancel(id);
  else if (isNew || isUsable(before, driver)) {
    enqueue.raise({ type: 'slices.expired', driver }, { delay: ABSENCE_MAX_MS, id });
  }
}

/** `driver`: empty for all drivers. */
export function deleteSlices({ context, enqueue }: DraArgs, driver: string): void {
  const id = `delete-slices-${driver}`;
  enqueue.stopChild(id);
  enqueue.spawnChild('slices', { id, input: { nodeName: context.nodeName, driver } });
}

export const expireSlices = s.enqueueActions((args) => {
  const { event, context } = args;
  if (event.type === 'slices.expired' && !isUsable(context, event.driver)) deleteSlices(args, event.driver);
});

const isAt = (plugin: DraPlugin, { driver, endpoint }: Pick<DraPlugin, 'driver' | 'endpoint'>): boolean =>
  plugin.driver === driver && plugin.endpoint === endpoint;

export const connect = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'dra.registered') return;
  const { driver, endpoint, service } = event;
  const before = registrationsOf(context.drivers, driver);
  if (before.some((plugin) => isAt(plugin, event))) return;
  const id = `dra-driver-${context.spawned}`;
  const all = [...before, { driver, endpoint, service, isConnected: false }];
  const counts = { driverName: driver, endpoint, chosenService: service, numPlugins: all.length };
  enqueue(line('info', ['Registered DRA plugin', counts]));
  enqueue.spawnChild('driver', { id, input: { id, driver, endpoint, service } });
  const next = {
    ...context,
    drivers: { ...context.drivers, [driver]: all },
    followed: { ...context.followed, [id]: { driver, endpoint } },
    spawned: context.spawned + 1,
  };
  followUse(args, context, next, driver);
  enqueue.assign(next);
});

export const withdraw = s.enqueueActions((args) => {
  const { event, context } = args;
  if (event.type !== 'dra.withdrawn') return;
  const found = Object.entries(context.followed).find(
    ([, plugin]) => plugin.driver === event.driver && plugin.endpoint === event.endpoint,
  );
  if (found !== undefined) forgetDriver(args, found[0]);
});

/** A registration has ended. Slices and health of its driver depend on the remaining ones. */
export function forgetDriver(args: DraArgs, id: string): void {
  const { context, enqueue } = args;
  const { [id]: gone, ...followed } = context.followed;
  if (gone === undefined) return;
  enqueue.stopChild(id);
  const remaining = registrationsOf(context.drivers, gone.driver).filter((plugin) => !isAt(plugin, gone));
  const { [gone.driver]: _all, ...others } = context.drivers;
  const { [gone.driver]: _health, ...health } = context.health;
  enqueue(
    line('info', [
      'Unregistered DRA plugin',
      { driverName: gone.driver, endpoint: gone.endpoint, numPlugins: remaining.length },
    ]),
  );
  const drivers = remaining.length === 0 ? others : { ...others, [gone.driver]: remaining };
  const next = { ...context, drivers, followed, health };
  followUse(args, context, next, gone.driver);
  enqueue.assign({ drivers, followed, health });
  sendHealth(args, next, gone.driver);
}

/** A report on a driver's connection, or on the health of its devices. */
export const handleReport = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'dra.reported') return;
  const plugin = context.followed[event.id];
  if (plugin === undefined) return;
  const { driver } = plugin;
  if (event.item.type === 'dra.healthChanged') {
    const next = { ...context, health: { ...context.health, [driver]: event.item.devices } };
    enqueue.assign({ health: next.health });
    return sendHealth(args, next, driver);
  }
  const { isConnected } = event.item;
  const drivers = {
    ...context.drivers,
    [driver]: registrationsOf(context.drivers, driver).map((each) =>
      isAt(each, plugin) ? { ...each, isConnected } : each,
    ),
  };
  followUse(args, context, { ...context, drivers }, driver);
  enqueue.assign({ drivers });
});

/** Sends the health to the pods with devices of a driver. */
function sendHealth({ enqueue, context: before }: DraArgs, after: DraManagerContext, driver: string): void {
  const entries = Object.entries(after.cache).filter(([, { drivers }]) => Object.hasOwn(drivers, driver));
  for (const uid of podsIn(Object.fromEntries(entries))) {
    const health = podHealth(after, uid);
    const hasChanged = JSON.stringify(health) !== JSON.stringify(podHealth(before, uid));
    if (hasChanged) answerPod(enqueue, uid, { type: 'claims.health', uid, health });
  }
}
