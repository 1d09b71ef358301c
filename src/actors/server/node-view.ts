/**
 * The read model of the kernel for the node's API, read at each request.
 *
 * Owns the time of the sync loop's last round. Hears `onTurn`. Requests read between turns, so they see the state at
 * the end of a turn; no request becomes an input or delays a turn.
 */
import type { Kernel } from '../../kernel/kernel.ts';
import type { KernelRecord } from '../../kernel/records.ts';
import type { Context as MountContext } from '../../machines/charts/csi/mount-setup.ts';
import type { PodContext } from '../../machines/charts/pods/pod/pod-context.ts';
import { allocatableCpus } from '../../machines/model/allocation/cpu-manager.ts';
import type { Pod } from '../../machines/model/api/pod.ts';
import { statsPlace } from '../../machines/model/cgroups/node-groups.ts';
import type { KubeletConfiguration } from '../../machines/model/configuration/fields.ts';
import { mountPlace } from '../../machines/model/csi/paths.ts';
import type { EvictionContext } from '../../machines/model/eviction/policy.ts';
import type { MachineInfo } from '../../machines/model/operations/host.ts';
import type { StatsPlace } from '../../machines/model/operations/stats.ts';
import { ROOT } from '../../machines/model/pods/pod-messages.ts';
import type { KubeletContext, RuntimeFacts } from '../../machines/startup/context/types.ts';
import { contextOf } from '../node-records.ts';
import type { StatsVolume } from '../stats/driver-stats.ts';
import type { ClaimPlaces } from '../stats/summary-parts.ts';
import type { NodePod, PodEnding } from './node-pods.ts';
import type { PodSource } from './thread/known-pods.ts';

export interface NodeView {
  nodeName(): string;
  /** The current configuration. Only after the start has read it. */
  configuration(): KubeletConfiguration;
  runtime(): RuntimeFacts | null;
  /** `null` until the start has determined it. */
  cgroupVersion(): 1 | 2 | null;
  /** `null` until the start has determined it. */
  machine(): MachineInfo | null;
  /** By signal, the number of pods evicted by this incarnation of the agent. */
  evictions(): Readonly<Record<string, number>>;
  pods(): readonly NodePod[];
  /** The node's root directory; `null` before it is known. */
  rootDir(): string | null;
  /** The contexts of the active actors whose address is the prefix and one more id. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows the machines there
  contexts<Context>(prefix: string): readonly Context[];
  /** CPUs that containers may use exclusively; empty if the node assigns no exclusive CPUs. */
  allocatableCpus(): readonly number[];
  /** By name of a check, why it fails, or `null`. */
  readonly checks: Readonly<Record<string, () => string | null>>;
}

type OpenPod = (pod: Pod) => Pod;

const DRIVER_MOUNTS = `${ROOT}/csiVolumes/mount-`;
const PODS = `${ROOT}/pods/pod-`;
const SYNC_LOOP = `${ROOT}/syncLoop`;
const EVICTION = `${ROOT}/eviction`;
const CONTAINER_MANAGER = `${ROOT}/containerManager`;

/** The cgroups in the context of the container manager. */
interface SystemGroups {
  readonly kubeletGroup?: string;
  readonly runtimeCgroups?: string;
  readonly systemCgroups?: string;
}

interface Snapshot<Context> {
  readonly status: string;
  readonly context: Context;
}

export class KernelView implements NodeView {
  private kernel: Kernel | undefined;
  private readonly syncLoop: SyncLoopCheck;
  private readonly opened: OpenPod;

  /**
   * @param nowMs a clock that never goes back; only checks of age use it
   * @param opened a pod as written, for clients of the node
   */
  constructor(nowMs?: () => number, opened: OpenPod = (pod) => pod) {
    this.opened = opened;
    this.syncLoop = new SyncLoopCheck(nowMs);
  }

  /** For the kernel's option `onTurn`. */
  readonly onTurn = (_records: readonly KernelRecord[], kernel: Kernel): void => {
    this.kernel = kernel;
    this.syncLoop.turned(kernel.snapshotOf(SYNC_LOOP) as Parameters<SyncLoopCheck['turned']>[0]);
  };

  readonly checks = {
    ping: () => null,
    log: () => null,
    syncloop: () => this.syncLoop.problem(this.root.settings?.syncFrequencyMs ?? 0),
    'device-plugin': () => null,
  };

  private get root(): KubeletContext {
    const context = this.contextOf<KubeletContext>(ROOT);
    if (!context) throw new Error('the node has not started yet: ask again in a moment');
    return context;
  }

  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows the machine at its address
  private contextOf<Context>(address: string): Context | undefined {
    return this.kernel && contextOf<Context>(this.kernel, address);
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
    return this.contextOf<EvictionContext>(EVICTION)?.evictions ?? {};
  }

  /** The places for measuring this node's usage. Available once the settings are known. */
  statsPlace(): StatsPlace {
    const { settings } = this.root;
    if (!settings) throw new Error('the node has not started yet: ask again in a moment');
    return statsPlace(settings, this.systemCgroups());
  }

  /** Includes the agent's own cgroup even if no setting names one; the root cgroup is never reported as one of them. */
  private systemCgroups(): StatsPlace['systemCgroups'] {
    const groups = this.contextOf<SystemGroups>(CONTAINER_MANAGER) ?? {};
    const { kubeletGroup = '', runtimeCgroups = '', systemCgroups = '' } = groups;
    const ownGroup = (cgroup: string): string => (cgroup === '/' ? '' : cgroup);
    return { kubelet: ownGroup(kubeletGroup), runtime: ownGroup(runtimeCgroups), misc: ownGroup(systemCgroups) };
  }

