/**
 * The resolver configuration of a pod.
 *
 * Decides from `dnsPolicy`, `dnsConfig` and the node's resolver. Invariant: never more than the resolver library reads;
 * what is left out is said, not dropped in silence.
 */
import type { DNSConfig } from '../../api/cri.ts';
import type { Pod } from '../../api/pod.ts';
import type { NodeSettings } from '../../node-settings.ts';
import { type EventText, podEvents } from '../../reasons.ts';
import { podLongName } from './paths.ts';

/** Limits of the resolver library: servers, search domains, and characters of the search line. */
const MAX_SERVERS = 3;
const MAX_SEARCHES = 32;
const MAX_SEARCH_CHARACTERS = 2048;
/** Five dots: names of services with their namespace are tried in the search domains first. */
const CLUSTER_OPTIONS = ['ndots:5'];

type DnsSettings = Pick<NodeSettings, 'clusterDNS' | 'clusterDomain' | 'resolver' | 'nodeIPs'>;

export interface PodDns {
  readonly config: DNSConfig;
  readonly events: readonly EventText[];
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
  const missing = policy === 'ClusterFirst' && !cluster ? [podEvents.missingClusterDNS(podLongName(pod))] : [];
  return {
    config: compact(limited.resolver),
    events: [...missing, ...limited.messages.map((message) => podEvents.dnsConfigForming(message))],
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
    searches: unique([...searches, ...node.resolver.searches]),
    options: CLUSTER_OPTIONS,
  };
}

/** A node without nameservers means the machine itself, and no search domains. */
function nodeResolver(node: DnsSettings): Resolver {
  const { nameservers, searches, options } = node.resolver;
  if (nameservers.length > 0) return { servers: nameservers, searches, options };
  const loopback = node.nodeIPs[0]?.includes(':') === true ? '::1' : '127.0.0.1';
  return { servers: [loopback], searches: ['.'], options };
}

function merge(base: Resolver, pod: Pod): Resolver {
  const { dnsConfig } = pod.spec;
  if (dnsConfig === undefined) return base;
  const overrides = dnsConfig.options ?? [];
  const overridden = new Set(overrides.map(({ name }) => name));
  const kept = base.options.filter((option) => !overridden.has(option.split(':', 1)[0]));
  const added = overrides.map(({ name, value }) =>
    value === undefined || value === '' ? `${name}` : `${name}:${value}`,
  );
  return {
    servers: unique([...base.servers, ...(dnsConfig.nameservers ?? [])]),
    searches: unique([...base.searches, ...(dnsConfig.searches ?? [])]),
    options: [...kept, ...added],
  };
}

function limit(resolver: Resolver): { resolver: Resolver; messages: readonly string[] } {
  const servers = resolver.servers.slice(0, MAX_SERVERS);
  const searches = fitting(resolver.searches);
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

function fitting(searches: readonly string[]): readonly string[] {
  let fit = searches.slice(0, MAX_SEARCHES);
  while (fit.join(' ').length > MAX_SEARCH_CHARACTERS) fit = fit.slice(0, -1);
  return fit;
}

const compact = ({ servers, searches, options }: Resolver): DNSConfig => ({
  ...(servers.length > 0 ? { servers } : {}),
  ...(searches.length > 0 ? { searches } : {}),
  ...(options.length > 0 ? { options } : {}),
});

const unique = (items: readonly string[]): readonly string[] => [...new Set(items)];
