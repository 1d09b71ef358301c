/**
 * The plugin manager: one actor for each plugin that put a socket into the plugin folder.
 *
 * Decides: which plugins are accepted (CSI drivers, one per name; device plugins; resource drivers).
 * Owns: the sockets in the folder, and the driver that registered on each.
 * Hears: `plugins.changed` of its watch; `plugin.*` of its actors; of `csiNode` which drivers are in the CSINode; of
 *   `csiVolumes` how often each driver is asked for its attach limit.
 * Asks: `plugins.watch`; its actors ask the plugins.
 * Sends: `deviceManager` which device plugins are connected, `draManager` which resource drivers; in a cluster,
 *   `csiNode` which drivers registered and are gone, and their reports about this node; `csiVolumes` their sockets.
 * Invariants:
 *   M1 a driver is registered exactly as long as its socket is the one it registered on.
 *   M2 a plugin that hangs, sends wrong data or crashes its actor prevents no other from registering.
 * Seeds: S191, S241. Upstream: pkg/kubelet/pluginmanager.
 */

import {
  type AnyActorRef,
  childIn,
  type Ended,
  type EnqueueOf,
  errorOf,
  line,
  pick,
  setup,
  to,
  typed,
} from '../../../kernel/xstate.ts';
import type { CSIDriverChange, CSILimits } from '../../model/csi/messages.ts';
import type { DraPluginMessage } from '../../model/dra/messages.ts';
import type { DevicePlugin } from '../../model/operations/devices.ts';
import type { DraPlugin } from '../../model/operations/dra.ts';
import {
  endpointOf,
  type PluginSocket,
  type PluginsChanged,
  pluginOperations,
} from '../../model/operations/plugins.ts';
import { type Decider, hasBehavior } from '../../model/settings/behaviors.ts';
import { valueIn } from '../../model/values/tables.ts';
import type { CSINodeReport } from './csi-node.ts';
import { type PluginReport, type PluginVerdict, pluginMachine } from './plugin.ts';
import { draKey, pluginVerdict, type Verdict } from './plugin-policy.ts';

/** The pause before a broken watch is reopened, or the crashed actor of a plugin is replaced. */
const RETRY_MS = 5_000;

export interface PluginManagerInput extends Decider {
  /** The folder in which plugins announce themselves. */
  readonly path: string;
  /** Whether there is a cluster, and so a CSINode to update. */
  readonly inCluster: boolean;
}

interface AcceptedDriver {
  readonly name: string;
  /** The version of CSI that the driver speaks. */
  readonly version: string;
  readonly endpoint: string;
  /** The driver has returned its name for this node: pods can use its volumes. */
  readonly isRegistered: boolean;
}

interface Plugin {
  /** The id of the plugin's actor. */
  readonly id: string;
  readonly identity: string;
  readonly driver: AcceptedDriver | null;
  readonly device: DevicePlugin | null;
  /** The accepted resource driver; `null` before. */
  readonly dra: DraPlugin | null;
}

interface Context extends PluginManagerInput {
  /** Plugins by the path of their socket. */
  readonly plugins: Readonly<Record<string, Plugin>>;
  /** How often each driver is asked for its attach limit, by name; absent: never. */
  readonly periods: Readonly<Record<string, number>>;
  /** The number of actors spawned so far, for ids that are never reused. */
  readonly spawned: number;
}

type Event =
  | PluginsChanged
  | PluginReport
  | CSINodeReport
  | CSILimits
  | { readonly type: 'csi.driversWanted' }
  | { readonly type: 'dra.driversWanted' }
  | Ended
  | { readonly type: 'plugin.respawn'; readonly path: string; readonly id: string };

const s = setup({
  types: typed<{ input: PluginManagerInput; context: Context; events: Event }>(),
  actors: { plugin: pluginMachine, ...pick(pluginOperations, 'plugins.watch') },
});

type Enqueue = EnqueueOf<typeof s>;

function startPlugin(enqueue: Enqueue, context: Context, { path, identity }: PluginSocket): Context {
  const id = `plugin-${context.spawned}`;
  const retries = hasBehavior(context, 'devicesAsKubelet') ? { retries: true as const } : {};
  enqueue.spawnChild('plugin', { id, input: { socket: path, ...retries } });
  const plugins = { ...context.plugins, [path]: { id, identity, driver: null, device: null, dra: null } };
  return { ...context, plugins, spawned: context.spawned + 1 };
}

/** Ends the actor of a socket, and the driver that registered there. */
function endPlugin(enqueue: Enqueue, context: Context, path: string, { id, driver, device, dra }: Plugin): void {
  enqueue.stopChild(id);
  withdrawOthers(enqueue, { device, dra });
  if (!driver) return;
  enqueue(line('info', ['DeRegisterPlugin called', { pluginName: driver.name, socket: path }]));
  withdraw(enqueue, context, id, driver.name);
}

