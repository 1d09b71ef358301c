/**
 * The addresses of this node: `--node-ip` as parsed by upstream, or the machine's own.
 *
 * Seeds: S116 to S120. Upstream: component-helpers/node/util/ips.go.
 */

import type { KubeletFlags } from '../../configuration/index.ts';
import { family, isUnspecified, parseNodeAddresses } from '../../model/configuration/run-refusals.ts';
import type { Answer } from '../context/types.ts';

interface HostAddress {
  readonly address: string;
  readonly family: 'IPv4' | 'IPv6';
}

/** `--node-ip` parsed: unparsable entries are dropped, an invalid combination is upstream's error. */
export function parseNodeIPs(value: string, cloudProvider: string): Answer<readonly string[]> {
  const parsed = parseNodeAddresses(value, cloudProvider);
  return parsed.error === undefined ? { ok: true, value: parsed.value } : { ok: false, message: parsed.error };
}

/** Configured addresses win; an unspecified one selects the machine's first of that family. */
export function resolveNodeIPs(flags: KubeletFlags, host: readonly HostAddress[]): Answer<readonly string[]> {
  const parsed = parseNodeIPs(flags.nodeIP, flags.cloudProvider);
  if (!parsed.ok) return parsed;
  const wanted = parsed.value.filter((address) => !isUnspecified(address));
  if (wanted.length > 0) return { ok: true, value: wanted };
  const preferred = parsed.value[0] ? family(parsed.value[0]) : 'IPv4';
  const own = host.find((address) => address.family === preferred) ?? host[0];
  return { ok: true, value: own ? [own.address] : [] };
}
