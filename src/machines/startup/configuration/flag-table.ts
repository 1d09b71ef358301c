/**
 * Owns the flags of the kubelet's command line (Kubernetes 1.36): name, type, what it sets, deprecation, our help text.
 *
 * A flag sets a field of the configuration, a property of the kubelet's own flags, or nothing: those that configured the
 * built-in cAdvisor are accepted and checked, because upstream still accepts them, and have no effect.
 */
import type { Json } from '../../../kernel/json.ts';
import type { FlagKind } from './flag-values.ts';

export interface FlagSpec {
  readonly name: string;
  readonly kind: FlagKind;
  readonly usage: string;
  readonly shorthand?: string;
  /** Upstream's sentence after `Flag --name has been deprecated, `. */
  readonly deprecated?: string;
  /** Dotted path in KubeletConfiguration. */
  readonly field?: string;
  /** Property of KubeletFlags. */
  readonly property?: string;
  /** Default of a flag that is no field of the configuration. */
  readonly default?: Json;
}

const CONFIGURATION =
  "This parameter should be set via the config file specified by the Kubelet's --config flag. See " +
  'https://kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file/ for more information.';
const CADVISOR =
  'This is a cadvisor flag that was mistakenly registered with the Kubelet. Due to legacy concerns, it will follow ' +
  'the standard CLI deprecation timeline before being removed.';
const EVICTION = 'Use --eviction-hard or --eviction-soft instead. Will be removed in a future version.';
const REMOVAL = 'will be removed in 1.25 or later.';
const CSI = 'will be removed in 1.25 or later. in favor of using CSI.';
const INERT = 'No effect: configured the built-in cAdvisor';

function current(name: string, kind: FlagKind, field: string, usage: string, shorthand?: string): FlagSpec {
  return { name, kind, field, usage, ...(shorthand === undefined ? {} : { shorthand }) };
}

function setting(name: string, kind: FlagKind, field: string, usage: string): FlagSpec {
  return { ...current(name, kind, field, usage), deprecated: CONFIGURATION };
}

function own(
  name: string,
  kind: FlagKind,
  property: string,
  fallback: Json,
  usage: string,
  deprecated?: string,
): FlagSpec {
  return { name, kind, property, default: fallback, usage, ...(deprecated === undefined ? {} : { deprecated }) };
}

function inert(name: string, kind: FlagKind, fallback: Json): FlagSpec {
  return { name, kind, default: fallback, usage: INERT, deprecated: CADVISOR };
}

