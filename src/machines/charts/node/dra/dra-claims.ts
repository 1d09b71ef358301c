/**
 * The claims of pods in `draManager`, prepared before their sandboxes and unprepared after their ends; and its drivers:
 * registrations, connections, and the ResourceSlices of drivers that are gone. Part of the chart of `dra-manager.ts`.
 *
 * Upstream: pkg/kubelet/cm/dra/manager.go.
 *
 * Upstream: pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go.
 */
import { childIn, errorOf, line, outputOf } from '../../../../kernel/xstate.ts';
import type { DraPlugin } from '../../../model/operations/dra.ts';
import type { ClaimPreparationOutput } from './claim-preparation.ts';
import type { ClaimReleaseOutput } from './claim-release.ts';
import type { DraArgs, DraManagerContext } from './dra-setup.ts';
import {
  answerPod,
  podHealth,
  podsIn,
  preparedFor,
  registrationsOf,
  draSetup as s,
  withDevices,
  withEnded,
  withoutPod,
  withPod,
} from './dra-setup.ts';

const PREPARE = 'prepare-';
const RELEASE = 'release-';
/** The pause before the registration of a driver whose actor crashed is requested again. */
const RESPAWN_MS = 5_000;

const failedToPrepare = (uid: string, error: string) => ({
  type: 'claims.failed' as const,
  uid,
  error: `prepare dynamic resources: ${error}`,
});

const stillPrepared = (uid: string, error: string) => ({
  type: 'claims.stillPrepared' as const,
  uid,
  error: `unprepare dynamic resources: ${error}`,
});

/** A pod that asks again received no answer: its calls in progress are restarted. */
export const prepare = s.enqueueActions(({ event, enqueue }) => {
  if (event.type !== 'claims.wanted') return;
  const { uid, namespace, pod, wanted } = event;
  enqueue.stopChild(`${PREPARE}${uid}`);
  enqueue.spawnChild('preparation', { id: `${PREPARE}${uid}`, input: { uid, namespace, pod, wanted } });
});

/** Asks the drivers to prepare the claims of a pod, which were read. */
export const beginPreparation = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'claims.fetched') return;
  const { uid } = event;
  const result = withPod(context.cache, event, context.drivers);
  if ('error' in result) {
    enqueue.sendTo(`${PREPARE}${uid}`, { type: 'claims.refused', error: result.error });
    return;
  }
  const waiting = [...context.waiting, { kind: 'recorded' as const, uid, calls: result.calls }];
  enqueue.assign({ cache: result.cache, waiting, isStale: true });
});

export const handlePrepared = s.enqueueActions(({ context, event, enqueue }) => {
  const id = childIn(event);
  if (!id.startsWith(PREPARE)) return;
  enqueue.stopChild(id);
  const { uid, error, prepared } = outputOf<ClaimPreparationOutput>(event);
  if (error !== '') return answerPod(enqueue, uid, failedToPrepare(uid, error));
  if (prepared.length === 0) {
    return answerPod(enqueue, uid, { type: 'claims.prepared', uid, claims: preparedFor(context.cache, uid) });
  }
  const waiting = [...context.waiting, { kind: 'prepared' as const, uid }];
  enqueue.assign({ cache: withDevices(context.cache, prepared), waiting, isStale: true });
});

/** Unprepares the claims of a pod that has stopped and waits for it. */
export const release = s.enqueueActions((args) => {
  if (args.event.type === 'claims.released') args.enqueue.assign(releasePod(args, args.context, args.event.uid, true));
});

/** Unprepares the claims of a finished pod, however often it has to be tried. */
export const abandon = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'claims.abandoned' || !hasClaims(context, event.uid)) return;
  const next = { ...context, abandoned: [...new Set([...context.abandoned, event.uid])] };
  enqueue.assign(releasePod(args, next, event.uid, false));
});

/** Unprepares claims of pods that are gone. */
export const reconcile = s.enqueueActions((args) => {
  let next = args.context;
  for (const uid of args.context.abandoned) next = releasePod(args, next, uid, false);
  args.enqueue.assign(next);
});

const hasClaims = ({ cache }: DraManagerContext, uid: string): boolean =>
  Object.values(cache).some(({ pods }) => pods.includes(uid));

