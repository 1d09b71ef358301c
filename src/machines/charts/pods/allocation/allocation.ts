/**
 * The allocation manager: which pods this node admits, and which resources each of them has.
 *
 * Decides: admission of new pods, preemption for critical ones, and whether a resize is granted now, later or never.
 * Owns: by uid the grants of pods, the rejections with their reasons, the pending resizes, the critical pods that wait
 *   for the pods that they preempt.
 * Hears: `allocation.*` of pods, `pods.known` of `pods`, `node.*` of the actors that watch the node,
 *   `softState.loaded`, `resources.*` of `containerManager` and `deviceManager`, `devices.*` of the latter and of the
 *   actors that call plugins.
 * Asks: `pods` to end the pods that a critical one preempts.
 * Sends: pods its answers, through `pods` those for all pods; `softState` grants and rejections; `containerManager` the
 *   sums by QoS class; `containerManager` and `deviceManager` the exclusive resources of containers.
 * Invariants:
 *   A1 an admitted pod stays admitted over a restart of the agent, unless the Node lacks labels that it needs, or it
 *      starts again and its devices cannot be used; a rejected pod stays rejected. A static pod is admitted again
 *      after a shutdown, and after it ended.
 *   A2 the sum of all grants never exceeds the node's allocatable resources, except that admitted pods stay admitted
 *      when these resources shrink, and that a pod which takes too long to end is not counted with what displaces it.
 *   A3 a pod that preempts others is admitted only when these have ended, or took too long to end: half as
 *      long again as their grace period.
 *   A4 a request is answered in the same turn, with three exceptions: a rejection for labels or taints waits until the
 *      Node was read, a rejection for insufficient resources until it is known which pods of an earlier agent exist,
 *      and the answer to a pod with devices until their plugins have answered.
 *   A5 a pod keeps the exclusive resources that it has according to another kubelet's state files.
 *   A6 no resize is granted before all pods that another kubelet admitted have their resources again.
 */
import { line, sendTo, to } from '../../../../kernel/xstate.ts';
import { deviceHealth } from '../../../model/allocation/device-state.ts';
import type { AllocationReport } from '../../../model/allocation/messages.ts';
import { devicesHeldBy, resourcesHeld } from '../../../model/allocation/resource-grants.ts';
import { NO_DEMAND } from '../../../model/cgroups/node-groups.ts';
import type { Grant } from '../../../model/operations/grants.ts';
import { pickKeys } from '../../../model/values/tables.ts';
import {
  grantAssigned,
  handleNew,
  handlePluginAnswers,
  reapCrashed,
  regrant,
  resizeWaiting,
  retry,
  retryPostponed,
} from './admission.ts';
import {
  allocationSetup,
  holdingsIn,
  isSame,
  noteEnd,
  observeNode,
  reply,
  reportHealth,
  updating,
  type Work,
  without,
} from './allocation-setup.ts';
import { forgetGonePods, forgetRecalled, loadGrants, recalledGrants, takeOverHoldings } from './earlier-pods.ts';

const s = allocationSetup;

/** Upstream's period of retrying deferred resizes; the end of a pod retries them sooner. */
const RETRY_MS = 180_000;

const handleWanted = updating((work) => {
  const { event } = work.args;
  if (event.type !== 'allocation.wanted') return;
  const { uid } = event.request;
  if (event.request.rules.isStatic || event.isAnew) work.state.over = without(work.state.over, uid);
  const rejection = work.state.rejections[uid];
  if (rejection) reply(work, { type: 'allocation.refused', uid, rejection });
  else if (work.state.over[uid])
    reply(work, { type: 'allocation.granted', uid, allocation: work.state.over[uid].allocation });
  else if (work.state.grants[uid]) regrant(work, event, work.state.grants[uid]);
  else if (!work.state.waiting[uid] && !work.state.arranging[uid]) handleNew(work, event.handedOver ?? event);
});

/** Stores a changed list of devices, and informs pods whose devices changed their health. */
const handleDevices = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'devices.changed') return;
  for (const [uid, holding] of Object.entries(context.grants)) {
    const [before, after] = [context.devices, event.devices].map((each) => deviceHealth(holding.devices ?? {}, each));
    if (!isSame(before, after)) reportHealth({ args }, uid, holding, event.devices);
  }
  enqueue.assign({ devices: event.devices });
});