const CONFIGURATION_FLAGS: readonly FlagSpec[] = [
  setting('address', 'ip', 'address', 'Address to serve on; 0.0.0.0 or :: for every interface'),
  setting(
    'allowed-unsafe-sysctls',
    'strings',
    'allowedUnsafeSysctls',
    'Unsafe sysctls, or patterns ending in *, that pods may set',
  ),
  setting(
    'anonymous-auth',
    'bool',
    'authentication.anonymous.enabled',
    'Accept requests without credentials as system:anonymous',
  ),
  setting(
    'authentication-token-webhook',
    'bool',
    'authentication.webhook.enabled',
    'Check bearer tokens with the TokenReview API',
  ),
  setting(
    'authentication-token-webhook-cache-ttl',
    'duration',
    'authentication.webhook.cacheTTL',
    'How long an answer about a token is kept',
  ),
  setting(
    'authorization-mode',
    'string',
    'authorization.mode',
    'AlwaysAllow, or Webhook to ask the SubjectAccessReview API',
  ),
  setting(
    'authorization-webhook-cache-authorized-ttl',
    'duration',
    'authorization.webhook.cacheAuthorizedTTL',
    'How long a yes is kept',
  ),
  setting(
    'authorization-webhook-cache-unauthorized-ttl',
    'duration',
    'authorization.webhook.cacheUnauthorizedTTL',
    'How long a no is kept',
  ),
  setting('cgroup-driver', 'string', 'cgroupDriver', 'cgroupfs or systemd, where the runtime does not say'),
  setting('cgroup-root', 'string', 'cgroupRoot', "Cgroup below which pods live; empty for the runtime's own"),
  setting('cgroups-per-qos', 'bool', 'cgroupsPerQOS', 'Keep a cgroup for each QoS class and each pod'),
  setting(
    'client-ca-file',
    'string',
    'authentication.x509.clientCAFile',
    'Bundle of authorities whose client certificates are accepted',
  ),
  setting('cluster-dns', 'strings', 'clusterDNS', "Addresses of the cluster's DNS servers"),
  setting('cluster-domain', 'string', 'clusterDomain', 'DNS domain of the cluster, searched by every container'),
  setting('container-log-max-files', 'int32', 'containerLogMaxFiles', 'Log files kept for a container, two or more'),
  setting('container-log-max-size', 'string', 'containerLogMaxSize', "Size at which a container's log is rotated"),
  setting(
    'container-runtime-endpoint',
    'string',
    'containerRuntimeEndpoint',
    'Socket of the container runtime: unix:// and a path',
  ),
  setting('contention-profiling', 'bool', 'enableContentionProfiling', 'Profile lock contention where profiling is on'),
  setting('cpu-cfs-quota', 'bool', 'cpuCFSQuota', 'Enforce CPU limits by CFS quota'),
  setting('cpu-cfs-quota-period', 'duration', 'cpuCFSQuotaPeriod', 'Period of the CFS quota, from 1ms to 1s'),
  setting('cpu-manager-policy', 'string', 'cpuManagerPolicy', 'none, or static for exclusive CPUs'),
  setting(
    'cpu-manager-policy-options',
    'stringPairs',
    'cpuManagerPolicyOptions',
    "Options of the CPU manager's policy",
  ),
  setting(
    'cpu-manager-reconcile-period',
    'duration',
    'cpuManagerReconcilePeriod',
    'How often CPU assignments are written again',
  ),
  setting(
    'enable-controller-attach-detach',
    'bool',
    'enableControllerAttachDetach',
    'Leave attaching volumes to the controller',
  ),
  setting(
    'enable-debugging-handlers',
    'bool',
    'enableDebuggingHandlers',
    'Serve logs, exec, attach, port-forward and profiling',
  ),
  setting('enable-server', 'bool', 'enableServer', "Serve the kubelet's API"),
  setting(
    'enforce-node-allocatable',
    'strings',
    'enforceNodeAllocatable',
    'What is enforced by cgroups: none, or of pods, system-reserved, kube-reserved',
  ),
  setting('event-burst', 'int32', 'eventBurst', 'Events that may be sent at once above --event-qps'),
  setting('event-qps', 'int32', 'eventRecordQPS', 'Events a second; 0 for no limit'),
  setting(
    'eviction-hard',
    'thresholds',
    'evictionHard',
    'Thresholds at which pods are evicted at once, as memory.available<1Gi',
  ),
  setting(
    'eviction-max-pod-grace-period',
    'int32',
    'evictionMaxPodGracePeriod',
    'Longest grace period of a pod evicted by a soft threshold, in seconds',
  ),
  setting(
    'eviction-minimum-reclaim',
    'stringPairs',
    'evictionMinimumReclaim',
    'How much an eviction frees at least, as imagefs.available=2Gi',
  ),
  setting(
    'eviction-pressure-transition-period',
    'duration',
    'evictionPressureTransitionPeriod',
    'How long a pressure condition stays after the pressure',
  ),
  setting('eviction-soft', 'thresholds', 'evictionSoft', 'Thresholds that evict when they hold for their grace period'),
  setting(
    'eviction-soft-grace-period',
    'stringPairs',
    'evictionSoftGracePeriod',
    'Grace periods of the soft thresholds, as memory.available=30s',
  ),
  current('fail-cgroupv1', 'bool', 'failCgroupV1', 'Refuse to start on a host with cgroup v1'),
  setting('fail-swap-on', 'bool', 'failSwapOn', 'Refuse to start while swap is on'),
  setting(
    'feature-gates',
    'gates',
    'featureGates',
    'Gates of alpha and experimental features, as name=true. Options are:',
  ),
  setting('file-check-frequency', 'duration', 'fileCheckFrequency', 'How often static pod files are listed'),
  setting('hairpin-mode', 'string', 'hairpinMode', 'promiscuous-bridge, hairpin-veth or none'),
  setting('healthz-bind-address', 'ip', 'healthzBindAddress', 'Address of /healthz'),
  setting('healthz-port', 'int32', 'healthzPort', 'Port of /healthz; 0 for none'),
  setting('http-check-frequency', 'duration', 'httpCheckFrequency', 'How often --manifest-url is read'),
  setting(
    'image-gc-high-threshold',
    'int32',
    'imageGCHighThresholdPercent',
    'Disk use, in percent, above which images are collected',
  ),
  setting(
    'image-gc-low-threshold',
    'int32',
    'imageGCLowThresholdPercent',
    'Disk use, in percent, down to which images are collected',
  ),
  setting(
    'image-service-endpoint',
    'string',
    'imageServiceEndpoint',
    "Socket of the image service; empty for the runtime's",
  ),
  setting(
    'kernel-memcg-notification',
    'bool',
    'kernelMemcgNotification',
    'Let the kernel say when memory thresholds are crossed',
  ),
  setting('kube-api-burst', 'int32', 'kubeAPIBurst', 'Requests to the API server at once above --kube-api-qps'),
  setting('kube-api-content-type', 'string', 'contentType', 'Content type of requests to the API server'),
  setting('kube-api-qps', 'int32', 'kubeAPIQPS', 'Requests a second to the API server'),
  setting(
    'kube-reserved',
    'stringPairs',
    'kubeReserved',
    "Resources kept for Kubernetes' own daemons, as cpu=200m,memory=500Mi",
  ),
  setting('kube-reserved-cgroup', 'string', 'kubeReservedCgroup', "Cgroup of Kubernetes' own daemons"),
  setting('kubelet-cgroups', 'string', 'kubeletCgroups', 'Cgroup to run the kubelet in'),
  setting('local-storage-capacity-isolation', 'bool', 'localStorageCapacityIsolation', 'Account for ephemeral storage'),
  current('log-flush-frequency', 'duration', 'logging.flushFrequency', 'Longest time between log flushes'),
  setting(
    'log-text-info-buffer-size',
    'quantity',
    'logging.options.text.infoBufferSize',
    'Buffer of info messages where streams are split',
  ),
  setting(
    'log-text-split-stream',
    'bool',
    'logging.options.text.splitStream',
    'Errors to stderr and info messages to stdout',
  ),
  setting('logging-format', 'string', 'logging.format', 'Form of log lines'),
  setting(
    'make-iptables-util-chains',
    'bool',
    'makeIPTablesUtilChains',
    'Keep the iptables chains that others look for',
  ),
  setting('manifest-url', 'string', 'staticPodURL', 'URL of static pods'),
  setting('manifest-url-header', 'headers', 'staticPodURLHeader', 'Headers for --manifest-url, as name:value'),
  setting('max-open-files', 'int', 'maxOpenFiles', 'Files the kubelet may have open'),
  setting('max-pods', 'int32', 'maxPods', 'Pods that may run here'),
  setting('memory-manager-policy', 'string', 'memoryManagerPolicy', 'None, or Static to pin memory to NUMA nodes'),
  setting('minimum-image-ttl-duration', 'duration', 'imageMinimumGCAge', 'Age below which an unused image is kept'),
  setting('node-status-max-images', 'int32', 'nodeStatusMaxImages', "Images named in the node's status; -1 for all"),
  setting(
    'node-status-update-frequency',
    'duration',
    'nodeStatusUpdateFrequency',
    "How often the node's status is computed",
  ),
  setting('oom-score-adj', 'int32', 'oomScoreAdj', "The kubelet's own oom_score_adj, from -1000 to 1000"),
  setting('pod-cidr', 'string', 'podCIDR', 'Addresses of pods, where there is no API server'),
  setting('pod-manifest-path', 'string', 'staticPodPath', 'File or directory of static pods'),
  setting('pod-max-pids', 'int', 'podPidsLimit', "Processes in one pod; -1 for the node's limit"),
  setting('pods-per-core', 'int32', 'podsPerCore', 'Pods for each core, at most --max-pods; 0 for no such limit'),
  setting('port', 'int32', 'port', "Port of the kubelet's API"),
  setting(
    'protect-kernel-defaults',
    'bool',
    'protectKernelDefaults',
    'Fail where kernel settings differ from what the kubelet needs',
  ),
  current('provider-id', 'string', 'providerID', 'Name of this machine at its cloud provider'),
  setting(
    'qos-reserved',
    'stringPairs',
    'qosReserved',
    'Share of a resource kept for higher QoS classes, as memory=50%',
  ),
  setting('read-only-port', 'int32', 'readOnlyPort', 'Port without authentication; 0 for none'),
  setting('register-node', 'bool', 'registerNode', 'Register this node with the API server'),
  setting(
    'register-with-taints',
    'taints',
    'registerWithTaints',
    'Taints of a newly registered node, as key=value:Effect',
  ),
  setting('registry-burst', 'int32', 'registryBurst', 'Image pulls at once above --registry-qps'),
  setting('registry-qps', 'int32', 'registryPullQPS', 'Image pulls a second; 0 for no limit'),
  setting('reserved-cpus', 'string', 'reservedSystemCPUs', 'CPUs kept for the system, as 0-3,8'),
  setting(
    'reserved-memory',
    'reservedMemory',
    'reservedMemory',
    'Memory kept on NUMA nodes, as 0:memory=1Gi,hugepages-1Mi=2Gi;1:memory=2Gi',
  ),
  setting('resolv-conf', 'string', 'resolvConf', "resolv.conf on which containers' DNS settings are based"),
  setting('rotate-certificates', 'bool', 'rotateCertificates', 'Renew the client certificate before it expires'),
  setting(
    'rotate-server-certificates',
    'bool',
    'serverTLSBootstrap',
    'Request and renew the serving certificate at the API server',
  ),
  setting('runonce', 'bool', 'runOnce', 'No longer supported'),
  setting(
    'runtime-request-timeout',
    'duration',
    'runtimeRequestTimeout',
    'Longest wait for the runtime, long calls excepted',
  ),
  setting('serialize-image-pulls', 'bool', 'serializeImagePulls', 'Pull one image at a time'),
  setting(
    'streaming-connection-idle-timeout',
    'duration',
    'streamingConnectionIdleTimeout',
    'Idle time after which exec, attach and port-forward end; 0 for none',
  ),
  setting('sync-frequency', 'duration', 'syncFrequency', 'Longest time between two looks at a pod'),
  setting('system-cgroups', 'string', 'systemCgroups', 'Cgroup for processes that are in none'),
  setting(
    'system-reserved',
    'stringPairs',
    'systemReserved',
    'Resources kept for the system, as cpu=200m,memory=500Mi',
  ),
  setting('system-reserved-cgroup', 'string', 'systemReservedCgroup', "Cgroup of the system's daemons"),
  setting('tls-cert-file', 'string', 'tlsCertFile', 'Serving certificate, followed by its authorities'),
  setting('tls-cipher-suites', 'strings', 'tlsCipherSuites', 'Cipher suites of the server; TLS 1.3 has its own'),
  setting('tls-min-version', 'string', 'tlsMinVersion', 'Oldest TLS version served: VersionTLS10 to VersionTLS13'),
  setting('tls-private-key-file', 'string', 'tlsPrivateKeyFile', 'Key of --tls-cert-file'),
  setting(
    'topology-manager-policy',
    'string',
    'topologyManagerPolicy',
    'none, best-effort, restricted or single-numa-node',
  ),
  setting(
    'topology-manager-policy-options',
    'stringPairs',
    'topologyManagerPolicyOptions',
    "Options of the topology manager's policy",
  ),
  setting('topology-manager-scope', 'string', 'topologyManagerScope', 'container or pod'),
  current('v', 'level', 'logging.verbosity', 'Log verbosity', 'v'),
  current('vmodule', 'vmodule', 'logging.vmodule', 'Log verbosity by source file, as pattern=N'),
  setting('volume-plugin-dir', 'string', 'volumePluginDir', 'Directory of FlexVolume plugins'),
  setting(
    'volume-stats-agg-period',
    'duration',
    'volumeStatsAggPeriod',
    'How often volume use is computed; negative for never',
  ),
];

