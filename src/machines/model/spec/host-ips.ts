/**
 * The addresses of the host of a pod: `status.hostIP`, and those of a pod in the network of its host.
 *
 * Upstream: getHostIPsAnyWay of the kubelet, GetNodeHostIPs of pkg/util/node.
 */
import { hasBehavior } from '../settings/behaviors.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { canonicalIp, isIpAddress } from '../values/ip.ts';

type HostSettings = Pick<NodeSettings, 'nodeIPs' | 'hostAddresses'>;

const isIPv6 = (ip: string): boolean => ip.includes(':');

/** Addresses of the host, at most one of each family; empty if they are not known. */
export function hostIPs({ nodeIPs, hostAddresses }: HostSettings): readonly string[] {
  if (hostAddresses === undefined) return nodeIPs;
  const [first, ...others] = ['InternalIP', 'ExternalIP'].flatMap((wanted) =>
    hostAddresses.flatMap(({ type, address }) =>
      type === wanted && isIpAddress(address) ? [canonicalIp(address)] : [],
    ),
  );
  if (first === undefined) return [];
  const second = others.find((ip) => isIPv6(ip) !== isIPv6(first));
  return second === undefined ? [first] : [first, second];
}

/** As {@link hostIPs}, for a variable of a container, which waits until they are known. */
export function knownHostIPs(node: HostSettings & Pick<NodeSettings, 'behavior'>): readonly string[] {
  const ips = hostIPs(node);
  if (ips.length > 0 || !hasBehavior(node, 'configurationAsKubelet')) return ips;
  const known = (node.hostAddresses ?? []).map(({ type, address }) => `{${type} ${address}}`);
  throw new Error(`host IP unknown; known addresses: [${known.join(' ')}]`);
}
