/**
 * The flags of the kubelet's command line (Kubernetes 1.36) that have no field in the configuration.
 *
 * Flags of the built-in cAdvisor are accepted and checked, because upstream still accepts them, and have no effect.
 */
import type { Json } from '../../../kernel/json.ts';
import { CONFIGURATION_FLAGS } from './configuration-flags.ts';
import { camelCase, type FlagKind, type FlagSpec } from './flag-values.ts';

const CADVISOR =
  'This is a cadvisor flag that was mistakenly registered with the Kubelet. Due to legacy concerns, it will follow ' +
  'the standard CLI deprecation timeline before being removed.';
const EVICTION = 'Use --eviction-hard or --eviction-soft instead. Will be removed in a future version.';
const REMOVAL = 'will be removed in 1.25 or later.';
const CSI = 'will be removed in 1.25 or later. in favor of using CSI.';
const INERT = 'No effect: configured the built-in cAdvisor';

/** The property of `KubeletFlags` has the flag's name unless another is given. */
function own(
  name: string,
  kind: FlagKind,
  fallback: Json,
  usage: string,
  deprecated?: string,
  property = camelCase(name),
): FlagSpec {
  return { name, kind, property, default: fallback, usage, ...(deprecated === undefined ? {} : { deprecated }) };
}

function withoutEffect(name: string, kind: FlagKind, fallback: Json): FlagSpec {
  return { name, kind, default: fallback, usage: INERT, deprecated: CADVISOR };
}

const KUBELET_FLAGS: readonly FlagSpec[] = [
  own('bootstrap-kubeconfig', 'string', '', 'Kubeconfig with which the first client certificate is requested'),
  own('cert-dir', 'string', '/var/lib/kubelet/pki', 'Directory of certificates that the kubelet makes itself'),
  own('cloud-provider', 'string', '', 'external, or empty for none'),
  own('config', 'string', '', 'Configuration file; flags win over it'),
  own('config-dir', 'string', '', 'Directory of *.conf files laid over the configuration, in the order of their names'),
  own('exit-on-lock-contention', 'bool', false, 'Exit when another process wants --lock-file'),
  own(
    'experimental-allocatable-ignore-eviction',
    'bool',
    false,
    'Leave hard eviction thresholds out of node allocatable',
    REMOVAL,
  ),
  own('experimental-mounter-path', 'string', '', 'Program to mount with', CSI),
  own(
    'global-housekeeping-interval',
    'standardDuration',
    '1m0s',
    "How often the machine's own statistics are read",
    CADVISOR,
  ),
  own('hostname-override', 'string', '', "Name to use instead of the host's"),
  own('housekeeping-interval', 'standardDuration', '10s', "How often a container's statistics are read"),
  own('image-credential-provider-bin-dir', 'string', '', 'Directory of image credential plugins'),
  own(
    'image-credential-provider-config',
    'string',
    '',
    'Configuration file, or directory of them, of image credential plugins',
  ),
  own('kubeconfig', 'string', '', 'How to reach the API server; without it only static pods run'),
  own('lock-file', 'string', '', 'File to hold a lock on'),
  own(
    'max-housekeeping-interval',
    'standardDuration',
    '15s',
    "Longest time between two readings of a container's statistics",
  ),
  own('maximum-dead-containers', 'int32', -1, 'Dead containers kept on the node; negative for no limit', EVICTION),
  own('maximum-dead-containers-per-container', 'int32', 1, 'Dead instances kept for a container', EVICTION),
  own(
    'minimum-container-ttl-duration',
    'duration',
    '0s',
    'Age below which a dead container is kept',
    EVICTION,
    'minimumContainerTTLDuration',
  ),
  own('node-ip', 'string', '', 'Address of the node, or one of each family', undefined, 'nodeIP'),
  own('node-labels', 'labels', {}, 'Labels of a newly registered node, as key=value'),
  own('root-dir', 'string', '/var/lib/kubelet', "Directory of the kubelet's own files"),
  own('runtime-cgroups', 'string', '', 'Cgroup of the container runtime'),
  own('seccomp-default', 'bool', false, "Use the runtime's seccomp profile where a pod names none"),
];

const CADVISOR_FLAGS: readonly FlagSpec[] = [
  withoutEffect('application-metrics-count-limit', 'standardInt', 100),
  withoutEffect('boot-id-file', 'string', '/proc/sys/kernel/random/boot_id'),
  withoutEffect('container-hints', 'string', '/etc/cadvisor/container_hints.json'),
  withoutEffect('containerd', 'string', '/run/containerd/containerd.sock'),
  withoutEffect('containerd-namespace', 'string', 'k8s.io'),
  withoutEffect('enable-load-reader', 'standardBool', false),
  withoutEffect('event-storage-age-limit', 'string', 'default=0'),
  withoutEffect('event-storage-event-limit', 'string', 'default=0'),
  withoutEffect('log-cadvisor-usage', 'standardBool', false),
  withoutEffect('machine-id-file', 'string', '/etc/machine-id,/var/lib/dbus/machine-id'),
  withoutEffect('storage-driver-buffer-duration', 'standardDuration', '1m0s'),
  withoutEffect('storage-driver-db', 'string', 'cadvisor'),
  withoutEffect('storage-driver-host', 'string', 'localhost:8086'),
  withoutEffect('storage-driver-password', 'string', 'root'),
  withoutEffect('storage-driver-secure', 'standardBool', false),
  withoutEffect('storage-driver-table', 'string', 'stats'),
  withoutEffect('storage-driver-user', 'string', 'root'),
];

