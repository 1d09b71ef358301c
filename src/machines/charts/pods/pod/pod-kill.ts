/**
 * The order to end a pod, and how its containers and sandboxes end. Part of the chart of `pod.ts`.
 *
 * Restarts all containers of a pod in their sandbox, as the restart rules of one container request.
 *
 * Invariants: A1 no container starts before the runtime has removed every instance, so that an old end is never
 * mistaken for a new one. A2 no container gets a grace period or a hook. A3 ephemeral containers stay.
 */

import { now, to } from '../../../../kernel/xstate.ts';
import type { AllocationMessage } from '../../../model/allocation/messages.ts';
import { eventRecorded, type PodKill } from '../../../model/pods/pod-messages.ts';
import { killMessages, podEvents, podMessages, podReasons } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { instancesToRemove } from '../../../model/status/conditions.ts';
import { valueIn } from '../../../model/values/tables.ts';
import { SPAWNED } from '../container/container-policy.ts';
import type { ContainerOrder } from '../container/container-setup.ts';
import { logFailure, noteFailure } from './pod-actions.ts';
import type { PodContext } from './pod-context.ts';
import { observeNow } from './pod-observation.ts';
import { graceLeft, mergedKill, nextToStop, orphanInput, orphansOf, refOf } from './pod-policy.ts';
import { applyChange, type Enqueue, podSetup as s, sendToContainer } from './pod-setup.ts';

/** Containers that still run under this pod's name get an actor, so that they can be stopped. */
const adoptOrphans = (enqueue: Enqueue, context: PodContext): Partial<PodContext> => {
  const names = orphansOf(context);
  for (const name of names) {
    enqueue.spawnChild('container', { id: `container-${name}`, input: orphanInput(context, name) });
  }
  const records = names.map((name) => [name, { kind: 'regular' as const, view: SPAWNED, request: null }]);
  return { containers: { ...context.containers, ...Object.fromEntries(records) } };
};

/** The kill of a pod that ended by itself, or that is being deleted. */
const ORDINARY_END = { graceSeconds: null, remove: false, verdict: null };

/** Seconds that a manager of the node waits for the end of a pod, however short its grace period. */
const MIN_END_SECONDS = 10;

/** A pod that a manager of the node ends is reported if it takes half as long again as its grace period. */
function timeKill(enqueue: Enqueue, context: PodContext, { graceSeconds, verdict }: PodKill): void {
  const { node, stage, kill, pod } = context;
  if (!hasBehavior(node, 'podLifeAsKubelet') || stage !== 'sync' || verdict?.published !== 'once') return;
  const makesRoom = verdict.reason === podReasons.preempting && hasBehavior(node, 'podDetailsAsKubelet');
  if (kill?.verdict != null && !makesRoom) return;
  const seconds = graceSeconds ?? pod?.spec.terminationGracePeriodSeconds ?? 0;
  const limit = Math.max(MIN_END_SECONDS, seconds + Math.floor(seconds / 2));
  const id = makesRoom ? 'preemption-overdue' : 'kill-overdue';
  enqueue.raise({ type: 'kill.overdue' }, { delay: limit * 1_000, id });
}

/** The node goes on without waiting for the end of the pod. */
export const noteOverdue = s.enqueueActions(({ context: { uid, node, kill }, enqueue }) => {
  if (kill?.verdict == null || node.admission === undefined || !hasBehavior(node, 'podDetailsAsKubelet')) return;
  enqueue.sendTo(to('allocation'), { type: 'allocation.overdue', uid } satisfies AllocationMessage);
});

export const noteKill = s.enqueueActions((args) => {
  const { event, context, enqueue } = args;
  const kill = mergedKill(context, event.type === 'pod.kill' ? event : ORDINARY_END, now(args));
  const isNew = context.kill === null || kill.graceSeconds < context.kill.graceSeconds;
  if (kill.verdict?.reason === podReasons.preempting && context.kill?.verdict == null)
    enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), podEvents.preempting()));
  applyChange(enqueue, context, { kill }, now(args));
  if (event.type === 'pod.kill') timeKill(enqueue, context, event);
  if (!isNew) return;
  for (const [name, { view }] of Object.entries(context.containers)) {
    if (view.phase === 'stopping') sendToContainer(enqueue, name, stopOrder(name, kill.graceSeconds));
  }
});

