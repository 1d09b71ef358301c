/**
 * The allocation manager: which pods this node admits, and which resources each of them has.
 *
 * Decides: admission of new pods, preemption for critical ones, and whether a resize is granted now, later or never.
 * Owns: by uid the grants of pods, the rejections with their reasons, the resizes that wait, the critical pods that
 *   wait for room.
 * Hears: `allocation.*` of pods, `pods.known` of `pods`, `node.*` of the actors that watch the node,
 *   `softState.loaded`, `resources.*` of `containerManager` and `deviceManager`, `devices.*` of the latter and of the
 *   actors that call plugins.
 * Asks: `pods` to end the pods that a critical one preempts.
 * Sends: pods its answers, through `pods` those for all pods; `softState` grants and rejections; `containerManager` the
 *   sums by QoS class; `containerManager` and `deviceManager` the exclusive resources of containers.
 * Invariants:
 *   A1 an admitted pod stays admitted over a restart of the agent, unless the Node lacks labels that it needs; a
 *      rejected pod stays rejected. A static pod is admitted again after a shutdown, and after it ended.
 *   A2 the sum of all grants never exceeds the node's allocatable resources, except for pods admitted before these
 *      shrank.
 *   A3 a pod that preempts others is admitted only when they have ended, or when they took too long.
 *   A4 a request is answered in the same turn, except that a rejection for labels or taints waits until the Node was
 *      seen, one for want of room until it is known which pods of an earlier agent there are, and a pod with devices
 *      until their plugins have answered.
 *   A5 a pod keeps the exclusive resources that it has by another kubelet's state files.
 *   A6 no resize is granted before the pods that another kubelet admitted have what they had.
 */

import { errorOf, line, now, sendTo, to } from '../../../../kernel/xstate.ts';
import { admit, byUrgency, resize } from '../../../model/allocation/admit.ts';
import {
  callsWithoutAnswer,
  type DeviceAnswers,
  unexpected,
  withAnswer,
  withResponses,
} from '../../../model/allocation/device-manager.ts';
import { deviceHealth } from '../../../model/allocation/device-state.ts';
import type { AllocationReport } from '../../../model/allocation/messages.ts';
import { isOfThisStart, type Rejection } from '../../../model/allocation/predicates.ts';
import { type AdmissionRequest, carriedOver } from '../../../model/allocation/request.ts';
import type { Assignment } from '../../../model/allocation/resource-assignment.ts';
import {
  assignedTo,
  devicesHeldBy,
  pinnedResize,
  podShares,
  resourcesHeld,
} from '../../../model/allocation/resource-grants.ts';
import { NO_DEMAND } from '../../../model/cgroups/node-groups.ts';
import type { Grant, Holding } from '../../../model/operations/grants.ts';
import type { PodKillWanted } from '../../../model/pods/pod-messages.ts';
import { podEvents, podMessages, podReasons } from '../../../model/reasons/reasons.ts';
import { childIn } from '../../children.ts';
import {
  type AllocationRequest,
  type Arranging,
  allocationSetup,
  candidates,
  checkRecalled,
  forgetOthers,
  forgetRecalled,
  holdingsIn,
  isAwaiting,
  isSame,
  isShortEarly,
  isTooEarly,
  noteEnd,
  noteJudged,
  observe,
  postpone,
  postponeResize,
  recalledOf,
  recordEvent,
  remember,
  reply,
  reportHealth,
  takeOver,
  updating,
  viewOf,
  type Work,
  without,
} from './allocation-setup.ts';
import type { DeviceCallsInput } from './device-calls.ts';

const s = allocationSetup;

/** Upstream's period of retrying deferred resizes; the end of a pod retries them sooner. */
const RETRY_MS = 180_000;
/** How long a critical pod waits for the pods that it preempts. */
const PREEMPTION_WAIT_MS = 60_000;

// ---- new pods --------------------------------------------------------------------------------------------

const handleWanted = updating((w) => {
  const { event } = w.args;
  if (event.type !== 'allocation.wanted') return;
  const { uid } = event.request;
  if (event.request.rules.isStatic || event.isAnew) w.state.over = without(w.state.over, uid);
  const rejection = w.state.rejections[uid];
  if (rejection) reply(w, { type: 'allocation.refused', uid, rejection });
  else if (w.state.over[uid]) reply(w, { type: 'allocation.granted', uid, allocation: w.state.over[uid].allocation });
  else if (w.state.grants[uid]) regrant(w, event, w.state.grants[uid]);
  else if (!w.state.waiting[uid] && !w.state.arranging[uid]) handleNew(w, event.handedOver ?? event);
});

