/**
 * The cgroup of a pod, and a pod that runs outside of it, because an earlier agent put it elsewhere or made no cgroups.
 * Part of the chart of `pod.ts`.
 *
 * Invariants:
 *   G3 the cgroup is created before the sandbox and removed after it.
 *   G4 containers that run while the cgroup is missing are stopped; those that may run again do so in a new sandbox.
 *   G5 the cgroup of such a pod is created when none of its containers runs: an interrupted move goes on.
 *
 * Upstream: kubelet.go (SyncPod), pod_container_manager_linux.go (Exists).
 */

import { errorOf, line, now, outputOf, required, to } from '../../../../kernel/xstate.ts';
import { withAllocation } from '../../../model/allocation/request.ts';
import { DEFAULT_GRACE_SECONDS } from '../../../model/api/pod.ts';
import { podGroup, podGroupName } from '../../../model/cgroups/pod-cgroup.ts';
import { eventRecorded } from '../../../model/pods/pod-messages.ts';
import { killMessages, podEvents } from '../../../model/reasons/reasons.ts';
import { noteFailure } from './pod-actions.ts';
import type { PodContext } from './pod-context.ts';
import { stopSandboxes } from './pod-end.ts';
import { refOf } from './pod-policy.ts';
import { applyChange, podSetup as s, sendToContainer } from './pod-setup.ts';

const groupOf = ({ pod, actuated, node }: PodContext) =>
  podGroup(withAllocation(required(pod, 'the pod that has a cgroup'), actuated), node);

const recordGroupFailure = s.enqueueActions(({ context, event, enqueue }) => {
  const error = errorOf(event);
  const text = podEvents.failedCreatePodContainer(podGroupName(context), error.message);
  enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
});

const isMissing = ({ event }: { readonly event: unknown }): boolean =>
  outputOf<{ readonly missing: readonly string[] }>(event).missing.length > 0;

const noteMisplaced = s.enqueueActions(({ context, enqueue }) => {
  const { uid, namespace, name } = context;
  enqueue.assign({ isMisplaced: true });
  enqueue(line('warn', ['A pod runs outside of its cgroup, and is restarted', { pod: `${namespace}/${name}`, uid }]));
});

/** The cgroup is created as soon as the pod is admitted, while its folders and volumes are prepared. */
export const grouping = s.createStateConfig({
  initial: 'none',
  states: {
    none: {
      always: [
        { guard: 'mayBeMisplaced', target: 'looking' },
        { guard: 'needsGroup', target: 'making' },
      ],
    },
    looking: {
      invoke: {
        id: 'missing',
        src: 'cgroup.missing',
        input: ({ context }) => ({ path: groupOf(context).path }),
        onDone: [{ guard: isMissing, target: 'emptying', actions: noteMisplaced }, { target: 'making' }],
        onError: 'making',
      },
    },
    /** Waits until no container runs outside of the cgroup. */
    emptying: { always: { guard: 'isEmptied', target: 'making' } },
    making: {
      invoke: {
        id: 'group',
        src: 'cgroup.ensure',
        input: ({ context }) => groupOf(context),
        onDone: { target: 'made', actions: s.assign({ hasGroup: true }) },
        onError: { target: 'failing', actions: [noteFailure, recordGroupFailure] },
      },
    },
    failing: { after: { wait: 'none' } },
    made: {},
  },
});

/** Ends its containers as if by themselves: restart policy and back-off decide what follows. */
const stopMisplaced = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const graceSeconds = context.pod?.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS;
  applyChange(enqueue, context, { isMisplaced: false }, now(args));
  for (const [name, { view }] of Object.entries(context.containers)) {
    if (view.phase !== 'starting' && view.phase !== 'running') continue;
    const message = killMessages.stopping(name);
    sendToContainer(enqueue, name, { type: 'container.stop', graceSeconds, message, after: 'exit' });
  }
});

export const moving = s.createStateConfig({
  entry: stopMisplaced,
  initial: 'containers',
  states: {
    /** Waits until no container runs. */
    containers: { always: { guard: 'noneRuns', target: 'sandboxes' } },
    sandboxes: stopSandboxes('#sync.deciding'),
  },
});
