/**
 * Derives the settings of the pods' machines, and of admission (`allocation`), from flags, configuration, runtime and
 * machine in pure functions, so that every decision about a default or a unit is in one place.
 */
import { defaultLabels } from '../../charts/node/object/node.ts';
import { shutdownPeriods } from '../../charts/node/shutdown/policy.ts';
import { RELIST_PERIOD_MS } from '../../charts/pods/pleg.ts';
import { type Gates, gatesOf } from '../../configuration/fields/feature-gates.ts';
import type { KubeletFlags } from '../../configuration/flags/flags.ts';
import { isOptionOn } from '../../configuration/validation/resource-managers.ts';
import { reservedCpus } from '../../model/allocation/cpu-manager.ts';
import { memorySettings, numaNodesOf } from '../../model/allocation/memory-state.ts';
import { units } from '../../model/allocation/request.ts';
import type { NodeResources } from '../../model/cgroups/allocatable.ts';
import type { StringMap } from '../../model/configuration/field-types.ts';
import type { KubeletConfiguration } from '../../model/configuration/fields.ts';
import { configuredThresholds } from '../../model/eviction/thresholds.ts';
import type { MachineInfo } from '../../model/operations/host.ts';
import { type Decider, hasBehavior } from '../../model/settings/behaviors.ts';
import type {
  AdmissionSettings,
  NodeSettings,
  ResourceManagers,
  TopologyPolicy,
} from '../../model/settings/node-settings.ts';
import { CRASH_LOOP_BACKOFF_MAX_MS } from '../../model/spec/restart.ts';
import { isIpAddress } from '../../model/values/ip.ts';
import { milliUnits, nanoOf, parseQuantity, wholeUnits } from '../../model/values/quantity.ts';
import { mapValues } from '../../model/values/tables.ts';
import { millisecondsOf } from '../../model/values/time.ts';
import { featureAdmission, featureSettings, longestBackoffMs } from './derive-features.ts';
import type { EstablishedContext, KubeletInput, NodeIdentity } from './types.ts';

/** The last of several `search` lines counts; `options` are merged, the later of two with one name counts. */
export function parseResolvConf(text: string): NodeSettings['resolver'] {
  const nameservers: string[] = [];
  let searches: string[] = [];
  const options = new Map<string, string>();
  for (const line of text.split('\n')) {
    const [keyword, ...values] = line.trim().split(/\s+/);
    if (keyword === 'nameserver' && values[0]) nameservers.push(values[0]);
    if (keyword === 'search') searches = values.map((value) => (value === '.' ? value : value.replace(/\.$/, '')));
    if (keyword === 'options') for (const option of values) options.set(option.split(':', 1)[0] ?? '', option);
  }
  return { nameservers, searches, options: [...options.values()] };
}

/** The configuration is validated, so every text here parses. */
function bytesOf(quantity: string): number {
  const parsed = parseQuantity(quantity);
  return parsed.error === undefined ? Number(wholeUnits(parsed.value.nano)) : -1;
}

/** Where log shippers look for container logs by name. */
const CONTAINER_LOGS_DIR = '/var/log/containers';