const KUBELET_FLAGS: readonly FlagSpec[] = [
  own(
    'bootstrap-kubeconfig',
    'string',
    'bootstrapKubeconfig',
    '',
    'Kubeconfig with which the first client certificate is requested',
  ),
  own(
    'cert-dir',
    'string',
    'certDir',
    '/var/lib/kubelet/pki',
    'Directory of certificates that the kubelet makes itself',
  ),
  own('cloud-provider', 'string', 'cloudProvider', '', 'external, or empty for none'),
  own('config', 'string', 'config', '', 'Configuration file; flags win over it'),
  own(
    'config-dir',
    'string',
    'configDir',
    '',
    'Directory of *.conf files laid over the configuration, in the order of their names',
  ),
  own('exit-on-lock-contention', 'bool', 'exitOnLockContention', false, 'Exit when another process wants --lock-file'),
  own(
    'experimental-allocatable-ignore-eviction',
    'bool',
    'experimentalAllocatableIgnoreEviction',
    false,
    'Leave hard eviction thresholds out of node allocatable',
    REMOVAL,
  ),
  own('experimental-mounter-path', 'string', 'experimentalMounterPath', '', 'Program to mount with', CSI),
  own(
    'global-housekeeping-interval',
    'standardDuration',
    'globalHousekeepingInterval',
    '1m0s',
    "How often the machine's own statistics are read",
    CADVISOR,
  ),
  own('hostname-override', 'string', 'hostnameOverride', '', "Name to use instead of the host's"),
  own(
    'housekeeping-interval',
    'standardDuration',
    'housekeepingInterval',
    '10s',
    "How often a container's statistics are read",
  ),
  own(
    'image-credential-provider-bin-dir',
    'string',
    'imageCredentialProviderBinDir',
    '',
    'Directory of image credential plugins',
  ),
  own(
    'image-credential-provider-config',
    'string',
    'imageCredentialProviderConfig',
    '',
    'Configuration file, or directory of them, of image credential plugins',
  ),
  own('kubeconfig', 'string', 'kubeconfig', '', 'How to reach the API server; without it only static pods run'),
  own('lock-file', 'string', 'lockFile', '', 'File to hold a lock on'),
  own(
    'max-housekeeping-interval',
    'standardDuration',
    'maxHousekeepingInterval',
    '15s',
    "Longest time between two readings of a container's statistics",
  ),
  own(
    'maximum-dead-containers',
    'int32',
    'maximumDeadContainers',
    -1,
    'Dead containers kept on the node; negative for no limit',
    EVICTION,
  ),
  own(
    'maximum-dead-containers-per-container',
    'int32',
    'maximumDeadContainersPerContainer',
    1,
    'Dead instances kept for a container',
    EVICTION,
  ),
  own(
    'minimum-container-ttl-duration',
    'duration',
    'minimumContainerTTLDuration',
    '0s',
    'Age below which a dead container is kept',
    EVICTION,
  ),
  own('node-ip', 'string', 'nodeIP', '', 'Address of the node, or one of each family'),
  own('node-labels', 'labels', 'nodeLabels', {}, 'Labels of a newly registered node, as key=value'),
  own('root-dir', 'string', 'rootDir', '/var/lib/kubelet', "Directory of the kubelet's own files"),
  own('runtime-cgroups', 'string', 'runtimeCgroups', '', 'Cgroup of the container runtime'),
  own('seccomp-default', 'bool', 'seccompDefault', false, "Use the runtime's seccomp profile where a pod names none"),
];

