/**
 * Container manager: the resources of the node, and the cgroups of its pods and daemons.
 *
 * Decides: whether this machine can be a node with this configuration (cgroup version, swap, reservations), allocatable
 *   resources, and the limits of the node's own cgroups.
 * Owns: capacity and allocatable, the groups of all pods and of the QoS levels, the groups of kubelet and system, the
 *   sum of the requests of active pods, the state files of exclusive resources.
 * Hears: `containerManager.start` from the supervisor when the runtime is up for the first time; `qos.changed` and
 *   `resources.held` of `allocation`; `pods.known` of `pods`.
 * Asks: `host.cgroups`, `host.fileSystem`, `host.tuneKernel`, `host.readCheckpoints`, `host.writeCheckpoint`,
 *   `cgroup.*`.
 * Sends: the supervisor `containerManager.created`, `containerManager.started`, `containerManager.failed`; informs
 *   `eventRecorder` about the enforcement, `allocation` about the files of an earlier start; asks `pods` for all pods.
 * Invariants:
 *   M1 it rejects a machine before anything of a pod exists.
 *   M2 it is created before RunKubelet and started only after the runtime was up once.
 *   M3 started means that every group exists with its limits; after that they are corrected each minute, and failures
 *      are reported and retried.
 *   M4 a runtime without cgroups gets none.
 *   M5 state files of another policy or machine end the start before a pod runs; after that they follow the grants.
 * Seeds: S066 to S069, S075 to S102, S238. Upstream: pkg/kubelet/cm/container_manager_linux.go.
 */
import { assign, line, sendParent, sendTo, to } from '../../../kernel/xstate.ts';
import { stateFilePaths } from '../../model/allocation/resource-grants.ts';
import { NO_DEMAND } from '../../model/cgroups/node-groups.ts';
import { aggregate } from '../../model/values/go-text.ts';
import { allPods, levels, movedProcesses, orphans, ownCgroup, settingUp, stateFiles } from './groups.ts';
import { cgroupRoots, KERNEL_SETTINGS, missingRoot, refusalOf, rootOf } from './policy.ts';
import {
  cgroupsIn,
  checkStateFiles,
  computeResources,
  noteDemand,
  noteHoldings,
  refuse,
  reportCgroupUpdate,
  resourcesIn,
  containerManagerSetup as s,
  sendHandedOver,
} from './setup.ts';

const FAILED_TO_START = 'Failed to start ContainerManager';
const NOT_TUNED = 'Updating kernel flag failed (running in UserNS, ignoring)';