/** Withdraws a device plugin or a resource driver. */
function withdrawOthers(enqueue: Enqueue, { device, dra }: Pick<Plugin, 'device' | 'dra'>): void {
  if (dra) enqueue.sendTo(to('draManager'), { type: 'dra.withdrawn', driver: dra.driver, endpoint: dra.endpoint });
  if (!device) return;
  const { resource, endpoint } = device;
  enqueue.sendTo(to('deviceManager'), { type: 'devices.withdrawn', resource, endpoint });
}

/** Withdraws a driver, unless a newer one has its name by now. */
function withdraw(enqueue: Enqueue, { inCluster, plugins }: Context, id: string, name: string): void {
  if (!inCluster) return;
  const holder = Object.values(plugins).find((other) => other.id !== id && other.driver?.name === name)?.driver;
  if (holder) return sendEndpoint(enqueue, holder);
  for (const part of ['csiNode', 'csiVolumes']) enqueue.sendTo(to(part), { type: 'csi.driverGone', name });
}

function sendEndpoint(enqueue: Enqueue, { name, endpoint, isRegistered }: AcceptedDriver): void {
  const change: CSIDriverChange = { type: 'csi.driverListening', name, endpoint };
  if (isRegistered) enqueue.sendTo(to('csiVolumes'), change);
}

/** `csiVolumes` restarted and knows no driver: it gets them again, and sends how often each is asked. */
const sendEndpoints = s.enqueueActions(({ context, enqueue }) => {
  for (const { id, driver } of Object.values(context.plugins)) {
    if (!driver) continue;
    if (valueIn(context.periods, driver.name)) followLimits(enqueue, id, 0);
    sendEndpoint(enqueue, driver);
  }
  enqueue.assign({ periods: {} });
});

const followLimits = (enqueue: Enqueue, id: string, periodMs: number): void =>
  enqueue.sendTo<AnyActorRef>(id, { type: 'plugin.followed', periodMs } satisfies PluginVerdict);

const pluginsOf = ({ plugins }: Context, name: string): readonly Plugin[] =>
  Object.values(plugins).filter(({ driver }) => driver?.name === name);

const noteLimits = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'csi.limitsFollowed') return;
  const { name, periodMs } = event;
  const { [name]: _before, ...others } = context.periods;
  enqueue.assign({ periods: periodMs > 0 ? { ...others, [name]: periodMs } : others });
  for (const { id } of pluginsOf(context, name)) followLimits(enqueue, id, periodMs);
});

const askLimits = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'csi.limitReached') return;
  const order: PluginVerdict = { type: 'plugin.asked' };
  for (const { id } of pluginsOf(context, event.name)) enqueue.sendTo<AnyActorRef>(id, order);
});

const sendChanged = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'plugin.changed' || !context.inCluster) return;
  enqueue.sendTo(to('csiNode'), { type: 'csi.driverRegistered', driver: event.driver });
});

const handleSockets = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'plugins.changed') return;
  for (const error of event.errors) enqueue(line('error', [error, {}]));
  const there = new Map(event.sockets.map(({ path, identity }) => [path, identity]));
  const plugins = Object.entries(context.plugins);
  const stays = ([path, { identity }]: (typeof plugins)[number]) => there.get(path) === identity;
  let after: Context = { ...context, plugins: Object.fromEntries(plugins.filter(stays)) };
  for (const entry of plugins) if (!stays(entry)) endPlugin(enqueue, after, ...entry);
  for (const socket of event.sockets) if (!after.plugins[socket.path]) after = startPlugin(enqueue, after, socket);
  enqueue.assign(after);
});

const handleIntroduced = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'plugin.introduced') return;
  const { socket, info } = event;
  const plugin = context.plugins[socket];
  if (!plugin) return;
  const verdict = pluginVerdict(info, socket, registeredIn(context));
  const endpoint = endpointOf(info, socket);
  if ('service' in verdict) {
    const dra = { driver: info.name, endpoint, service: verdict.service };
    enqueue.sendTo(to('draManager'), { type: 'dra.registered', ...dra } satisfies DraPluginMessage);
    enqueue.assign({ plugins: { ...context.plugins, [socket]: { ...plugin, dra } } });
  }
  enqueue.sendTo<AnyActorRef>(plugin.id, answerTo(verdict));
  if (!('version' in verdict)) return;
  const driver = { name: info.name, version: verdict.version, endpoint, isRegistered: false };
  enqueue.assign({ plugins: { ...context.plugins, [socket]: { ...plugin, driver } } });
});

function registeredIn(context: Context) {
  const plugins = Object.values(context.plugins);
  const drivers = plugins.flatMap(({ driver }) => (driver ? [[driver.name, driver.version] as const] : []));
  const draPlugins = plugins.flatMap(({ dra }) => (dra ? [draKey(dra.driver, dra.endpoint)] : []));
  const takesDra = hasBehavior(context, 'dynamicResources');
  return { drivers: new Map(drivers), draPlugins: new Set(draPlugins), takesDra };
}

/** `draManager` restarted and knows no driver. */
const sendDraPlugins = s.enqueueActions(({ context, enqueue }) => {
  for (const { dra } of Object.values(context.plugins))
    if (dra) enqueue.sendTo(to('draManager'), { type: 'dra.registered', ...dra } satisfies DraPluginMessage);
});