const CADVISOR_FLAGS: readonly FlagSpec[] = [
  inert('application-metrics-count-limit', 'standardInt', 100),
  inert('boot-id-file', 'string', '/proc/sys/kernel/random/boot_id'),
  inert('container-hints', 'string', '/etc/cadvisor/container_hints.json'),
  inert('containerd', 'string', '/run/containerd/containerd.sock'),
  inert('containerd-namespace', 'string', 'k8s.io'),
  inert('enable-load-reader', 'standardBool', false),
  inert('event-storage-age-limit', 'string', 'default=0'),
  inert('event-storage-event-limit', 'string', 'default=0'),
  inert('log-cadvisor-usage', 'standardBool', false),
  inert('machine-id-file', 'string', '/etc/machine-id,/var/lib/dbus/machine-id'),
  inert('storage-driver-buffer-duration', 'standardDuration', '1m0s'),
  inert('storage-driver-db', 'string', 'cadvisor'),
  inert('storage-driver-host', 'string', 'localhost:8086'),
  inert('storage-driver-password', 'string', 'root'),
  inert('storage-driver-secure', 'standardBool', false),
  inert('storage-driver-table', 'string', 'stats'),
  inert('storage-driver-user', 'string', 'root'),
];

export const FLAGS: readonly FlagSpec[] = [...CONFIGURATION_FLAGS, ...KUBELET_FLAGS, ...CADVISOR_FLAGS];
