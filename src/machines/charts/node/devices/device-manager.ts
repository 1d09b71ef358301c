/**
 * The device manager: tracks the devices that the plugins of this node offer.
 *
 * Decides: when a resource is removed.
 * Owns: the plugins that are connected, by resource, and their devices.
 * Hears: `devices.registered` of its server and of the plugin manager, `devices.withdrawn` of the latter; `device.*` of
 *   its actors; `devices.held` and `devices.wanted` of `allocation`; `devices.amountsWanted` of `nodeStatus`.
 * Asks: `host.readCheckpoints`, `devices.isNewFolder`, `devices.serveRegistration`, `devices.writeCheckpoint`.
 * Sends: `allocation` `devices.changed`, and at the start the checkpointed devices of pods; `nodeStatus` capacity and
 *   allocatable of the devices.
 * Invariants:
 *   R1 a resource has at most one plugin: the newest that registered.
 *   R2 devices of a plugin that is gone are unhealthy; five minutes later the resource is removed from the node.
 *   R3 a resource known from an earlier start exists, without devices, until its plugin registers again or that time
 *      has passed.
 *   R4 a plugin that hangs or sends wrong data prevents no other from registering.
 *   R5 a node has at most {@link RESOURCES_MAX} resources: the plugin of a further one is ignored, and a line is
 *      logged.
 * Seeds: S241. Upstream: pkg/kubelet/cm/devicemanager.
 */

import {
  type ActionArgsOf,
  childIn,
  type Ended,
  errorOf,
  type JsonObject,
  line,
  outputOf,
  pick,
  sendTo,
  setup,
  to,
  typed,
} from '../../../../kernel/xstate.ts';
import type { ResourceEntry, Resources } from '../../../model/allocation/device-policy.ts';
import {
  CHECKPOINT_FILE,
  devicesHandedOver,
  devicesOf,
  entriesOfAll,
  haveChanged,
  NO_OPTIONS,
  RESOURCES_MAX,
  registeredDevices,
  rememberedResources,
  STOP_GRACE_MS,
  withoutPlugin,
} from '../../../model/allocation/device-policy.ts';
import { deviceAmounts, readDeviceState } from '../../../model/allocation/device-state.ts';
import { deviceOperations, type RegistrationItem } from '../../../model/operations/devices.ts';
import type { DeviceHoldings } from '../../../model/operations/grants.ts';
import { hostOperations } from '../../../model/operations/host.ts';
import { type Decider, hasBehavior } from '../../../model/settings/behaviors.ts';
import { type DevicePluginReport, devicePluginMachine } from './device-plugin.ts';

const NOT_READ = 'Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date';
/** Upstream's pause before the registration is served again. */
const SERVE_RETRY_MS = 1_000;
/** The pause before a failed checkpoint write is retried. */
const WRITE_RETRY_MS = 10_000;

interface DeviceManagerInput extends Decider {
  /** The folder of device plugins, below the root directory. */
  readonly folder: string;
}

interface Context extends DeviceManagerInput {
  readonly resources: Resources;
  /** Devices that pods hold, by pod uid. */
  readonly held: Readonly<Record<string, DeviceHoldings>>;
  /** The number of connections to plugins so far, for ids that are never reused. */
  readonly spawned: number;
  /** The checkpoint on disk is older than the state. */
  readonly isStale: boolean;
  /** No kubelet has run on this disk, and the Node was not told so yet. */
  readonly isRecreated?: boolean;
  /** The publisher of the Node asked before the devices were known. */
  readonly isAwaited?: true;
}

type Event =
  | RegistrationItem
  | DevicePluginReport
  | { readonly type: 'devices.withdrawn'; readonly resource: string; readonly endpoint: string }
  | { readonly type: 'devices.held'; readonly held: Context['held'] }
  | { readonly type: 'devices.wanted' }
  /** The publisher of the Node has started: it has no report yet. */
  | { readonly type: 'devices.amountsWanted' }
  | { readonly type: 'device.expired'; readonly resource: string }
  | Ended;

interface Contents {
  readonly contents: readonly (string | null)[];
}

const s = setup({
  types: typed<{ input: DeviceManagerInput; context: Context; events: Event }>(),
  actors: {
    devicePlugin: devicePluginMachine,
    ...pick(deviceOperations, 'devices.isNewFolder', 'devices.serveRegistration', 'devices.writeCheckpoint'),
    ...pick(hostOperations, 'host.readCheckpoints'),
  },
  guards: {
    isStale: ({ context }) => context.isStale,
    mayBeRecreated: ({ context, event }) =>
      hasBehavior(context, 'managersAsKubelet') && outputOf<Contents>(event).contents[0] == null,
  },
});

type Args = ActionArgsOf<typeof s>;

