/**
 * A pod's share of the node: its admission, its granted resources, its cgroup, and the CPUs of its containers. Part of
 * the chart of `pod.ts`.
 *
 * Invariants:
 *   G1 nothing is created for a pod that the node has not admitted.
 *   G2 `pod` has the granted resources, `asked` the requested ones.
 *   C1 on a node with exclusive CPUs an instance is created with its CPUs, and updated when they change; shared CPUs
 *      are also sent once after its creation.
 *   C2 a failed update of CPUs is retried, and stops no instance.
 *
 * Upstream: cpumanager (reconcileState).
 */

import { line, now, to } from '../../../../kernel/xstate.ts';
import { cpusOf } from '../../../model/allocation/cpu-manager.ts';
import type { AllocationMessage } from '../../../model/allocation/messages.ts';
import type { ResizeRefusal } from '../../../model/allocation/predicates.ts';
import { admissionRequest, allocationOf, carriedOver, withAllocation } from '../../../model/allocation/request.ts';
import type { PodShares } from '../../../model/allocation/resource-grants.ts';
import { isStaticPod, type Pod } from '../../../model/api/pod.ts';
import { claimsWanted } from '../../../model/dra/claims.ts';
import { type ClaimReport, type ClaimRequest, PREPARATION_FAILED } from '../../../model/dra/messages.ts';
import type { Allocation } from '../../../model/operations/grants.ts';
import { eventRecorded } from '../../../model/pods/pod-messages.ts';
import { podEvents } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import { factsOf } from '../../../model/status/runtime-facts.ts';
import { valueIn } from '../../../model/values/tables.ts';
import { configure, logFailure, noteFailure } from './pod-actions.ts';
import type { CpuPin, PodContext } from './pod-context.ts';
import { noteKill } from './pod-kill.ts';
import { anyAlive, anyReadySandbox, refOf } from './pod-policy.ts';
import { applyChange, type Enqueue, publishNow, podSetup as s, sendToContainer } from './pod-setup.ts';
import { hasClaims } from './pod-start-order.ts';
import { resizeSummary } from './resize-policy.ts';

/** Stores the shared CPUs, of containers without exclusive ones. */
export const handleShared = s.assign(({ context, event }) =>
  event.type === 'allocation.shared' && context.cpus !== null
    ? { cpus: { ...context.cpus, shared: event.shared } }
    : {},
);

/** The next instance whose CPUs have to be updated. */
function nextPin(context: PodContext): CpuPin | null {
  if (context.cpus === null || context.kill !== null) return null;
  for (const name of Object.keys(context.containers)) {
    const facts = factsOf(context.runtime, name);
    const cpus = cpusOf(context.cpus, name);
    if (facts?.state !== 'running' || cpus === '') continue;
    const known = context.pinned[facts.id] ?? valueIn(context.createdWith, name);
    if (known !== cpus) return { id: facts.id, cpus };
  }
  return null;
}

const isInRuntime = ({ runtime }: PodContext, id: string): boolean =>
  (runtime?.containers ?? []).some((instance) => instance.id === id);

const noteUpdated = s.assign(({ context }) => {
  const others = Object.entries(context.pinned).filter(([id]) => isInRuntime(context, id));
  const pinned = Object.fromEntries(others);
  return { pinned: context.pin === null ? pinned : { ...pinned, [context.pin.id]: context.pin.cpus }, pin: null };
});

export const pinning = s.createStateConfig({
  initial: 'idle',
  states: {
    idle: {
      always: {
        guard: ({ context }) => nextPin(context) !== null,
        target: 'reporting',
        actions: s.assign({ pin: ({ context }) => nextPin(context) }),
      },
    },
    reporting: {
      invoke: {
        id: 'pin',
        src: 'cri.updateContainerResources',
        input: ({ context }) => ({
          containerId: context.pin?.id ?? '',
          linux: { cpuset_cpus: context.pin?.cpus ?? '' },
        }),
        onDone: { target: 'idle', actions: noteUpdated },
        onError: { target: 'failing', actions: logFailure('Cannot give the container its CPUs') },
      },
    },
    failing: { after: { pinAgain: 'idle' } },
  },
});

const sendToAllocation = (enqueue: Enqueue, message: AllocationMessage): void =>
  enqueue.sendTo(to('allocation'), message);

function sendRequest(enqueue: Enqueue, { node, runtime, handedOver }: PodContext, pod: Pod): void {
  const isAnew = !runtime?.sandboxes.length && !runtime?.containers.length;
  const before = beforeThisAgent(pod, handedOver);
  sendToAllocation(enqueue, {
    type: 'allocation.wanted',
    ...requestFor(pod, node),
    isAnew,
    ...(isAnew || anyReadySandbox({ runtime }) || !hasBehavior(node, 'specsAsKubelet') ? {} : { isStopped: true }),
    ...(before === null ? {} : { handedOver: requestFor(before, node) }),
  });
}

const requestFor = (pod: Pod, node: NodeSettings) => ({
  request: admissionRequest(pod, node),
  allocation: allocationOf(pod),
});

