/**
 * Restarts all containers of a pod in their sandbox, as the restart rules of one container request. Part of the chart
 * of `pod.ts`.
 *
 * Invariants: A1 no container starts before the runtime has removed every instance, so that an old end is never
 * mistaken for a new one. A2 no container gets a grace period or a hook. A3 ephemeral containers stay.
 */
import { now } from '../../../../kernel/xstate.ts';
import { killMessages } from '../../../model/reasons/reasons.ts';
import { instancesToRemove } from '../../../model/status/index.ts';
import { logFailure, noteFailure } from './pod-actions.ts';
import { dequeue } from './pod-kill.ts';
import { observeNow } from './pod-observation.ts';
import { applyChange, podSetup as s, sendToContainer } from './pod-setup.ts';

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
