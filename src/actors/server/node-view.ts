/**
 * What the node's API may say of the node: a read model of the kernel, looked into when somebody asks.
 *
 * Owns nothing but the kernel that it looks at. Hears `onTurn`. Requests read between turns, so that they see the state
 * at a turn's end; no request becomes an input, and none keeps a turn waiting.
 */
import type { Kernel } from '../../kernel/kernel.ts';
import type { KernelRecord } from '../../kernel/records.ts';
import type { Pod, PodStatus } from '../../machines/api/pod.ts';
import { kubeletMachine } from '../../machines/kubelet.ts';
import type { EvictionContext } from '../../machines/node/eviction/policy.ts';
import { type StatsPlace, statsPlace } from '../../machines/node/stats-node.ts';
import type { PodRuntimeStatus } from '../../machines/operations/cri.ts';
import type { MachineInfo } from '../../machines/operations/host.ts';
import { allocatableCpus, type ExclusiveCpus } from '../../machines/pods/admission/cpu-manager.ts';
import type { PodContext } from '../../machines/pods/pod-policy.ts';
import type { KubeletConfiguration } from '../../machines/startup/configuration/index.ts';
import type { KubeletContext, RuntimeFacts } from '../../machines/startup/types.ts';

/** A pod of this node: wanted, or only found in the runtime. */
export interface NodePod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** `null`: only the runtime knows it. */
  readonly pod: Pod | null;
  readonly status: PodStatus | null;
  readonly runtime: PodRuntimeStatus | null;
  /** Names of the volumes that are set up. */
  readonly mounted: readonly string[];
  /** By container, CPUs that are of it alone: `1-2,5`. Absent: none. */
  readonly exclusiveCpus?: ExclusiveCpus;
}

/** By name of a check, why it fails, or `null` while all is well. */
export type Checks = Readonly<Record<string, () => string | null>>;

export interface NodeView {
  nodeName(): string;
  /** The configuration in force. Only after starting has read it. */
  configuration(): KubeletConfiguration;
  runtime(): RuntimeFacts | null;
  /** `null` before it is known. */
  cgroupVersion(): 1 | 2 | null;
  /** `null` before it is known. */
  machine(): MachineInfo | null;
  /** By signal, how many pods this incarnation of the agent evicted. */
  evictions(): Readonly<Record<string, number>>;
  pods(): readonly NodePod[];
  /** CPUs that containers may have for themselves; empty where nothing keeps them apart. */
  allocatableCpus(): readonly number[];
  readonly checks: Checks;
}

const PODS = `${kubeletMachine.id}/pods/pod-`;
/** Without a turn for longer than two periods of its sync loop upstream calls itself unhealthy. */
const SYNC_LOOP = `${kubeletMachine.id}/syncLoop`;
const EVICTION = `${kubeletMachine.id}/eviction`;

interface Snapshot<Context> {
  readonly status: string;
  readonly context: Context;
}

export class KernelView implements NodeView {
  private kernel: Kernel | undefined;

  /** For the kernel's option of this name. */
  readonly onTurn = (_records: readonly KernelRecord[], kernel: Kernel): void => {
    this.kernel = kernel;
  };

  readonly checks: Checks = {
    ping: () => null,
    log: () => null,
    syncloop: () => (this.isActive(SYNC_LOOP) ? null : 'sync Loop took longer than expected'),
    'device-plugin': () => null,
  };

  private isActive(address: string): boolean {
    return (this.kernel?.snapshotOf(address) as Snapshot<unknown> | undefined)?.status === 'active';
  }

  private get root(): KubeletContext {
    const snapshot = this.kernel?.snapshotOf(kubeletMachine.id) as Snapshot<KubeletContext> | undefined;
    if (!snapshot) throw new Error('the node has not started yet: ask again in a moment');
    return snapshot.context;
  }

  nodeName(): string {
    return this.root.node?.nodeName ?? '';
  }

  configuration(): KubeletConfiguration {
    return this.root.config!;
  }

  runtime(): RuntimeFacts | null {
    return this.root.runtime;
  }

  cgroupVersion(): 1 | 2 | null {
    return this.root.cgroups?.version ?? null;
  }

  machine(): MachineInfo | null {
    return this.root.machineInfo;
  }

  evictions(): Readonly<Record<string, number>> {
    const snapshot = this.kernel?.snapshotOf(EVICTION) as Snapshot<EvictionContext> | undefined;
    return snapshot?.context.evictions ?? {};
  }

  /** Where this node's use is measured. Only when its settings are known. */
  statsPlace(): StatsPlace {
    const { settings } = this.root;
    if (!settings) throw new Error('the node has not started yet: ask again in a moment');
    return statsPlace(settings);
  }

  allocatableCpus(): readonly number[] {
    const manager = this.root.settings?.admission?.cpuManager;
    return manager === undefined ? [] : allocatableCpus(manager);
  }

  pods(): readonly NodePod[] {
    const addresses = this.kernel?.addresses ?? [];
    return addresses
      .filter((address) => address.startsWith(PODS) && !address.slice(PODS.length).includes('/'))
      .flatMap((address) => {
        const snapshot = this.kernel!.snapshotOf(address) as Snapshot<PodContext> | undefined;
        if (snapshot?.status !== 'active') return [];
        const { uid, namespace, name, pod, status, runtime, volumes } = snapshot.context;
        const mounted = Object.keys(volumes ?? {});
        const exclusiveCpus = snapshot.context.cpus?.exclusive ?? {};
        return [{ uid, namespace, name, pod, status, runtime, mounted, exclusiveCpus }];
      });
  }
}
