/**
 * A node for tests of pods: the subsystems of pods in the real kernel, over a {@link PodsWorld}.
 *
 * The root stands for the supervisor: it uses the same ids, restarts crashed children, and answers `syncLoop.started`.
 */
import { expect } from 'vitest';
import { Kernel, type KernelOptions } from '../../src/kernel/kernel.ts';
import type { Checkpoint, HeaderRecord, KernelRecord } from '../../src/kernel/records.ts';
import { replay } from '../../src/kernel/replay.ts';
import { type AnyStateMachine, assign, line, sendTo, setup, to } from '../../src/kernel/xstate.ts';
import { csiVolumesMachine } from '../../src/machines/charts/csi/csi-volumes.ts';
import { imageGcMachine } from '../../src/machines/charts/images/image-gc.ts';
import { imagesMachine } from '../../src/machines/charts/images/images.ts';
import { draManagerMachine } from '../../src/machines/charts/node/dra/dra-manager.ts';
import { objectsMachine } from '../../src/machines/charts/objects/objects.ts';
import { allocationMachine } from '../../src/machines/charts/pods/allocation/allocation.ts';
import { podConfigMachine } from '../../src/machines/charts/pods/config/pod-config.ts';
import { containerGcMachine } from '../../src/machines/charts/pods/container-gc.ts';
import { eventRecorderMachine } from '../../src/machines/charts/pods/events/event-recorder.ts';
import { mirrorPodsMachine } from '../../src/machines/charts/pods/mirror/mirror-pods.ts';
import { plegMachine } from '../../src/machines/charts/pods/pleg.ts';
import { podsMachine } from '../../src/machines/charts/pods/pods.ts';
import { rememberedPodsMachine } from '../../src/machines/charts/pods/remembered-pods.ts';
import { softStateMachine } from '../../src/machines/charts/pods/soft-state.ts';
import { statusMachine } from '../../src/machines/charts/pods/status/status.ts';
import { syncLoopMachine } from '../../src/machines/charts/pods/sync-loop.ts';
import type { PodStatus } from '../../src/machines/model/api/pod.ts';
import { hasBehavior, NEWEST_BEHAVIOR } from '../../src/machines/model/settings/behaviors.ts';
import type { NodeSettings } from '../../src/machines/model/settings/node-settings.ts';
import { image, manifest, type PodOptions } from '../../src/simulation/world/kube-world.ts';
import { PodsWorld } from '../../src/simulation/world/pods-world.ts';
import { VirtualTime } from '../../src/simulation/world/virtual-time.ts';
import { header, MemorySink } from '../kernel/support.ts';

export { image, manifest, type PodOptions } from '../../src/simulation/world/kube-world.ts';

export const settings: NodeSettings = {
  nodeName: 'node',
  hostname: 'node',
  nodeIPs: ['192.168.0.1'],
  behavior: NEWEST_BEHAVIOR,
  rootDir: '/var/lib/kubelet',
  podLogsDir: '/var/log/pods',
  containerLogsDir: '/var/log/containers',
  staticPodPath: '/etc/kubernetes/manifests',
  fileCheckFrequencyMs: 20_000,
  syncFrequencyMs: 60_000,
  runtimeName: 'containerd',
  cgroupRoot: '/',
  cgroupDriver: 'cgroupfs',
  cgroupsPerQOS: true,
  cpuCFSQuota: true,
  cpuCFSQuotaPeriodUs: 100_000,
  podPidsLimit: -1,
  seccompDefault: false,
  clusterDNS: ['10.96.0.10'],
  clusterDomain: 'cluster.local',
  resolver: { nameservers: ['1.1.1.1'], searches: [], options: [] },
  hostsFile: '127.0.0.1 localhost\n',
  serializeImagePulls: true,
  maxParallelImagePulls: 0,
  registryPullQPS: 5,
  registryBurst: 10,
  crashLoopBackOffMaxMs: 300_000,
  memoryCapacityBytes: '8000000000',
  cpuCapacityMilli: 4_000,
  maxPods: 110,
  containerGc: { minAgeMs: 0, maxPerPodContainer: 1, maxContainers: -1 },
  imageGc: { highThresholdPercent: 85, lowThresholdPercent: 80, minAgeMs: 120_000, maxAgeMs: 0 },
  softStateFile: '/var/lib/kubelet/soft-state.json',
  relistPeriodMs: 10_000,
};

const clusterOnly: ReadonlySet<string> = new Set([
  'mirrorPods',
  'objects',
  'rememberedPods',
  'csiVolumes',
  'draManager',
]);