/** The pod with the resources that another kubelet granted; `null` if it requests the same, or is a static pod. */
function beforeThisAgent(pod: Pod, handedOver: Allocation | undefined): Pod | null {
  if (handedOver === undefined || isStaticPod(pod)) return null;
  const requested = allocationOf(pod);
  const granted = carriedOver({ ...requested, ...handedOver }, requested);
  return isSame(granted, requested) ? null : withAllocation(pod, granted);
}

/** Requests the resources of the wanted pod; a manager that lost its state is informed again that a pod has ended. */
export const requestAllocation = s.enqueueActions(({ context, enqueue }) => {
  if (context.node.admission === undefined) return;
  if (context.stage === 'terminated') sendEnd(enqueue, context);
  else if (context.asked !== null) sendRequest(enqueue, context, context.asked);
});

/** The configuration changed: changed resources have to be requested; everything else applies at once. */
export const requestChangedAllocation = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'pod.configured' || context.node.admission === undefined) return;
  const isOther = JSON.stringify(allocationOf(event.pod)) !== JSON.stringify(context.allocation);
  const isPending = context.refusal !== null;
  if (isOther || isPending) sendRequest(enqueue, context, event.pod);
});

export const handleGrant = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'allocation.granted' || context.asked === null) return;
  const { allocation } = event;
  const pod = withAllocation(context.asked, allocation);
  const had = carriedOver(context.allocation ?? event.before ?? allocation, allocation);
  const isOther = !isSame(had, allocation);
  if (isOther) {
    const text = podEvents.resizeStarted(resizeSummary(pod));
    enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
  }
  const actuated = carriedOver(context.actuated ?? had, allocation);
  applyChange(enqueue, context, { allocation, actuated, refusal: null, pod, ...sharesOf(event) }, now(args));
  if (!hasBehavior(context.node, 'containersAsKubelet')) return;
  const resized = Object.keys(context.containers).filter((name) => !isSame(had[name], allocation[name]));
  for (const name of resized) sendToContainer(enqueue, name, { type: 'container.resized' });
});

/** The grant is for an outdated configuration: requests again. */
const requestAgain = s.enqueueActions(({ context, enqueue }) => {
  const { asked, allocation } = context;
  if (asked !== null && !isSame(allocationOf(asked), allocation)) sendRequest(enqueue, context, asked);
});

const sharesOf = ({ cpus, memoryNodes = {}, devices = {} }: PodShares) => ({
  cpus: cpus ?? null,
  memoryNodes,
  devices,
});

const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** Stores the health of the pod's devices, for its status. */
export const handleHealth = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'allocation.deviceHealth' || context.node.reportsDeviceHealth !== true) return;
  applyChange(enqueue, context, { deviceHealth: event.health }, now(args));
});

/** True if an event about this refusal was recorded, maybe by an earlier agent. */
function isReported(context: PodContext, asked: Pod, refusal: ResizeRefusal): boolean {
  if (!hasBehavior(context.node, 'resizesPendingAsKubelet')) return isSame(context.refusal, refusal);
  const published = asked.status?.conditions?.find(({ type }) => type === 'PodResizePending');
  const before =
    context.refusal === null
      ? { reason: published?.reason, generation: published?.observedGeneration }
      : { reason: context.refusal.reason, generation: context.refusedGeneration };
  return isSame(before, { reason: refusal.reason, generation: asked.metadata.generation });
}

/** A resize is not granted: the pod keeps its resources; an event is recorded once for each reason and change. */
export const notePending = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'allocation.pending' || context.asked === null) return;
  const { allocation, refusal } = event;
  const { asked } = context;
  const refusedGeneration = asked.metadata.generation;
  if (!isReported(context, asked, refusal)) {
    const summary = resizeSummary(asked, refusal.message);
    const textOf = refusal.reason === 'Deferred' ? podEvents.resizeDeferred : podEvents.resizeInfeasible;
    enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), textOf(refusal.cause, summary)));
  }
  const actuated = context.actuated ?? allocation;
  applyChange(
    enqueue,
    context,
    { allocation, actuated, refusal, refusedGeneration, pod: withAllocation(asked, allocation), ...sharesOf(event) },
    now(args),
  );
});

const noteRejection = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'allocation.refused') return;
  applyChange(enqueue, context, { rejection: event.rejection }, now(args));
});

/** The resources of the pod are free for other pods. */
export const endAllocation = s.enqueueActions(({ context, enqueue }) => {
  if (context.node.admission !== undefined) sendEnd(enqueue, context);
});

const sendEnd = (enqueue: Enqueue, { uid, kill }: PodContext): void =>
  sendToAllocation(enqueue, { type: 'allocation.ended', uid, byItself: kill === null || kill.verdict === null });

export const releaseAllocation = s.enqueueActions(({ context, enqueue }) => {
  if (context.node.admission !== undefined)
    sendToAllocation(enqueue, { type: 'allocation.released', uid: context.uid });
});

const hasStopped = ({ context }: { context: PodContext }): boolean => !anyAlive(context) && !anyReadySandbox(context);

