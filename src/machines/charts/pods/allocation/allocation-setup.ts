/** Types, guards and helpers of the allocation manager. The chart is in `allocation.ts`. */
import { type ActionArgsOf, type Ended, setup, to, typed } from '../../../../kernel/xstate.ts';
import type { DeviceAnswers } from '../../../model/allocation/device-manager.ts';
import { type Devices, deviceHealth } from '../../../model/allocation/device-state.ts';
import type { AllocationMessage, AllocationReport } from '../../../model/allocation/messages.ts';
import type { Candidate } from '../../../model/allocation/predicates.ts';
import {
  type AdmissionRequest,
  isExtendedResource,
  type NodeView,
  type Rejection,
  units,
} from '../../../model/allocation/request.ts';
import { demandOf, devicesHeldBy, resourcesHeld } from '../../../model/allocation/resource-grants.ts';
import type { Node, NodeStatus } from '../../../model/api/pod.ts';
import type { QOSDemand } from '../../../model/cgroups/node-groups.ts';
import type { Allocation, Grant, Holding } from '../../../model/operations/grants.ts';
import type { SoftState } from '../../../model/operations/host.ts';
import { eventRecorded, podActor } from '../../../model/pods/pod-messages.ts';
import type { EventText } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import type { Taint } from '../../../model/values/labels.ts';
import { nanoOf } from '../../../model/values/quantity.ts';
import { mapValues, pickKeys } from '../../../model/values/tables.ts';
import { type DeviceCallsReport, deviceCallsMachine } from './device-calls.ts';

export interface AllocationInput {
  readonly settings: NodeSettings;
}

export interface AllocationRequest {
  readonly request: AdmissionRequest;
  readonly allocation: Allocation;
  readonly isAnew?: boolean;
  readonly isStopped?: true;
}

export interface Waiting extends AllocationRequest {
  readonly victims: readonly string[];
}

/** A pod whose device plugins are being called. */
export interface Arranging extends AllocationRequest {
  /** The pod's future holding; `null` while an answer is missing. */
  readonly holding: Holding | null;
  readonly answers: DeviceAnswers;
  /** Id of the actor that calls the plugins. */
  readonly talk: string;
}

interface PendingResize {
  readonly request: AdmissionRequest;
  readonly allocation: Allocation;
  readonly sinceMs: number;
  /** Pods that end to make room for it; absent: none. */
  readonly victims?: readonly string[];
}

export interface Context {
  readonly settings: NodeSettings;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
  readonly pressures: readonly string[];
  readonly isShuttingDown: boolean;
  /** Extended resources that the Node has according to the API server, in whole units; absent: none. */
  readonly advertised?: Readonly<Record<string, string>>;
  /** Labels and taints are known, because the Node was read or there is no cluster. */
  readonly isNodeKnown: boolean;
  /** The runtime keeps a pod's cgroups within those of its specification. */
  readonly strictGroups: boolean;
  /** The soft state of an earlier agent was loaded. */
  readonly remembers: boolean;
  readonly grants: Readonly<Record<string, Grant>>;
  /** By uid, the holdings of pods in the state files of an earlier kubelet, until the pods request them. */
  readonly handedOver: Readonly<Record<string, Holding>>;
  /** Uids of pods that another kubelet admitted and that this agent has not evaluated yet. */
  readonly awaited: readonly string[];
  /** By uid, the grants of ended pods that are still wanted. Such pods stay admitted and hold no resources. */
  readonly over: Readonly<Record<string, Grant>>;
  readonly rejections: Readonly<Record<string, Rejection>>;
  readonly waiting: Readonly<Record<string, Waiting>>;
  /** Pods whose admission waits for the Node, or for the pods of an earlier agent. */
  readonly unjudged: Readonly<Record<string, AllocationRequest>>;
  /** Uids of pods that an earlier agent admitted and that this agent has not evaluated again yet. */
  readonly recalled: readonly string[];
  readonly resizes: Readonly<Record<string, PendingResize>>;
  /** Pods whose devices are being chosen with their plugins. */
  readonly arranging: Readonly<Record<string, Arranging>>;
  /** The devices that plugins offer. */
  readonly devices: Devices;
  /** The number of actors that called plugins so far, for ids that are never reused. */
  readonly talks: number;
  readonly demand: QOSDemand;
}

type Event =
  | AllocationMessage
  | DeviceCallsReport
  | { readonly type: 'devices.changed'; readonly devices: Devices }
  | { readonly type: 'devices.heldWanted' }
  | Ended
  | { readonly type: 'softState.loaded'; readonly state: SoftState }
  | { readonly type: 'allocation.waited'; readonly uid: string }
  /** Every pod that another kubelet admitted was evaluated or is gone. */
  | { readonly type: 'allocation.awaited' };

export const allocationSetup = setup({
  types: typed<{ input: AllocationInput; context: Context; events: Event }>(),
  actors: { deviceCalls: deviceCallsMachine },
  guards: {
    hasPending: ({ context }) => Object.keys(context.resizes).length > 0,
    hasNoPending: ({ context }) => Object.keys(context.resizes).length === 0,
  },
});

type Args = ActionArgsOf<typeof allocationSetup>;

/** The part of the context that messages change: each message assigns it once, at the end. */
export type AllocationState = {
  -readonly [Key in
    | 'grants'
    | 'awaited'
    | 'handedOver'
    | 'over'
    | 'rejections'
    | 'waiting'
    | 'unjudged'
    | 'recalled'
    | 'resizes'
    | 'arranging'
    | 'talks']: Context[Key];
};

export interface Work {
  readonly args: Args;
  readonly state: AllocationState;
}