export const containerManagerMachine = s.createMachine({
  id: 'containerManager',
  context: ({ input }) => ({
    ...input,
    cgroups: null,
    resources: null,
    refusal: '',
    steps: [],
    demand: NO_DEMAND,
    found: [],
    orphans: [],
    kubeletGroup: input.kubeletCgroups,
    held: null,
    written: {},
    draft: null,
  }),
  initial: 'inspectingCgroups',
  on: { 'qos.changed': { actions: noteDemand }, 'resources.held': { actions: noteHoldings } },
  states: {
    inspectingCgroups: {
      meta: { waitsFor: 'the cgroup hierarchies of the machine' },
      invoke: {
        id: 'cgroups',
        src: 'host.cgroups',
        input: {},
        onDone: {
          target: 'judging',
          actions: assign(({ context, event }) => ({
            cgroups: event.output,
            refusal: refusalOf(context, event.output.version),
          })),
        },
        onError: {
          target: 'refused',
          actions: refuse((message) => `failed to get mounted cgroup subsystems: ${message}`),
        },
      },
    },
    judging: {
      always: [
        { guard: 'isRefused', target: 'refused' },
        { guard: 'countsStorage', target: 'measuring' },
        { target: 'judgingResources', actions: computeResources },
      ],
    },
    measuring: {
      meta: { waitsFor: 'the size of the file system of pods' },
      invoke: {
        id: 'storage',
        src: 'host.fileSystem',
        input: ({ context }) => ({ path: context.storagePath }),
        onDone: { target: 'judgingResources', actions: computeResources },
        onError: { target: 'refused', actions: refuse((message) => `failed to get rootfs info: ${message}`) },
      },
    },
    judgingResources: {
      always: [
        { guard: 'isRefused', target: 'refused' },
        { guard: 'checksRoot', target: 'checkingRoot' },
        { target: 'created' },
      ],
    },
    checkingRoot: {
      meta: { waitsFor: 'the configured root of cgroups' },
      invoke: {
        id: 'root',
        src: 'cgroup.missing',
        input: ({ context }) => ({ path: rootOf(context) }),
        onDone: {
          target: 'judgingRoot',
          actions: assign({
            refusal: ({ context, event }) => missingRoot(context, cgroupsIn(context).version, event.output.missing),
          }),
        },
        onError: { target: 'refused', actions: refuse((message) => `invalid configuration: ${message}`) },
      },
    },
    judgingRoot: { always: [{ guard: 'isRefused', target: 'refused' }, { target: 'created' }] },
    refused: {
      entry: sendParent(({ context }) => ({ type: 'containerManager.failed', message: context.refusal })),
    },
    created: {
      entry: [
        line('info', ({ context }) => [
          'Creating Container Manager object based on Node Config',
          { cgroupVersion: cgroupsIn(context).version, cgroupDriver: context.cgroupDriver, ...cgroupRoots(context) },
        ]),
        sendParent(({ context }) => ({
          type: 'containerManager.created',
          cgroups: cgroupsIn(context),
          resources: resourcesIn(context),
        })),
      ],
      on: { 'containerManager.start': [{ guard: 'usesCgroups', target: 'restoring' }, { target: 'running' }] },
    },
    restoring: {
      meta: { waitsFor: 'what earlier starts gave to single containers' },
      invoke: {
        id: 'readState',
        src: 'host.readCheckpoints',
        input: ({ context }) => ({ paths: stateFilePaths(context) }),
        onDone: { target: 'judgingFiles', actions: [checkStateFiles, sendHandedOver] },
        onError: { target: 'refused', actions: refuse((message) => `start cpu manager error: ${message}`) },
      },
    },
    judgingFiles: { always: [{ guard: 'isRefused', target: 'refused' }, { target: 'tuning' }] },
    tuning: {
      meta: { waitsFor: 'the settings of the kernel' },
      invoke: {
        id: 'tuneKernel',
        src: 'host.tuneKernel',
        input: ({ context }) => ({ expected: KERNEL_SETTINGS, modify: !context.protectKernelDefaults }),
        onDone: [
          {
            guard: ({ context, event }) => context.isInUserNamespace === true && event.output.errors.length > 0,
            target: 'settingUp',
            actions: line('info', ({ event }) => [NOT_TUNED, { err: aggregate(event.output.errors) }]),
          },
          {
            guard: ({ event }) => event.output.errors.length > 0,
            target: 'refused',
            actions: [
              assign({ refusal: ({ event }) => aggregate(event.output.errors) }),
              line('error', ({ event }) => [FAILED_TO_START, { err: aggregate(event.output.errors) }]),
            ],
          },
          { target: 'settingUp' },
        ],
        onError: { target: 'refused', actions: refuse((message) => message) },
      },
    },
    settingUp: { meta: { waitsFor: 'the cgroups of the node' }, ...settingUp },
    running: {
      type: 'parallel',
      entry: [sendParent({ type: 'containerManager.started' }), sendTo(to('allocation'), { type: 'resources.wanted' })],
      on: { 'cgroups.held': { actions: reportCgroupUpdate } },
      states: {
        allPods,
        levels,
        kubelet: movedProcesses('kubelet', 'gathersKubelet'),
        system: movedProcesses('system', 'gathersSystem'),
        own: ownCgroup,
        orphans,
        stateFiles,
      },
    },
  },
});