export function deriveSettings(context: EstablishedContext): NodeSettings {
  const { flags, config, node, runtime, machineInfo, resources, cgroups: hierarchy } = context;
  return {
    behavior: context.input.behavior,
    ...node,
    ...paths(flags, config, context.input),
    ...cgroups(config, runtime.cgroupDriver),
    seccompDefault: config.seccompDefault || flags.seccompDefault,
    cpuReconcilePeriodMs: millisecondsOf(config.cpuManagerReconcilePeriod),
    ...images(config),
    ...(context.pullsByServiceAccount ? { pullsByServiceAccount: true } : {}),
    ...dns(config, context),
    ...collection(flags, config),
    ...sources(flags, config, context.input),
    fileCheckFrequencyMs: millisecondsOf(config.fileCheckFrequency),
    syncFrequencyMs: millisecondsOf(config.syncFrequency),
    runtimeName: runtime.name,
    runtimeHandlers: runtime.handlers,
    ...(config.userNamespaces?.idsPerPod === undefined ? {} : { idsPerPod: config.userNamespaces.idsPerPod }),
    crashLoopBackOffMaxMs: config.crashLoopBackOff?.maxContainerRestartPeriod
      ? millisecondsOf(config.crashLoopBackOff.maxContainerRestartPeriod)
      : longestBackoffMs(gatesOf(config), CRASH_LOOP_BACKOFF_MAX_MS),
    memoryCapacityBytes: machineInfo.memoryBytes,
    cpuCapacityMilli: machineInfo.cores * 1_000,
    maxPods: config.maxPods,
    capacity: resources.capacity,
    allocatable: resources.allocatable,
    admission: admissionSettings(context.input.behavior, flags, config, node, machineInfo, resources),
    makesPodCgroups: config.cgroupsPerQOS && !runtime.embedded,
    memoryQoS: memoryQoS(config, resources, context.input),
    ...featureSettings(gatesOf(config)),
    cgroupVersion: hierarchy.version,
    ...(config.singleProcessOOMKill === true ? { killsSingleProcess: true } : {}),
    swapControllerAvailable: hierarchy.swapCounted,
    ...(config.memorySwap.swapBehavior === 'LimitedSwap' ? { limitedSwapBytes: machineInfo.swapBytes } : {}),
    hugePageSizes: machineInfo.hugePageKib.map(hugePageName),
    ...seLinux(machineInfo, gatesOf(config)),
    ...(machineInfo.throttledCpus === undefined ? {} : { throttledCpus: machineInfo.throttledCpus }),
    relistPeriodMs: RELIST_PERIOD_MS,
    ...protection(config, flags.rootDir),
  };
}

/** Settings that protect the node itself: eviction and graceful shutdown. */
function protection(config: KubeletConfiguration, rootDir: string): Pick<NodeSettings, 'eviction' | 'shutdown'> {
  const thresholds = configuredThresholds(config);
  const localStorage = config.localStorageCapacityIsolation;
  const eviction = {
    thresholds,
    transitionMs: millisecondsOf(config.evictionPressureTransitionPeriod),
    maxPodGraceSeconds: config.evictionMaxPodGracePeriod,
    localStorage,
  };
  const periods = shutdownPeriods(config);
  const isGraceful = gatesOf(config)('GracefulNodeShutdown');
  return {
    ...(thresholds.length > 0 || localStorage ? { eviction } : {}),
    ...(isGraceful && periods.length > 0
      ? { shutdown: { periods, stateFile: `${rootDir}/graceful_node_shutdown_state` } }
      : {}),
  };
}

function seLinux({ seLinux: isActive, seLinuxFileLabel: fileLabel }: MachineInfo, gates: Gates) {
  if (isActive !== true) return {};
  if (fileLabel === undefined) return { seLinux: true };
  return { seLinux: true, seLinuxMounts: { fileLabel, everyVolume: gates('SELinuxMount') } };
}

/**
 * With the gate MemoryQoS, the throttling factor, and whether requested memory is protected. As upstream, containers
 * without a limit are throttled below what all pods together may use.
 */
function memoryQoS(
  config: KubeletConfiguration,
  { podsLimit: { memory: unlimited } }: NodeResources,
  decider: Decider,
): NonNullable<NodeSettings['memoryQoS']> | null {
  if (!gatesOf(config)('MemoryQoS')) return null;
  const reserves = config.memoryReservationPolicy === 'TieredReservation';
  const isAsKubelet = unlimited !== undefined && hasBehavior(decider, 'podDetailsAsKubelet');
  return { throttlingFactor: config.memoryThrottlingFactor, reserves, ...(isAsKubelet ? { unlimited } : {}) };
}

/** Sources of pods besides files, and whether there is an API server. */
function sources(
  { kubeconfig }: KubeletFlags,
  config: KubeletConfiguration,
  { journalDir, rememberPods }: KubeletInput,
) {
  const { staticPodURL, staticPodURLHeader } = config;
  const headers = Object.entries(staticPodURLHeader).map(([name, values]) => [name, values.map(handleNamed)] as const);
  return {
    staticPodURL,
    staticPodURLHeader: Object.fromEntries(headers),
    httpCheckFrequencyMs: millisecondsOf(config.httpCheckFrequency),
    ...(kubeconfig === '' ? {} : { apiServer: apiServer(config) }),
    ...(kubeconfig === '' || rememberPods === false ? {} : { rememberedPodsDir: `${journalDir}/pods` }),
  };
}

