/**
 * One plugin: the handshake through its socket in the plugin folder.
 *
 * Decides: when the plugin is called again, and how its registration is answered.
 * Owns: the information that the plugin gave about itself; how often a driver is asked for its attach limit.
 * Hears: `plugin.accepted`, `plugin.acceptedDevice`, `plugin.acceptedDra`, `plugin.refused`, `plugin.announced`,
 *   `plugin.unannounced`, `plugin.followed`, `plugin.asked` of the plugin manager.
 * Asks: `plugins.getInfo`, `plugins.csiNodeGetInfo`, `plugins.followNodeInfo`, `devices.getOptions`,
 *   `plugins.notifyRegistrationStatus`.
 * Sends: the plugin manager `plugin.introduced`, then `plugin.registered`, `plugin.deviceConnected` or `plugin.failed`;
 *   of a driver that is registered `plugin.changed`.
 * Invariants:
 *   G1 a plugin is registered only once it is published to the cluster.
 *   G2 a plugin that cannot be called, is refused, cannot be published to the cluster, or does not take the answer, is
 *      not registered, and is called again with a growing pause.
 * Upstream: pkg/kubelet/pluginmanager/operationexecutor/operation_generator.go, pkg/volume/csi/csi_node_updater.go.
 */

import { assign, type Ended, errorOf, line, outputOf, pick, sendParent, setup, typed } from '../../../kernel/xstate.ts';
import { type DevicePlugin, type DevicePluginOptions, deviceOperations } from '../../model/operations/devices.ts';
import type { CSINodeInfo, NodeInfoChanged, PluginInfo } from '../../model/operations/plugins.ts';
import { endpointOf, pluginOperations } from '../../model/operations/plugins.ts';
import { doubledMs, OPERATION_BACK_OFF } from '../../model/values/time.ts';
import type { CSIDriver } from './csi-node.ts';
import { driverOf, nodeInfoProblem } from './plugin-policy.ts';

/** Time limit for publishing a driver to the cluster, as no plugin should wait longer than its own start may take. */
const ANNOUNCING_MAX_MS = 60_000;
const UNANNOUNCED = 'error updating CSINode object with CSI driver node info: timed out waiting for the condition';

export interface PluginInput {
  readonly socket: string;
  /** A registration that failed is tried again; absent on a node of an earlier version. */
  readonly retries?: true;
}

export type PluginReport =
  | { readonly type: 'plugin.introduced'; readonly socket: string; readonly info: PluginInfo }
  | { readonly type: 'plugin.registered'; readonly socket: string; readonly driver: CSIDriver }
  /** A registered driver reports changed facts about this node. */
  | { readonly type: 'plugin.changed'; readonly driver: CSIDriver }
  | { readonly type: 'plugin.deviceConnected'; readonly socket: string; readonly device: DevicePlugin }
  | { readonly type: 'plugin.failed'; readonly socket: string };

export type PluginVerdict =
  | { readonly type: 'plugin.accepted' }
  | { readonly type: 'plugin.acceptedDevice' }
  /** The resource driver is accepted, and is not called any more. */
  | { readonly type: 'plugin.acceptedDra' }
  | { readonly type: 'plugin.refused'; readonly error: string }
  /** The driver is in the CSINode, or there is no cluster. */
  | { readonly type: 'plugin.announced' }
  | { readonly type: 'plugin.unannounced'; readonly error: string }
  /** How often the driver is asked about this node; 0 for never. */
  | { readonly type: 'plugin.followed'; readonly periodMs: number }
  /** Asks the driver now, if it is asked at all. */
  | { readonly type: 'plugin.asked' };

interface Context extends PluginInput {
  readonly info: PluginInfo | null;
  /** The error of the registration; empty if it succeeded. */
  readonly error: string;
  readonly retryMs: number;
  /** The interval between two requests for the attach limit; 0: the driver is not asked. */
  readonly periodMs: number;
}

type Event = PluginVerdict | NodeInfoChanged | Ended;

const s = setup({
  types: typed<{ input: PluginInput; context: Context; events: Event }>(),
  actors: {
    ...pick(pluginOperations, 'plugins.getInfo', 'plugins.notifyRegistrationStatus'),
    ...pick(pluginOperations, 'plugins.csiNodeGetInfo', 'plugins.followNodeInfo'),
    ...pick(deviceOperations, 'devices.getOptions'),
  },
  guards: {
    isFollowed: ({ context }) => context.periodMs > 0,
    isRetried: ({ context }) => context.retries === true,
  },
  delays: { retry: ({ context }) => context.retryMs },
});

