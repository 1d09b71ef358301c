/**
 * Container manager: the node's own resources and the cgroups that hold its pods and its daemons.
 *
 * Decides: whether this machine can be a node with this configuration (cgroup version, swap, reservations), what is left
 * for pods, and what the node's own groups are held to.
 * Owns: capacity and allocatable, the groups of all pods and of the QoS levels, the groups of kubelet and system, what
 *   active pods ask for in sum.
 * Hears: `containerManager.start` from the supervisor when the runtime is up for the first time; `qos.changed` of
 *   `allocation`.
 * Asks: `host.cgroups`, `host.fileSystem`, `host.tuneKernel`, `cgroup.*`.
 * Tells the supervisor `containerManager.created`, `containerManager.started`, `containerManager.failed`; tells
 *   `eventRecorder` what became of enforcing.
 * Invariants: M1 it refuses before anything of a pod exists. M2 it is created before RunKubelet and started only after
 * the runtime was up once. M3 started means that every group exists and is held to its limits once; after that they are
 * kept so, each minute, and a failure is said and tried again. M4 a runtime without cgroups gets none.
 * Seeds: S066 to S069, S075 to S102, S238. Upstream: pkg/kubelet/cm/container_manager_linux.go.
 */
import { assign, line, pick, sendParent, setup, to } from '../../kernel/xstate.ts';
import type { NodeResources } from '../node/allocatable.ts';
import { NO_DEMAND, nodeAllocatableGroup, type QOSDemand, qosGroups } from '../node/cgroups/node-groups.ts';
import { nodeRef } from '../node/events.ts';
import { type CgroupsHeld, cgroupOperations } from '../operations/cgroup.ts';
import { type CgroupInfo, hostOperations } from '../operations/host.ts';
import type { Ended } from '../pods/messages.ts';
import { aggregate } from './configuration/go-text.ts';
import {
  type ContainerManagerInput,
  cgroupRoots,
  daemonGroup,
  KERNEL_SETTINGS,
  missingRoot,
  printedGroup,
  refusalOf,
  resourcesOf,
  type SetUpStep,
  setUpSteps,
} from './container-manager-policy.ts';

/** Upstream's period of putting the groups right. */
const HOLD_PERIOD_MS = 60_000;
/** Pods that come together change the sums together. */
const GATHER_MS = 200;

interface ContainerManagerContext extends ContainerManagerInput {
  readonly cgroups: CgroupInfo | null;
  readonly resources: NodeResources | null;
  readonly refusal: string;
  readonly steps: readonly SetUpStep[];
  readonly demand: QOSDemand;
  /** The group of this process; empty while it is not known. */
  readonly kubeletGroup: string;
}

type Event =
  | { readonly type: 'containerManager.start' }
  | { readonly type: 'qos.changed'; readonly demand: QOSDemand }
  | CgroupsHeld
  | Ended;

const s = setup({
  types: { input: {} as ContainerManagerInput, context: {} as ContainerManagerContext, events: {} as Event },
  actors: {
    ...pick(hostOperations, 'host.cgroups', 'host.fileSystem', 'host.tuneKernel'),
    ...pick(
      cgroupOperations,
      'cgroup.missing',
      'cgroup.ensure',
      'cgroup.update',
      'cgroup.hold',
      'cgroup.own',
      'cgroup.gather',
    ),
  },
  guards: {
    isRefused: ({ context }) => context.refusal !== '',
    countsStorage: ({ context }) => context.storagePath !== '',
    checksRoot: ({ context }) => context.usesCgroups && context.cgroupsPerQOS,
    usesCgroups: ({ context }) => context.usesCgroups,
    isSetUp: ({ context }) => context.steps.length === 0,
    isMade: ({ context }) => context.steps[0]?.isMade === true,
    hasLevels: ({ context }) => context.usesCgroups && context.cgroupsPerQOS,
    gathersSystem: ({ context }) => context.usesCgroups && context.systemCgroups !== '',
    gathersKubelet: ({ context }) => context.usesCgroups && context.kubeletCgroups !== '',
  },
});

type Failing = { readonly error?: unknown };
const messageOf = (event: unknown): string => ((event as Failing).error as Error).message;

const refuse = (text: (message: string) => string) => s.assign({ refusal: ({ event }) => text(messageOf(event)) });

const judgeResources = s.assign(({ context, event }) => {
  const storage = (event as { output?: { capacityBytes: string } }).output?.capacityBytes ?? null;
  const answer = resourcesOf(context, storage);
  return answer.error === undefined ? { resources: answer.value } : { refusal: answer.error };
});

type Args = Parameters<Parameters<typeof s.enqueueActions>[0]>[0];

/** What became of enforcing, as an event of the node. */
function tellEvent({ context, enqueue }: Args, isSuccess: boolean, message: string): void {
  enqueue.sendTo(to('eventRecorder'), {
    type: 'event.recorded',
    ref: nodeRef(context.nodeName),
    eventType: isSuccess ? 'Normal' : 'Warning',
    reason: isSuccess ? 'NodeAllocatableEnforced' : 'FailedNodeAllocatableEnforcement',
    message,
  });
}

/** A group is as wanted: what it was for is said, and the next one comes. */
const stepDone = s.enqueueActions((args) => {
  const [step, ...steps] = args.context.steps;
  if (step && step.event !== '') tellEvent(args, true, step.event);
  args.enqueue.assign({ steps });
});

