/**
 * The environment variables of the services in a container's namespace, and of the API server. Pure.
 *
 * Names follow Docker's links and Kubernetes' own convention, as upstream's; recordings verify them.
 */

import { isObject } from '../../../kernel/xstate.ts';
import type { KubeObject } from '../operations/kube.ts';
import { LINKED } from './keys.ts';

interface ServicePort {
  readonly name: string;
  readonly protocol: string;
  readonly port: number;
}

export interface Service {
  readonly namespace: string;
  readonly name: string;
  readonly clusterIP: string;
  readonly ports: readonly ServicePort[];
}

/** The namespace of the service that every pod gets: the API server's. */
const MASTER_NAMESPACE = 'default';
const MASTER_NAMES: ReadonlySet<string> = new Set(['kubernetes']);

/** `null` for a service without an address or without ports. */
export function serviceOf({ metadata, ...object }: KubeObject): Service | null {
  const spec = object['spec'];
  if (!isObject(spec)) return null;
  const { clusterIP, ports } = spec;
  if (typeof clusterIP !== 'string' || clusterIP === '' || clusterIP === 'None') return null;
  if (!Array.isArray(ports) || ports.length === 0) return null;
  return {
    namespace: typeof metadata['namespace'] === 'string' ? metadata['namespace'] : '',
    name: metadata.name,
    clusterIP,
    ports: ports.filter(isObject).map(({ name, protocol, port }) => ({
      name: typeof name === 'string' ? name : '',
      protocol: typeof protocol === 'string' ? protocol : 'TCP',
      port: Number(port),
    })),
  };
}

/** `links` is the name of a wanted key: all services of the namespace, or the API server's alone. */
export function serviceVariables(
  services: readonly Service[],
  namespace: string,
  links: string,
): ReadonlyArray<readonly [string, string]> {
  const isMaster = (each: Service): boolean => each.namespace === MASTER_NAMESPACE && MASTER_NAMES.has(each.name);
  const namespaceServices = links === LINKED ? services.filter((each) => each.namespace === namespace) : [];
  const ownNames = new Set(namespaceServices.map(({ name }) => name));
  const masters = services.filter((each) => isMaster(each) && !ownNames.has(each.name));
  return [...masters, ...namespaceServices].toSorted((a, b) => (a.name < b.name ? -1 : 1)).flatMap(variablesOf);
}

const upper = (name: string): string => name.toUpperCase().replaceAll('-', '_');

function variablesOf({ name, clusterIP, ports }: Service): Array<readonly [string, string]> {
  const prefix = upper(name);
  const [first] = ports;
  const host = clusterIP.includes(':') ? `[${clusterIP}]` : clusterIP;
  const named = ports.filter((port) => port.name !== '');
  return [
    [`${prefix}_SERVICE_HOST`, clusterIP],
    [`${prefix}_SERVICE_PORT`, String(first?.port ?? '')],
    ...named.map((port) => [`${prefix}_SERVICE_PORT_${upper(port.name)}`, String(port.port)] as const),
    ...ports.flatMap((port, at) => linkVariables(prefix, clusterIP, host, port, at === 0)),
  ];
}

function linkVariables(
  prefix: string,
  address: string,
  host: string,
  { port, protocol }: ServicePort,
  isFirst: boolean,
) {
  const scheme = protocol.toLowerCase();
  const url = `${scheme}://${host}:${port}`;
  const portPrefix = `${prefix}_PORT_${port}_${protocol.toUpperCase()}`;
  return [
    ...(isFirst ? [[`${prefix}_PORT`, url] as const] : []),
    [portPrefix, url] as const,
    [`${portPrefix}_PROTO`, scheme] as const,
    [`${portPrefix}_PORT`, String(port)] as const,
    [`${portPrefix}_ADDR`, address] as const,
  ];
}
