/**
 * The addresses of this node: `--node-ip` as parsed by upstream, or the machine's own.
 *
 * Seeds: S116 to S120. Upstream: component-helpers/node/util/ips.go, pkg/kubelet/nodestatus/setters.go (NodeAddress).
 */

import type { KubeletFlags } from '../../configuration/flags/flags.ts';
import type { NodeAddress } from '../../model/api/pod.ts';
import { family, isUnspecified, parseNodeAddresses } from '../../model/configuration/run-refusals.ts';
import type { MachineAddresses } from '../../model/operations/host.ts';
import { hasBehavior } from '../../model/settings/behaviors.ts';
import { quote } from '../../model/values/go-text.ts';
import { canonicalIp, isIpAddress } from '../../model/values/ip.ts';
import type { Answer, NodeIdentity } from '../context/types.ts';

type AddressFlags = Pick<KubeletFlags, 'nodeIP' | 'cloudProvider'>;

/** `--node-ip` parsed: unparsable entries are dropped, an invalid combination is upstream's error. */
export function parseNodeIPs(value: string, cloudProvider: string): Answer<readonly string[]> {
  const parsed = parseNodeAddresses(value, cloudProvider);
  return parsed.error === undefined ? { ok: true, value: parsed.value } : { ok: false, message: parsed.error };
}

const namedIn = ({ nodeIP, cloudProvider }: AddressFlags): readonly string[] => {
  const parsed = parseNodeIPs(nodeIP, cloudProvider);
  return parsed.ok ? parsed.value : [];
};

/** The addresses that `--node-ip` names, as Go writes them, without those that only select a family. */
export const specifiedNodeIPs = (flags: AddressFlags): readonly string[] =>
  namedIn(flags)
    .filter((address) => !isUnspecified(address))
    .map(canonicalIp);

/** Whether only the cloud provider sets the addresses of the Node. */
export const leavesAddressesToCloud = (flags: AddressFlags): boolean =>
  flags.cloudProvider === 'external' && namedIn(flags).length === 0;

/**
 * The addresses of the Node as this agent reports them: none if the machine lacks those of `--node-ip`, and only the
 * host name if the cloud provider sets them.
 */
export function addressesToReport(flags: AddressFlags, node: NodeIdentity, behavior: number): NodeAddress[] {
  if (node.addressProblem !== undefined) return [];
  const isLeft = leavesAddressesToCloud(flags) && hasBehavior({ behavior }, 'addressesAsKubelet');
  const nodeAddresses = isLeft ? [] : node.nodeIPs.map((address) => ({ type: 'InternalIP', address }));
  return [...nodeAddresses, { type: 'Hostname', address: node.hostname }];
}

/** Configured addresses win; an unspecified one selects the family. */
export function resolveNodeIPs(flags: AddressFlags, machine: MachineAddresses): Answer<readonly string[]> {
  const parsed = parseNodeIPs(flags.nodeIP, flags.cloudProvider);
  if (!parsed.ok) return parsed;
  const specified = parsed.value.filter((address) => !isUnspecified(address));
  if (specified.length > 0)
    return { ok: true, value: machine.local === undefined ? specified : specified.map(canonicalIp) };
  const { found = [], routed = [], addresses } = machine;
  const preferred = parsed.value[0] ? family(parsed.value[0]) : 'IPv4';
  for (const candidates of [found, routed, addresses.map(({ address }) => address)]) {
    const candidate = candidates.find((address) => family(address) === preferred) ?? candidates[0];
    if (candidate !== undefined) return { ok: true, value: [candidate] };
  }
  return { ok: true, value: [] };
}

/** The name to look up for this node's address; none if the name is an address itself, or `--node-ip` has one. */
export const nameToLookUp = (flags: AddressFlags, nodeName: string): { lookUp?: string } =>
  isIpAddress(nodeName) || specifiedNodeIPs(flags).length > 0 || leavesAddressesToCloud(flags)
    ? {}
    : { lookUp: nodeName };

/** As {@link resolveNodeIPs}, with the kubelet's checks. A node whose name is an address has that address. */
export function chooseNodeIPs(
  flags: AddressFlags,
  hostname: string,
  { local, found = [], ...machine }: MachineAddresses,
): Pick<NodeIdentity, 'nodeIPs' | 'addressProblem'> {
  const [first, second] = specifiedNodeIPs(flags);
  const problem = refusal('nodeIP', first, local) || refusal('secondaryNodeIP', second, local);
  if (problem !== '') return { nodeIPs: [], addressProblem: problem };
  if (first === undefined && isIpAddress(hostname)) return { nodeIPs: [canonicalIp(hostname)] };
  const usable = found.filter((address) => !isLoopback(address) && nodeIPRefusal(address, local) === '');
  const resolved = resolveNodeIPs(flags, { ...machine, ...(local === undefined ? {} : { local }), found: usable });
  return { nodeIPs: resolved.ok ? resolved.value : [] };
}

/** The addresses of the machine; `undefined` if they are unknown. */
type Local = readonly string[] | undefined;

function refusal(what: string, address: string | undefined, local: Local): string {
  const reason = address === undefined ? '' : nodeIPRefusal(address, local);
  return reason === '' ? '' : `failed to validate ${what}: ${reason}`;
}

const isLoopback = (address: string): boolean => /^(127\.|::1$)/.test(canonicalIp(address));

/**
 * Why upstream rejects an address of the node; empty if it accepts it. Unlike upstream, a loopback address of
 * `--node-ip` is accepted: a node that no other machine needs to reach, such as one of a test, has no better one.
 */
function nodeIPRefusal(address: string, local: Local): string {
  const ip = canonicalIp(address);
  if (/^(22[4-9]\.|23\d\.|ff..:)/.test(ip)) return "nodeIP can't be a multicast address";
  if (/^(169\.254\.|fe[89ab].:)/.test(ip)) return "nodeIP can't be a link-local unicast address";
  return local === undefined || local.some((each) => canonicalIp(each) === ip)
    ? ''
    : `node IP: ${quote(ip)} not found in the host's network interfaces`;
}
