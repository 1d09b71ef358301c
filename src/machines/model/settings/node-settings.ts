/**
 * The settings of this node for the machines of pods and for the managers of exclusive CPUs, memory and devices,
 * derived once at startup from flags, configuration, runtime and machine. Plain JSON; durations in milliseconds.
 *
 * Upstream: cm/cpumanager, cm/memorymanager, cm/topologymanager.
 */
import type { SecretHandle } from '../../../kernel/xstate.ts';
import type { NodeAddress } from '../api/pod.ts';
import type { NumaSet } from '../operations/grants.ts';
import type { MachineTopology } from '../operations/host.ts';
import type { EvictionThreshold } from '../operations/stats.ts';

export interface ShutdownPeriod {
  /** The lowest priority of the group. The group ends below the priority of the next group. */
  readonly priority: number;
  readonly graceSeconds: number;
}

export interface ShutdownSettings {
  /** Lowest priority first; never empty. */
  readonly periods: readonly ShutdownPeriod[];
  /** The file with start and end of the last shutdown. */
  readonly stateFile: string;
}

export interface EvictionSettings {
  readonly thresholds: readonly EvictionThreshold[];
  /** How long a condition is reported after it was last observed. */
  readonly transitionMs: number;
  /** The maximum grace period for evictions by soft thresholds. */
  readonly maxPodGraceSeconds: number;
  readonly localStorage: boolean;
}

/** The facts about this node for admission. Amounts: thousandths of a CPU, whole units of everything else. */
export interface AdmissionSettings extends ResourceManagers {
  readonly allocatable: Readonly<Record<string, string>>;
  /** Allocatable without the eviction reserve: the most that pods could ever have. */
  readonly wholeNode: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly { readonly key: string; readonly value?: string; readonly effect: string }[];
  readonly sysctls: { readonly kernelVersion: string; readonly allowedUnsafe: readonly string[] };
  readonly appArmor: boolean;
  /** Features whose gates are off: pods that use them are rejected; absent: none. */
  readonly lacks?: readonly ('podLevelResources' | 'restartAll')[];
  /** With the gate NodeDeclaredFeatures off: features that pods need are not compared with those of the node. */
  readonly ignoresNeeds?: boolean;
}

/** Names of gates: resizes of whole pods, and of init containers. */
export type UndeclaredFeature = 'InPlacePodLevelResourcesVerticalScaling' | 'InPlacePodVerticalScalingInitContainers';

/** A field of pods that this node ignores: `restartRules` are policies and rules of single containers. */
export type IgnoredField = 'restartRules' | 'restartAll' | 'hostnameOverride' | 'fileKeyRef';

export interface RuntimeHandlerAbilities {
  readonly userNamespaces: boolean;
  readonly recursiveReadOnlyMounts: boolean;
}

/** The node's configuration or resolv.conf changed. */
export interface NodeChanged {
  readonly type: 'node.changed';
  readonly settings: NodeSettings;
}

