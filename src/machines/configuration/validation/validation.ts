/**
 * Validates an effective configuration and returns every error, in upstream's wording and order.
 *
 * Contains the rules between fields and feature gates; of the host it needs only the cgroup version. Invariant: a rule
 * reads the configuration and returns its errors; no rule stops another one.
 */
import type { KubeletConfiguration } from '../../model/configuration/fields.ts';
import { parseCpuSet } from '../../model/values/cpu-set.ts';
import { aggregate, printFloat, quote, quoteList } from '../../model/values/go-text.ts';
import { isValidTaint, printTaint } from '../../model/values/labels.ts';
import { cleanPath } from '../../model/values/paths.ts';
import { nanosecondsOf, secondsOf } from '../../model/values/time.ts';
import { type FeatureSettings, isEnabled } from '../fields/feature-gates.ts';
import { isMemoryResource } from '../flags/flag-values.ts';
import {
  type ConfigurationHost,
  pullCredentialErrors,
  type Rule,
  showHiddenMetricsErrors,
  tracingErrors,
} from './validation-components.ts';

const LARGEST_PORT = 65_535;
const SMALLEST_QUOTA_PERIOD = nanosecondsOf('1ms');
const MILLISECOND = nanosecondsOf('1ms');
const SECOND = nanosecondsOf('1s');
const LONGEST_RESTART_PERIOD = nanosecondsOf('300s');
const SHORTEST_LOG_INTERVAL_SECONDS = 3;
const IDS_PER_POD = 65_536;
const LARGEST_ID = 2 ** 32 - 1;
const CGROUP_V1_REFUSAL =
  'kubelet is configured to not run on a host using cgroup v1. ' +
  'cgroup v1 support is unsupported and will be removed in a future release';

function isBetween(value: number | bigint, least: number | bigint, most: number | bigint): boolean {
  return value >= least && value <= most;
}

const limits: Rule = (config) => [
  config.nodeLeaseDurationSeconds <= 0 && 'nodeLeaseDurationSeconds must be greater than 0',
  config.systemCgroups !== '' &&
    config.cgroupRoot === '' &&
    'systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified',
  config.eventBurst < 0 && `eventBurst (--event-burst) ${config.eventBurst} must not be a negative number`,
  config.eventRecordQPS < 0 && `eventRecordQPS (--event-qps) ${config.eventRecordQPS} must not be a negative number`,
  config.healthzPort !== 0 &&
    !isBetween(config.healthzPort, 1, LARGEST_PORT) &&
    `healthzPort (--healthz-port) ${config.healthzPort} must be between 1 and 65535, inclusive`,
];

const quotaPeriod: Rule = ({ cpuCFSQuotaPeriod: period }, gates) => {
  const name = `cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {${period}}`;
  if (!isEnabled(gates, 'CustomCPUCFSQuotaPeriod')) {
    return [period !== '100ms' && `${name} requires feature gate CustomCPUCFSQuotaPeriod`];
  }
  const allowed = isBetween(nanosecondsOf(period), SMALLEST_QUOTA_PERIOD, SECOND);
  return [!allowed && `${name} must be between 1ms and 1sec, inclusive`];
};

const images: Rule = (config) => {
  const high = `imageGCHighThresholdPercent (--image-gc-high-threshold) ${config.imageGCHighThresholdPercent}`;
  const low = `imageGCLowThresholdPercent (--image-gc-low-threshold) ${config.imageGCLowThresholdPercent}`;
  const [least, most] = [nanosecondsOf(config.imageMinimumGCAge), nanosecondsOf(config.imageMaximumGCAge)];
  return [
    !isBetween(config.imageGCHighThresholdPercent, 0, 100) && `${high} must be between 0 and 100, inclusive`,
    !isBetween(config.imageGCLowThresholdPercent, 0, 100) && `${low} must be between 0 and 100, inclusive`,
    config.imageGCLowThresholdPercent >= config.imageGCHighThresholdPercent && `${low} must be less than ${high}`,
    least < 0n && `imageMinimumGCAge ${config.imageMinimumGCAge} must not be negative`,
    most < 0n && `imageMaximumGCAge ${config.imageMaximumGCAge} must not be negative`,
    most > 0n &&
      most <= least &&
      `imageMaximumGCAge ${config.imageMaximumGCAge} must be greater than imageMinimumGCAge ${config.imageMinimumGCAge}`,
  ];
};