/** How objects are followed, and which projected sources are supported. */
function apiServer(config: KubeletConfiguration) {
  const isOn = gatesOf(config);
  return {
    changeDetection: config.configMapAndSecretChangeDetectionStrategy as 'Watch' | 'Cache' | 'Get',
    trustBundles: isOn('ClusterTrustBundleProjection'),
    podCertificates: isOn('PodCertificateRequest'),
  };
}

/** Header values are names of handles in the configuration; their length is unknown. */
const handleNamed = ($secret: string) => ({ $secret, len: 0 });

const KIB_PER_MIB = 1_024;
const KIB_PER_GIB = 1_024 * 1_024;

/** Huge page sizes in runtimes' notation: `64KB`, `2MB`, `1GB`. */
export function hugePageName(kib: number): string {
  if (kib >= KIB_PER_GIB) return `${kib / KIB_PER_GIB}GB`;
  return kib >= KIB_PER_MIB ? `${kib / KIB_PER_MIB}MB` : `${kib}KB`;
}

function paths(flags: KubeletFlags, config: KubeletConfiguration, { dataDir, journalDir }: KubeletInput) {
  return {
    rootDir: flags.rootDir,
    podLogsDir: dataDir === null ? config.podLogsDir : `${dataDir}/logs`,
    containerLogsDir: dataDir === null ? CONTAINER_LOGS_DIR : `${dataDir}/containers`,
    containerLogs: {
      maxBytes: bytesOf(config.containerLogMaxSize),
      maxFiles: config.containerLogMaxFiles,
      periodMs: millisecondsOf(config.containerLogMonitorInterval),
      workers: config.containerLogMaxWorkers,
    },
    staticPodPath: config.staticPodPath,
    softStateFile: `${journalDir}/soft-state.json`,
  };
}

function cgroups(config: KubeletConfiguration, fromRuntime: 'cgroupfs' | 'systemd' | null) {
  return {
    cgroupRoot: config.cgroupRoot || '/',
    cgroupDriver: fromRuntime ?? (config.cgroupDriver as 'cgroupfs' | 'systemd'),
    cgroupsPerQOS: config.cgroupsPerQOS,
    cpuCFSQuota: config.cpuCFSQuota,
    cpuCFSQuotaPeriodUs: millisecondsOf(config.cpuCFSQuotaPeriod) * 1_000,
    podPidsLimit: config.podPidsLimit,
  };
}

function images(config: KubeletConfiguration) {
  return {
    ...(config.imagePullCredentialsVerificationPolicy === ''
      ? {}
      : {
          imagePullVerification: {
            policy: config.imagePullCredentialsVerificationPolicy,
            allowlist: config.preloadedImagesVerificationAllowlist ?? [],
          },
        }),
    serializeImagePulls: config.serializeImagePulls,
    maxParallelImagePulls: config.maxParallelImagePulls ?? 0,
    registryPullQPS: config.registryPullQPS,
    registryBurst: config.registryBurst,
    imageGc: {
      highThresholdPercent: config.imageGCHighThresholdPercent,
      lowThresholdPercent: config.imageGCLowThresholdPercent,
      minAgeMs: millisecondsOf(config.imageMinimumGCAge),
      maxAgeMs: millisecondsOf(config.imageMaximumGCAge),
    },
  };
}

/** Entries of `clusterDNS` that are no addresses; they are logged and left out. */
export const invalidClusterDNS = (config: KubeletConfiguration): readonly string[] =>
  (config.clusterDNS ?? []).filter((address) => !isIpAddress(address));

const resolverOf = ({ resolvConf }: KubeletConfiguration, text: string): NodeSettings['resolver'] => ({
  ...parseResolvConf(text),
  ...(resolvConf === '' ? { isAbsent: true } : {}),
});

function dns(config: KubeletConfiguration, context: EstablishedContext) {
  return {
    clusterDNS: (config.clusterDNS ?? []).filter(isIpAddress),
    clusterDomain: config.clusterDomain ?? '',
    resolver: resolverOf(config, context.resolvConf),
    hostsFile: context.hostsFile,
  };
}