/** Waits for the node to admit the pod. */
export const admitting = s.createStateConfig({
  entry: requestAllocation,
  on: {
    'allocation.granted': { target: 'sync', actions: [handleGrant, requestAgain] },
    'allocation.pending': { target: 'sync', actions: notePending },
    'allocation.refused': [
      { guard: hasStopped, target: '#terminated', actions: noteRejection },
      { target: '#terminating', actions: [noteRejection, noteKill] },
    ],
    'pod.configured': { target: 'admitting', reenter: true, actions: configure },
    'pod.kill': { target: '#terminating.settling', actions: noteKill },
  },
});

/**
 * A pod's ResourceClaims: prepared before its sandbox is created, unprepared when nothing of it runs any more. Part of
 * the chart of `pod.ts`.
 *
 * Invariants: C1 no sandbox is created before all claims are prepared. C2 a pod is not finished before its claims are
 * unprepared. Upstream: kuberuntime_manager.go (SyncPod), kubelet.go (SyncTerminatingPod).
 */
const sendClaimRequest = (enqueue: Enqueue, request: ClaimRequest): void => enqueue.sendTo(to('draManager'), request);

/** Requests the claims again that were prepared for an earlier start, or for an earlier sandbox. */
export const requestClaims = s.enqueueActions(({ context, enqueue }) => {
  if (hasClaims(context)) sendClaimRequest(enqueue, { type: 'claims.asked', uid: context.uid });
});

export const handleClaims = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type === 'claims.known') {
    applyChange(enqueue, context, { claims: { prepared: event.claims, health: event.health } }, now(args));
  } else if (event.type === 'claims.prepared') {
    applyChange(
      enqueue,
      context,
      { claims: { prepared: event.claims, health: context.claims?.health ?? {} } },
      now(args),
    );
  } else if (event.type === 'claims.health' && context.claims !== null) {
    applyChange(enqueue, context, { claims: { ...context.claims, health: event.health } }, now(args));
  }
});

const requestPreparation = s.enqueueActions(({ context: { uid, namespace, name, pod, node }, enqueue }) => {
  const claims = pod === null ? [] : claimsWanted(pod, node);
  if ('error' in claims) {
    const error = `prepare dynamic resources: ${claims.error}`;
    enqueue.raise({ type: 'claims.failed', uid, error } satisfies ClaimReport);
  } else sendClaimRequest(enqueue, { type: 'claims.wanted', uid, namespace, pod: name, wanted: claims });
});

const recordUnprepared = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'claims.failed') return;
  const { uid, namespace, name } = context;
  const text = podEvents.failedPrepareDynamicResources(event.error);
  enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
  enqueue(line('error', [PREPARATION_FAILED, { pod: `${namespace}/${name}`, uid, err: event.error }]));
});

/** Waits until the claims are prepared; a claim created in the meantime is announced by the watch. */
export const preparingClaims = s.createStateConfig({
  initial: 'asking',
  on: { 'pod.kill': { target: '#terminating.settling', actions: noteKill } },
  states: {
    asking: {
      meta: { waitsFor: 'its ResourceClaims to be prepared' },
      entry: requestPreparation,
      on: {
        'claims.prepared': { target: '#sync.creatingSandbox', actions: handleClaims },
        'claims.failed': { target: 'refused', actions: [noteFailure, recordUnprepared] },
        'claims.started': { target: 'asking', reenter: true },
      },
    },
    refused: {
      meta: { waitsFor: 'the next try to prepare its ResourceClaims' },
      on: { 'pod.configured': { target: '#sync.deciding', actions: configure } },
      after: { wait: '#sync.deciding' },
    },
  },
});

const releaseClaims = s.enqueueActions(({ context: { uid }, enqueue }) =>
  sendClaimRequest(enqueue, { type: 'claims.released', uid }),
);

/** The pod is finished, whatever the state of its claims: `draManager` unprepares them when possible. */
export const abandonClaims = s.enqueueActions(({ context, enqueue }) => {
  if (hasClaims(context)) sendClaimRequest(enqueue, { type: 'claims.abandoned', uid: context.uid });
});

const noteStillPrepared = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'claims.stillPrepared') return;
  const { uid, namespace, name } = context;
  publishNow(enqueue, context, now(args));
  enqueue(line('error', ['Error syncing pod, skipping', { pod: `${namespace}/${name}`, uid, err: event.error }]));
});

/** Waits until the claims are unprepared. */
export const releasingClaims = s.createStateConfig({
  initial: 'asking',
  states: {
    asking: {
      meta: { waitsFor: 'its ResourceClaims to be taken back' },
      entry: releaseClaims,
      on: {
        'claims.unprepared': '#terminated',
        'claims.stillPrepared': { target: 'refused', actions: [noteFailure, noteStillPrepared] },
        'claims.started': { target: 'asking', reenter: true },
      },
    },
    refused: {
      meta: { waitsFor: 'the next try to have its ResourceClaims taken back' },
      after: { wait: 'asking' },
    },
  },
});