const numbers: Rule = (config) => [
  !isBetween(config.iptablesDropBit, 0, 31) &&
    `iptablesDropBit (--iptables-drop-bit) ${config.iptablesDropBit} must be between 0 and 31, inclusive`,
  !isBetween(config.iptablesMasqueradeBit, 0, 31) &&
    `iptablesMasqueradeBit (--iptables-masquerade-bit) ${config.iptablesMasqueradeBit} must be between 0 and 31, inclusive`,
  config.kubeAPIBurst < 0 && `kubeAPIBurst (--kube-api-burst) ${config.kubeAPIBurst} must not be a negative number`,
  config.kubeAPIQPS < 0 && `kubeAPIQPS (--kube-api-qps) ${config.kubeAPIQPS} must not be a negative number`,
  config.nodeStatusMaxImages < -1 &&
    `nodeStatusMaxImages (--node-status-max-images) ${config.nodeStatusMaxImages} must be -1 or greater`,
  config.maxOpenFiles < 0 && `maxOpenFiles (--max-open-files) ${config.maxOpenFiles} must not be a negative number`,
  config.maxPods < 0 && `maxPods (--max-pods) ${config.maxPods} must not be a negative number`,
  !isBetween(config.oomScoreAdj, -1000, 1000) &&
    `oomScoreAdj (--oom-score-adj) ${config.oomScoreAdj} must be between -1000 and 1000, inclusive`,
  config.podsPerCore < 0 && `podsPerCore (--pods-per-core) ${config.podsPerCore} must not be a negative number`,
  !isBetween(config.port, 1, LARGEST_PORT) && `port (--port) ${config.port} must be between 1 and 65535, inclusive`,
  !isBetween(config.readOnlyPort, 0, LARGEST_PORT) &&
    `readOnlyPort (--read-only-port) ${config.readOnlyPort} must be between 0 and 65535, inclusive`,
  config.registryBurst < 0 && `registryBurst (--registry-burst) ${config.registryBurst} must not be a negative number`,
  config.registryPullQPS < 0 &&
    `registryPullQPS (--registry-qps) ${config.registryPullQPS} must not be a negative number`,
];

const pullsAndModes: Rule = (config, gates) => [
  config.maxParallelImagePulls !== undefined &&
    config.maxParallelImagePulls < 1 &&
    `maxParallelImagePulls ${config.maxParallelImagePulls} must be a positive number`,
  config.serializeImagePulls &&
    config.maxParallelImagePulls !== undefined &&
    config.maxParallelImagePulls > 1 &&
    'maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) ' +
      'is set to false',
  config.serverTLSBootstrap &&
    !isEnabled(gates, 'RotateKubeletServerCertificate') &&
    'serverTLSBootstrap true requires feature gate RotateKubeletServerCertificate',
  config.runOnce && 'runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set',
];

const TOPOLOGY_POLICIES = ['none', 'best-effort', 'restricted', 'single-numa-node'];

const topology: Rule = (config) => [
  !TOPOLOGY_POLICIES.includes(config.topologyManagerPolicy) &&
    `topologyManagerPolicy (--topology-manager-policy) ${quote(config.topologyManagerPolicy)} must be one of: ` +
      quoteList(TOPOLOGY_POLICIES),
  !['container', 'pod'].includes(config.topologyManagerScope) &&
    `topologyManagerScope (--topology-manager-scope) ${quote(config.topologyManagerScope)} ` +
      'must be one of: "container", or "pod"',
];

