/**
 * What the pods' machines need to know of this node: derived once, in startup, from flags, configuration, the runtime
 * and the machine. Plain JSON; durations in milliseconds.
 */

import type { SecretHandle } from '../../../kernel/xstate.ts';
import type { EvictionThreshold } from '../operations/stats.ts';
import type { ResourceManagers } from './resource-managers.ts';

export interface ShutdownPeriod {
  /** Pods from this priority on, up to the next group's. */
  readonly priority: number;
  readonly graceSeconds: number;
}

export interface ShutdownSettings {
  /** Lowest priority first; never empty. */
  readonly periods: readonly ShutdownPeriod[];
  /** Where start and end of the last shutdown are kept. */
  readonly stateFile: string;
}

export interface EvictionSettings {
  readonly thresholds: readonly EvictionThreshold[];
  /** How long a condition is reported after it was observed last. */
  readonly transitionMs: number;
  /** The grace of pods that go because of a soft threshold. */
  readonly maxPodGraceSeconds: number;
  /** Pods are held to their limits of local storage. */
  readonly localStorage: boolean;
}

/** What of this node decides about pods. Amounts: thousandths of a CPU, whole units of everything else. */
export interface AdmissionSettings extends ResourceManagers {
  readonly allocatable: Readonly<Record<string, string>>;
  /** The same without what eviction keeps free: no pod can have more, ever. */
  readonly wholeNode: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly { readonly key: string; readonly value?: string; readonly effect: string }[];
  readonly sysctls: { readonly kernelVersion: string; readonly allowedUnsafe: readonly string[] };
  readonly appArmor: boolean;
  /** Features without which pods that use them are refused; absent: none. */
  readonly lacks?: readonly ('podLevelResources' | 'restartAll')[];
}

/** A field of pods that this node does not see: `restartRules` are policies and rules of single containers. */
export type UnseenField = 'restartRules' | 'restartAll' | 'hostnameOverride' | 'fileKeyRef';

export interface RuntimeHandlerAbilities {
  readonly userNamespaces: boolean;
  readonly recursiveReadOnlyMounts: boolean;
}

/** The node's configuration or resolv.conf is another. */
export interface NodeChanged {
  readonly type: 'node.changed';
  readonly settings: NodeSettings;
}

