/**
 * Owns the flags of the kubelet's command line (Kubernetes 1.36) that are no field of the configuration.
 *
 * Those that configured the built-in cAdvisor are accepted and checked, because upstream still accepts them, and have
 * no effect.
 */
import type { Json } from '../../../kernel/json.ts';
import { CONFIGURATION_FLAGS } from './configuration-flags.ts';
import type { FlagKind, FlagSpec } from './flag-values.ts';

const CADVISOR =
  'This is a cadvisor flag that was mistakenly registered with the Kubelet. Due to legacy concerns, it will follow ' +
  'the standard CLI deprecation timeline before being removed.';
const EVICTION = 'Use --eviction-hard or --eviction-soft instead. Will be removed in a future version.';
const REMOVAL = 'will be removed in 1.25 or later.';
const CSI = 'will be removed in 1.25 or later. in favor of using CSI.';
const INERT = 'No effect: configured the built-in cAdvisor';

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

/** Every flag of the command line. */
export const FLAGS: readonly FlagSpec[] = [...CONFIGURATION_FLAGS, ...KUBELET_FLAGS, ...CADVISOR_FLAGS];