const shutdown: Rule = (config, gates) => {
  const [total, critical] = [
    nanosecondsOf(config.shutdownGracePeriod),
    nanosecondsOf(config.shutdownGracePeriodCriticalPods),
  ];
  const [totalName, criticalName] = [
    `shutdownGracePeriod {${config.shutdownGracePeriod}}`,
    `shutdownGracePeriodCriticalPods {${config.shutdownGracePeriodCriticalPods}}`,
  ];
  const graceful = isEnabled(gates, 'GracefulNodeShutdown');
  const byPriority = config.shutdownGracePeriodByPodPriority.length > 0;
  const priorityGate = isEnabled(gates, 'GracefulNodeShutdownBasedOnPodPriority');
  const set = total > 0n || critical > 0n;
  return [
    graceful && critical > total && `${criticalName} must be <= ${totalName}`,
    graceful && isSubSecond(total) && `${totalName} must be either zero or otherwise >= 1 sec`,
    graceful && isSubSecond(critical) && `${criticalName} must be either zero or otherwise >= 1 sec`,
    set &&
      !graceful &&
      'specifying shutdownGracePeriod or shutdownGracePeriodCriticalPods requires feature gate GracefulNodeShutdown',
    priorityGate &&
      byPriority &&
      set &&
      'Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time',
    !priorityGate &&
      byPriority &&
      'Specifying shutdownGracePeriodByPodPriority requires feature gate GracefulNodeShutdownBasedOnPodPriority',
  ];
};

function isSubSecond(nanoseconds: bigint): boolean {
  return nanoseconds < 0n || (nanoseconds > 0n && nanoseconds < SECOND);
}

const swap: Rule = ({ memorySwap: { swapBehavior } }) => [
  !['', 'LimitedSwap', 'NoSwap'].includes(swapBehavior) &&
    `memorySwap.swapBehavior ${quote(swapBehavior)} must be one of: "", "LimitedSwap" or "NoSwap"`,
];

const restartPeriod: Rule = ({ crashLoopBackOff: { maxContainerRestartPeriod: period } }, gates) => {
  if (!isEnabled(gates, 'KubeletCrashLoopBackOffMax')) {
    const gate = 'FeatureGate KubeletCrashLoopBackOffMax not enabled';
    return [period !== undefined && `${gate}, CrashLoopBackOff.MaxContainerRestartPeriod must not be set`];
  }
  const gate = 'FeatureGate KubeletCrashLoopBackOffMax is enabled';
  if (period === undefined) return [`${gate}, CrashLoopBackOff.MaxContainerRestartPeriod must be set`];
  const got = `CrashLoopBackOff.MaxContainerRestartPeriod (got: ${printFloat(secondsOf(period))} seconds)`;
  return [
    !isBetween(nanosecondsOf(period) / MILLISECOND, SECOND / MILLISECOND, LONGEST_RESTART_PERIOD / MILLISECOND) &&
      `${got} must be set between 1s and 300s`,
  ];
};

const HAIRPIN_MODES = ['none', 'hairpin-veth', 'promiscuous-bridge'];

const hairpin: Rule = ({ hairpinMode: mode }) => [
  !HAIRPIN_MODES.includes(mode) &&
    `option ${quote(mode)} specified for hairpinMode (--hairpin-mode). ` +
      'Valid options are "none", "hairpin-veth" or "promiscuous-bridge"',
];

const reservedCpus: Rule = (config) => {
  if (config.reservedSystemCPUs === '') return [];
  const parsed = parseCpuSet(config.reservedSystemCPUs);
  return [
    (config.systemReservedCgroup !== '' || config.kubeReservedCgroup !== '') &&
      "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) or " +
        'kubeReservedCgroup (--kube-reserved-cgroup)',
    parsed.error !== undefined &&
      `unable to parse reservedSystemCPUs (--reserved-cpus) ${config.reservedSystemCPUs}, error: ${parsed.error}`,
  ];
};

