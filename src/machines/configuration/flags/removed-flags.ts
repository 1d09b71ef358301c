/**
 * The replacements of flags that the kubelet once had.
 *
 * Upstream only reports `unknown flag`. The hint is printed after upstream's line, to save the owner of an old unit
 * file a search for the release note.
 */
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

export function hintFor(flag: string): string | null {
  const name = flag.replaceAll('_', '-');
  return Object.hasOwn(HINTS, name) ? `Flag --${name} was removed. ${HINTS[name] ?? ''}` : null;
}