function handleNew(w: Work, wanted: AllocationRequest): void {
  const { request, allocation } = wanted;
  const { uid } = request;
  const { rejection, victims = [], shortOf } = admit(request, viewOf(w.args.context), candidates(w.state));
  if (isTooEarly(w, request, rejection, victims)) return postpone(w, wanted);
  w.state.unjudged = without(w.state.unjudged, uid);
  if (rejection !== null) return refuse(w, request, ownShortage(w, wanted, rejection) ?? rejection);
  if (victims.length === 0) return grantAssigned(w, wanted);
  w.state.waiting = { ...w.state.waiting, [uid]: { request, allocation, victims } };
  w.args.enqueue.raise({ type: 'allocation.waited', uid }, { delay: PREEMPTION_WAIT_MS, id: `waited-${uid}` });
  for (const victim of victims) preempt(w, victim, uid, shortOf);
}

function refuse(w: Work, request: AdmissionRequest, rejection: Rejection): void {
  const { uid } = request;
  w.state.rejections = { ...w.state.rejections, [uid]: rejection };
  w.state.handedOver = without(w.state.handedOver, uid);
  if (!isOfThisStart(request, rejection)) {
    w.args.enqueue.sendTo(to('softState'), { type: 'softState.rejected', uid, rejection });
  }
  recordEvent(w, request, podEvents.rejected(rejection.reason, rejection.message));
  reply(w, { type: 'allocation.refused', uid, rejection });
  noteJudged(w, uid);
}

/**
 * Upstream assigns CPUs and memory before it counts resources, so a pod that lacks them is rejected for that reason.
 */
function ownShortage(w: Work, { request }: AllocationRequest, { reason }: Rejection): Rejection | null {
  if (!reason.startsWith('OutOf') && reason !== 'UnexpectedAdmissionError') return null;
  const answer = assigned(w, request, {});
  return 'rejection' in answer ? answer.rejection : null;
}

function assigned(w: Work, request: AdmissionRequest, answers: DeviceAnswers): Assignment {
  const { settings, devices } = w.args.context;
  const { [request.uid]: _own, ...others } = w.state.arranging;
  const promised = Object.values(others).flatMap(({ holding }) => holding ?? []);
  return assignedTo(settings, request, { grants: holdingsIn(w.state), promised, devices, answers });
}

/** Grants a pod its resources: at once, or when the plugins of its devices have answered. */
function grantAssigned(w: Work, { request, allocation }: AllocationRequest, answers: DeviceAnswers = {}): void {
  const { uid } = request;
  w.state.waiting = without(w.state.waiting, uid);
  w.state.arranging = without(w.state.arranging, uid);
  const answer = assigned(w, request, answers);
  if ('rejection' in answer) {
    if (isShortEarly(w, uid, answer.rejection)) return postpone(w, { request, allocation });
    return refuse(w, request, answer.rejection);
  }
  if ('question' in answer) {
    const { question } = answer;
    return callPlugins(w, { request, allocation, holding: null, answers }, { uid, question, calls: [] });
  }
  const calls = callsWithoutAnswer(answer.devices ?? {});
  if (calls.length === 0) return grant(w, { request, allocation }, answer);
  callPlugins(w, { request, allocation, holding: answer, answers }, { uid, question: null, calls });
}

function callPlugins(w: Work, arranging: Omit<Arranging, 'talk'>, input: DeviceCallsInput): void {
  const id = `devices-${w.state.talks}`;
  w.state.talks += 1;
  w.state.arranging = { ...w.state.arranging, [input.uid]: { ...arranging, talk: id } };
  w.args.enqueue.spawnChild('deviceCalls', { id, input });
}

function grant(w: Work, { request: { uid, demand }, allocation }: AllocationRequest, holding: Holding): void {
  const given: Grant = { demand, allocation, ...holding };
  const held = w.state.grants[uid];
  const before = held === undefined ? {} : { before: held.allocation };
  w.state.grants = { ...w.state.grants, [uid]: given };
  w.state.handedOver = without(w.state.handedOver, uid);
  w.state.resizes = without(w.state.resizes, uid);
  w.args.enqueue.sendTo(to('softState'), { type: 'softState.allocated', uid, grant: given });
  const shares = podShares(w.args.context.settings, holdingsIn(w.state), uid);
  reply(w, { type: 'allocation.granted', uid, allocation, ...before, ...shares });
  reportHealth(w, uid, given, w.args.context.devices);
  noteJudged(w, uid);
}

/** Takes a changed list of devices, and informs pods whose devices changed their health. */
const handleDevices = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'devices.changed') return;
  for (const [uid, holding] of Object.entries(context.grants)) {
    const [before, after] = [context.devices, event.devices].map((each) => deviceHealth(holding.devices ?? {}, each));
    if (!isSame(before, after)) reportHealth({ args }, uid, holding, event.devices);
  }
  enqueue.assign({ devices: event.devices });
});