export interface NodeSettings {
  /** The number of behavior changes that this node applies: `behaviors.ts`. */
  readonly behavior: number;
  /** Lower-case name of the node, as registered. */
  readonly nodeName: string;
  readonly hostname: string;
  /** Addresses of this machine, the preferred family first; may be empty. */
  readonly nodeIPs: readonly string[];
  /** Addresses of the Node, where a cloud provider sets them; absent: `nodeIPs`. See `spec/host-ips.ts`. */
  readonly hostAddresses?: readonly NodeAddress[];
  /** `--root-dir`, absolute. */
  readonly rootDir: string;
  /** Absolute; `<namespace>_<name>_<uid>` folders live here. */
  readonly podLogsDir: string;
  /** Folder of the legacy log symlinks, `/var/log/containers`; empty if it could not be created. */
  readonly containerLogsDir: string;
  /** Abilities of the runtime by handler; the default handler has an empty name. Absent: none. */
  readonly runtimeHandlers?: Readonly<Record<string, RuntimeHandlerAbilities>>;
  /** The number of ids in a pod's user namespace. */
  readonly idsPerPod?: number;
  /** When the log of a container is rotated (see `operations/logs.ts`); absent: never. */
  readonly containerLogs?: {
    readonly maxBytes: number;
    readonly maxFiles: number;
    readonly periodMs: number;
    readonly workers: number;
  };
  /** File or folder of static pods; empty without one. */
  readonly staticPodPath: string;
  /** The URL of static pods; absent or empty without one. Values of headers are handles. */
  readonly staticPodURL?: string;
  readonly staticPodURLHeader?: Readonly<Record<string, readonly SecretHandle[]>>;
  readonly httpCheckFrequencyMs?: number;
  /** How the API server's objects are watched; absent on a node without an API server. */
  readonly apiServer?: {
    readonly changeDetection: 'Watch' | 'Cache' | 'Get';
    /** Projected sources that are served only with their feature gates. */
    readonly trustBundles?: boolean;
    readonly podCertificates?: boolean;
  };
  /** The folder of pods that may start without the API server; absent: none may. */
  readonly rememberedPodsDir?: string;
  readonly fileCheckFrequencyMs: number;
  readonly syncFrequencyMs: number;
  /** The runtime's name, such as `containerd`: the prefix of container ids. */
  readonly runtimeName: string;
  /** Base of `cgroup_parent`; empty if cgroups are not managed per QoS class. */
  readonly cgroupRoot: string;
  readonly cgroupDriver: 'cgroupfs' | 'systemd';
  readonly cgroupsPerQOS: boolean;
  /** Each pod gets its own cgroup before its sandbox. */
  readonly makesPodCgroups?: boolean;
  /**
   * With the gate MemoryQoS; `null` without it. `reserves`: requested memory is protected from reclaim
   * (`TieredReservation`).
   */
  readonly memoryQoS?: {
    readonly throttlingFactor: number;
    readonly reserves: boolean;
    /** The most that a container without a limit can use, as a quantity; absent: the node's allocatable memory. */
    readonly unlimited?: string;
  } | null;
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
    /** The node has no resolver file: `resolvConf` is empty. */
    readonly isAbsent?: boolean;
  };
  /** Text of the node's /etc/hosts for hostNetwork pods. */
  readonly hostsFile: string;
  /** SELinux labels processes: the runtime labels the files that the agent creates for containers. */
  readonly seLinux?: boolean;
  /**
   * Volumes of claims may be mounted with a label. `fileLabel`: of files of containers, by the node's policy;
   * `everyVolume`: not only those with the access mode ReadWriteOncePod (gate `SELinuxMount`).
   */
  readonly seLinuxMounts?: { readonly fileLabel: string; readonly everyVolume: boolean };
  /** CPUs whose counters of thermal throttling containers must not see; absent: none. */
  readonly throttledCpus?: readonly number[];
  /** Which pods may use an existing image; absent: every pod, and pulls are not recorded. */
  readonly imagePullVerification?: { readonly policy: string; readonly allowlist: readonly string[] };
  /** Some credential provider plugin uses tokens of the pods' service accounts. */
  readonly pullsByServiceAccount?: boolean;
  readonly serializeImagePulls: boolean;
  /** 0: no limit. */
  readonly maxParallelImagePulls: number;
  /** Pulls per second; 0 for no limit. */
  readonly registryPullQPS: number;
  readonly registryBurst: number;
  readonly crashLoopBackOffMaxMs: number;
  /** The first back-off of a crash loop; absent: upstream's default. */
  readonly crashLoopBackOffInitialMs?: number;
  readonly memoryCapacityBytes: string;
  readonly cpuCapacityMilli: number;
  /** The delay before CPUs that the runtime rejected are sent again; absent: upstream's default. */
  readonly cpuReconcilePeriodMs?: number;
  /** Version of the cgroup hierarchy: swap and OOM groups depend on it, and are not configured without it. */
  readonly cgroupVersion?: 1 | 2;
  /** The OOM killer kills single processes of a container, not all of them (cgroup v2). */
  readonly killsSingleProcess?: boolean;
  /** The memory controller accounts swap: only then can a container be excluded from swapping. */
  readonly swapControllerAvailable?: boolean;
  /** Under `LimitedSwap`, the machine's swap that containers share; absent: no container may swap. */
  readonly limitedSwapBytes?: string;
  /** Huge page sizes of the machine as the runtime names them (`2MB`, `1GB`). */
  readonly hugePageSizes?: readonly string[];
  /**
   * With the gate LocalStorageCapacityIsolationFSQuotaMonitoring, volumes of pods in user namespaces get project
   * quotas.
   */
  readonly countsByProject?: boolean;
  /** `status.capacity` of the node. */
  readonly capacity?: Readonly<Record<string, string>>;
  /**
   * `status.allocatable` of the node: resources for pods, and the value of `limits.*` in a container without limits.
   */
  readonly allocatable?: Readonly<Record<string, string>>;
  /** The facts for admission; absent: every pod is admitted. */
  readonly admission?: AdmissionSettings;
  /** Statuses show the health of devices; absent: they do not. */
  readonly reportsDeviceHealth?: boolean;
  /** Features that changes of pods may need, and whose gates are off; absent: none. Sorted. */
  readonly undeclared?: readonly UndeclaredFeature[];
  /** With the gate DRAExtendedResource off: the scheduler's claim for extended resources is ignored. */
  readonly ignoresExtendedClaims?: boolean;
  /** With the gate ResourceHealthStatusMessage off: statuses leave out the drivers' messages about devices. */
  readonly hidesHealthMessages?: boolean;
  /** Whether static pods may refer to API objects; absent: `none`. */
  readonly staticPodReferences?: 'none' | 'any';
  /** Fields of pods that this node ignores; absent: none. */
  readonly unseenFields?: readonly IgnoredField[];
  /** The condition PodReadyToStartContainers is not published. */
  readonly hidesReadyToStart?: boolean;
  /** With the gate ContainerStopSignals: statuses show the stop signals of containers. */
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
  /** When pods are evicted; absent: never. */
  readonly eviction?: EvictionSettings;
  /** How pods end when the machine shuts down; absent: at once, with the machine. */
  readonly shutdown?: ShutdownSettings;
  readonly softStateFile: string;
  /**
   * The fast period of listing the runtime: the least interval between two lists, used until its events have proved
   * reliable.
   */
  readonly relistPeriodMs: number;
}

