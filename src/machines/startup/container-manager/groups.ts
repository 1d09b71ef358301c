/** The node's cgroups: set up once, then kept at their limits. Part of the chart of `container-manager.ts`. */
import { assign, failureLine, line, required, sendTo, to } from '../../../kernel/xstate.ts';
import { nodeAllocatableGroup, nodeAllocatablePath, podParents, qosGroups } from '../../model/cgroups/node-groups.ts';
import { daemonGroup, setUpSteps } from './policy.ts';
import {
  type ContainerManagerContext,
  draftFile,
  findOrphans,
  noteDemand,
  noteHoldings,
  noteWritten,
  resourcesIn,
  containerManagerSetup as s,
  stepDone,
  stepFailed,
} from './setup.ts';

/** Upstream's period of correcting the cgroups. */
const HOLD_PERIOD_MS = 60_000;
/** The pause before a failed write of a state file is retried. */
const WRITE_RETRY_MS = 10_000;
/** The delay before a change of the sums is applied: pods often start together. */
const GATHER_MS = 200;

const nextGroup = ({ context }: { context: ContainerManagerContext }) =>
  required(context.steps[0], 'the next group to set up').desired;

/** Sets up the next group. */
const step = {
  input: nextGroup,
  onDone: { target: 'next', actions: stepDone },
  onError: { target: '#containerManager.refused', actions: stepFailed },
} as const;

/** Cgroups are set up one after the other; the first failure ends the start. */
export const settingUp = s.createStateConfig({
  entry: s.assign({ steps: ({ context }) => setUpSteps(context, resourcesIn(context)) }),
  initial: 'next',
  states: {
    next: {
      always: [
        {
          guard: 'movesSystemToRoot',
          target: '#containerManager.refused',
          actions: s.assign({ refusal: 'system container cannot be root ("/")' }),
        },
        { guard: 'isSetUp', target: '#containerManager.running' },
        { guard: 'isMade', target: 'making' },
        { target: 'updating' },
      ],
    },
    making: { invoke: { id: 'ensure', src: 'cgroup.ensure', ...step } },
    updating: { invoke: { id: 'update', src: 'cgroup.update', ...step } },
  },
});

/** The cgroup of all pods, limited to allocatable. */
export const allPods = s.createStateConfig({
  initial: 'choosing',
  states: {
    choosing: { always: [{ guard: 'hasLevels', target: 'held' }, { target: 'none' }] },
    none: {},
    held: {
      invoke: {
        id: 'holdPods',
        src: 'cgroup.hold',
        input: ({ context }) => ({
          group: 'pods',
          desired: [nodeAllocatableGroup(context, resourcesIn(context))],
          periodMs: HOLD_PERIOD_MS,
        }),
        onError: { target: 'held', reenter: true },
      },
    },
  },
});

/** The cgroups of the QoS levels, limited by the requests of their pods. */
export const levels = s.createStateConfig({
  initial: 'choosing',
  states: {
    choosing: { always: [{ guard: 'hasLevels', target: 'held' }, { target: 'none' }] },
    none: {},
    held: {
      initial: 'quiet',
      invoke: {
        id: 'holdLevels',
        src: 'cgroup.hold',
        input: ({ context }) => ({
          group: 'levels',
          desired: qosGroups(context, resourcesIn(context), context.demand),
          periodMs: HOLD_PERIOD_MS,
        }),
        onError: { target: 'held', reenter: true },
      },
      states: {
        quiet: { on: { 'qos.changed': { target: 'gathering', actions: noteDemand } } },
        /** Waits for pods that start at the same time. */
        gathering: { after: { [GATHER_MS]: '#containerManager.running.levels.choosing' } },
      },
    },
  },
});

export const movedProcesses = (who: 'kubelet' | 'system', guard: 'gathersKubelet' | 'gathersSystem') =>
  s.createStateConfig({
    initial: 'choosing',
    states: {
      choosing: { always: [{ guard, target: 'held' }, { target: 'none' }] },
      none: {},
      held: {
        invoke: {
          id: `gather-${who}`,
          src: 'cgroup.gather',
          input: ({ context }) => ({
            who,
            path: daemonGroup(who === 'kubelet' ? context.kubeletCgroups : context.systemCgroups),
            oomScoreAdj: context.oomScoreAdj,
            periodMs: HOLD_PERIOD_MS,
          }),
          onError: { target: 'held', reenter: true },
        },
      },
    },
  });

/** The cgroup of this process, for its metrics. */
export const ownCgroup = s.createStateConfig({
  initial: 'choosing',
  states: {
    choosing: { always: [{ guard: 'usesCgroups', target: 'asking' }, { target: 'known' }] },
    asking: {
      invoke: {
        id: 'own',
        src: 'cgroup.own',
        input: {},
        onDone: {
          target: 'known',
          actions: assign({ kubeletGroup: ({ event }) => event.output.path }),
        },
        onError: {
          target: 'known',
          actions: failureLine(
            'warn',
            "Failed to get the kubelet's cgroup. Kubelet system container metrics may be missing.",
          ),
        },
      },
    },
    known: {},
  },
});

/**
 * Removes cgroups of pods that are gone. They are listed once the node's pods are known. A pod that starts in the
 * meantime may have its cgroup already, so the known pods are requested again after the list.
 */
export const orphans = s.createStateConfig({
  initial: 'waiting',
  states: {
    waiting: { on: { 'pods.known': { guard: 'hasLevels', target: 'listing' } } },
    listing: {
      invoke: {
        id: 'listPods',
        src: 'cgroup.listPods',
        input: ({ context }) => ({ driver: context.cgroupDriver, parents: podParents(context) }),
        onDone: { target: 'comparing', actions: assign({ found: ({ event }) => event.output.pods }) },
        onError: { target: 'waiting', actions: failureLine('error', 'Failed to list pod cgroups') },
      },
    },
    comparing: {
      entry: sendTo(to('pods'), { type: 'pods.wanted' }),
      on: { 'pods.known': { target: 'judging', actions: findOrphans } },
    },
    judging: { always: [{ guard: 'hasOrphans', target: 'removing' }, { target: 'waiting' }] },
    removing: {
      entry: line('info', ({ context }) => ['Orphaned pod found, removing pod cgroups', { cgroups: context.orphans }]),
      invoke: {
        id: 'removeOrphans',
        src: 'cgroup.destroy',
        input: ({ context }) => ({
          driver: context.cgroupDriver,
          paths: context.orphans,
          within: nodeAllocatablePath(context),
        }),
        onDone: 'waiting',
        onError: { target: 'waiting', actions: failureLine('error', 'Failed to remove orphaned pod cgroups') },
      },
    },
  },
});

/** State files that show the exclusive resources of containers to operators and other kubelets. */
export const stateFiles = s.createStateConfig({
  initial: 'choosing',
  states: {
    choosing: { always: [{ guard: 'hasStaleFile', target: 'writing', actions: draftFile }, { target: 'written' }] },
    written: { on: { 'resources.held': { target: 'choosing', actions: noteHoldings } } },
    writing: {
      invoke: {
        id: 'writeState',
        src: 'host.writeCheckpoint',
        input: ({ context }) => required(context.draft, 'the state file to write'),
        onDone: { target: 'choosing', actions: noteWritten },
        onError: { target: 'failing', actions: failureLine('error', 'Could not save checkpoint') },
      },
    },
    failing: { after: { [WRITE_RETRY_MS]: 'choosing' } },
  },
});
