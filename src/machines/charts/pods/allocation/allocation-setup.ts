/** Types and helpers of the allocation manager: context, events, messages. The chart is in `allocation.ts`. */

import { type Ended, now, setup, to, typed } from '../../../../kernel/xstate.ts';
import type { DeviceAnswers } from '../../../model/allocation/device-manager.ts';
import { type Devices, deviceHealth } from '../../../model/allocation/device-state.ts';
import type { AllocationMessage, AllocationReport, PodsWanted } from '../../../model/allocation/messages.ts';
import { checkPredicates, type NodeView, type Rejection, type Taint } from '../../../model/allocation/predicates.ts';
import type { Candidate } from '../../../model/allocation/preemption.ts';
import type { AdmissionRequest } from '../../../model/allocation/request.ts';
import { demandOf, devicesHeldBy, resourcesHeld } from '../../../model/allocation/resource-grants.ts';
import type { Node } from '../../../model/api/node.ts';
import type { QOSDemand } from '../../../model/cgroups/node-groups.ts';
import type { Allocation, Grant, Holding } from '../../../model/operations/grants.ts';
import type { SoftState } from '../../../model/operations/host.ts';
import { eventRecorded } from '../../../model/pods/event-messages.ts';
import { type PodKillWanted, podActor } from '../../../model/pods/pod-messages.ts';
import { type EventText, podEvents, podMessages } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import { type DeviceCallsReport, deviceCallsMachine } from './device-calls.ts';

export interface AllocationInput {
  readonly settings: NodeSettings;
}

export interface AllocationRequest {
  readonly request: AdmissionRequest;
  readonly allocation: Allocation;
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
}

export interface Context {
  readonly settings: NodeSettings;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
  readonly pressures: readonly string[];
  readonly isShuttingDown: boolean;
  /** Labels and taints are known, because the Node was read or there is no cluster. */
  readonly isNodeKnown: boolean;
  /** The runtime keeps a pod's cgroups within those of its specification. */
  readonly strictGroups: boolean;
  /** The soft state of an earlier agent was loaded. */
  readonly remembers: boolean;
  readonly grants: Readonly<Record<string, Grant>>;
  /** By uid, the holdings of pods in the state files of an earlier kubelet, until the pods ask themselves. */
  readonly handedOver: Readonly<Record<string, Holding>>;
  /** Uids of pods that another kubelet admitted and that were not judged yet. */
  readonly awaited: readonly string[];
  /** By uid, the grants of ended pods that are still wanted. Such pods stay admitted and hold no resources. */
  readonly over: Readonly<Record<string, Grant>>;
  readonly rejections: Readonly<Record<string, Rejection>>;
  readonly waiting: Readonly<Record<string, Waiting>>;
  /** Pods whose admission waits for the Node, or for the pods of an earlier agent. */
  readonly unjudged: Readonly<Record<string, AllocationRequest>>;
  /** Uids of pods that an earlier agent admitted and that were not checked since. */
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
  /** Every pod that another kubelet admitted was judged or is gone. */
  | { readonly type: 'allocation.awaited' };

export const allocationSetup = setup({
  types: typed<{ input: AllocationInput; context: Context; events: Event }>(),
  actors: { deviceCalls: deviceCallsMachine },
  guards: {
    hasPending: ({ context }) => Object.keys(context.resizes).length > 0,
    hasNoPending: ({ context }) => Object.keys(context.resizes).length === 0,
  },
});

type Args = Parameters<Parameters<typeof allocationSetup.enqueueActions>[0]>[0];

/** The part of the context that one message changes; assigned once at the end. */
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

/** The holdings of pods: granted ones, and earlier ones of pods that have not asked yet. */
export const holdingsIn = ({
  grants,
  handedOver,
}: Pick<AllocationState, 'grants' | 'handedOver'>): Context['handedOver'] =>
  Object.keys(handedOver).length === 0 ? grants : { ...handedOver, ...grants };

/** Handles a message, then assigns the changed parts and sends the changes. */
export const updating = (work: (w: Work) => void) =>
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
    work({ args, state });
    const demand = demandOf(state.grants);
    if (!isSame(demand, context.demand)) enqueue.sendTo(to('containerManager'), { type: 'qos.changed', demand });
    const before = resourcesHeld(context.settings, holdingsIn(context));
    const held = resourcesHeld(context.settings, holdingsIn(state));
    if (!isSame(held, before)) enqueue.sendTo(to('containerManager'), held);
    const devices = devicesHeldBy(holdingsIn(state));
    if (!isSame(devices, devicesHeldBy(holdingsIn(context)))) enqueue.sendTo(to('deviceManager'), devices);
    const { shared } = held;
    if (shared !== before.shared) reply({ args }, { type: 'allocation.shared', shared });
    enqueue.assign({ ...state, demand });
  });