const checkpoint = ({ folder }: Context): string => `${folder}/${CHECKPOINT_FILE}`;

const changed = (resources: Resources) => ({ type: 'devices.changed', devices: devicesOf(resources) });

function publishCapacity({ enqueue }: Pick<Args, 'enqueue'>, resources: Resources): void {
  enqueue.sendTo(to('allocation'), changed(resources));
  enqueue.sendTo(to('nodeStatus'), { type: 'node.reported', reports: amountsOf(resources) });
}

function amountsOf(resources: Resources) {
  const { capacity, allocatable } = deviceAmounts(devicesOf(resources));
  return { deviceCapacity: capacity, deviceAllocatable: allocatable };
}

/** That the machine is new is reported once: other clients may advertise resources afterwards. */
const sendAmounts = s.enqueueActions(({ context, enqueue }) => {
  const news = context.isRecreated === true ? { isRecreated: true } : {};
  enqueue.sendTo(to('nodeStatus'), { type: 'node.reported', reports: { ...amountsOf(context.resources), ...news } });
  if (context.isRecreated !== undefined) enqueue.assign({ isRecreated: false });
});

/** Stores the new state of resources, and publishes it if it differs. */
function storeResources(args: Args, resources: Resources, change: Partial<Context> = {}): void {
  const isNew = haveChanged(args.context.resources, resources);
  if (isNew) publishCapacity(args, resources);
  args.enqueue.assign({ ...change, resources, isStale: args.context.isStale || isNew });
}

const loadCheckpoint = s.enqueueActions((args) => {
  const { contents } = outputOf<Contents>(args.event);
  const [text] = contents;
  if (text == null) return;
  const state = readDeviceState(text);
  if ('error' in state) return args.enqueue(line('error', [NOT_READ, { err: state.error }]));
  const message = devicesHandedOver(state);
  if (message !== null && hasBehavior(args.context, 'resourcesAsKubelet'))
    args.enqueue.sendTo(to('allocation'), message);
  const entry: ResourceEntry = { id: '', endpoint: '', options: NO_OPTIONS, isListed: false, devices: [] };
  const names = rememberedResources(state);
  for (const resource of names) expireLater(args, resource);
  storeResources(args, Object.fromEntries(names.map((name) => [name, entry])));
});

function expireLater({ enqueue }: Args, resource: string): void {
  enqueue.raise({ type: 'device.expired', resource }, { delay: STOP_GRACE_MS, id: `expire-${resource}` });
}

const isFull = (context: Context): boolean =>
  Object.keys(context.resources).length >= RESOURCES_MAX && hasBehavior(context, 'resourcesLimited');

const refused = (resourceName: string, endpoint: string): [string, JsonObject] => [
  'A device plugin is not followed: the node has as many resources as it takes',
  { resourceName, endpoint, limit: RESOURCES_MAX },
];

const connect = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'devices.registered') return;
  const { resource, endpoint, options } = event;
  const before = context.resources[resource];
  if (before === undefined && isFull(context)) return enqueue(line('error', refused(resource, endpoint)));
  if (before !== undefined && before.id !== '') enqueue.stopChild(before.id);
  enqueue.cancel(`expire-${resource}`);
  const id = `device-plugin-${context.spawned}`;
  enqueue(line('info', ['Device plugin connected', { resourceName: resource, endpoint }]));
  enqueue.spawnChild('devicePlugin', { id, input: { id, resource, endpoint, options } });
  const { isListed = false, devices = [] } = before ?? {};
  const entry = { id, endpoint, options, isListed, devices };
  storeResources(args, { ...context.resources, [resource]: entry }, { spawned: context.spawned + 1 });
});

const handleListed = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'device.listed') return;
  const { resource, id, devices } = event;
  const entry = context.resources[resource];
  if (entry?.id !== id) return;
  const healthyCount = devices.filter(({ isHealthy }) => isHealthy).length;
  const counts = { resourceName: resource, totalCount: devices.length, healthyCount };
  enqueue(line('info', ['Processed device updates for resource', counts]));
  storeResources(args, { ...context.resources, [resource]: { ...entry, isListed: true, devices } });
});

function endPlugin(args: Args, resource: string, entry: ResourceEntry): void {
  args.enqueue(line('info', ['Endpoint became unhealthy', { resourceName: resource, endpoint: entry.endpoint }]));
  expireLater(args, resource);
  storeResources(args, { ...args.context.resources, [resource]: withoutPlugin(entry, args.context) });
}

const handleStopped = s.enqueueActions((args) => {
  const { context, event } = args;
  if (event.type !== 'device.stopped') return;
  const entry = context.resources[event.resource];
  if (entry?.id === event.id) endPlugin(args, event.resource, entry);
});

