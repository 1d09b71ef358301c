/**
 * The fields of `kubelet.config.k8s.io/v1beta1 KubeletConfiguration` (Kubernetes 1.36): names, types, defaults.
 *
 * The order is upstream's and therefore the order of `/configz`. Defaults that depend on another field or on a feature
 * gate are in `defaults.ts`.
 */

import type { JsonObject } from '../../../kernel/xstate.ts';
import {
  always,
  bool,
  duration,
  durationOrNumber,
  float64,
  int32,
  int64,
  listOf,
  mapOf,
  named,
  plain,
  pointer,
  quantity,
  string,
  stringMap,
  strings,
  struct,
  type ValueOf,
  verbosity,
} from './field-types.ts';

const clientCertificates = struct('v1beta1.KubeletX509Authentication', [plain('clientCAFile', string)]);

const tokenReview = struct('v1beta1.KubeletWebhookAuthentication', [
  pointer('enabled', bool, true),
  plain('cacheTTL', duration, '2m0s'),
]);

const authentication = struct('v1beta1.KubeletAuthentication', [
  plain('x509', clientCertificates),
  plain('webhook', tokenReview),
  plain('anonymous', struct('v1beta1.KubeletAnonymousAuthentication', [pointer('enabled', bool, false)])),
]);

const accessReview = struct('v1beta1.KubeletWebhookAuthorization', [
  plain('cacheAuthorizedTTL', duration, '5m0s'),
  plain('cacheUnauthorizedTTL', duration, '30s'),
]);

const authorization = struct('v1beta1.KubeletAuthorization', [
  plain('mode', named('v1beta1.KubeletAuthorizationMode'), 'Webhook'),
  plain('webhook', accessReview),
]);

const outputRouting = [
  { ...plain('splitStream', bool), embeddedIn: 'OutputRoutingOptions' },
  always('infoBufferSize', quantity),
] as const;

const vmoduleItem = struct('v1.VModuleItem', [always('filePattern', string), always('verbosity', verbosity)]);

const logging = struct('v1.LoggingConfiguration', [
  plain('format', string, 'text'),
  plain('flushFrequency', durationOrNumber, '5s'),
  always('verbosity', verbosity),
  plain('vmodule', { ...listOf(vmoduleItem), go: 'v1.VModuleConfiguration' }),
  plain(
    'options',
    struct('v1.FormatOptions', [
      plain('text', struct('v1.TextOptions', outputRouting)),
      plain('json', struct('v1.JSONOptions', outputRouting)),
    ]),
  ),
]);

const podPriorityGracePeriod = struct('v1beta1.ShutdownGracePeriodByPodPriority', [
  always('priority', int32),
  always('shutdownGracePeriodSeconds', int64),
]);

const memoryReservation = struct('v1beta1.MemoryReservation', [
  always('numaNode', int32),
  always('limits', mapOf(quantity, 'v1.ResourceList')),
]);

const taint = struct('v1.Taint', [
  always('key', string),
  plain('value', string),
  always('effect', named('v1.TaintEffect')),
  pointer('timeAdded', string),
]);

const tracing = struct('v1.TracingConfiguration', [
  pointer('endpoint', string),
  pointer('samplingRatePerMillion', int32),
]);

const SERVER_FIELDS = [
  pointer('enableServer', bool, true),
  plain('staticPodPath', string),
  plain('podLogsDir', string, '/var/log/pods'),
  plain('syncFrequency', duration, '1m0s'),
  plain('fileCheckFrequency', duration, '20s'),
  plain('httpCheckFrequency', duration, '20s'),
  plain('staticPodURL', string),
  plain('staticPodURLHeader', mapOf(strings, 'map[string][]string')),
  plain('address', string, '0.0.0.0'),
  plain('port', int32, 10250),
  plain('readOnlyPort', int32),
  plain('tlsCertFile', string),
  plain('tlsPrivateKeyFile', string),
  plain('tlsCipherSuites', strings),
  plain('tlsMinVersion', string),
  plain('tlsCurvePreferences', listOf(int32)),
  plain('rotateCertificates', bool),
  plain('serverTLSBootstrap', bool),
  plain('authentication', authentication),
  plain('authorization', authorization),
  pointer('registryPullQPS', int32, 5),
  plain('registryBurst', int32, 10),
  plain('imagePullCredentialsVerificationPolicy', named('v1beta1.ImagePullCredentialsVerificationPolicy')),
  plain('preloadedImagesVerificationAllowlist', strings),
  pointer('eventRecordQPS', int32, 50),
  plain('eventBurst', int32, 100),
  pointer('enableDebuggingHandlers', bool, true),
  plain('enableContentionProfiling', bool),
  pointer('healthzPort', int32, 10248),
  plain('healthzBindAddress', string, '127.0.0.1'),
  pointer('oomScoreAdj', int32, -999),
  plain('clusterDomain', string),
  plain('clusterDNS', strings),
  plain('streamingConnectionIdleTimeout', duration, '4h0m0s'),
] as const;