/** Takes the plugins' answers for a pod that still exists. */
const handlePluginAnswers = updating((w) => {
  const { event } = w.args;
  if (!('uid' in event) || !event.type.startsWith('devices.')) return;
  const arranging = w.state.arranging[event.uid];
  if (arranging === undefined) return;
  if (event.type === 'devices.preferred') {
    return grantAssigned(w, arranging, withAnswer(arranging.answers, event.question, event.ids));
  }
  w.state.arranging = without(w.state.arranging, event.uid);
  if (event.type === 'devices.refused') return refuse(w, arranging.request, unexpected(event.error));
  if (event.type !== 'devices.allocated' || arranging.holding === null) return;
  grant(w, arranging, withResponses(arranging.holding, event.answers));
});

const reapCrashed = updating((w) => {
  const id = childIn(w.args.event);
  const found = Object.values(w.state.arranging).find((each) => each.talk === id);
  if (found === undefined) return;
  w.state.arranging = without(w.state.arranging, found.request.uid);
  const { message } = errorOf(w.args.event);
  refuse(w, found.request, unexpected(message));
});

function preempt({ args: { enqueue } }: Work, uid: string, critical: string, shortOf = ''): void {
  const { preempting: reason } = podReasons;
  const verdict = { reason, message: podMessages.preempted, published: 'once', disruptionTarget: true } as const;
  enqueue(line('info', ['Ending a pod to make room for a critical one', { uid, critical }]));
  enqueue.sendTo(to('pods'), { type: 'pods.kill', uid, graceSeconds: null, verdict, shortOf } satisfies PodKillWanted);
}

// ---- known pods ---------------------------------------------------------------------------------------

/** Handles a request of an admitted pod: its actor restarted, or its specification changed. */
function regrant(w: Work, wanted: AllocationRequest, held: Grant): void {
  const { uid } = wanted.request;
  const { allocation } = held;
  if (!isSame(carriedOver(allocation, wanted.allocation), wanted.allocation)) return change(w, wanted, held);
  if (!isSame(allocation, wanted.allocation)) return grantAssigned(w, wanted);
  w.state.resizes = without(w.state.resizes, uid);
  reply(w, {
    type: 'allocation.granted',
    uid,
    allocation,
    ...podShares(w.args.context.settings, holdingsIn(w.state), uid),
  });
  reportHealth(w, uid, held, w.args.context.devices);
  checkRecalled(w, wanted);
  if (!w.state.recalled.includes(uid)) retryUnjudged(w);
}

function change(w: Work, wanted: AllocationRequest, { allocation }: Grant): void {
  const { settings } = w.args.context;
  const { request } = wanted;
  const { uid } = request;
  if (isAwaiting(w, uid)) return postponeResize(w, wanted);
  const wholeNode = settings.admission?.wholeNode ?? {};
  const refusal =
    pinnedResize(settings, wanted, allocation) ??
    resize(request, viewOf(w.args.context), wholeNode, candidates(w.state));
  if (refusal === null) return grantAssigned(w, wanted);
  const sinceMs = w.state.resizes[uid]?.sinceMs ?? now(w.args);
  const pending = refusal.reason === 'Deferred' ? { ...w.state.resizes, [uid]: { ...wanted, sinceMs } } : null;
  w.state.resizes = pending ?? without(w.state.resizes, uid);
  const shares = podShares(settings, holdingsIn(w.state), uid);
  reply(w, { type: 'allocation.pending', uid, allocation, refusal, ...shares });
}

/** Retries waiting pods and resizes, the most urgent first, after resources became free or time passed. */
function retry(w: Work): void {
  const pending = Object.values(w.state.resizes).map((each) => ({
    ...each,
    increases: increases(w.state.grants[each.request.uid], each.request),
  }));
  for (const wanted of pending.toSorted(byUrgency)) {
    const held = w.state.grants[wanted.request.uid];
    if (held) change(w, { request: wanted.request, allocation: wanted.allocation }, held);
    else w.state.resizes = without(w.state.resizes, wanted.request.uid);
  }
}

const increases = (grant: Grant | undefined, { demand }: AdmissionRequest): boolean =>
  ['cpu', 'memory'].some((name) => BigInt(demand.requests[name] ?? '0') > BigInt(grant?.demand.requests[name] ?? '0'));