function releasePod(args: DraArgs, context: DraManagerContext, uid: string, isAwaited: boolean): DraManagerContext {
  const { enqueue } = args;
  enqueue.stopChild(`${PREPARE}${uid}`);
  const before = context.releases[uid];
  const releases = { ...context.releases, [uid]: { isAwaited: isAwaited || before?.isAwaited === true } };
  if (before !== undefined) return { ...context, releases };
  if (!hasClaims(context, uid)) {
    if (isAwaited) answerPod(enqueue, uid, { type: 'claims.unprepared', uid });
    return { ...context, abandoned: context.abandoned.filter((each) => each !== uid) };
  }
  const { cache, calls, error } = withoutPod(context.cache, uid, context.drivers);
  if (error !== null) {
    failRelease(args, uid, error, isAwaited);
    return { ...context, cache };
  }
  if (calls.length > 0) {
    enqueue.spawnChild('release', { id: `${RELEASE}${uid}`, input: { uid, calls } });
    return { ...context, cache, releases };
  }
  return withoutClaimsOf({ ...context, cache }, uid, isAwaited);
}

/** The checkpoint must forget the claims before the pod is informed. */
function withoutClaimsOf(context: DraManagerContext, uid: string, isAwaited: boolean): DraManagerContext {
  const { [uid]: _ended, ...releases } = context.releases;
  const waiting = isAwaited ? [...context.waiting, { kind: 'unprepared' as const, uid }] : context.waiting;
  const abandoned = context.abandoned.filter((each) => each !== uid);
  return { ...context, cache: withEnded(context.cache, uid, true), releases, waiting, abandoned, isStale: true };
}

function failRelease({ enqueue }: DraArgs, uid: string, error: string, isAwaited: boolean): void {
  if (isAwaited) return answerPod(enqueue, uid, stillPrepared(uid, error));
  enqueue(
    line('info', ['Unpreparing pod resources in reconcile loop failed, will retry', { podUID: uid, err: error }]),
  );
}

export const handleReleased = s.enqueueActions((args) => {
  const { event, enqueue } = args;
  const id = childIn(event);
  if (!id.startsWith(RELEASE)) return;
  enqueue.stopChild(id);
  const { uid, error } = outputOf<ClaimReleaseOutput>(event);
  enqueue.assign(endRelease(args, uid, error));
});

function endRelease(args: DraArgs, uid: string, error: string): DraManagerContext {
  const { context } = args;
  const isAwaited = context.releases[uid]?.isAwaited === true;
  if (error === '') return withoutClaimsOf(context, uid, isAwaited);
  failRelease(args, uid, error, isAwaited);
  const { [uid]: _ended, ...releases } = context.releases;
  return { ...context, releases, cache: withEnded(context.cache, uid, false) };
}

/** The task of a crashed actor has failed; the registration of a driver is requested again. */
export const reapCrashed = s.enqueueActions((args) => {
  const { event, enqueue } = args;
  const id = childIn(event);
  const { message } = errorOf(event);
  enqueue(line('error', ['An actor of dynamic resources crashed', { actor: id, err: message }]));
  enqueue.stopChild(id);
  if (id.startsWith(PREPARE)) {
    const uid = id.slice(PREPARE.length);
    answerPod(enqueue, uid, failedToPrepare(uid, message));
  } else if (id.startsWith(RELEASE)) enqueue.assign(endRelease(args, id.slice(RELEASE.length), message));
  else {
    forgetDriver(args, id);
    enqueue.raise({ type: 'drivers.missed' }, { delay: RESPAWN_MS, id: 'drivers-missed' });
  }
});

/** How long a driver may be absent before its ResourceSlices are deleted: enough to replace its pod. */
const ABSENCE_MAX_MS = 30_000;

const isUsable = ({ drivers }: DraManagerContext, driver: string): boolean =>
  registrationsOf(drivers, driver).some(({ isConnected }) => isConnected);

/** Deletes the slices of a driver that stays absent; they stay if it returns in time. */
function updateSliceRemoval(
  { enqueue }: DraArgs,
  before: DraManagerContext,
  after: DraManagerContext,
  driver: string,
): void {
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
  updateSliceRemoval(args, context, next, driver);
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
function forgetDriver(args: DraArgs, id: string): void {
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
  updateSliceRemoval(args, context, next, gone.driver);
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
  updateSliceRemoval(args, context, { ...context, drivers }, driver);
  enqueue.assign({ drivers });
});

function sendHealth({ enqueue, context: before }: DraArgs, after: DraManagerContext, driver: string): void {
  const entries = Object.entries(after.cache).filter(([, { drivers }]) => Object.hasOwn(drivers, driver));
  for (const uid of podsIn(Object.fromEntries(entries))) {
    const health = podHealth(after, uid);
    const hasChanged = JSON.stringify(health) !== JSON.stringify(podHealth(before, uid));
    if (hasChanged) answerPod(enqueue, uid, { type: 'claims.health', uid, health });
  }
}