const stepFailed = s.enqueueActions((args) => {
  const [step] = args.context.steps;
  const { code, message } = (args.event as unknown as { error: { code?: string; message: string } }).error;
  const isAbsent = step?.isMade === false && code === 'ENOENT';
  const why = isAbsent ? `${printedGroup(step.wish.path)} cgroup does not exist` : message;
  const refusal = `${step?.failure ?? ''}${why}`;
  if (step && step.event !== '') tellEvent(args, false, refusal);
  args.enqueue.assign({ refusal });
});

/** Kept groups: each stream's own word, so that a failure of one is not taken for another's. */
const sayHeld = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'cgroups.held') return;
  const { group, message } = event;
  if (group === 'pods') {
    const name = printedGroup(nodeAllocatableGroup(context, context.resources!).path);
    const isHeld = message === '';
    const failure = `Failed to update Node Allocatable Limits ${name}: ${message}`;
    tellEvent(args, isHeld, isHeld ? 'Updated Node Allocatable limit across pods' : failure);
  } else if (message !== '') {
    enqueue(line('error', [FAILURES[group] ?? group, { err: message }]));
  }
});

const FAILURES: Readonly<Record<string, string>> = {
  levels: 'Failed to update QoS cgroup configuration',
  kubelet: 'Failed to ensure process in container with oom score',
  system: 'Failed to ensure state',
};

/** Groups are set up one after the other; the first failure ends it. */
const settingUp = s.createStateConfig({
  entry: s.assign({ steps: ({ context }) => setUpSteps(context, context.resources!) }),
  initial: 'next',
  states: {
    next: {
      always: [
        { guard: 'isSetUp', target: '#containerManager.running' },
        { guard: 'isMade', target: 'making' },
        { target: 'updating' },
      ],
    },
    making: {
      invoke: {
        id: 'ensure',
        src: 'cgroup.ensure',
        input: ({ context }) => context.steps[0]!.wish,
        onDone: { target: 'next', actions: stepDone },
        onError: { target: '#containerManager.refused', actions: stepFailed },
      },
    },
    updating: {
      invoke: {
        id: 'update',
        src: 'cgroup.update',
        input: ({ context }) => context.steps[0]!.wish,
        onDone: { target: 'next', actions: stepDone },
        onError: { target: '#containerManager.refused', actions: stepFailed },
      },
    },
  },
});

/** The group of all pods: held to what the node can give. */
const allPods = s.createStateConfig({
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
          wishes: [nodeAllocatableGroup(context, context.resources!)],
          periodMs: HOLD_PERIOD_MS,
        }),
        onError: { target: 'held', reenter: true },
      },
    },
  },
});

/** The groups of the QoS levels: they follow what their pods ask for. */
const levels = s.createStateConfig({
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
          wishes: qosGroups(context, context.resources!, context.demand),
          periodMs: HOLD_PERIOD_MS,
        }),
        onError: { target: 'held', reenter: true },
      },
      states: {
        quiet: { on: { 'qos.changed': 'gathering' } },
        /** Waits for pods that come at the same time. */
        gathering: { after: { [GATHER_MS]: '#containerManager.running.levels.choosing' } },
      },
    },
  },
});

const gathered = (who: 'kubelet' | 'system', guard: 'gathersKubelet' | 'gathersSystem') =>
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

/** Which group this process is in, for whoever reports on it. */
const own = s.createStateConfig({
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
          actions: line('warn', ({ event }) => [
            "Failed to get the kubelet's cgroup. Kubelet system container metrics may be missing.",
            { err: messageOf(event) },
          ]),
        },
      },
    },
    known: {},
  },
});

const FAILED_TO_START = 'Failed to start ContainerManager';

export const containerManagerMachine = s.createMachine({
  id: 'containerManager',
  context: ({ input }) => ({
    ...input,
    cgroups: null,
    resources: null,
    refusal: '',
    steps: [],
    demand: NO_DEMAND,
    kubeletGroup: input.kubeletCgroups,
  }),
  initial: 'inspectingCgroups',
  on: { 'qos.changed': { actions: assign({ demand: ({ event }) => event.demand }) } },
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
        { target: 'judgingResources', actions: judgeResources },
      ],
    },
    measuring: {
      meta: { waitsFor: 'the size of the file system of pods' },
      invoke: {
        id: 'storage',
        src: 'host.fileSystem',
        input: ({ context }) => ({ path: context.storagePath }),
        onDone: { target: 'judgingResources', actions: judgeResources },
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
        input: ({ context }) => ({ path: context.cgroupRoot }),
        onDone: {
          target: 'judgingRoot',
          actions: assign({ refusal: ({ context, event }) => missingRoot(context, event.output.missing) }),
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
          { cgroupVersion: context.cgroups!.version, cgroupDriver: context.cgroupDriver, ...cgroupRoots(context) },
        ]),
        sendParent(({ context }) => ({
          type: 'containerManager.created',
          cgroups: context.cgroups!,
          resources: context.resources!,
        })),
      ],
      on: { 'containerManager.start': [{ guard: 'usesCgroups', target: 'tuning' }, { target: 'running' }] },
    },
    tuning: {
      meta: { waitsFor: 'the settings of the kernel' },
      invoke: {
        id: 'tuneKernel',
        src: 'host.tuneKernel',
        input: ({ context }) => ({ expected: KERNEL_SETTINGS, modify: !context.protectKernelDefaults }),
        onDone: [
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
      entry: sendParent({ type: 'containerManager.started' }),
      on: { 'cgroups.held': { actions: sayHeld } },
      states: {
        allPods,
        levels,
        kubelet: gathered('kubelet', 'gathersKubelet'),
        system: gathered('system', 'gathersSystem'),
        own,
      },
    },
  },
});
