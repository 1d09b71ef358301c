/**
 * The cgroup of a pod. Part of the chart of `pod.ts`.
 *
 * Invariant: G3 the cgroup is created before the sandbox and removed after it.
 */
import { errorOf, required, to } from '../../../../kernel/xstate.ts';
import { withAllocation } from '../../../model/allocation/request.ts';
import { podGroup, podGroupName } from '../../../model/cgroups/pod-cgroup.ts';
import { eventRecorded } from '../../../model/pods/event-messages.ts';
import { podEvents } from '../../../model/reasons/reasons.ts';
import { noteFailure } from './pod-actions.ts';
import { refOf } from './pod-policy.ts';
import { podSetup as s } from './pod-setup.ts';

const recordGroupFailure = s.enqueueActions(({ context, event, enqueue }) => {
  const error = errorOf(event);
  const text = podEvents.failedCreatePodContainer(podGroupName(context), error.message);
  enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
});

/** The cgroup is created as soon as the pod is admitted, while its folders and volumes are prepared. */
export const grouping = s.createStateConfig({
  initial: 'none',
  states: {
    none: { always: { guard: 'needsGroup', target: 'making' } },
    making: {
      invoke: {
        id: 'group',
        src: 'cgroup.ensure',
        input: ({ context }) =>
          podGroup(withAllocation(required(context.pod, 'the pod that has a cgroup'), context.actuated), context.node),
        onDone: { target: 'made', actions: s.assign({ hasGroup: true }) },
        onError: { target: 'failing', actions: [noteFailure, recordGroupFailure] },
      },
    },
    failing: { after: { wait: 'none' } },
    made: {},
  },
});