const subsystems = {
  mirrorPods: mirrorPodsMachine,
  objects: objectsMachine,
  rememberedPods: rememberedPodsMachine,
  csiVolumes: csiVolumesMachine,
  draManager: draManagerMachine,
  eventRecorder: eventRecorderMachine,
  softState: softStateMachine,
  containerGC: containerGcMachine,
  imageGC: imageGcMachine,
  images: imagesMachine,
  status: statusMachine,
  allocation: allocationMachine,
  pods: podsMachine,
  syncLoop: syncLoopMachine,
  podConfig: podConfigMachine,
  pleg: plegMachine,
} satisfies Record<string, AnyStateMachine>;

function inputOf(id: keyof typeof subsystems, node: NodeSettings): unknown {
  if (id === 'pods' || id === 'allocation') return { settings: node };
  if (id === 'draManager') return { rootDir: node.rootDir, nodeName: node.nodeName, inCluster: true };
  if (id === 'eventRecorder') {
    const { nodeName, apiServer } = node;
    const [ofEachType, annotates] = [hasBehavior(node, 'eventsOfEachType'), hasBehavior(node, 'evictionAsKubelet')];
    return { nodeName, publishes: apiServer !== undefined, ofEachType, annotates };
  }
  return node;
}

const region = (id: keyof typeof subsystems) => ({
  initial: 'absent',
  states: {
    absent: {
      after: {
        1: {
          guard: ({ context }: { context: { settings: NodeSettings } }) =>
            !clusterOnly.has(id) || context.settings.apiServer !== undefined,
          target: 'running',
        },
      },
    },
    running: {
      invoke: {
        id,
        src: id,
        systemId: id,
        input: ({ context }: { context: { settings: NodeSettings } }) => inputOf(id, context.settings) as never,
        onError: {
          target: 'crashed',
          actions: line('error', ({ event }: { event: unknown }) => [
            'Subsystem crashed',
            { id, error: (event as { error: { message: string } }).error.message },
          ]),
        },
      },
    },
    crashed: { after: { 1_000: 'running' } },
  },
});

/** Each call creates a new root; the machines of the subsystems are shared. */
const rootMachine: AnyStateMachine = setup({
  types: {
    input: {} as { settings: NodeSettings },
    context: {} as { settings: NodeSettings; isUp: boolean },
    events: {} as { type: 'pleg.healthy' } | { type: 'pleg.unhealthy' } | { type: 'syncLoop.started' },
  },
  actors: subsystems,
}).createMachine({
  id: 'kubelet',
  // The node's groups exist from the beginning.
  context: ({ input }) => ({ settings: input.settings, isUp: true }),
  type: 'parallel',
  on: {
    'pleg.healthy': { actions: [assign({ isUp: true }), sendTo(to('syncLoop'), { type: 'runtime.up' })] },
    'pleg.unhealthy': {
      actions: [
        assign({ isUp: false }),
        sendTo(to('syncLoop'), { type: 'runtime.down', errors: ['PLEG is not healthy'] }),
      ],
    },
    'syncLoop.started': {
      guard: ({ context }) => context.isUp,
      actions: sendTo(to('syncLoop'), { type: 'runtime.up' }),
    },
  },
  states: Object.fromEntries(
    (Object.keys(subsystems) as (keyof typeof subsystems)[]).map((id) => [id, region(id)]),
  ) as never,
}) as never;

export class PodsNode {
  readonly time: VirtualTime;
  readonly world: PodsWorld;
  readonly sink = new MemorySink();
  private readonly settings: Partial<NodeSettings>;
  readonly kernel: Kernel;
  private isDead = false;
  private readonly marks: Checkpoint[] = [];

  /** `clockOffsetMs`: the error of the machine's clock when this agent started. */
  constructor(
    options: {
      world?: PodsWorld;
      seed?: number;
      settings?: Partial<NodeSettings>;
      clockOffsetMs?: number;
      onTurn?: KernelOptions['onTurn'];
    } = {},
  ) {
    const offsetMs = options.clockOffsetMs ?? 0;
    this.settings = options.settings ?? {};
    this.world = options.world ?? new PodsWorld(new VirtualTime());
    this.time = this.world.time;
    this.world.runtime.agentOffsetMs = offsetMs;
    const kernelHeader: KernelOptions['header'] = {
      ...header(options.seed ?? 7),
      input: { settings: { ...settings, ...options.settings } },
    };
    this.kernel = new Kernel({
      machine: rootMachine,
      header: kernelHeader,
      sink: this.sink,
      ...(options.onTurn ? { onTurn: options.onTurn } : {}),
      performer: { perform: (...args) => (this.isDead ? () => {} : this.world.perform(...args)) },
      time: {
        now: () => this.time.now() + offsetMs,
        arm: (due, fire) => this.time.arm(due - offsetMs, () => this.isDead || fire()),
      },
    });
  }