export interface NodeSettings {
  /** How many changed decisions this node takes: `behaviors.ts`. */
  readonly behavior: number;
  /** Lower-case name of the node, as registered. */
  readonly nodeName: string;
  readonly hostname: string;
  /** Addresses for hostNetwork pods and `status.hostIP`, primary family first; may be empty. */
  readonly nodeIPs: readonly string[];
  /** `--root-dir`, absolute. */
  readonly rootDir: string;
  /** Absolute; `<namespace>_<name>_<uid>` folders live here. */
  readonly podLogsDir: string;
  /** Folder of the legacy log symlinks, `/var/log/containers`; empty where it could not be made. */
  readonly containerLogsDir: string;
  /** What the runtime can do, by handler; the default one is empty. Absent: none of it. */
  readonly runtimeHandlers?: Readonly<Record<string, RuntimeHandlerAbilities>>;
  /** Ids in the user namespace of a pod. */
  readonly idsPerPod?: number;
  /** When the log of a container is rotated (see `operations/logs.ts`); absent: logs are left alone. */
  readonly containerLogs?: {
    readonly maxBytes: number;
    readonly maxFiles: number;
    readonly periodMs: number;
    readonly workers: number;
  };
  /** File or folder of static pods; empty when there is none. */
  readonly staticPodPath: string;
  /** Where static pods are fetched from; absent or empty when nowhere. Values of headers are handles. */
  readonly staticPodURL?: string;
  readonly staticPodURLHeader?: Readonly<Record<string, readonly SecretHandle[]>>;
  readonly httpCheckFrequencyMs?: number;
  /** How the API server's objects are followed; absent on a node that runs alone. */
  readonly apiServer?: {
    readonly changeDetection: 'Watch' | 'Cache' | 'Get';
    /** Projected sources that are served only where their feature gates say so. */
    readonly trustBundles?: boolean;
    readonly podCertificates?: boolean;
  };
  /** Where pods of the API server are remembered that may start without it; absent: none may. */
  readonly rememberedPodsDir?: string;
  readonly fileCheckFrequencyMs: number;
  readonly syncFrequencyMs: number;
  /** `containerd`, as the runtime names itself: the prefix of container ids. */
  readonly runtimeName: string;
  /** Base of `cgroup_parent`; empty when cgroups are not managed per QoS class. */
  readonly cgroupRoot: string;
  readonly cgroupDriver: 'cgroupfs' | 'systemd';
  readonly cgroupsPerQOS: boolean;
  /** Each pod gets a group of its own before its sandbox. */
  readonly makesPodCgroups?: boolean;
  /**
   * With the gate MemoryQoS; `null` without it. `reserves`: what pods ask for is kept for them (`TieredReservation`).
   */
  readonly memoryQoS?: { readonly throttlingFactor: number; readonly reserves: boolean } | null;
  readonly cpuCFSQuota: boolean;
  readonly cpuCFSQuotaPeriodUs: number;
  readonly podPidsLimit: number;
  readonly seccompDefault: boolean;
  readonly clusterDNS: readonly string[];
  readonly clusterDomain: string;
  /** Parsed `resolvConf` of the node. */
  readonly resolver: {
    readonly nameservers: readonly string[];
    readonly searches: readonly string[];
    readonly options: readonly string[];
    /** There is none: `resolvConf` is empty. */
    readonly isAbsent?: boolean;
  };
  /** Text of the node's /etc/hosts for hostNetwork pods. */
  readonly hostsFile: string;
  /** The machine labels files: the runtime gives what the agent makes for containers their label. */
  readonly seLinux?: boolean;
  /** Which pods may use an image that is present; absent: every pod, and pulls are not recorded. */
  readonly imagePullVerification?: { readonly policy: string; readonly allowlist: readonly string[] };
  /** Some credential provider plugin is given tokens of the pods' service accounts. */
  readonly pullsByServiceAccount?: boolean;
  readonly serializeImagePulls: boolean;
  /** 0: no limit. */
  readonly maxParallelImagePulls: number;
  /** Pulls a second; 0: no limit. */
  readonly registryPullQPS: number;
  readonly registryBurst: number;
  /** Longest crash-loop back-off. */
  readonly crashLoopBackOffMaxMs: number;
  /** The first one; absent: upstream's default. */
  readonly crashLoopBackOffInitialMs?: number;
  readonly memoryCapacityBytes: string;
  readonly cpuCapacityMilli: number;
  /** The delay before CPUs that the runtime refused are sent again; absent: upstream's default. */
  readonly cpuReconcilePeriodMs?: number;
  /** Cgroup hierarchy; it decides how swap and OOM groups are asked for. Without it neither is. */
  readonly cgroupVersion?: 1 | 2;
  /** For want of memory the kernel kills single processes of a container, not all of them (hierarchy of version 2). */
  readonly killsSingleProcess?: boolean;
  /** The memory controller counts swap: only then may a container be kept out of it. */
  readonly swapControllerAvailable?: boolean;
  /** Under `LimitedSwap`, the swap of the machine that containers share; absent: none may swap. */
  readonly limitedSwapBytes?: string;
  /** Huge page sizes of the machine as the runtime names them (`2MB`, `1GB`). */
  readonly hugePageSizes?: readonly string[];
  /** With the gate LocalStorageCapacityIsolationFSQuotaMonitoring, volumes of pods in user namespaces have projects. */
  readonly countsByProject?: boolean;
  /** `status.capacity` of the node. */
  readonly capacity?: Readonly<Record<string, string>>;
  /**
   * `status.allocatable` of the node: what is there for pods, and what `limits.*` resolves to in a container without
   * limits.
   */
  readonly allocatable?: Readonly<Record<string, string>>;
  /** What decides about pods that want to run here; absent: every pod is taken. */
  readonly admission?: AdmissionSettings;
  /** A status says how the devices of its containers are; absent: it does not. */
  readonly reportsDeviceHealth?: boolean;
  /** With the gate DRAExtendedResource off: the claim that a scheduler made for extended resources is not looked at. */
  readonly ignoresExtendedClaims?: boolean;
  /** With the gate ResourceHealthStatusMessage off: a status does not say what drivers say of their devices. */
  readonly hidesHealthMessages?: boolean;
  /** Whether static pods may name what the API server has; absent: `none`. */
  readonly staticPodReferences?: 'none' | 'any';
  /** Absent: it sees all fields. */
  readonly unseenFields?: readonly UnseenField[];
  /** Statuses do not say whether containers can start. */
  readonly hidesReadyToStart?: boolean;
  /** With the gate ContainerStopSignals: containers say which signal ends them. */
  readonly hasStopSignals?: boolean;
  readonly maxPods: number;
  /** Dead containers kept per (pod, container), minimum age and total; -1: no limit on the total. */
  readonly containerGc: {
    readonly minAgeMs: number;
    readonly maxPerPodContainer: number;
    readonly maxContainers: number;
  };
  readonly imageGc: {
    readonly highThresholdPercent: number;
    readonly lowThresholdPercent: number;
    readonly minAgeMs: number;
    readonly maxAgeMs: number;
  };
  /** When pods go so that the node has enough for itself; absent: never. */
  readonly eviction?: EvictionSettings;
  /** How pods end when the machine shuts down; absent: at once. */
  readonly shutdown?: ShutdownSettings;
  /** Where soft facts are kept between incarnations. */
  readonly softStateFile: string;
  /**
   * The fast period of listing the runtime: the least gap between two lists, used until its events have proved right.
   */
  readonly relistPeriodMs: number;
}