// ---- ended pods ----------------------------------------------------------------------------------------------------
const free = updating((w) => {
  const { event } = w.args;
  if (event.type !== 'allocation.ended' && event.type !== 'allocation.released') return;
  const { uid } = event;
  const { grants, waiting, arranging } = w.state;
  const held = grants[uid];
  const counted = held ?? waiting[uid] ?? arranging[uid];
  w.state.grants = without(w.state.grants, uid);
  forgetRecalled(w, uid);
  w.state.waiting = without(w.state.waiting, uid);
  w.state.unjudged = without(w.state.unjudged, uid);
  w.state.resizes = without(w.state.resizes, uid);
  if (arranging[uid] !== undefined) w.args.enqueue.stopChild(arranging[uid].talk);
  w.state.arranging = without(w.state.arranging, uid);
  if (event.type === 'allocation.released') {
    w.state.rejections = without(w.state.rejections, uid);
    w.state.over = without(w.state.over, uid);
  } else if (held !== undefined && event.byItself) noteEnd(w, uid, held);
  if (counted === undefined) return;
  admitWaiting(w, uid);
  retry(w);
});

/** Admits pods that waited only for this pod to end. */
function admitWaiting(w: Work, uid: string): void {
  for (const waiting of Object.values(w.state.waiting)) {
    const victims = waiting.victims.filter((victim) => victim !== uid);
    if (victims.length === 0) grantAssigned(w, waiting);
    else w.state.waiting = { ...w.state.waiting, [waiting.request.uid]: { ...waiting, victims } };
  }
}

const stopWaiting = updating((w) => {
  const { event } = w.args;
  if (event.type !== 'allocation.waited') return;
  const waiting = w.state.waiting[event.uid];
  if (!waiting) return;
  w.args.enqueue(line('warn', ['Pods that were displaced have not ended', { uid: event.uid, pods: waiting.victims }]));
  grantAssigned(w, waiting);
});

/** The Node, or the pods of an earlier agent, are known now: pods that waited for that are evaluated. */
const checkEarly = updating(retryUnjudged);

function retryUnjudged(w: Work): void {
  for (const wanted of Object.values(w.state.unjudged)) {
    if (w.state.grants[wanted.request.uid]) checkRecalled(w, wanted);
    else handleNew(w, wanted);
  }
}

export const allocationMachine = s.createMachine({
  id: 'allocation',
  context: ({ input: { settings } }) => ({
    settings,
    labels: settings.admission?.labels ?? {},
    taints: settings.admission?.taints ?? [],
    pressures: [],
    isShuttingDown: false,
    isNodeKnown: settings.apiServer === undefined,
    strictGroups: false,
    ...recalledOf({}),
    awaited: [],
    handedOver: {},
    remembers: false,
    rejections: {},
    waiting: {},
    unjudged: {},
    resizes: {},
    arranging: {},
    devices: {},
    talks: 0,
    demand: NO_DEMAND,
  }),
  entry: s.enqueueActions(({ enqueue }) => {
    enqueue.sendTo(to('softState'), { type: 'softState.wanted' });
    enqueue.sendTo(to('pods'), { type: 'allocation.started' } satisfies AllocationReport);
    enqueue.sendTo(to('runtimeState'), { type: 'runtimeState.wanted' });
    enqueue.sendTo(to('nodeStatus'), { type: 'node.wanted' });
    enqueue.sendTo(to('deviceManager'), { type: 'devices.wanted' });
  }),
  on: {
    'softState.loaded': { actions: [remember, s.assign({ remembers: true })] },
    'resources.handedOver': { actions: takeOver },
    'allocation.wanted': { actions: handleWanted },
    'allocation.ended': { actions: [free, checkEarly] },
    'allocation.released': { actions: [free, checkEarly] },
    'allocation.waited': { actions: stopWaiting },
    'allocation.awaited': { actions: updating(retry) },
    'pods.known': { actions: [forgetOthers, checkEarly] },
    'devices.preferred': { actions: handlePluginAnswers },
    'devices.allocated': { actions: handlePluginAnswers },
    'devices.refused': { actions: handlePluginAnswers },
    'devices.changed': { actions: handleDevices },
    'devices.heldWanted': {
      actions: sendTo(to('deviceManager'), ({ context }) => devicesHeldBy(holdingsIn(context))),
    },
    'xstate.error.actor.*': { actions: reapCrashed },
    'resources.wanted': {
      actions: sendTo(to('containerManager'), ({ context }) => resourcesHeld(context.settings, holdingsIn(context))),
    },
    'node.known': { actions: [observe, checkEarly] },
    'node.pressed': { actions: observe },
    'node.shuttingDown': { actions: observe },
    'node.reported': { actions: observe },
  },
  initial: 'quiet',
  states: {
    quiet: { always: { guard: 'hasPending', target: 'pending' } },
    /** At least one pod waits for resources that are not free. */
    pending: {
      always: { guard: 'hasNoPending', target: 'quiet' },
      after: { [RETRY_MS]: { target: 'pending', reenter: true, actions: updating(retry) } },
    },
  },
});