/** The grants of the soft state, of pods that go on and of pods that have ended. */
export function recalledOf({ grants = {} }: Pick<SoftState, 'grants'>): Pick<Context, 'grants' | 'over' | 'recalled'> {
  const having = (isOver: boolean): Context['grants'] =>
    Object.fromEntries(Object.entries(grants).filter(([, grant]) => (grant.ended === true) === isOver));
  const active = having(false);
  return { grants: active, over: having(true), recalled: Object.keys(active) };
}

/** Loads the soft state once. Later copies are for other actors, and older than the state here. */
export const remember = updating(({ args: { context, event }, state }) => {
  if (event.type !== 'softState.loaded' || context.remembers) return;
  const { grants, over, recalled } = recalledOf(event.state);
  state.recalled = [...new Set([...state.recalled, ...recalled])];
  state.grants = { ...grants, ...state.grants };
  state.over = { ...over, ...state.over };
  state.rejections = { ...event.state.rejections, ...state.rejections };
  const known = [state.grants, state.over, state.rejections];
  state.awaited = Object.keys(event.state.handedOver ?? {}).filter((uid) => !known.some((table) => uid in table));
});

/** Takes over the holdings in the state files of pods that are unknown here: soft state is newer than any file. */
export const takeOver = updating(({ args, state }) => {
  const { event, enqueue } = args;
  if (event.type !== 'resources.handedOver') return;
  const isKnown = (uid: string) => [state.grants, state.over, state.rejections].some((table) => uid in table);
  const fresh = Object.entries(event.holdings).filter(([uid]) => !isKnown(uid));
  for (const [uid, holding] of fresh) {
    state.handedOver = { ...state.handedOver, [uid]: { ...state.handedOver[uid], ...holding } };
  }
  // The pods of some files may be gone: their holdings are then released.
  if (fresh.length > 0) enqueue.sendTo(to('pods'), { type: 'pods.wanted' } satisfies PodsWanted);
});

/** A pod has ended and holds nothing of the node, also for the next agent. */
export function noteEnd(w: Work, uid: string, { demand, allocation }: Grant): void {
  const grant: Grant = { demand, allocation, ended: true };
  w.state.over = { ...w.state.over, [uid]: grant };
  w.args.enqueue.sendTo(to('softState'), { type: 'softState.allocated', uid, grant });
}

export const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** Sends a message to the pod that it is about, or to all pods. */
export const reply = ({ args }: Pick<Work, 'args'>, message: AllocationReport): void =>
  args.enqueue.sendTo(to('uid' in message ? podActor(message.uid) : 'pods'), message);

export function recordEvent({ args }: Work, { uid, namespace, name }: AdmissionRequest, text: EventText): void {
  args.enqueue.sendTo(to('eventRecorder'), eventRecorded({ kind: 'Pod', namespace, name, uid }, text));
}

export const viewOf = ({ settings, labels, taints, pressures, isShuttingDown, strictGroups }: Context): NodeView => ({
  ...settings.admission!,
  nodeName: settings.nodeName,
  labels,
  taints,
  pressures,
  isShuttingDown,
  strictGroups,
});

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

/** Takes the reports about the node from the actors that watch it. */
export const observe = allocationSetup.assign(({ context, event }): Partial<Context> => {
  if (event.type === 'node.known') return observed(event.node);
  if (event.type === 'node.pressed') return { pressures: event.pressures };
  if (event.type === 'node.reported') {
    return { strictGroups: event.reports.features?.supplementalGroupsPolicy ?? context.strictGroups };
  }
  return event.type === 'node.shuttingDown' ? { isShuttingDown: event.active } : {};
});

/** The part of the Node that admission reads. */
const observed = ({ metadata, spec }: Node): Pick<Context, 'labels' | 'taints' | 'isNodeKnown'> => ({
  labels: metadata?.labels ?? {},
  taints: spec?.taints ?? [],
  isNodeKnown: true,
});

/** Sends a pod the health of its devices, for its status. */
export function reportHealth(work: Pick<Work, 'args'>, uid: string, { devices }: Holding, offered: Devices): void {
  if (devices === undefined) return;
  reply(work, { type: 'allocation.deviceHealth', uid, health: deviceHealth(devices, offered) });
}

/**
 * Re-evaluates the pods that an earlier agent admitted. Such a pod stays whatever room there is, and is rejected only
 * if the Node lacks labels that it needs, as upstream. Part of `allocation.ts`.
 */