function collection(flags: KubeletFlags, _config: KubeletConfiguration) {
  return {
    containerGc: {
      minAgeMs: millisecondsOf(flags.minimumContainerTTLDuration),
      maxPerPodContainer: flags.maximumDeadContainersPerContainer,
      maxContainers: flags.maximumDeadContainers,
    },
  };
}

const OPERATING_SYSTEM = 'linux';

function admissionSettings(
  behavior: number,
  flags: KubeletFlags,
  config: KubeletConfiguration,
  node: NodeIdentity,
  machine: MachineInfo,
  resources: NodeResources,
): AdmissionSettings {
  return {
    allocatable: inUnits(resources.allocatable),
    wholeNode: inUnits(resources.podsLimit),
    labels: {
      ...defaultLabels({
        hostname: node.hostname,
        info: { architecture: machine.architecture, operatingSystem: OPERATING_SYSTEM },
      }),
      ...flags.nodeLabels,
    },
    taints: config.registerWithTaints,
    sysctls: { kernelVersion: machine.kernelVersion, allowedUnsafe: config.allowedUnsafeSysctls },
    appArmor: machine.appArmor,
    ...resourceManagers(behavior, config, machine),
    ...featureAdmission(gatesOf(config)),
  };
}

/** The managers of exclusive resources. */
export const resourceManagers = (
  behavior: number,
  config: KubeletConfiguration,
  machine: MachineInfo,
): ResourceManagers => ({
  ...cpuManager(!hasBehavior({ behavior }, 'resourcesAsKubelet'), config, machine),
  ...memoryManager(config, machine),
  ...topologyManager(config, machine),
});

function topologyManager(config: KubeletConfiguration, machine: MachineInfo): Pick<ResourceManagers, 'topology'> {
  const { topologyManagerPolicy: policy, topologyManagerScope: scope, topologyManagerPolicyOptions: options } = config;
  if (policy === 'none') return {};
  const nodes = numaNodesOf(machine).map(({ id }) => id);
  const distances = machine.topology.numaNodes.map((node) => node.distances ?? []);
  return {
    topology: {
      policy: policy as TopologyPolicy,
      scope: scope as 'container' | 'pod',
      nodes,
      ...(isOptionOn(options, 'prefer-closest-numa-nodes') ? { distances } : {}),
    },
  };
}

function memoryManager(config: KubeletConfiguration, machine: MachineInfo): Pick<ResourceManagers, 'memoryManager'> {
  if (config.memoryManagerPolicy !== 'Static') return {};
  const reserved = config.reservedMemory.map(({ numaNode, limits }): [number, Map<string, bigint>] => [
    numaNode,
    new Map(Object.entries(limits).map(([type, amount]) => [type, wholeUnits(nanoOf(amount))])),
  ]);
  return { memoryManager: memorySettings(machine, new Map(reserved)) };
}

function cpuManager(
  isAsReleased: boolean,
  config: KubeletConfiguration,
  machine: MachineInfo,
): Pick<ResourceManagers, 'cpuManager'> {
  if (config.cpuManagerPolicy !== 'static') return {};
  const { cpus } = machine.topology;
  const { kubeReserved, systemReserved, reservedSystemCPUs, cpuManagerPolicyOptions: options } = config;
  const reserved = [kubeReserved, systemReserved].reduce(
    (sum, amounts) => sum + milliUnits(nanoOf(amounts['cpu'] ?? '0')),
    0n,
  );
  const choice = {
    cpus,
    wholeCores: isOptionOn(options, 'full-pcpus-only'),
    ...(isOptionOn(options, 'distribute-cpus-across-numa') ? { isDistributed: true } : {}),
    ...(isOptionOn(options, 'prefer-align-cpus-by-uncorecache') ? { isCacheAligned: true } : {}),
    ...(isOptionOn(options, 'distribute-cpus-across-cores') ? { isSpread: true } : {}),
    ...(isOptionOn(options, 'align-by-socket') ? { isSocketAligned: true } : {}),
    ...(isAsReleased ? { isAsReleased } : {}),
  };
  return {
    cpuManager: {
      ...choice,
      reserved: reservedCpus(choice, reservedSystemCPUs, reserved),
      isReservationStrict: isOptionOn(options, 'strict-cpu-reservation'),
    },
  };
}

const inUnits = (quantities: StringMap): StringMap => mapValues(quantities, (text, name) => units(name, nanoOf(text)));