export type Cpu = MachineTopology['cpus'][number];

export interface CpuManagerSettings {
  readonly cpus: readonly Cpu[];
  /** Reserved CPUs: shared by pods, unless `isReservationStrict`, and never exclusive. */
  readonly reserved: readonly number[];
  /** `full-pcpus-only`: two containers never share a core. */
  readonly wholeCores: boolean;
  /** `strict-cpu-reservation`. */
  readonly isReservationStrict: boolean;
  /** `distribute-cpus-across-numa`. */
  readonly isDistributed?: boolean;
  /** `prefer-align-cpus-by-uncorecache`. */
  readonly isCacheAligned?: boolean;
  /** `distribute-cpus-across-cores`: the threads of a core go to different containers. */
  readonly isSpread?: boolean;
  /** `align-by-socket`: the CPUs of a container come from one socket, where one is enough. */
  readonly isSocketAligned?: boolean;
  /** CPUs are chosen as 0.2.0 chose them; absent: as the kubelet does. */
  readonly isAsReleased?: boolean;
}

/** Bytes of one NUMA node by resource: total, and reserved for the system. */
export interface NumaMemory {
  readonly id: number;
  readonly memory: Readonly<Record<string, { readonly total: string; readonly systemReserved: string }>>;
}

export interface MemoryManagerSettings {
  readonly nodes: readonly NumaMemory[];
}

export type TopologyPolicy = 'best-effort' | 'restricted' | 'single-numa-node';

export interface TopologySettings {
  readonly policy: TopologyPolicy;
  /** The unit of alignment: each container by itself, or all containers of a pod together. */
  readonly scope: 'container' | 'pod';
  /** Ids of the NUMA nodes of the machine. */
  readonly nodes: NumaSet;
  /** With `prefer-closest-numa-nodes`: by NUMA node, its distance to each of `nodes`, in order. */
  readonly distances?: readonly (readonly number[])[];
}

/** The resources that can be exclusive; absent: all are shared. */
export interface ResourceManagers {
  readonly cpuManager?: CpuManagerSettings;
  readonly memoryManager?: MemoryManagerSettings;
  /** How exclusive resources are aligned; absent: not at all. */
  readonly topology?: TopologySettings;
}