const reservedMemory: Rule = ({ reservedMemory: reservations }) => {
  const places = new Set<string>();
  return reservations.flatMap(({ numaNode, limits: amounts }) =>
    Object.entries(amounts).flatMap(([resource, amount]) => {
      const where = `for NUMA node ${numaNode} and resource ${quote(resource)}`;
      const isRepeated = places.has(where);
      places.add(where);
      return [
        !isMemoryResource(resource) &&
          `the limit type ${quote(resource)} for NUMA node ${numaNode} is not supported, ` +
            'only [memory hugepages-<HugePageSize>] is accepted',
        amount === '0' && `reserved memory may not be zero ${where}`,
        isRepeated && `the reserved memory has a duplicate value ${where}`,
      ];
    }),
  );
};

/** Upstream reports only the first of these errors. */
function hostError(config: KubeletConfiguration, { cgroupVersion }: ConfigurationHost): string | null {
  if (config.failCgroupV1 && cgroupVersion === 1) return CGROUP_V1_REFUSAL;
  if (config.singleProcessOOMKill === false && cgroupVersion === 1) {
    return 'invalid configuration: singleProcessOOMKill must not be explicitly set to false when using cgroup v1';
  }
  const ids = config.userNamespaces?.idsPerPod;
  if (ids === undefined) return null;
  const name = 'invalid configuration: userNamespaces.idsPerPod';
  if (ids < IDS_PER_POD) return `${name} must not be less than ${IDS_PER_POD}`;
  if (ids % IDS_PER_POD !== 0) return `${name} must be a multiple of ${IDS_PER_POD}`;
  return ids > LARGEST_ID ? `${name} must not be more than ${LARGEST_ID}` : null;
}

const memoryPolicy: Rule = (config, gates) => [
  (config.memoryThrottlingFactor <= 0 || config.memoryThrottlingFactor > 1) &&
    `memoryThrottlingFactor ${printFloat(config.memoryThrottlingFactor)} ` +
      'must be greater than 0 and less than or equal to 1.0',
  !isEnabled(gates, 'MemoryQoS') &&
    config.memoryReservationPolicy === 'TieredReservation' &&
    'memoryReservationPolicy "TieredReservation" requires MemoryQoS feature gate to be enabled',
  !['None', 'TieredReservation'].includes(config.memoryReservationPolicy) &&
    `option ${quote(config.memoryReservationPolicy)} specified for memoryReservationPolicy. ` +
      'Valid options are "None" or "TieredReservation"',
];

const runtimeAndLogs: Rule = (config, gates) => [
  config.containerRuntimeEndpoint === '' && 'the containerRuntimeEndpoint was not specified or empty',
  config.enableSystemLogQuery &&
    !isEnabled(gates, 'NodeLogQuery') &&
    'NodeLogQuery feature gate is required for enableSystemLogQuery',
  config.enableSystemLogQuery &&
    !config.enableSystemLogHandler &&
    'enableSystemLogHandler is required for enableSystemLogQuery',
  config.containerLogMaxWorkers < 1 && 'containerLogMaxWorkers must be greater than or equal to 1',
  secondsOf(config.containerLogMonitorInterval) < SHORTEST_LOG_INTERVAL_SECONDS &&
    'containerLogMonitorInterval must be a positive time duration greater than or equal to 3s',
  config.containerLogMaxFiles <= 1 && 'containerLogMaxFiles must be greater than 1',
];

const podLogs: Rule = ({ podLogsDir }) => {
  const name = `pod logs path ${quote(podLogsDir)}`;
  return [
    podLogsDir === '' && 'podLogsDir was not specified',
    !podLogsDir.startsWith('/') && `${name} must be absolute path`,
    cleanPath(podLogsDir) !== podLogsDir && `${name} must be normalized`,
    /[^\0-\x7f]/.test(podLogsDir) && `${name} mut contains ASCII characters only`,
  ];
};

const RULES: readonly Rule[] = [limits, quotaPeriod, images, numbers, pullsAndModes];
const LATER_RULES: readonly Rule[] = [topology, shutdown, swap, restartPeriod];
const LAST_RULES: readonly Rule[] = [hairpin, pullCredentialErrors, reservedCpus, reservedMemory];
const CLOSING_RULES: readonly Rule[] = [memoryPolicy, runtimeAndLogs, podLogs];