/** The pod has been active for too long: it fails, whatever its containers do. */
export const killOverdue = s.raise({
  type: 'pod.kill',
  graceSeconds: null,
  remove: false,
  verdict: { reason: podReasons.deadlineExceeded, message: podMessages.deadlineExceeded, published: 'always' },
});

/**
 * Upstream detects the exceeded deadline at each sync of an ending pod: twice before its containers stop, and twice
 * after.
 */
export const recordOverdue = s.enqueueActions(({ context, enqueue }) => {
  if (context.kill?.verdict?.reason !== podReasons.deadlineExceeded) return;
  enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), podEvents.deadlineExceeded()));
});

const stopOrder = (name: string, graceSeconds: number, turn: { awaitsTurn?: boolean } = {}): ContainerOrder => ({
  type: 'container.stop',
  graceSeconds,
  message: killMessages.stopping(name),
  after: 'end',
  ...turn,
});

/** Level-triggered: orders every container to stop that should, and passes the turn to waiting ones. */
export const stopContainers = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const graceSeconds = context.kill === null ? 1 : graceLeft(context.kill, now(args));
  const adopted = adoptOrphans(enqueue, context);
  const next = { ...context, ...adopted };
  enqueue.assign(adopted);
  const orphans = orphansOf(context);
  const turn = new Set(nextToStop(next));
  for (const name of new Set([...Object.keys(next.containers), ...orphans])) {
    const phase = valueIn(next.containers, name)?.view.phase;
    if (orphans.includes(name) || phase === 'waiting' || phase === 'starting' || phase === 'running') {
      sendToContainer(
        enqueue,
        name,
        stopOrder(name, graceSeconds, { awaitsTurn: !turn.has(name) && !orphans.includes(name) }),
      );
    } else if (phase === 'stopping' && valueIn(next.containers, name)?.kind === 'sidecar' && turn.has(name)) {
      sendToContainer(enqueue, name, { type: 'container.turn' });
    }
  }
});

export const queueSandboxes = s.assign({
  queue: ({ context }) => (context.runtime?.sandboxes ?? []).map(({ id }) => id),
});

export const queueContainers = s.assign({
  queue: ({ context }) => (context.runtime?.containers ?? []).map(({ id }) => id),
});

export const dequeue = s.assign({ queue: ({ context }) => context.queue.slice(1) });

const begin = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  applyChange(enqueue, context, { initialised: false }, now(args));
  for (const [name, { kind }] of Object.entries(context.containers)) {
    if (kind === 'ephemeral') continue;
    sendToContainer(enqueue, name, {
      type: 'container.stop',
      graceSeconds: 0,
      message: killMessages.restartingAll,
      after: 'reset',
    });
  }
});

const queueInstances = s.assign({
  queue: ({ context: { pod, runtime } }) => (pod === null ? [] : instancesToRemove(pod, runtime)),
});

export const restartingAll = s.createStateConfig({
  entry: begin,
  initial: 'stopping',
  states: {
    /** Waits until no container of the pod runs. */
    stopping: { always: { guard: 'noneToRestartRuns', target: 'inspecting' } },
    /** Waits for the list of instances that the runtime still has. */
    inspecting: {
      entry: observeNow,
      always: [
        { guard: 'hasNoneToRemove', target: '#sync.deciding' },
        { guard: 'isInspected', target: 'removing', actions: queueInstances },
      ],
    },
    removing: {
      always: { guard: 'isQueueEmpty', target: 'inspecting' },
      invoke: {
        id: 'removeContainer',
        src: 'cri.removeContainer',
        input: ({ context }) => ({ containerId: context.queue[0] ?? '' }),
        onDone: { target: 'removing', reenter: true, actions: dequeue },
        onError: {
          target: 'failing',
          actions: [noteFailure, logFailure('Cannot remove a container that begins anew')],
        },
      },
    },
    failing: { after: { wait: 'inspecting' } },
  },
});