  boot(): this {
    this.kernel.boot();
    return this;
  }

  /** Advances the time. */
  run(ms: number): this {
    this.time.advance(ms);
    return this;
  }

  /** Advances the time until something is true. */
  until(what: string, holds: () => boolean, withinMs = 600_000): this {
    const end = this.time.ms + withinMs;
    while (!holds()) {
      if (this.time.nextDue === undefined || this.time.nextDue > end) {
        throw new Error(`${what} did not happen within ${withinMs} ms\n${this.transcript().slice(-60).join('\n')}`);
      }
      this.time.step();
    }
    return this;
  }

  /** Whether a pod runs and all of its containers are ready. */
  isReady(uid: string): boolean {
    const isEachReady = this.status(uid)?.containerStatuses?.every(({ ready }) => ready) === true;
    return this.phase(uid) === 'Running' && isEachReady;
  }

  /** Ends the agent; its world stays. Returns the next agent on the same node. */
  restart(clockOffsetMs = 0, settings = this.settings): PodsNode {
    this.assertReplays();
    const { world } = this;
    this.isDead = true;
    world.detach();
    return new PodsNode({ world, settings, clockOffsetMs }).boot();
  }

  podState(uid: string): unknown {
    const snapshot = this.kernel.snapshotOf(`kubelet/pods/pod-${uid}`) as
      | { value: { alive: { life: unknown } } }
      | undefined;
    return snapshot?.value.alive?.life;
  }

  status(uid: string): PodStatus | null {
    const snapshot = this.kernel.snapshotOf(`kubelet/pods/pod-${uid}`) as
      | { context: { status: PodStatus | null } }
      | undefined;
    return snapshot?.context.status ?? null;
  }

  phase(uid: string): string | undefined {
    return this.status(uid)?.phase;
  }

  /** The events as users would read them. */
  events(): string[] {
    return this.logs('Event occurred').map(({ reason, message }) => `${String(reason)}: ${String(message)}`);
  }

  logs(text: string): Record<string, unknown>[] {
    return this.sink.records.flatMap((record) =>
      record.k === 'log' && record.text === text ? [{ ...record.fields }] : [],
    );
  }

  /** Every crash of an actor, for tests that expect none. */
  crashes(): string[] {
    return this.sink.records.flatMap((record) =>
      record.k === 'state' && record.status === 'error' ? [`${record.at}: ${record.error?.message ?? ''}`] : [],
    );
  }

  /** The last status of a pod that `status` received, also for a pod that is gone. */
  lastReportedStatus(uid: string): PodStatus | null {
    const published = this.sink.records.flatMap((record) =>
      record.k === 'message' && record.event.type === 'status.changed'
        ? [record.event as unknown as { readonly pod: { readonly uid: string }; readonly status: PodStatus }]
        : [],
    );
    return published.findLast(({ pod }) => pod.uid === uid)?.status ?? null;
  }

  /** States, requests and log lines with their times, for debugging. */
  transcript(): string[] {
    let t = 0;
    const start = (this.sink.records[0] as { t: number }).t;
    const at = () => `+${String(t - start).padStart(6)}`;
    return this.sink.records.flatMap((record: KernelRecord) => {
      if ('t' in record) t = record.t;
      if (record.k === 'state') return [`${at()} ${record.at} = ${JSON.stringify(record.value)}`];
      if (record.k === 'effect') return [`${at()} ${record.at} -> ${record.name}`];
      if (record.k === 'log') return [`${at()} ${record.at} "${record.text}" ${JSON.stringify(record.fields ?? {})}`];
      return [];
    });
  }

  /** Replays from the beginning, and from each marked moment. */
  assertReplays(): void {
    const { records } = this.sink;
    const report = replay({ machine: rootMachine, records });
    expect(report.divergence).toBeNull();
    expect(report.turns).toBe(this.kernel.turn);
    for (const checkpoint of this.marks) {
      const from = { checkpoint, header: records[0] as HeaderRecord };
      const tail = replay({ machine: rootMachine, records: records.slice(checkpoint.n), from });
      expect(tail.divergence, `from record ${checkpoint.n}`).toBeNull();
    }
  }

  /** The journal must also replay from here. */
  mark(): void {
    this.marks.push(structuredClone(this.kernel.checkpoint()));
  }
}

/** A node that has the image `app:1` and these manifests; it is not booted. */
export function nodeWith(...pods: readonly PodOptions[]): PodsNode {
  const node = new PodsNode();
  node.world.runtime.images.set('app:1', image('app:1'));
  node.world.setManifests(pods.map(manifest));
  return node;
}