export function checkRecalled(w: Work, wanted: AllocationRequest): void {
  const { context, enqueue } = w.args;
  const { request } = wanted;
  const { uid } = request;
  if (!w.state.recalled.includes(uid)) return;
  const isEarly = !context.isNodeKnown && !request.rules.isStatic;
  w.state.unjudged = isEarly ? { ...w.state.unjudged, [uid]: wanted } : without(w.state.unjudged, uid);
  if (isEarly) return;
  w.state.recalled = w.state.recalled.filter((each) => each !== uid);
  const { mismatch } = checkPredicates(request, viewOf(context), []);
  if (mismatch?.reason !== 'NodeAffinity') return;
  const { reason, message } = mismatch;
  recordEvent(w, request, podEvents.rejected(reason, message));
  const verdict = { reason, message: podMessages.rejected(message), published: 'always' } as const;
  enqueue.sendTo(to('pods'), { type: 'pods.kill', uid, graceSeconds: null, verdict } satisfies PodKillWanted);
}

// ---- pods that cannot be admitted yet ------------------------------------------------------------------------------
//
// Holdings from an earlier agent or another kubelet count until it is known which of their pods exist; but they cause
// no rejection: a pod without room waits.

/** Judges the pod later, when the Node or the pods of an earlier agent are known. */
export function postpone(w: Work, wanted: AllocationRequest): void {
  w.state.unjudged = { ...w.state.unjudged, [wanted.request.uid]: wanted };
}

/** Whether pods of an earlier agent hold resources that may soon be free: such a pod may be gone, or may be ending. */
const mayLeave = ({ args: { context }, state }: Work, uid: string): boolean =>
  hasBehavior(context.settings, 'resourcesAsKubelet') &&
  [...state.recalled, ...Object.keys(state.handedOver)].some((other) => other !== uid);

/** Rejections that may be due to holdings of pods that are gone. */
const SHORTAGE_OF_PODS = ['NodePorts', 'UnexpectedAdmissionError', 'TopologyAffinityError', 'SMTAlignmentError'];
export const isShortEarly = (w: Work, uid: string, rejection: Rejection | null): boolean =>
  rejection !== null &&
  (SHORTAGE_OF_PODS.includes(rejection.reason) || rejection.reason.startsWith('OutOf')) &&
  mayLeave(w, uid);

/** Rejections that may be due to labels and taints that are not known yet. */
const NODE_REASONS = ['NodeAffinity', 'TaintToleration'];

/** Too little is known of the Node and of other pods to reject this pod, or to preempt others for it. */
export function isTooEarly(
  w: Work,
  { uid, rules }: AdmissionRequest,
  rejection: Rejection | null,
  victims: readonly unknown[],
): boolean {
  const isOfTheNode = rejection !== null && NODE_REASONS.includes(rejection.reason);
  if (!w.args.context.isNodeKnown && !rules.isStatic && isOfTheNode) return true;
  return (victims.length > 0 && mayLeave(w, uid)) || isShortEarly(w, uid, rejection);
}

// ---- resizes that cannot be granted yet ----------------------------------------------------------------------------

/** Whether other pods of another kubelet have not asked for their resources yet. */
export const isAwaiting = ({ state }: Work, uid: string): boolean => state.awaited.some((other) => other !== uid);

export function postponeResize(w: Work, wanted: AllocationRequest): void {
  const { uid } = wanted.request;
  const sinceMs = w.state.resizes[uid]?.sinceMs ?? now(w.args);
  w.state.resizes = { ...w.state.resizes, [uid]: { request: wanted.request, allocation: wanted.allocation, sinceMs } };
}

/** Notes that the pod was admitted, was refused or is gone. */
export function noteJudged(w: Work, uid: string): void {
  if (!w.state.awaited.includes(uid)) return;
  w.state.awaited = w.state.awaited.filter((each) => each !== uid);
  if (w.state.awaited.length === 0) w.args.enqueue.raise({ type: 'allocation.awaited' });
}

/** The pod is no longer expected to ask for its earlier holding. */
export function forgetRecalled(w: Work, uid: string): void {
  noteJudged(w, uid);
  w.state.recalled = w.state.recalled.filter((each) => each !== uid);
  w.state.handedOver = without(w.state.handedOver, uid);
}

/** Grants, refusals and what an earlier agent gave are kept only for pods that are on this node. */
export const forgetOthers = updating((w) => {
  const { event } = w.args;
  if (event.type !== 'pods.known') return;
  const known = new Set(event.uids);
  const { grants, awaited, handedOver, over, rejections } = w.state;
  const remembered = [grants, handedOver, over, rejections].flatMap((table) => Object.keys(table));
  for (const uid of [...remembered, ...awaited].filter((each) => !known.has(each))) {
    w.state.grants = without(w.state.grants, uid);
    forgetRecalled(w, uid);
    w.state.over = without(w.state.over, uid);
    w.state.rejections = without(w.state.rejections, uid);
  }
});