function answerTo(verdict: Verdict): PluginVerdict {
  if ('error' in verdict) return { type: 'plugin.refused', error: verdict.error };
  if ('service' in verdict) return { type: 'plugin.acceptedDra' };
  return { type: 'version' in verdict ? 'plugin.accepted' : 'plugin.acceptedDevice' };
}

const connectDevice = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'plugin.deviceConnected') return;
  const { socket, device } = event;
  const plugin = context.plugins[socket];
  if (!plugin) return;
  enqueue.sendTo(to('deviceManager'), { type: 'devices.registered', ...device });
  enqueue.assign({ plugins: { ...context.plugins, [socket]: { ...plugin, device } } });
});

const register = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'plugin.registered') return;
  const { driver, socket } = event;
  enqueue(line('info', ['Registered CSI driver', { driver: driver.name, nodeID: driver.nodeID, socket }]));
  const plugin = context.plugins[socket];
  if (context.inCluster) {
    enqueue.sendTo(to('csiNode'), { type: 'csi.driverRegistered', driver });
    if (!plugin?.driver) return;
    const taken = { ...plugin.driver, isRegistered: true };
    sendEndpoint(enqueue, taken);
    const periodMs = valueIn(context.periods, driver.name);
    if (periodMs !== undefined) followLimits(enqueue, plugin.id, periodMs);
    enqueue.assign({ plugins: { ...context.plugins, [socket]: { ...plugin, driver: taken } } });
  } else if (plugin) enqueue.sendTo<AnyActorRef>(plugin.id, { type: 'plugin.announced' } satisfies PluginVerdict);
});

/** Answers plugins that wait for their driver to be in the CSINode; other plugins are unaffected. */
const answer = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'csi.driversWritten' && event.type !== 'csi.driversUnwritten') return;
  const verdict: PluginVerdict =
    event.type === 'csi.driversWritten'
      ? { type: 'plugin.announced' }
      : { type: 'plugin.unannounced', error: event.error };
  for (const { id, driver } of Object.values(context.plugins)) {
    if (driver !== null && event.names.includes(driver.name)) enqueue.sendTo<AnyActorRef>(id, verdict);
  }
});

const forget = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'plugin.failed') return;
  const plugin = context.plugins[event.socket];
  if (!plugin?.driver && !plugin?.device && !plugin?.dra) return;
  const { id, driver } = plugin;
  withdrawOthers(enqueue, plugin);
  if (driver) withdraw(enqueue, context, id, driver.name);
  const none = { driver: null, device: null, dra: null };
  enqueue.assign({ plugins: { ...context.plugins, [event.socket]: { ...plugin, ...none } } });
});

const reapCrashed = s.enqueueActions(({ context, event, enqueue }) => {
  const id = childIn(event);
  const found = Object.entries(context.plugins).find(([, plugin]) => plugin.id === id);
  if (!found) return;
  const [path, plugin] = found;
  const { message } = errorOf(event);
  enqueue(line('error', ['The actor of a plugin crashed and starts again', { socket: path, err: message }]));
  endPlugin(enqueue, context, path, plugin);
  enqueue.assign({ plugins: { ...context.plugins, [path]: { ...plugin, driver: null, device: null, dra: null } } });
  enqueue.raise({ type: 'plugin.respawn', path, id }, { delay: RETRY_MS, id: `respawn-${id}` });
});

const respawn = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'plugin.respawn') return;
  const { path, id } = event;
  const plugin = context.plugins[path];
  if (plugin?.id === id) enqueue.assign(startPlugin(enqueue, context, { path, identity: plugin.identity }));
});

const logBroken = line<Context, { type: string }, undefined, Event>('error', ({ context, event }) => [
  'The watch of the plugin folder broke and starts again',
  { path: context.path, err: errorOf(event).message },
]);

export const pluginManagerMachine = s.createMachine({
  id: 'pluginManager',
  context: ({ input }) => ({ ...input, plugins: {}, periods: {}, spawned: 0 }),
  entry: line('info', 'Starting Kubelet Plugin Manager'),
  initial: 'watching',
  on: {
    'plugins.changed': { actions: handleSockets },
    'plugin.introduced': { actions: handleIntroduced },
    'plugin.registered': { actions: register },
    'plugin.changed': { actions: sendChanged },
    'plugin.deviceConnected': { actions: connectDevice },
    'plugin.failed': { actions: forget },
    'csi.driversWritten': { actions: answer },
    'csi.driversUnwritten': { actions: answer },
    'csi.driversWanted': { actions: sendEndpoints },
    'dra.driversWanted': { actions: sendDraPlugins },
    'csi.limitsFollowed': { actions: noteLimits },
    'csi.limitReached': { actions: askLimits },
    'plugin.respawn': { actions: respawn },
    'xstate.error.actor.*': { actions: reapCrashed },
  },
  states: {
    watching: {
      invoke: {
        id: 'sockets',
        src: 'plugins.watch',
        input: ({ context: { path } }) => ({ path }),
        onDone: 'broken',
        onError: { target: 'broken', actions: logBroken },
      },
    },
    broken: { after: { [RETRY_MS]: 'watching' } },
  },
});
