/**
 * The end of a pod: containers, sandboxes, a last observation, files and cgroups; and the deadline that ends a pod
 * (`activeDeadlineSeconds`, counted from the pod's start across restarts of the agent). Part of the chart of `pod.ts`.
 *
 * Invariant: each step is decided by the state of the runtime, so that an interrupted end resumes.
 */

import { required } from '../../../../kernel/xstate.ts';
import { podGroups } from '../../../model/cgroups/pod-cgroup.ts';
import { killError, podEvents } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { configure, logFailure, noteFailure, record } from './pod-actions.ts';
import { abandonClaims, endAllocation, releasingClaims } from './pod-allocation.ts';
import { noteContainer } from './pod-containers.ts';
import { linksOf, logPaths, podPaths, usersFile } from './pod-files.ts';
import {
  dequeue,
  killOverdue,
  noteKill,
  noteOverdue,
  queueContainers,
  queueSandboxes,
  recordOverdue,
  stopContainers,
} from './pod-kill.ts';
import { forgetPod, sendNodeEnd } from './pod-node.ts';
import { handleStopped, observeNow } from './pod-observation.ts';
import { assignChange, noteReclaimed, podSetup as s } from './pod-setup.ts';
import { releasePublished, releaseVolumes, volumesPlace } from './pod-volumes.ts';

const recordFailedKill = record(({ node, uid }, { message }) =>
  podEvents.failedKillPod(hasBehavior(node, 'podLifeAsKubelet') ? killError('KillPodSandbox', uid, message) : message),
);

/** Stops each queued sandbox, then continues. A failure is an event only if it delays the end of the pod. */
export const stopSandboxes = (done: string) =>
  s.createStateConfig({
    entry: queueSandboxes,
    initial: 'next',
    states: {
      next: { always: [{ guard: 'isQueueEmpty', target: done }, { target: 'stopping' }] },
      stopping: {
        invoke: {
          id: 'stopSandbox',
          src: 'cri.stopPodSandbox',
          input: ({ context }) => ({ podSandboxId: required(context.queue[0], 'the sandbox to stop') }),
          onDone: { target: 'next', actions: [handleStopped, dequeue] },
          onError: [
            { guard: 'isReplacing', target: 'failing', actions: [noteFailure, logFailure('Failed to stop sandbox')] },
            { target: 'failing', actions: [noteFailure, recordFailedKill] },
          ],
        },
      },
      failing: { after: { wait: 'stopping' } },
    },
  });

export const terminating = s.createStateConfig({
  entry: forgetPod,
  initial: 'containers',
  on: {
    'pod.kill': { actions: noteKill },
    'pod.configured': { actions: [configure, noteKill] },
    'kill.overdue': { actions: [record(() => podEvents.exceededGracePeriod()), noteOverdue] },
  },
  states: {
    /** Observes the effect of the abandoned call. */
    settling: { entry: observeNow, always: { guard: 'isInspected', target: 'containers' } },
    /** Waits until every container has stopped, each with its grace. */
    containers: {
      entry: stopContainers,
      always: { guard: 'allGone', target: 'sandboxes' },
      on: {
        'container.changed': { actions: [noteContainer, stopContainers] },
        'container.respawn': { actions: stopContainers },
      },
    },
    sandboxes: stopSandboxes('#terminating.verifying'),
    /** Waits until an observation shows that nothing runs. */
    verifying: {
      entry: observeNow,
      always: [
        { guard: 'mustReleaseClaims', target: 'releasingClaims' },
        { guard: 'isFreshAndStopped', target: '#terminated' },
        { guard: 'isInspected', target: 'unfinished', actions: noteFailure },
      ],
    },
    unfinished: { after: { wait: 'containers' } },
    releasingClaims,
  },
});

const tryAgain = {
  target: '#terminated.backingOff',
  actions: [noteFailure, logFailure('Cannot remove the rest of a pod')],
};

