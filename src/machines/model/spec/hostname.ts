/**
 * The host name of a pod, and its managed hosts file.
 *
 * Invariant: the hosts file is a pure function of pod, addresses and node, so it is the same at every restart of a
 * container.
 */

import type { HostAlias, Pod } from '../api/pod.ts';
import type { NodeText } from '../operations/host.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { trimRight } from '../values/go-text.ts';

/** Bytes: the limit of a DNS label, and of the kernel's host name. */
const MAX_LABEL = 63;
const MAX_KERNEL_HOSTNAME = 64;

export interface Hostname {
  readonly hostname: string;
  /** Empty without a subdomain. */
  readonly domain: string;
  /** The kernel's host name: the whole name with `setHostnameAsFQDN`. */
  readonly kernelHostname: string;
}

/** Throws with upstream's text if the name cannot be a host name. */
export function podHostname(pod: Pod, node: Pick<NodeSettings, 'clusterDomain'>): Hostname {
  const override = pod.spec.hostnameOverride;
  if (override !== undefined && override !== '') {
    const hostname = label(override);
    return { hostname, domain: '', kernelHostname: hostname };
  }
  const hostname = label(
    pod.spec.hostname === undefined || pod.spec.hostname === '' ? pod.metadata.name : pod.spec.hostname,
  );
  const { subdomain = '' } = pod.spec;
  const domain = subdomain === '' ? '' : `${subdomain}.${pod.metadata.namespace}.svc.${node.clusterDomain}`;
  const wantsFullName = pod.spec.setHostnameAsFQDN === true && domain !== '';
  if (!wantsFullName) return { hostname, domain, kernelHostname: hostname };
  const full = `${hostname}.${domain}`;
  if (full.length > MAX_KERNEL_HOSTNAME) {
    throw new Error(
      `failed to construct FQDN from pod hostname and cluster domain, FQDN ${full} is too long` +
        ` (${MAX_KERNEL_HOSTNAME} characters is the max, ${full.length} characters requested)`,
    );
  }
  return { hostname, domain, kernelHostname: full };
}

/** The name truncated to a label, without a separator at its end. */
function label(name: string): string {
  return name.length <= MAX_LABEL ? name : trimRight(name.slice(0, MAX_LABEL), '-.');
}

const NODE_HOSTS = '/etc/hosts';

/**
 * The text of `/etc/hosts` for the containers of a pod; on the host network the node's own file, read when the text is
 * written.
 */
export function hostsFile(pod: Pod, podIPs: readonly string[], node: NodeSettings): string | NodeText {
  const aliases = hostAliases(pod.spec.hostAliases ?? []);
  if (pod.spec.hostNetwork === true) {
    const before = '# Kubernetes-managed hosts file (host network).\n';
    return { before, file: NODE_HOSTS, known: node.hostsFile, after: aliases };
  }
  const { hostname, domain } = podHostname(pod, node);
  const names = domain === '' ? hostname : `${hostname}.${domain}\t${hostname}`;
  return [
    '# Kubernetes-managed hosts file.',
    '127.0.0.1\tlocalhost',
    '::1\tlocalhost ip6-localhost ip6-loopback',
    'fe00::0\tip6-localnet',
    'fe00::0\tip6-mcastprefix',
    'fe00::1\tip6-allnodes',
    'fe00::2\tip6-allrouters',
    ...podIPs.map((ip) => `${ip}\t${names}`),
    aliases,
  ].join('\n');
}

function hostAliases(aliases: readonly HostAlias[]): string {
  if (aliases.length === 0) return '';
  const lines = aliases.map(({ ip, hostnames }) => `${ip}\t${(hostnames ?? []).join('\t')}\n`);
  return `\n# Entries added by HostAliases.\n${lines.join('')}`;
}
