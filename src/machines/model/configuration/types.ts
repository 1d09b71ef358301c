/**
 * Owns the shape of an effective configuration: every field set, defaults applied, plain JSON.
 *
 * Durations are canonical Go texts (`1m0s`; see `duration.ts`), quantities are quantity texts, maps and lists are never
 * missing. Optional properties are those that upstream can tell from unset. Type aliases, not interfaces, so that a
 * configuration is JSON to the compiler, too.
 */

import type { Json } from '../../../kernel/json.ts';
import type { Taint } from '../values/labels.ts';

export type JsonObject = { readonly [key: string]: Json | undefined };

export type StringMap = Readonly<Record<string, string>>;

/** A duration as Go prints it. */
export type Duration = string;

export type VModuleItem = {
  readonly filePattern: string;
  readonly verbosity: number;
};

export type OutputRoutingOptions = {
  readonly splitStream: boolean;
  readonly infoBufferSize: string;
};

export type LoggingConfiguration = {
  readonly format: string;
  /** A number where the file gave nanoseconds. */
  readonly flushFrequency: Duration | number;
  readonly verbosity: number;
  readonly vmodule: readonly VModuleItem[];
  readonly options: { readonly text: OutputRoutingOptions; readonly json: OutputRoutingOptions };
};

export type KubeletAuthentication = {
  readonly x509: { readonly clientCAFile: string };
  readonly webhook: { readonly enabled: boolean; readonly cacheTTL: Duration };
  readonly anonymous: { readonly enabled: boolean };
};

export type KubeletAuthorization = {
  readonly mode: string;
  readonly webhook: { readonly cacheAuthorizedTTL: Duration; readonly cacheUnauthorizedTTL: Duration };
};

export type MemoryReservation = {
  readonly numaNode: number;
  readonly limits: StringMap;
};

export type PodPriorityGracePeriod = {
  readonly priority: number;
  readonly shutdownGracePeriodSeconds: number;
};