export const terminated = s.createStateConfig({
  entry: [
    recordOverdue,
    assignChange(() => ({ stage: 'stopped' as const })),
    recordOverdue,
    assignChange(() => ({ stage: 'terminated' as const })),
    sendNodeEnd,
    endAllocation,
    abandonClaims,
    releaseVolumes,
  ],
  initial: 'published',
  on: { 'pod.kill': { actions: noteKill } },
  states: {
    published: { always: [{ guard: 'hasNothingPublished', target: 'volumes' }, { target: 'unpublishing' }] },
    /** Waits until no CSI driver has published a volume for the pod. */
    unpublishing: {
      entry: releasePublished,
      on: { 'csi.unmounted': 'volumes', 'csi.started': { actions: releasePublished } },
    },
    /** Waits until no volume of the pod is mounted or on disk. */
    volumes: {
      always: { guard: 'hasNoVolumes', target: 'group' },
      invoke: {
        id: 'tearDown',
        src: 'volume.tearDown',
        input: ({ context }) => volumesPlace(context),
        onDone: 'group',
        onError: {
          target: 'stillMounted',
          actions: [noteFailure, logFailure('Cannot take the volumes of a pod away')],
        },
      },
    },
    stillMounted: { after: { wait: 'volumes' } },
    /** Waits until the cgroup of the pod is removed, with processes that still ran in it. */
    group: {
      always: { guard: 'hasNoGroup', target: 'users' },
      invoke: {
        id: 'removeGroup',
        src: 'cgroup.destroy',
        input: ({ context }) => podGroups(context),
        onDone: 'users',
        onError: { target: 'stillGrouped', actions: [noteFailure, logFailure('Cannot remove the cgroup of a pod')] },
      },
    },
    stillGrouped: { after: { wait: 'group' } },
    /** Waits until other pods may have the user ids of this one, which has no process any more. */
    users: {
      always: { guard: 'hasNoUsers', target: 'deciding' },
      invoke: {
        id: 'releaseUsers',
        src: 'host.removePod',
        input: ({ context }) => usersFile(context),
        onDone: 'deciding',
        onError: { target: 'stillMapped', actions: [noteFailure, logFailure('Cannot free the user ids of a pod')] },
      },
    },
    stillMapped: { after: { wait: 'users' } },
    deciding: {
      entry: noteReclaimed,
      always: [{ guard: 'mustRemove', target: 'removing' }, { target: 'kept' }],
    },
    /** The pod has ended, but is still wanted: its status stays until its configuration is removed. */
    kept: {
      always: { guard: 'mustRemove', target: 'removing' },
      on: { 'pod.configured': { actions: configure } },
    },
    removing: { entry: queueSandboxes, always: 'sandboxes' },
    sandboxes: {
      always: { guard: 'isQueueEmpty', target: 'verifying' },
      invoke: {
        id: 'removeSandbox',
        src: 'cri.removePodSandbox',
        input: ({ context }) => ({ podSandboxId: context.queue[0] ?? '' }),
        onDone: { target: 'sandboxes', reenter: true, actions: dequeue },
        onError: tryAgain,
      },
    },
    /** Waits until an observation shows neither sandboxes nor containers of the pod. */
    verifying: {
      entry: observeNow,
      always: [
        { guard: 'isFreshAndEmpty', target: 'files' },
        { guard: 'isInspected', target: 'containers', actions: queueContainers },
      ],
    },
    /** Removes containers without a sandbox. */
    containers: {
      always: { guard: 'isQueueEmpty', target: 'backingOff', actions: noteFailure },
      invoke: {
        id: 'removeContainer',
        src: 'cri.removeContainer',
        input: ({ context }) => ({ containerId: context.queue[0] ?? '' }),
        onDone: { target: 'containers', reenter: true, actions: dequeue },
        onError: tryAgain,
      },
    },
    files: {
      invoke: {
        id: 'removeFiles',
        src: 'host.removePod',
        input: ({ context }) => podPaths(context),
        onDone: 'links',
        onError: tryAgain,
      },
    },
    /** Waits until the links to its logs are removed. */
    links: {
      invoke: {
        id: 'unlink',
        src: 'logs.unlink',
        input: ({ context }) => linksOf(context),
        onDone: 'logs',
        onError: tryAgain,
      },
    },
    logs: {
      invoke: {
        id: 'removeLogs',
        src: 'host.removePod',
        input: ({ context }) => logPaths(context),
        onDone: '#gone',
        onError: tryAgain,
      },
    },
    backingOff: { after: { wait: 'inspecting' } },
    inspecting: { entry: observeNow, always: { guard: 'isInspected', target: 'removing' } },
  },
});

/** The last events about the deadline; `recordOverdue` records the first ones. */
const recordDeadlineExceeded = record(() => podEvents.deadlineExceeded());

export const deadline = s.createStateConfig({
  initial: 'none',
  states: {
    none: { always: { guard: 'hasDeadline', target: 'counting' } },
    counting: {
      always: [
        { guard: 'isRejected', target: 'rejected' },
        { guard: 'isOver', target: 'over' },
      ],
      after: { deadline: { target: 'over', actions: [recordDeadlineExceeded, recordDeadlineExceeded, killOverdue] } },
      /** The deadline may have become shorter. */
      on: { 'pod.configured': { target: 'counting', reenter: true } },
    },
    /** The pod never runs, but its deadline is reported. */
    rejected: { after: { deadline: { target: 'over', actions: [killOverdue, recordDeadlineExceeded] } } },
    over: {},
  },
});