/** Every error of a configuration, or null. `gates` are the changed feature gates. */
export function validateConfiguration(
  configuration: KubeletConfiguration,
  gates: FeatureSettings,
  host: ConfigurationHost,
): string | null {
  const run = (rules: readonly Rule[]): string[] =>
    rules
      .flatMap((rule) => rule(configuration, gates, host))
      .flatMap((error) => (typeof error === 'string' ? [`invalid configuration: ${error}`] : []));
  const ofHost = hostError(configuration, host);
  const errors = [
    ...run(RULES),
    ...taintErrors(configuration),
    ...run(LATER_RULES),
    ...allocatableErrors(configuration),
    ...run(LAST_RULES),
    ...(ofHost === null ? [] : [ofHost]),
    ...showHiddenMetricsErrors(configuration.showHiddenMetricsForVersion),
    ...tracingErrors(configuration.tracing),
    ...run(CLOSING_RULES),
  ];
  return errors.length === 0 ? null : aggregate(errors);
}

function taintErrors({ registerWithTaints }: KubeletConfiguration): string[] {
  return registerWithTaints.flatMap((taint) => [
    ...(isValidTaint(taint) ? [] : [`invalid taint: ${printTaint(taint)}`]),
    ...(taint.timeAdded === undefined ? [] : ['invalid configuration: taint.TimeAdded is not nil']),
  ]);
}

const FIELD = 'enforceNodeAllocatable (--enforce-node-allocatable)';
const SYSTEM = ['system-reserved', 'system-reserved-compressible'] as const;
const KUBE = ['kube-reserved', 'kube-reserved-compressible'] as const;

/** Validates `enforceNodeAllocatable`: known names, no duplicates, with the required cgroups. */
function allocatableErrors(configuration: KubeletConfiguration): string[] {
  const { enforceNodeAllocatable: enforced } = configuration;
  const exclusive = [SYSTEM, KUBE]
    .filter((pair) => pair.every((name) => enforced.includes(name)))
    .map(([whole, part]) => `both ${quote(whole)} and ${quote(part)} cannot be specified together in ${FIELD}`);
  const each = enforced.flatMap((name, index) =>
    enforced.indexOf(name) < index
      ? [`duplicated enforcements ${quote(name)} in ${FIELD}`]
      : enforcementErrors(name, configuration),
  );
  return [...exclusive, ...each].map((error) => `invalid configuration: ${error}`);
}

function enforcementErrors(name: string, configuration: KubeletConfiguration): string[] {
  if (name === 'none') {
    if (configuration.enforceNodeAllocatable.length === 1) return [];
    return [`${FIELD} may not contain additional enforcements when "none" is specified`];
  }
  const needed = cgroupErrors(name, configuration);
  if (needed === null) return [unknownEnforcement(name)];
  if (configuration.cgroupsPerQOS) return needed;
  return [...needed, `cgroupsPerQOS (--cgroups-per-qos) must be set to true when ${quote(name)} contained in ${FIELD}`];
}

function cgroupErrors(name: string, configuration: KubeletConfiguration): string[] | null {
  if (name === 'pods') return [];
  if (SYSTEM.some((known) => known === name)) {
    return missingCgroup('systemReservedCgroup (--system-reserved-cgroup)', SYSTEM, configuration.systemReservedCgroup);
  }
  if (KUBE.some((known) => known === name)) {
    return missingCgroup('kubeReservedCgroup (--kube-reserved-cgroup)', KUBE, configuration.kubeReservedCgroup);
  }
  return null;
}

function missingCgroup(field: string, [whole, part]: readonly [string, string], cgroup: string): string[] {
  if (cgroup !== '') return [];
  return [`${field} must be specified when ${quote(whole)} or ${quote(part)} included in ${FIELD}`];
}

function unknownEnforcement(name: string): string {
  const [last, ...others] = ['none', 'pods', ...SYSTEM, ...KUBE].map(quote);
  return `option ${quote(name)} specified for ${FIELD}. Valid options are ${others.join(', ')} or ${last}`;
}