export type KubeletConfiguration = {
  readonly enableServer: boolean;
  readonly staticPodPath: string;
  readonly podLogsDir: string;
  readonly syncFrequency: Duration;
  readonly fileCheckFrequency: Duration;
  readonly httpCheckFrequency: Duration;
  readonly staticPodURL: string;
  readonly staticPodURLHeader: Readonly<Record<string, readonly string[]>>;
  readonly address: string;
  readonly port: number;
  readonly readOnlyPort: number;
  readonly tlsCertFile: string;
  readonly tlsPrivateKeyFile: string;
  readonly tlsCipherSuites: readonly string[];
  readonly tlsMinVersion: string;
  readonly tlsCurvePreferences: readonly number[];
  readonly rotateCertificates: boolean;
  readonly serverTLSBootstrap: boolean;
  readonly authentication: KubeletAuthentication;
  readonly authorization: KubeletAuthorization;
  readonly registryPullQPS: number;
  readonly registryBurst: number;
  readonly imagePullCredentialsVerificationPolicy: string;
  readonly preloadedImagesVerificationAllowlist: readonly string[];
  readonly eventRecordQPS: number;
  readonly eventBurst: number;
  readonly enableDebuggingHandlers: boolean;
  readonly enableContentionProfiling: boolean;
  readonly healthzPort: number;
  readonly healthzBindAddress: string;
  readonly oomScoreAdj: number;
  readonly clusterDomain: string;
  readonly clusterDNS: readonly string[];
  readonly streamingConnectionIdleTimeout: Duration;
  readonly nodeStatusUpdateFrequency: Duration;
  readonly nodeStatusReportFrequency: Duration;
  readonly nodeLeaseDurationSeconds: number;
  readonly imageMinimumGCAge: Duration;
  readonly imageMaximumGCAge: Duration;
  readonly imageGCHighThresholdPercent: number;
  readonly imageGCLowThresholdPercent: number;
  readonly volumeStatsAggPeriod: Duration;
  readonly kubeletCgroups: string;
  readonly systemCgroups: string;
  readonly cgroupRoot: string;
  readonly cgroupsPerQOS: boolean;
  readonly cgroupDriver: string;
  readonly cpuManagerPolicy: string;
  readonly singleProcessOOMKill?: boolean;
  readonly cpuManagerPolicyOptions: StringMap;
  readonly cpuManagerReconcilePeriod: Duration;
  readonly memoryManagerPolicy: string;
  readonly topologyManagerPolicy: string;
  readonly topologyManagerScope: string;
  readonly topologyManagerPolicyOptions: StringMap;
  readonly qosReserved: StringMap;
  readonly runtimeRequestTimeout: Duration;
  readonly hairpinMode: string;
  readonly maxPods: number;
  readonly podCIDR: string;
  readonly podPidsLimit: number;
  readonly resolvConf: string;
  readonly runOnce: boolean;
  readonly cpuCFSQuota: boolean;
  readonly cpuCFSQuotaPeriod: Duration;
  readonly nodeStatusMaxImages: number;
  readonly maxOpenFiles: number;
  readonly contentType: string;
  readonly kubeAPIQPS: number;
  readonly kubeAPIBurst: number;
  readonly serializeImagePulls: boolean;
  readonly maxParallelImagePulls?: number;
  readonly evictionHard: StringMap;
  readonly evictionSoft: StringMap;
  readonly evictionSoftGracePeriod: StringMap;
  readonly evictionPressureTransitionPeriod: Duration;
  readonly evictionMaxPodGracePeriod: number;
  readonly evictionMinimumReclaim: StringMap;
  readonly mergeDefaultEvictionSettings: boolean;
  readonly podsPerCore: number;
  readonly enableControllerAttachDetach: boolean;
  readonly protectKernelDefaults: boolean;
  readonly makeIPTablesUtilChains: boolean;
  readonly iptablesMasqueradeBit: number;
  readonly iptablesDropBit: number;
  readonly featureGates: Readonly<Record<string, boolean>>;
  readonly failSwapOn: boolean;
  readonly memorySwap: { readonly swapBehavior: string };
  readonly containerLogMaxSize: string;
  readonly containerLogMaxFiles: number;
  readonly containerLogMaxWorkers: number;
  readonly containerLogMonitorInterval: Duration;
  readonly configMapAndSecretChangeDetectionStrategy: string;
  readonly systemReserved: StringMap;
  readonly kubeReserved: StringMap;
  readonly reservedSystemCPUs: string;
  readonly showHiddenMetricsForVersion: string;
  readonly systemReservedCgroup: string;
  readonly kubeReservedCgroup: string;
  readonly enforceNodeAllocatable: readonly string[];
  readonly allowedUnsafeSysctls: readonly string[];
  readonly volumePluginDir: string;
  readonly providerID: string;
  readonly kernelMemcgNotification: boolean;
  readonly logging: LoggingConfiguration;
  readonly enableSystemLogHandler: boolean;
  readonly enableSystemLogQuery: boolean;
  readonly shutdownGracePeriod: Duration;
  readonly shutdownGracePeriodCriticalPods: Duration;
  readonly shutdownGracePeriodByPodPriority: readonly PodPriorityGracePeriod[];
  readonly crashLoopBackOff: { readonly maxContainerRestartPeriod?: Duration };
  readonly reservedMemory: readonly MemoryReservation[];
  readonly enableProfilingHandler: boolean;
  readonly enableDebugFlagsHandler: boolean;
  readonly seccompDefault: boolean;
  readonly memoryThrottlingFactor: number;
  readonly memoryReservationPolicy: string;
  readonly registerWithTaints: readonly Taint[];
  readonly registerNode: boolean;
  readonly tracing?: { readonly endpoint?: string; readonly samplingRatePerMillion?: number };
  readonly localStorageCapacityIsolation: boolean;
  readonly containerRuntimeEndpoint: string;
  readonly imageServiceEndpoint: string;
  readonly failCgroupV1: boolean;
  readonly userNamespaces?: { readonly idsPerPod?: number };
};

/** What defaulting filled by the table of `fields.ts`, which a test holds against this type. */
export function asConfiguration(value: JsonObject): KubeletConfiguration {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the one place where the table meets the type
  return value as KubeletConfiguration;
}
