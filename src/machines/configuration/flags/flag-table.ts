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

function inert(name: string, kind: FlagKind, fallback: Json): FlagSpec {
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