/** Every flag of the command line. */
export const FLAGS: readonly FlagSpec[] = [...CONFIGURATION_FLAGS, ...KUBELET_FLAGS, ...CADVISOR_FLAGS];

const RUNTIME = 'The container runtime owns this setting now; set it there.';
const CNI = "Container networking is the container runtime's now; configure CNI in the runtime.";
const LOGS = 'Logs go to stderr; redirect stderr, or let the service manager keep them.';
const DOCKER = 'Docker support was removed in 1.24; point --container-runtime-endpoint at a CRI runtime.';
const KUBECONFIG = 'Use --kubeconfig.';

const HINTS: Readonly<Record<string, string>> = {
  'add-dir-header': LOGS,
  'allow-privileged': 'Privileged pods are allowed; restrict them by Pod Security Admission.',
  alsologtostderr: LOGS,
  'api-servers': KUBECONFIG,
  'auth-path': KUBECONFIG,
  'azure-container-registry-config': 'Use --image-credential-provider-config with the acr-credential-provider plugin.',
  'bootstrap-checkpoint-path': 'Use the field staticPodPath for pods that must run without the API server.',
  'cadvisor-port': "Read /metrics/cadvisor of the kubelet's own port.",
  'chaos-chance': 'Removed without replacement.',
  'cloud-config': 'Use --cloud-provider=external and a cloud controller manager.',
  'cni-bin-dir': CNI,
  'cni-cache-dir': CNI,
  'cni-conf-dir': CNI,
  'container-runtime': 'The runtime is always remote; use --container-runtime-endpoint.',
  'docker-endpoint': DOCKER,
  'docker-tls': DOCKER,
  'docker-tls-ca': DOCKER,
  'docker-tls-cert': DOCKER,
  'docker-tls-key': DOCKER,
  'dynamic-config-dir': 'Dynamic configuration was removed in 1.24; use --config and --config-dir.',
  'enable-cadvisor-json-endpoints': 'Read /stats/summary.',
  'enable-custom-metrics': 'Use a custom metrics adapter.',
  'experimental-bootstrap-kubeconfig': 'Use --bootstrap-kubeconfig.',
  'experimental-check-node-capabilities-before-mount': 'Removed; CSI drivers check for themselves.',
  'experimental-dockershim': DOCKER,
  'experimental-kernel-memcg-notification': 'Use the field kernelMemcgNotification.',
  'experimental-logging-sanitization': 'Removed without replacement.',
  'feature-gate': 'Use --feature-gates.',
  'host-ipc-sources': 'Restrict host namespaces by Pod Security Admission.',
  'host-network-sources': 'Restrict host namespaces by Pod Security Admission.',
  'host-pid-sources': 'Restrict host namespaces by Pod Security Admission.',
  'image-pull-progress-deadline': RUNTIME,
  'iptables-drop-bit': 'Use the field iptablesDropBit.',
  'iptables-masquerade-bit': 'Use the field iptablesMasqueradeBit.',
  'keep-terminated-pod-volumes': 'Volumes of terminated pods are always unmounted.',
  'log-backtrace-at': LOGS,
  'log-dir': LOGS,
  'log-file': LOGS,
  'log-file-max-size': LOGS,
  logtostderr: LOGS,
  'low-diskspace-threshold-mb': 'Use the field evictionHard.',
  'master-service-namespace': 'Removed; the service kubernetes is always in the namespace default.',
  'network-plugin': CNI,
  'network-plugin-dir': CNI,
  'network-plugin-mtu': CNI,
  'non-masquerade-cidr': CNI,
  'one-output': LOGS,
  'outofdisk-transition-frequency': 'Use the field evictionPressureTransitionPeriod.',
  'pod-infra-container-image': 'Set the sandbox image in the container runtime.',
  'redirect-container-streaming': 'Streams always go through the kubelet.',
  'register-schedulable': 'Use the field registerWithTaints with node.kubernetes.io/unschedulable:NoSchedule.',
  'require-kubeconfig': 'A --kubeconfig that is given is always required.',
  'resource-container': 'Use the field kubeletCgroups.',
  'rkt-api-endpoint': 'Use --container-runtime-endpoint with a CRI runtime.',
  'rkt-path': 'Use --container-runtime-endpoint with a CRI runtime.',
  'seccomp-profile-root': 'Profiles are read below <root-dir>/seccomp.',
  'skip-headers': LOGS,
  'skip-log-headers': LOGS,
  standalone: 'Leave out --kubeconfig to run static pods alone.',
  stderrthreshold: LOGS,
  'system-container': 'Use the field systemCgroups.',
  'volume-stats-aggregation-period': 'Use the field volumeStatsAggPeriod.',
  'windows-service': 'Only on Windows.',
};

const REFUSALS: readonly (readonly [refused: string, hint: string])[] = [
  [
    'Runonce mode has been deprecated and should not be set',
    'Use the command `statelet run-once` to run the static pods once.',
  ],
];

/** The replacement of a setting that validation rejects because it was removed; `null` for other errors. */
export const hintForRefusal = (error: string): string | null =>
  REFUSALS.find(([refused]) => error.includes(refused))?.[1] ?? null;

/**
 * The replacement of a flag that the kubelet once had. Upstream only reports `unknown flag`. The hint is printed after
 * upstream's line, to save the owner of an old unit file a search for the release note.
 */
export function hintFor(flag: string): string | null {
  const name = flag.replaceAll('_', '-');
  return Object.hasOwn(HINTS, name) ? `Flag --${name} was removed. ${HINTS[name] ?? ''}` : null;
}