const NODE_FIELDS = [
  plain('nodeStatusUpdateFrequency', duration, '10s'),
  plain('nodeStatusReportFrequency', duration, '5m0s'),
  plain('nodeLeaseDurationSeconds', int32, 40),
  plain('imageMinimumGCAge', duration, '2m0s'),
  plain('imageMaximumGCAge', duration),
  pointer('imageGCHighThresholdPercent', int32, 85),
  pointer('imageGCLowThresholdPercent', int32, 80),
  plain('volumeStatsAggPeriod', duration, '1m0s'),
  plain('kubeletCgroups', string),
  plain('systemCgroups', string),
  plain('cgroupRoot', string),
  pointer('cgroupsPerQOS', bool, true),
  plain('cgroupDriver', string, 'cgroupfs'),
  plain('cpuManagerPolicy', string, 'none'),
  pointer('singleProcessOOMKill', bool),
  plain('cpuManagerPolicyOptions', stringMap),
  plain('cpuManagerReconcilePeriod', duration, '10s'),
  plain('memoryManagerPolicy', string, 'None'),
  plain('topologyManagerPolicy', string, 'none'),
  plain('topologyManagerScope', string, 'container'),
  plain('topologyManagerPolicyOptions', stringMap),
  plain('qosReserved', stringMap),
  plain('runtimeRequestTimeout', duration, '2m0s'),
  plain('hairpinMode', string, 'promiscuous-bridge'),
  plain('maxPods', int32, 110),
  plain('podCIDR', string),
  pointer('podPidsLimit', int64, -1),
  pointer('resolvConf', string, '/etc/resolv.conf'),
  plain('runOnce', bool),
  pointer('cpuCFSQuota', bool, true),
  pointer('cpuCFSQuotaPeriod', duration, '100ms'),
  pointer('nodeStatusMaxImages', int32, 50),
  plain('maxOpenFiles', int64, 1_000_000),
  plain('contentType', string, 'application/vnd.kubernetes.protobuf'),
  pointer('kubeAPIQPS', int32, 50),
  plain('kubeAPIBurst', int32, 100),
  pointer('serializeImagePulls', bool, true),
  pointer('maxParallelImagePulls', int32),
] as const;

const RESOURCE_FIELDS = [
  plain('evictionHard', stringMap),
  plain('evictionSoft', stringMap),
  plain('evictionSoftGracePeriod', stringMap),
  plain('evictionPressureTransitionPeriod', duration, '5m0s'),
  plain('evictionMaxPodGracePeriod', int32),
  plain('evictionMinimumReclaim', stringMap),
  pointer('mergeDefaultEvictionSettings', bool, false),
  plain('podsPerCore', int32),
  pointer('enableControllerAttachDetach', bool, true),
  plain('protectKernelDefaults', bool),
  pointer('makeIPTablesUtilChains', bool, true),
  pointer('iptablesMasqueradeBit', int32, 14),
  pointer('iptablesDropBit', int32, 15),
  plain('featureGates', mapOf(bool, 'map[string]bool')),
  pointer('failSwapOn', bool, true),
  plain('memorySwap', struct('v1beta1.MemorySwapConfiguration', [plain('swapBehavior', string)])),
  plain('containerLogMaxSize', string, '10Mi'),
  pointer('containerLogMaxFiles', int32, 5),
  pointer('containerLogMaxWorkers', int32, 1),
  pointer('containerLogMonitorInterval', duration, '10s'),
  plain('configMapAndSecretChangeDetectionStrategy', named('v1beta1.ResourceChangeDetectionStrategy'), 'Watch'),
  plain('systemReserved', stringMap),
  plain('kubeReserved', stringMap),
  plain('reservedSystemCPUs', string),
  plain('showHiddenMetricsForVersion', string),
  plain('systemReservedCgroup', string),
  plain('kubeReservedCgroup', string),
  plain('enforceNodeAllocatable', strings),
  plain('allowedUnsafeSysctls', strings),
] as const;

const AGENT_FIELDS = [
  plain('volumePluginDir', string, '/usr/libexec/kubernetes/kubelet-plugins/volume/exec/'),
  plain('providerID', string),
  plain('kernelMemcgNotification', bool),
  plain('logging', logging),
  pointer('enableSystemLogHandler', bool, true),
  pointer('enableSystemLogQuery', bool, false),
  plain('shutdownGracePeriod', duration),
  plain('shutdownGracePeriodCriticalPods', duration),
  plain('shutdownGracePeriodByPodPriority', listOf(podPriorityGracePeriod)),
  plain('crashLoopBackOff', struct('v1beta1.CrashLoopBackOffConfig', [pointer('maxContainerRestartPeriod', duration)])),
  plain('reservedMemory', listOf(memoryReservation)),
  pointer('enableProfilingHandler', bool, true),
  pointer('enableDebugFlagsHandler', bool, true),
  pointer('seccompDefault', bool, false),
  pointer('memoryThrottlingFactor', float64, 0.9),
  plain('memoryReservationPolicy', named('v1beta1.MemoryReservationPolicy'), 'None'),
  plain('registerWithTaints', listOf(taint)),
  pointer('registerNode', bool, true),
  pointer('tracing', tracing),
  pointer('localStorageCapacityIsolation', bool, true),
  plain('containerRuntimeEndpoint', string, 'unix:///run/containerd/containerd.sock'),
  plain('imageServiceEndpoint', string),
  pointer('failCgroupV1', bool, true),
  pointer('userNamespaces', struct('v1beta1.UserNamespaces', [pointer('idsPerPod', int64)])),
] as const;

export const API_VERSION = 'kubelet.config.k8s.io/v1beta1';
export const KIND = 'KubeletConfiguration';

export const kubeletConfigurationType = struct('v1beta1.KubeletConfiguration', [
  ...SERVER_FIELDS,
  ...NODE_FIELDS,
  ...RESOURCE_FIELDS,
  ...AGENT_FIELDS,
]);

/** An effective configuration: every field set, defaults applied, plain JSON; durations are Go texts (`1m0s`). */
export type KubeletConfiguration = ValueOf<typeof kubeletConfigurationType>;
export type LoggingConfiguration = ValueOf<typeof logging>;

/** Types a value that defaulting has completed. */
export function asConfiguration(value: JsonObject): KubeletConfiguration {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the only assertion from decoded values to the type
  return value as KubeletConfiguration;
}