/** The holdings of pods: granted ones, and earlier ones of pods that have not requested them yet. */
export const holdingsIn = ({
  grants,
  handedOver,
}: Pick<AllocationState, 'grants' | 'handedOver'>): Context['handedOver'] =>
  Object.keys(handedOver).length === 0 ? grants : { ...handedOver, ...grants };

/** Handles a message, then assigns the changed parts and sends the changes. */
export const updating = (handle: (work: Work) => void) =>
  allocationSetup.enqueueActions((args) => {
    const { context, enqueue } = args;
    const { grants, awaited, handedOver, over, rejections, waiting, unjudged, recalled, resizes } = context;
    const { arranging, talks } = context;
    const state: AllocationState = {
      grants,
      awaited,
      handedOver,
      over,
      rejections,
      waiting,
      unjudged,
      recalled,
      resizes,
      arranging,
      talks,
    };
    handle({ args, state });
    const isHeldAlike = state.grants === grants && state.handedOver === handedOver;
    enqueue.assign({ ...state, demand: isHeldAlike ? context.demand : sendChanges(args, state) });
  });

/** Sends what changed of the grants and holdings; returns the sum of the requests. */
function sendChanges(args: Args, state: AllocationState): QOSDemand {
  const { context, enqueue } = args;
  const demand = demandOf(state.grants);
  if (!isSame(demand, context.demand)) enqueue.sendTo(to('containerManager'), { type: 'qos.changed', demand });
  const before = resourcesHeld(context.settings, holdingsIn(context));
  const held = resourcesHeld(context.settings, holdingsIn(state));
  if (!isSame(held, before)) enqueue.sendTo(to('containerManager'), held);
  const devices = devicesHeldBy(holdingsIn(state));
  if (!isSame(devices, devicesHeldBy(holdingsIn(context)))) enqueue.sendTo(to('deviceManager'), devices);
  const { shared } = held;
  if (shared !== before.shared) reply({ args }, { type: 'allocation.shared', shared });
  return demand;
}

/** Records for this agent and the next one that a pod has ended and holds no resources. */
export function noteEnd(work: Work, uid: string, { demand, allocation }: Grant): void {
  const grant: Grant = { demand, allocation, ended: true };
  work.state.over = { ...work.state.over, [uid]: grant };
  work.args.enqueue.sendTo(to('softState'), { type: 'softState.allocated', uid, grant });
}

export const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** Sends a message to the pod that it is about, or to all pods. */
export const reply = ({ args }: Pick<Work, 'args'>, message: AllocationReport): void =>
  args.enqueue.sendTo(to('uid' in message ? podActor(message.uid) : 'pods'), message);

export function recordEvent({ args }: Work, { uid, namespace, name }: AdmissionRequest, text: EventText): void {
  args.enqueue.sendTo(to('eventRecorder'), eventRecorded({ kind: 'Pod', namespace, name, uid }, text));
}

/** Devices of plugins are counted when they are assigned, and not with the resources that other clients advertise. */
export function viewOf(context: Context): NodeView {
  const { settings, labels, taints, pressures, isShuttingDown, strictGroups, devices, advertised = {} } = context;
  const admission = settings.admission!;
  const others = pickKeys(advertised, (name) => devices[name] === undefined);
  return {
    ...admission,
    allocatable: { ...others, ...admission.allocatable },
    nodeName: settings.nodeName,
    labels,
    taints,
    pressures,
    isShuttingDown,
    strictGroups,
  };
}

export const candidates = ({ grants, waiting, arranging }: AllocationState): readonly Candidate[] => [
  ...Object.entries(grants).map(([uid, { demand }]) => ({ uid, demand })),
  ...[...Object.values(waiting), ...Object.values(arranging)].map(({ request }) => ({
    uid: request.uid,
    demand: request.demand,
  })),
];

export const without = <Value>(
  table: Readonly<Record<string, Value>>,
  uid: string,
): Readonly<Record<string, Value>> => {
  if (!Object.hasOwn(table, uid)) return table;
  const { [uid]: _gone, ...rest } = table;
  return rest;
};

/** Stores the reports about the node from the actors that watch it. */
export const observeNode = allocationSetup.assign(({ context, event }): Partial<Context> => {
  if (event.type === 'node.known') {
    const { status } = event.node;
    const isCounted = hasBehavior(context.settings, 'devicesAsKubelet');
    return { ...admissionFacts(event.node), ...(isCounted ? { advertised: advertisedIn(status) } : {}) };
  }
  if (event.type === 'node.pressed') return { pressures: event.pressures };
  if (event.type === 'node.reported') {
    return { strictGroups: event.reports.features?.supplementalGroupsPolicy ?? context.strictGroups };
  }
  return event.type === 'node.shuttingDown' ? { isShuttingDown: event.active } : {};
});

const admissionFacts = ({ metadata, spec }: Node): Pick<Context, 'labels' | 'taints' | 'isNodeKnown'> => ({
  labels: metadata?.labels ?? {},
  taints: spec?.taints ?? [],
  isNodeKnown: true,
});

/** Extended resources, which plugins or other clients advertise. */
const advertisedIn = ({ allocatable = {} }: NodeStatus = {}): NonNullable<Context['advertised']> =>
  mapValues(pickKeys(allocatable, isExtendedResource), (amount, name) => units(name, nanoOf(amount)));

/** Sends a pod the health of its devices, for its status. */
export function reportHealth(work: Pick<Work, 'args'>, uid: string, { devices }: Holding, offered: Devices): void {
  if (devices === undefined) return;
  reply(work, { type: 'allocation.deviceHealth', uid, health: deviceHealth(devices, offered) });
}
