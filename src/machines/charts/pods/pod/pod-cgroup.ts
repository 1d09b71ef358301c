/** The cgroup of a pod, and the CPUs of its containers. Part of the chart of `pod.ts`. */
import { errorOf, required, to } from '../../../../kernel/xstate.ts';
import { cpusOf } from '../../../model/allocation/cpu-manager.ts';
import { withAllocation } from '../../../model/allocation/request.ts';
import { podGroup, podGroupName } from '../../../model/cgroups/pod-cgroup.ts';
import { eventRecorded } from '../../../model/pods/pod-messages.ts';
import { podEvents } from '../../../model/reasons/reasons.ts';
import { factsOf } from '../../../model/status/runtime-facts.ts';
import { logFailure, noteFailure } from './pod-actions.ts';
import type { CpuPin, PodContext } from './pod-context.ts';
import { refOf } from './pod-policy.ts';
import { podSetup as s } from './pod-setup.ts';

/*
 * The CPUs of containers on a node with exclusive CPUs. Part of the chart of `pod.ts`.
 *
 * Invariants: C1 an instance is created with its CPUs, and updated when they change; shared CPUs are also sent once
 * after its creation. C2 a failed update of CPUs is retried, and stops no instance. Upstream: cpumanager
 * (reconcileState).
 */

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
    const known = context.pinned[facts.id] ?? context.createdWith[name];
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

/*
 * The cgroup of a pod. Part of the chart of `pod.ts`.
 *
 * Invariant: G3 the cgroup is created before the sandbox and removed after it.
 */

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