const releaseResources = updating((work) => {
  const { event } = work.args;
  if (event.type !== 'allocation.ended' && event.type !== 'allocation.released') return;
  const { uid } = event;
  const { grants, waiting, arranging } = work.state;
  const granted = grants[uid];
  const counted = granted ?? waiting[uid] ?? arranging[uid];
  work.state.grants = without(work.state.grants, uid);
  forgetRecalled(work, uid);
  work.state.waiting = without(work.state.waiting, uid);
  work.state.unjudged = without(work.state.unjudged, uid);
  work.state.resizes = without(work.state.resizes, uid);
  if (arranging[uid] !== undefined) work.args.enqueue.stopChild(arranging[uid].talk);
  work.state.arranging = without(work.state.arranging, uid);
  if (event.type === 'allocation.released') {
    work.state.rejections = without(work.state.rejections, uid);
    work.state.over = without(work.state.over, uid);
  } else if (granted !== undefined && event.byItself) noteEnd(work, uid, granted);
  if (counted === undefined) return;
  admitWaiting(work, uid);
  retry(work);
});

/** Admits pods that waited only for this pod to end. */
function admitWaiting(work: Work, uid: string): void {
  for (const waiting of Object.values(work.state.waiting)) {
    const victims = waiting.victims.filter((victim) => victim !== uid);
    if (victims.length === 0) grantAssigned(work, waiting);
    else work.state.waiting = { ...work.state.waiting, [waiting.request.uid]: { ...waiting, victims } };
  }
}

const stopWaiting = updating((work) => {
  const { event } = work.args;
  if (event.type !== 'allocation.waited') return;
  const waiting = work.state.waiting[event.uid];
  if (!waiting) return;
  work.args.enqueue(
    line('warn', ['Pods that were displaced have not ended', { uid: event.uid, pods: waiting.victims }]),
  );
  grantAssigned(work, waiting);
});

/** Goes on without a pod that takes too long to end, as upstream: its resources are then promised twice. */
const awaitNoLonger = updating((work) => {
  const { event, enqueue } = work.args;
  if (event.type !== 'allocation.overdue') return;
  const { uid } = event;
  const { waiting, resizes } = work.state;
  const urgent = Object.entries({ ...waiting, ...resizes }).filter(([, { victims }]) => victims?.includes(uid));
  if (urgent.length === 0) return;
  const waitingFor = { uid, critical: urgent.map(([critical]) => critical) };
  enqueue(line('warn', ['A pod that makes room for critical ones has not ended', waitingFor]));
  admitWaiting(work, uid);
  resizeWaiting(work, uid);
});

/** The memory of init containers that have ended is free for other pods. */
const releaseInits = updating((work) => {
  const { event, enqueue } = work.args;
  if (event.type !== 'allocation.initialised') return;
  const { uid, containers } = event;
  const granted = work.state.grants[uid];
  if (granted?.memory === undefined) return;
  const { memory: before, ...rest } = granted;
  const memory = pickKeys(before, (name) => !containers.includes(name));
  const grant: Grant = { ...rest, ...(Object.keys(memory).length === 0 ? {} : { memory }) };
  work.state.grants = { ...work.state.grants, [uid]: grant };
  enqueue.sendTo(to('softState'), { type: 'softState.allocated', uid, grant });
});

/** Evaluates the pods whose admission waited for the Node, or for the pods of an earlier agent. */
const evaluatePostponed = updating(retryPostponed);

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
    ...recalledGrants({}),
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
    'softState.loaded': { actions: [loadGrants, s.assign({ remembers: true })] },
    'resources.handedOver': { actions: takeOverHoldings },
    'allocation.wanted': { actions: handleWanted },
    'allocation.ended': { actions: [releaseResources, evaluatePostponed] },
    'allocation.released': { actions: [releaseResources, evaluatePostponed] },
    'allocation.waited': { actions: stopWaiting },
    'allocation.initialised': { actions: releaseInits },
    'allocation.overdue': { actions: awaitNoLonger },
    'allocation.awaited': { actions: updating(retry) },
    'pods.known': { actions: [forgetGonePods, evaluatePostponed] },
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
    'node.known': { actions: [observeNode, evaluatePostponed] },
    'node.pressed': { actions: observeNode },
    'node.shuttingDown': { actions: observeNode },
    'node.reported': { actions: observeNode },
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
