/**
 * The resolver configuration of a pod.
 *
 * Derived from `dnsPolicy`, `dnsConfig` and the node's resolver. Invariant: never more than the resolver library reads;
 * omissions are reported.
 */
import type { DNSConfig } from '../api/cri.ts';
import type { Pod, PodDNSConfig } from '../api/pod.ts';
import { type EventText, nodeWithoutClusterDNS, podEvents } from '../reasons/reasons.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { podLongName } from './paths.ts';

/** Limits of the resolver library: servers, search domains, characters of the search line and of one domain. */
const MAX_SERVERS = 3;
const MAX_SEARCHES = 32;
const MAX_SEARCH_CHARACTERS = 2048;
const MAX_DOMAIN_CHARACTERS = 253;
/** With five dots, service names with their namespace are tried in the search domains first. */
const CLUSTER_OPTIONS = ['ndots:5'];

type DnsSettings = Pick<NodeSettings, 'clusterDNS' | 'clusterDomain' | 'resolver' | 'nodeIPs'>;

export interface PodDns {
  readonly config: DNSConfig;
  /** Events of the pod: omissions, or an unavailable policy. */
  readonly events: readonly EventText[];
  /** Events of the node. */
  readonly nodeEvents: readonly EventText[];
}

interface Resolver {
  readonly servers: readonly string[];
  readonly searches: readonly string[];
  readonly options: readonly string[];
}

export function podDns(pod: Pod, node: DnsSettings): PodDns {
  const policy = effectivePolicy(pod);
  const cluster = policy === 'ClusterFirst' && node.clusterDNS.length > 0;
  const base = policy === 'None' ? NOTHING : cluster ? clusterResolver(pod, node) : nodeResolver(node);
  const merged = merge(base, pod);
  const limited = limit(merged);
  const formingEvents = limited.messages.map((message) => podEvents.dnsConfigForming(message));
  const isMissing = policy === 'ClusterFirst' && !cluster;
  return {
    config: compact(limited.resolver),
    events: [...(isMissing ? [podEvents.missingClusterDNS(podLongName(pod))] : []), ...formingEvents],
    nodeEvents: isMissing ? [nodeWithoutClusterDNS] : [],
  };
}

const NOTHING: Resolver = { servers: [], searches: [], options: [] };

function effectivePolicy(pod: Pod): 'ClusterFirst' | 'Default' | 'None' {
  switch (pod.spec.dnsPolicy) {
    case 'None':
      return 'None';
    case 'Default':
      return 'Default';
    case 'ClusterFirstWithHostNet':
      return 'ClusterFirst';
    default:
      return pod.spec.hostNetwork === true ? 'Default' : 'ClusterFirst';
  }
}

function clusterResolver(pod: Pod, node: DnsSettings): Resolver {
  const domain = node.clusterDomain;
  const searches = domain === '' ? [] : [`${pod.metadata.namespace}.svc.${domain}`, `svc.${domain}`, domain];
  return {
    servers: node.clusterDNS,
    searches: domain === '' ? node.resolver.searches : unique([...searches, ...node.resolver.searches]),
    options: CLUSTER_OPTIONS,
  };
}

/** Without a resolver file the node itself is the server, once for each of its addresses, without search domains. */
function nodeResolver({ resolver, nodeIPs }: DnsSettings): Resolver {
  const { nameservers, searches, options, isAbsent = false } = resolver;
  if (!isAbsent) return { servers: nameservers, searches, options };
  const loopbacks = nodeIPs.map((address) => (address.includes(':') ? '::1' : '127.0.0.1'));
  return { servers: loopbacks.length > 0 ? loopbacks : ['127.0.0.1'], searches: ['.'], options };
}

function merge(base: Resolver, pod: Pod): Resolver {
  const { dnsConfig } = pod.spec;
  if (dnsConfig === undefined) return base;
  return {
    servers: unique([...base.servers, ...(dnsConfig.nameservers ?? [])]),
    searches: unique([...base.searches, ...(dnsConfig.searches ?? [])]),
    options: mergedOptions(base.options, dnsConfig.options ?? []),
  };
}

/** One option of each name: the pod's overrides the base, and a later one of the pod overrides an earlier one. */
function mergedOptions(base: readonly string[], own: NonNullable<PodDNSConfig['options']>): readonly string[] {
  const podOptions = own.map(({ name = '', value }) => [name, value ? `${name}:${value}` : name] as const);
  const known = base.map((option) => [option.split(':', 1)[0] ?? '', option] as const);
  return [...new Map([...known, ...podOptions]).values()];
}

function limit(resolver: Resolver): { resolver: Resolver; messages: readonly string[] } {
  const servers = resolver.servers.slice(0, MAX_SERVERS);
  const searches = withoutOverlongDomains(resolver.searches);
  const messages: string[] = [];
  if (servers.length < resolver.servers.length) {
    messages.push(
      `Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: ${servers.join(' ')}`,
    );
  }
  if (searches.length < resolver.searches.length) {
    messages.push(
      `Search Line limits were exceeded, some search paths have been omitted, the applied search line is: ${searches.join(' ')}`,
    );
  }
  return { resolver: { ...resolver, servers, searches }, messages };
}

/** Drops overlong domains, which make some resolver libraries abort. */
function withoutOverlongDomains(searches: readonly string[]): readonly string[] {
  let fit = searches.slice(0, MAX_SEARCHES).filter(({ length }) => length <= MAX_DOMAIN_CHARACTERS);
  while (fit.join(' ').length > MAX_SEARCH_CHARACTERS) fit = fit.slice(0, -1);
  return fit;
}

const compact = ({ servers, searches, options }: Resolver): DNSConfig => ({
  ...(servers.length > 0 ? { servers } : {}),
  ...(searches.length > 0 ? { searches } : {}),
  ...(options.length > 0 ? { options } : {}),
});

const unique = (items: readonly string[]): readonly string[] => [...new Set(items)];