const nodeInfoOf = (event: unknown): CSINodeInfo => outputOf<CSINodeInfo>(event);

const introduce = s.enqueueActions(({ context, event, enqueue }) => {
  const info = outputOf<PluginInfo>(event);
  enqueue.assign({ info });
  enqueue.sendParent({ type: 'plugin.introduced', socket: context.socket, info } satisfies PluginReport);
});

/** The information that the plugin gave about itself. */
function infoOf({ info, socket }: Context): PluginInfo {
  if (info === null) throw new Error(`the plugin at ${socket} has not said what it is`);
  return info;
}

const endpointIn = ({ context }: { context: Context }) => ({ endpoint: endpointOf(infoOf(context), context.socket) });

const sendConnected = s.enqueueActions(({ context, event, enqueue }) => {
  const { socket } = context;
  const options = outputOf<DevicePluginOptions>(event);
  const device = { resource: infoOf(context).name, ...endpointIn({ context }), options };
  enqueue.sendParent({ type: 'plugin.deviceConnected', socket, device } satisfies PluginReport);
});

const logInfoFailed = line<Context, { type: string }, undefined, Event>('error', ({ context, event }) => [
  errorOf(event).message,
  { socket: context.socket, retryInMs: context.retryMs },
]);

const logUnreported = line<Context, { type: string }, undefined, Event>('error', ({ context, event }) => [
  'Failed to tell a plugin whether it is registered',
  { socket: context.socket, err: errorOf(event).message },
]);

/** A plugin that may not know that it is registered is not. Upstream deregisters it, too. */
const withdraw = s.enqueueActions(({ context: { socket }, event, enqueue }) => {
  const failure = `failed to send registration status at socket ${socket}, err: ${errorOf(event).message}`;
  enqueue(line('error', [`RegisterPlugin error -- ${failure}`, { socket }]));
  enqueue.sendParent({ type: 'plugin.failed', socket } satisfies PluginReport);
});

const fail = (reason: (event: unknown) => string) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    enqueue.assign({ error: `RegisterPlugin error -- plugin registration failed with err: ${reason(event)}` });
    enqueue.sendParent({ type: 'plugin.failed', socket: context.socket } satisfies PluginReport);
  });

const notePeriod = s.assign(({ event }) => (event.type === 'plugin.followed' ? { periodMs: event.periodMs } : {}));

/** Information that is invalid for the CSINode changes nothing. */
const sendChanged = s.enqueueActions(({ context, event, enqueue }) => {
  const { name } = infoOf(context);
  const { info: now, error } = event.type === 'plugin.nodeInfo' ? event : { info: nodeInfoOf(event), error: '' };
  const problem = now === null ? error : nodeInfoProblem(now);
  if (now !== null && problem === null) {
    enqueue.sendParent({ type: 'plugin.changed', driver: driverOf(name, now) } satisfies PluginReport);
  } else enqueue(line('error', ['Failed to update CSIDriver', { driver: name, socket: context.socket, err: problem }]));
});

const logNodeInfoFailed = line<Context, { type: string }, undefined, Event>('error', ({ context, event }) => [
  'Failed to update CSIDriver',
  { driver: context.info?.name ?? '', socket: context.socket, err: errorOf(event).message },
]);

/** A registered plugin is only asked for its attach limit, if the cluster needs it. */
const registered = s.createStateConfig({
  initial: 'resting',
  on: { 'plugin.followed': { target: '.resting', actions: notePeriod } },
  states: {
    resting: { always: { guard: 'isFollowed', target: 'following' } },
    following: {
      on: { 'plugin.nodeInfo': { actions: sendChanged }, 'plugin.asked': 'asking' },
      invoke: {
        id: 'nodeInfos',
        src: 'plugins.followNodeInfo',
        input: (args) => ({ ...endpointIn(args), periodMs: args.context.periodMs }),
        onDone: 'pausing',
        onError: { target: 'pausing', actions: logNodeInfoFailed },
      },
    },
    asking: {
      invoke: {
        id: 'nodeInfoNow',
        src: 'plugins.csiNodeGetInfo',
        input: endpointIn,
        onDone: { target: 'following', actions: sendChanged },
        onError: { target: 'following', actions: logNodeInfoFailed },
      },
    },
    pausing: { after: { [OPERATION_BACK_OFF.maxMs]: 'following' } },
  },
});

