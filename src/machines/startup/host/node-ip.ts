/**
 * Which addresses this node has: `--node-ip` as upstream reads it, or the machine's own.
 *
 * Seeds: S116 to S120. Upstream: component-helpers/node/util/ips.go.
 */

import type { KubeletFlags } from '../../configuration/index.ts';
import { isIpAddress, parseIp } from '../../model/values/ip.ts';
import type { Answer } from '../context/types.ts';

interface HostAddress {
  readonly address: string;
  readonly family: 'IPv4' | 'IPv6';
}

const family = (address: string): 'IPv4' | 'IPv6' => (parseIp(address)?.family === 6 ? 'IPv6' : 'IPv4');

const isUnspecified = (address: string): boolean => parseIp(address)?.value === 0n;

/** `--node-ip` parsed: unparsable entries are dropped, a bad set is refused with upstream's words. */
export function parseNodeIPs(value: string, cloudProvider: string): Answer<readonly string[]> {
  const addresses = value
    .split(',')
    .map((entry) => entry.trim())
    .filter(isIpAddress);
  const refuse = (text: string): Answer<never> => ({
    ok: false,
    message: `bad --node-ip ${JSON.stringify(value)}: ${text}`,
  });
  const [first, second] = addresses;
  if (addresses.length > 2 || (first && second && family(first) === family(second))) {
    return refuse('must contain either a single IP or a dual-stack pair of IPs');
  }
  if (addresses.length === 2) {
    if (cloudProvider !== '' && cloudProvider !== 'external') {
      return refuse('dual-stack not supported in this configuration');
    }
    if (addresses.some(isUnspecified)) return refuse("dual-stack node IP cannot include '0.0.0.0' or '::'");
  }
  return { ok: true, value: addresses };
}

/** Configured addresses win; an unspecified one asks for the machine's first of that family. */
export function resolveNodeIPs(flags: KubeletFlags, host: readonly HostAddress[]): Answer<readonly string[]> {
  const parsed = parseNodeIPs(flags.nodeIP, flags.cloudProvider);
  if (!parsed.ok) return parsed;
  const wanted = parsed.value.filter((address) => !isUnspecified(address));
  if (wanted.length > 0) return { ok: true, value: wanted };
  const preferred = parsed.value[0] ? family(parsed.value[0]) : 'IPv4';
  const own = host.find((address) => address.family === preferred) ?? host[0];
  return { ok: true, value: own ? [own.address] : [] };
}