  /** The CSI volumes used by containers. */
  driverVolumes(): readonly StatsVolume[] {
    return this.contexts<MountContext>(DRIVER_MOUNTS).flatMap((mount) => {
      const { pod, volume, driver, isUsable } = mount;
      if (!isUsable || driver.endpoint === null) return [];
      const { target, block } = mountPlace(mount, volume);
      const { name, handle, size } = volume;
      const claim = size?.claim ?? null;
      const path = block?.map ?? target;
      return [{ uid: pod.uid, name, claim, driver: volume.driver, endpoint: driver.endpoint, handle, path }];
    });
  }

  /** By pod, the claims' volumes on this machine. */
  claims(): Readonly<Record<string, ClaimPlaces>> {
    return Object.fromEntries(this.pods().flatMap(({ uid, claims }) => (claims === undefined ? [] : [[uid, claims]])));
  }

  rootDir(): string | null {
    return this.root.settings?.rootDir ?? null;
  }

  allocatableCpus(): readonly number[] {
    const manager = this.root.settings?.admission?.cpuManager;
    return manager === undefined ? [] : allocatableCpus(manager);
  }

  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows the machines there
  contexts<Context>(prefix: string): readonly Context[] {
    const addresses = this.kernel?.addresses ?? [];
    return addresses
      .filter((address) => address.startsWith(prefix) && !address.includes('/', prefix.length))
      .flatMap((address) => {
        const snapshot = this.kernel?.snapshotOf(address) as Snapshot<Context> | undefined;
        return snapshot?.status === 'active' ? [snapshot.context] : [];
      });
  }

  pods(): readonly NodePod[] {
    return this.contexts<PodContext>(PODS).map(nodePod);
  }

  private openedPod(known: NodePod): NodePod {
    return known.pod === null ? known : { ...known, pod: this.opened(known.pod) };
  }

  /** The pods before their values are opened: a pod keeps its identity while its context is unchanged. */
  podSources(): readonly PodSource[] {
    return this.contexts<PodContext>(PODS).map((context) => ({
      uid: context.uid,
      state: context,
      read: () => this.openedPod(nodePod(context)),
    }));
  }
}

function nodePod(context: PodContext): NodePod {
  const { uid, namespace, name, pod, status, runtime, volumes, cpus, claims, rejection } = context;
  const mounted = Object.keys(volumes ?? {});
  const known = { uid, namespace, name, pod, status, runtime, mounted, exclusiveCpus: cpus?.exclusive ?? {} };
  const prepared = claims === null ? {} : { prepared: claims.prepared };
  const rejected = rejection === null ? {} : { isRejected: true as const };
  return { ...known, ...prepared, ...rejected, ...endingOf(context), ...claimsOf(context) };
}

const endingOf = ({ kill, stage }: PodContext): { readonly ending?: PodEnding } =>
  kill === null ? {} : { ending: { isOrphan: kill.remove, isStopped: stage !== 'sync' } };

const isOfDriver = (path: string): boolean => path.includes('/volumes/kubernetes.io~csi/');

function claimsOf({ pod, name, volumes }: PodContext): { readonly claims?: ClaimPlaces } {
  const claims = (pod?.spec.volumes ?? []).flatMap((volume) => {
    const claim = volume.persistentVolumeClaim?.claimName ?? (volume.ephemeral ? `${name}-${volume.name}` : null);
    const path = volumes?.[volume.name]?.hostPath ?? '';
    return claim === null || path === '' || isOfDriver(path) ? [] : [[volume.name, { claim, path }] as const];
  });
  return claims.length === 0 ? {} : { claims: Object.fromEntries(claims) };
}

/** Upstream's lower limit of the age: shorter sync periods do not make the check stricter. */
const AGE_MIN_MS = 5 * 60_000;

interface LoopSnapshot {
  readonly status: string;
  readonly context: { readonly runtimeUp: boolean };
}

/**
 * The health check `syncloop`: whether the sync loop is still running.
 *
 * Owns: the time of the last round. A turn of the kernel while the loop exists and the runtime is up counts as a round;
 * on an idle node the loop's housekeeping causes one each minute. While the runtime is down rounds are skipped.
 * Upstream: pkg/kubelet, SyncLoopHealthCheck and syncLoopMonitor.
 */
export class SyncLoopCheck {
  private readonly nowMs: () => number;
  private enteredMs: number | undefined;

  /** @param nowMs a clock that never goes back */
  constructor(nowMs: () => number = () => performance.now()) {
    this.nowMs = nowMs;
  }

  /** Called after each turn, with the loop's snapshot; `undefined` while there is no loop. */
  turned(loop: LoopSnapshot | undefined): void {
    if (loop?.status === 'active' && loop.context.runtimeUp) this.enteredMs = this.nowMs();
  }

  /** Why the check fails, or `null`. A loop that has not run yet is starting, which is no failure. */
  problem(syncFrequencyMs: number): string | null {
    if (this.enteredMs === undefined) return null;
    const limitMs = Math.max(AGE_MIN_MS, 2 * syncFrequencyMs);
    return this.nowMs() - this.enteredMs > limitMs ? 'sync Loop took longer than expected' : null;
  }
}