const withdraw = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'devices.withdrawn') return;
  const entry = context.resources[event.resource];
  if (entry === undefined || entry.id === '' || entry.endpoint !== event.endpoint) return;
  enqueue.stopChild(entry.id);
  endPlugin(args, event.resource, entry);
});

/** The actor of a plugin crashed: its plugin counts as gone, and may register again. */
const reapCrashed = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const id = childIn(event);
  const found = Object.entries(context.resources).find(([, entry]) => entry.id === id);
  if (found === undefined) return;
  const { message } = errorOf(event);
  enqueue(line('error', ['The actor of a device plugin crashed', { resourceName: found[0], err: message }]));
  endPlugin(args, ...found);
});

const expire = s.enqueueActions((args) => {
  const { context, event } = args;
  if (event.type !== 'device.expired' || context.resources[event.resource]?.id !== '') return;
  const { [event.resource]: _gone, ...resources } = context.resources;
  storeResources(args, resources);
});

const noteAwaited = s.assign({ isAwaited: true });
const answerAwaited = s.enqueueActions(({ context, enqueue }) => {
  if (context.isAwaited === true) enqueue(sendAmounts);
});

const noteHoldings = s.assign(({ event }) =>
  event.type === 'devices.held' ? { held: event.held, isStale: true } : {},
);

const sendAgain = s.enqueueActions((args) => args.enqueue.sendTo(to('allocation'), changed(args.context.resources)));

export const deviceManagerMachine = s.createMachine({
  id: 'deviceManager',
  context: ({ input }) => ({ ...input, resources: {}, held: {}, spawned: 0, isStale: false }),
  initial: 'loading',
  on: {
    'devices.held': { actions: noteHoldings },
    'devices.wanted': { actions: sendAgain },
    'devices.amountsWanted': { actions: sendAmounts },
  },
  states: {
    loading: {
      on: { 'devices.amountsWanted': { actions: noteAwaited } },
      meta: { waitsFor: 'the resources of which an earlier start knew' },
      invoke: {
        id: 'load',
        src: 'host.readCheckpoints',
        input: ({ context }) => ({ paths: [checkpoint(context)] }),
        onDone: [
          { guard: 'mayBeRecreated', target: 'looking' },
          { target: 'ready', actions: loadCheckpoint },
        ],
        onError: {
          target: 'ready',
          actions: line('error', ({ event }) => [NOT_READ, { err: errorOf(event).message }]),
        },
      },
    },
    looking: {
      on: { 'devices.amountsWanted': { actions: noteAwaited } },
      meta: { waitsFor: 'whether a kubelet has run on this disk' },
      invoke: {
        id: 'look',
        src: 'devices.isNewFolder',
        input: ({ context: { folder } }) => ({ folder }),
        onDone: {
          target: 'ready',
          actions: s.assign(({ event }) => (outputOf<{ isNew: boolean }>(event).isNew ? { isRecreated: true } : {})),
        },
        onError: 'ready',
      },
    },
    ready: {
      type: 'parallel',
      entry: [sendTo(to('allocation'), { type: 'devices.heldWanted' }), answerAwaited],
      on: {
        'devices.registered': { actions: connect },
        'devices.withdrawn': { actions: withdraw },
        'device.listed': { actions: handleListed },
        'device.stopped': { actions: handleStopped },
        'device.expired': { actions: expire },
        'xstate.error.actor.*': { actions: reapCrashed },
      },
      states: {
        registration: {
          initial: 'serving',
          states: {
            serving: {
              invoke: {
                id: 'registration',
                src: 'devices.serveRegistration',
                input: ({ context: { folder } }) => ({ socket: `${folder}/kubelet.sock` }),
                onDone: 'broken',
                onError: {
                  target: 'broken',
                  actions: line('error', ({ event }) => [
                    'Failed to serve device plugin registration grpc server, retrying...',
                    { err: errorOf(event).message },
                  ]),
                },
              },
            },
            broken: { after: { [SERVE_RETRY_MS]: 'serving' } },
          },
        },
        checkpoint: {
          initial: 'written',
          states: {
            written: { always: { guard: 'isStale', target: 'writing' } },
            writing: {
              entry: s.assign({ isStale: false }),
              invoke: {
                id: 'checkpoint',
                src: 'devices.writeCheckpoint',
                input: ({ context }) => ({
                  path: checkpoint(context),
                  entries: entriesOfAll(context.held),
                  registered: registeredDevices(context.resources),
                }),
                onDone: 'written',
                onError: {
                  target: 'failing',
                  actions: line('error', ({ event }) => [
                    'Writing checkpoint encountered',
                    { err: errorOf(event).message },
                  ]),
                },
              },
            },
            failing: { after: { [WRITE_RETRY_MS]: 'writing' } },
          },
        },
      },
    },
  },
});
