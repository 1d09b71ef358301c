/**
 * Builds the configuration of RunPodSandbox from a Pod.
 *
 * Invariant: a pure function of pod, attempt and node; the same config is sent again with each CreateContainer.
 */
import type { PodSandboxConfig, PortMapping } from '../api/cri.ts';
import type { ContainerPort, Pod } from '../api/pod.ts';
import type { UserMapping } from '../operations/users.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { podDns } from './dns.ts';
import { podHostname } from './hostname.ts';
import { podLogDirectory } from './paths.ts';
import { cgroupParent } from './qos.ts';
import { sandboxOverhead, sandboxResources } from './resources.ts';
import { sandboxSecurityContext } from './security.ts';
import type { MountedVolumes } from './volumes.ts';

const NO_VOLUMES: MountedVolumes = {};

interface LastConfig {
  readonly from: readonly unknown[];
  readonly config: PodSandboxConfig;
}
/**
 * The last configuration of each pod: a start needs the same one several times, and a journal stores one object once.
 */
const lastConfigs = new WeakMap<Pod, LastConfig>();

/**
 * Throws with upstream's text if a request of the pod is impossible (a host name that is too long, user namespaces).
 */
export function sandboxConfig(
  pod: Pod,
  attempt: number,
  node: NodeSettings,
  users: UserMapping | null = null,
  volumes: MountedVolumes = NO_VOLUMES,
): PodSandboxConfig {
  const mounted = Object.keys(volumes).length === 0 ? NO_VOLUMES : volumes;
  const from = [attempt, node, users, mounted];
  const last = lastConfigs.get(pod);
  if (last?.from.every((each, at) => each === from[at])) return last.config;
  const config = makeConfig(pod, attempt, node, users, mounted);
  lastConfigs.set(pod, { from, config });
  return config;
}

function makeConfig(
  pod: Pod,
  attempt: number,
  node: NodeSettings,
  users: UserMapping | null,
  volumes: MountedVolumes,
): PodSandboxConfig {
  const { name, namespace, uid } = pod.metadata;
  const hostname = pod.spec.hostNetwork === true ? undefined : podHostname(pod, node).kernelHostname;
  const mappings = portMappings(pod);
  return {
    metadata: { name, namespace, uid, attempt },
    ...(hostname === undefined ? {} : { hostname }),
    log_directory: podLogDirectory(pod, node),
    dns_config: podDns(pod, node).config,
    ...(mappings.length === 0 ? {} : { port_mappings: mappings }),
    labels: { ...pod.metadata.labels, ...podLabels(pod) },
    annotations: { ...pod.metadata.annotations },
    linux: {
      cgroup_parent: cgroupParent(pod, node),
      security_context: sandboxSecurityContext(pod, users, volumes),
      ...sysctls(pod),
      overhead: sandboxOverhead(pod, node),
      resources: sandboxResources(pod, node),
    },
  };
}

export const POD_NAME_LABEL = 'io.kubernetes.pod.name';
export const POD_NAMESPACE_LABEL = 'io.kubernetes.pod.namespace';
export const POD_UID_LABEL = 'io.kubernetes.pod.uid';

/** Labels by which the agent finds its own sandboxes and containers. */
export const podLabels = (pod: Pod): Readonly<Record<string, string>> => ({
  [POD_NAME_LABEL]: pod.metadata.name,
  [POD_NAMESPACE_LABEL]: pod.metadata.namespace,
  [POD_UID_LABEL]: pod.metadata.uid,
});

/**
 * All declared ports of regular containers, with or without host port: the runtime decides. Upstream omits the ports of
 * sidecars.
 */
const portMappings = (pod: Pod): readonly PortMapping[] =>
  pod.spec.containers.flatMap(({ ports = [] }) => distinct(ports).map(portMapping));

/** Of two ports with the same name, or unnamed and equal, the first one. */
function distinct(ports: readonly ContainerPort[]): readonly ContainerPort[] {
  const firsts = new Map<string, ContainerPort>();
  for (const port of ports) {
    const name = port.name || JSON.stringify(portMapping(port));
    if (!firsts.has(name)) firsts.set(name, port);
  }
  return [...firsts.values()];
}

const portMapping = ({ containerPort, hostPort, hostIP, protocol }: ContainerPort): PortMapping => ({
  ...(protocol === 'UDP' || protocol === 'SCTP' ? { protocol } : {}),
  container_port: containerPort,
  ...(hostPort === undefined || hostPort === 0 ? {} : { host_port: hostPort }),
  ...(hostIP === undefined || hostIP === '' ? {} : { host_ip: hostIP }),
});

/** Both notations of the API (`kernel/shm_rmid_forced`) converted to the kernel's dotted one. */
function sysctls(pod: Pod): { sysctls?: Readonly<Record<string, string>> } {
  const entries = (pod.spec.securityContext?.sysctls ?? []).map(
    ({ name, value }) => [dottedSysctl(name), value] as const,
  );
  return entries.length === 0 ? {} : { sysctls: Object.fromEntries(entries) };
}

/** The dotted name of a sysctl. If the first separator is a slash, slashes and dots are swapped. */
export function dottedSysctl(name: string): string {
  if (/[./]/.exec(name)?.[0] !== '/') return name;
  return name.replace(/[./]/g, (separator) => (separator === '/' ? '.' : '/'));
}