const report = (registered: boolean) => ({
  id: 'notify',
  src: 'plugins.notifyRegistrationStatus' as const,
  input: ({ context: { socket, error } }: { context: Context }) => ({ socket, registered, error }),
});

const logRefusal = s.enqueueActions(({ context, enqueue }) => {
  enqueue(line('error', [context.error, { socket: context.socket, plugin: context.info?.name ?? '' }]));
});

export const pluginMachine = s.createMachine({
  id: 'plugin',
  context: ({ input }) => ({
    ...input,
    info: null,
    error: '',
    retryMs: OPERATION_BACK_OFF.baseMs,
    periodMs: 0,
  }),
  initial: 'asking',
  on: { 'plugin.followed': { actions: notePeriod } },
  states: {
    asking: {
      meta: { waitsFor: 'the plugin to say what it is' },
      invoke: {
        id: 'info',
        src: 'plugins.getInfo',
        input: ({ context: { socket } }) => ({ socket }),
        onDone: { target: 'judged', actions: introduce },
        onError: { target: 'backingOff', actions: logInfoFailed },
      },
    },
    judged: {
      meta: { waitsFor: 'the plugin manager to take the plugin or not' },
      on: {
        'plugin.accepted': 'identifying',
        'plugin.acceptedDevice': 'connecting',
        'plugin.acceptedDra': 'accepted',
        'plugin.refused': { target: 'refused', actions: assign({ error: ({ event }) => event.error }) },
      },
    },
    connecting: {
      meta: { waitsFor: 'the device plugin to say how it wants to be asked' },
      invoke: {
        id: 'options',
        src: 'devices.getOptions',
        input: endpointIn,
        onDone: { target: 'accepted', actions: sendConnected },
        onError: {
          target: 'failed',
          actions: fail((event) => `failed to get device plugin options: ${errorOf(event).message}`),
        },
      },
    },
    identifying: {
      meta: { waitsFor: 'the CSI driver to say what it calls this node' },
      invoke: {
        id: 'nodeInfo',
        src: 'plugins.csiNodeGetInfo',
        input: endpointIn,
        onDone: [
          {
            guard: ({ event }) => nodeInfoProblem(event.output) === null,
            target: 'announcing',
            actions: sendParent(({ context, event }) => ({
              type: 'plugin.registered',
              socket: context.socket,
              driver: driverOf(infoOf(context).name, nodeInfoOf(event)),
            })),
          },
          { target: 'failed', actions: fail((event) => nodeInfoProblem(nodeInfoOf(event)) ?? '') },
        ],
        onError: { target: 'failed', actions: fail((event) => errorOf(event).message) },
      },
    },
    announcing: {
      meta: { waitsFor: 'the CSINode to have the driver' },
      on: {
        'plugin.announced': 'accepted',
        'plugin.unannounced': {
          target: 'failed',
          actions: fail((event) => (event as Extract<PluginVerdict, { readonly error: string }>).error),
        },
      },
      after: { [ANNOUNCING_MAX_MS]: { target: 'failed', actions: fail(() => UNANNOUNCED) } },
    },
    accepted: {
      meta: { waitsFor: 'the plugin to hear that it is registered' },
      invoke: {
        ...report(true),
        onDone: 'registered',
        onError: [
          { guard: 'isRetried', target: 'backingOff', actions: withdraw },
          { target: 'registered', actions: logUnreported },
        ],
      },
    },
    registered,
    refused: {
      meta: { waitsFor: 'the plugin to hear that it is not registered' },
      entry: logRefusal,
      invoke: { ...report(false), onDone: 'backingOff', onError: { target: 'backingOff', actions: logUnreported } },
    },
    backingOff: {
      exit: assign({ error: '', retryMs: ({ context }) => doubledMs(OPERATION_BACK_OFF, context.retryMs) }),
      after: { retry: 'asking' },
    },
    failed: {
      entry: logRefusal,
      meta: { waitsFor: 'the plugin to hear that it is not registered' },
      invoke: { ...report(false), onDone: 'notified', onError: { target: 'notified', actions: logUnreported } },
    },
    notified: { always: [{ guard: 'isRetried', target: 'backingOff' }, { target: 'dismissed' }] },
    dismissed: { meta: { waitsFor: 'the plugin to listen anew' } },
  },
});
