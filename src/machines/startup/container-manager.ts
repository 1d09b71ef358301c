/**
 * Container manager: the node's own resources and the cgroups that hold its pods.
 *
 * Decides: whether this machine can be a node with this configuration (cgroup version, swap), where the cgroup roots
 * are, and when the managers that need a running runtime may start.
 * Owns: cgroup version and controllers, the four cgroup roots.
 * Hears: `containerManager.start` from the supervisor when the runtime is up for the first time.
 * Asks: `host.cgroups`.
 * Tells the supervisor: `containerManager.created`, `containerManager.started`, `containerManager.failed`.
 * Invariants: M1 it refuses before anything of a pod exists. M2 it is created before RunKubelet and started only after
 * the runtime was up once.
 * Seeds: S066 to S069, S075 to S102, S238. Upstream: pkg/kubelet/cm/container_manager_linux.go.
 */
import { assign, line, pick, sendParent, setup } from '../../kernel/xstate.ts';
import type { CgroupInfo, MachineInfo } from '../operations/host.ts';
import { operations } from '../operations/index.ts';

export interface ContainerManagerInput {
  readonly machineInfo: MachineInfo;
  readonly cgroupsPerQOS: boolean;
  readonly cgroupRoot: string;
  readonly cgroupDriver: 'cgroupfs' | 'systemd';
  readonly kubeletCgroups: string;
  readonly runtimeCgroups: string;
  readonly systemCgroups: string;
  readonly failCgroupV1: boolean;
  readonly failSwapOn: boolean;
}

interface ContainerManagerContext extends ContainerManagerInput {
  readonly cgroups: CgroupInfo | null;
  readonly refusal: string;
}

/** Upstream's words for the two things that keep a machine from being a node. */
export function refusalOf(input: ContainerManagerInput, cgroupVersion: 1 | 2): string {
  if (cgroupVersion === 1 && input.failCgroupV1) {
    return (
      'kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and will be ' +
      'removed in a future release'
    );
  }
  if (input.failSwapOn && BigInt(input.machineInfo.swapBytes) > 0n) {
    return 'running with swap on is not supported, please disable swap or set --fail-swap-on flag to false';
  }
  return '';
}

/** cgroup roots as upstream names them: what the node allocatable root holds, and the three optional ones. */
export function cgroupRoots(input: ContainerManagerInput) {
  const base = input.cgroupsPerQOS && input.cgroupRoot === '' ? '/' : input.cgroupRoot;
  const kubepods = input.cgroupDriver === 'systemd' ? 'kubepods.slice' : 'kubepods';
  return {
    nodeAllocatable: input.cgroupsPerQOS ? `${base.replace(/\/$/, '')}/${kubepods}` : base,
    kubelet: input.kubeletCgroups,
    runtime: input.runtimeCgroups,
    system: input.systemCgroups,
  };
}

export const containerManagerMachine = setup({
  types: {
    input: {} as ContainerManagerInput,
    context: {} as ContainerManagerContext,
    events: {} as { type: 'containerManager.start' },
  },
  actors: pick(operations, 'host.cgroups'),
  guards: { isRefused: ({ context }) => context.refusal !== '' },
}).createMachine({
  id: 'containerManager',
  context: ({ input }) => ({ ...input, cgroups: null, refusal: '' }),
  initial: 'inspectingCgroups',
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
          target: 'judging',
          actions: assign({
            refusal: ({ event }) => `failed to get mounted cgroup subsystems: ${(event.error as Error).message}`,
          }),
        },
      },
    },
    judging: { always: [{ guard: 'isRefused', target: 'refused' }, { target: 'created' }] },
    refused: {
      entry: sendParent(({ context }) => ({ type: 'containerManager.failed', message: context.refusal })),
    },
    created: {
      entry: [
        line('info', ({ context }) => [
          'Creating Container Manager object based on Node Config',
          { cgroupVersion: context.cgroups!.version, cgroupDriver: context.cgroupDriver, ...cgroupRoots(context) },
        ]),
        sendParent(({ context }) => ({ type: 'containerManager.created', cgroups: context.cgroups! })),
      ],
      on: { 'containerManager.start': 'running' },
    },
    running: { entry: sendParent({ type: 'containerManager.started' }) },
  },
});
