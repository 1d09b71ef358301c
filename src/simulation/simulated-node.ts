/**
 * The node of a simulation: the real supervisor in the real kernel, with models of the machine, the runtime and the
 * cluster in virtual time. It is restarted as by a service manager.
 *
 * Owns: the current agent, the world, and the records of every start.
 */
import { Kernel } from '../kernel/kernel.ts';
import { type BuildInfo, FORMAT_VERSION, type HeaderRecord, type KernelRecord } from '../kernel/records.ts';
import type { PodStatus } from '../machines/model/api/pod.ts';
import { NEWEST_BEHAVIOR } from '../machines/model/settings/behaviors.ts';
import type { KubeletInput, KubeletMachineOutput } from '../machines/startup/context/types.ts';
import { kubeletMachine } from '../machines/startup/kubelet.ts';
import type { Origin } from './api-server/store.ts';
import { KubeWorld } from './world/kube-world.ts';
import { type Answers, document, HEALTHY, MachineWorld, ok } from './world/machine-world.ts';
import type { PodsWorld } from './world/pods-world.ts';
import { VirtualTime } from './world/virtual-time.ts';

export const NODE_NAME = 'node';
/** The pause before the service manager restarts the agent: `RestartSec` in the unit of the package. */
const RESTART_MS = 10_000;

/** Operations of {@link PodsWorld}, which the table need not contain. */
const MODELLED: readonly string[] = [
  'host.fileSystem',
  'host.tuneKernel',
  'cgroup.missing',
  'cgroup.own',
  'cgroup.ensure',
  'cgroup.update',
  'cgroup.hold',
  'cgroup.gather',
  'cgroup.destroy',
  'cgroup.listPods',
  'volume.podFolders',
  'logs.podFolders',
  'logs.unlink',
];

const ANSWERS: Answers = {
  ...Object.fromEntries(Object.entries(HEALTHY).filter(([name]) => !MODELLED.includes(name))),
  'host.readConfiguration': ok(document()),
  'kube.connect': ok({ server: 'https://192.0.2.1:6443' }),
  'cri.watchImages': 'stream',
};

// oxlint-disable-next-line typescript/no-explicit-any -- of whatever machine
type Snapshot = { readonly value: any; readonly context: any };

export interface SimulatedNodeOptions {
  readonly seed: number;
  readonly build: BuildInfo;
  readonly remembersPods: boolean;
}

/** One start of the agent with the records of its journal. */
export interface Start {
  readonly incarnation: string;
  readonly records: readonly KernelRecord[];
}

type Agent = { readonly kernel: Kernel; readonly records: KernelRecord[]; isDead: boolean };

export class SimulatedNode {
  readonly time = new VirtualTime();
  readonly machine = new MachineWorld(ANSWERS, { time: this.time });
  readonly kube: KubeWorld;
  /** In order; the last one is the current agent, or the last one that ran. */
  readonly starts: Start[] = [];
  /** Receives the reason when the agent ends by itself; `isFault`: its root failed. */
  onEnd: (why: string, isFault: boolean) => void = () => {};
  private readonly options: SimulatedNodeOptions;
  private agent: Agent | undefined;
  private clockOffsetMs = 0;

  constructor(options: SimulatedNodeOptions) {
    this.options = options;
    this.kube = new KubeWorld(this.time, null, originOf(this.time));
    this.kube.createNamespace('kube-node-lease');
    this.world.kube = this.kube;
  }

  get world(): PodsWorld {
    return this.machine.pods;
  }

  get kernel(): Kernel | undefined {
    return this.agent?.kernel;
  }

  /** Starts the agent with a clock that is wrong by this offset. */
  start(clockOffsetMs = this.clockOffsetMs): void {
    this.stop();
    this.clockOffsetMs = clockOffsetMs;
    this.world.runtime.agentOffsetMs = clockOffsetMs;
    const records: KernelRecord[] = [];
    const incarnation = String(this.starts.length + 1).padStart(6, '0');
    const agent: Agent = { isDead: false, records, kernel: this.newKernel(incarnation, records, () => agent) };
    this.agent = agent;
    this.starts.push({ incarnation, records });
    agent.kernel.boot();
  }

  /** Kills the agent; its world stays. */
  stop(): void {
    if (!this.agent) return;
    this.agent.isDead = true;
    this.agent = undefined;
    this.world.detach();
  }

  run(ms: number): void {
    this.time.advance(ms);
  }

  podState(uid: string): unknown {
    return this.snapshot(`kubelet/pods/pod-${uid}`)?.value.alive?.life;
  }

  status(uid: string): PodStatus | null {
    return this.snapshot(`kubelet/pods/pod-${uid}`)?.context.status ?? null;
  }

  snapshot(address: string): Snapshot | undefined {
    return this.kernel?.snapshotOf(address) as Snapshot | undefined;
  }

  /** `ADDRESS: MESSAGE` of every actor that crashed in this start. */
  crashes(): string[] {
    return (this.agent?.records ?? []).flatMap((record) =>
      record.k === 'state' && record.status === 'error' ? [`${record.at}: ${record.error?.message ?? ''}`] : [],
    );
  }

  private newKernel(incarnation: string, records: KernelRecord[], agent: () => Agent): Kernel {
    const { seed, build, remembersPods } = this.options;
    const input: KubeletInput = {
      argv: [
        `--hostname-override=${NODE_NAME}`,
        '--kubeconfig=/etc/kubernetes/kubelet.conf',
        '--config=/etc/kubelet.yaml',
        '--pod-manifest-path=/etc/kubernetes/manifests',
      ],
      dataDir: null,
      version: 'v1.36.0+statelet.simulated',
      behavior: NEWEST_BEHAVIOR,
      journalDir: '/journal',
      ...(remembersPods ? {} : { rememberPods: false }),
    };
    const facts = { version: FORMAT_VERSION, node: NODE_NAME, bootId: 'simulated' } as const;
    const header: Omit<HeaderRecord, 'n' | 'k' | 't'> = { ...facts, incarnation, seed, build, input };
    const offset = this.clockOffsetMs;
    return new Kernel({
      machine: kubeletMachine,
      header,
      sink: memory(records),
      performer: { perform: (...args) => (agent().isDead ? () => {} : this.machine.perform(...args)) },
      time: {
        now: () => this.time.now() + offset,
        arm: (due, fire) => this.time.arm(due - offset, () => agent().isDead || fire()),
      },
      onStopped: (end) => this.ended(agent(), end),
    });
  }

  private ended(agent: Agent, end: { output: unknown } | { error: { message: string } }): void {
    if (agent.isDead) return;
    const isFault = 'error' in end;
    const { failure } = isFault ? { failure: end.error } : (end.output as KubeletMachineOutput);
    this.onEnd(failure?.message ?? 'without a failure', isFault);
    this.stop();
    this.time.arm(this.time.ms + RESTART_MS, () => this.agent ?? this.start());
  }
}

/** Names are numbered, so that the same run gives the same names. */
function originOf(time: VirtualTime): Origin {
  let uids = 0;
  let suffixes = 0;
  return {
    nowMs: () => time.now(),
    uid: (name) => `u${++uids}-${name}`,
    suffix: () => String(++suffixes).padStart(5, '0'),
  };
}

/** Keeps records without a copy, because actors and the world never change them afterwards. */
const memory = (records: KernelRecord[]) => ({
  wantsCheckpoint: false,
  append: (record: KernelRecord) => void records.push(record),
  commit: () => {},
  whenDurable: (begin: () => void) => begin(),
  writeCheckpoint: () => {},
  close: () => Promise.resolve(),
});
