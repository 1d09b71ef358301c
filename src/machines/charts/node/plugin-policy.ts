/**
 * Which plugins may register on this node, as a CSI driver, a device plugin or a resource driver. Pure.
 *
 * Upstream: pkg/volume/csi/csi_plugin.go, pkg/volume/csi/nodeinfomanager, staging apimachinery's util/version.
 */

import { announcementProblem } from '../../model/allocation/device-policy.ts';
import { DRA_SERVICES, type DraService } from '../../model/operations/dra.ts';
import { type CSINodeInfo, endpointOf, type PluginInfo } from '../../model/operations/plugins.ts';
import { isDnsSubdomain } from '../../model/validation/field.ts';
import { goList } from '../../model/values/go-text.ts';
import type { CSIDriver } from './csi-node.ts';

const CSI_PLUGIN = 'CSIPlugin';
const DEVICE_PLUGIN = 'DevicePlugin';
const DRA_PLUGIN = 'DRAPlugin';
/** The limit of a CSINode: the object has all drivers of the node, so one bad entry would keep the others out. */
const DRIVER_NAME_MAX_CHARACTERS = 63;
const NODE_ID_MAX_BYTES = 256;
/** The field of the CSINode is an int32. */
const COUNT_MAX = 2n ** 31n - 1n;

type Version = readonly bigint[];
/** By the name of a driver, the highest version of CSI that it speaks. */
export type DriverVersions = ReadonlyMap<string, string>;

/**
 * The type of a plugin: a CSI driver by its version, a device plugin, a resource driver by its service, or none of
 * them.
 */
export type Verdict =
  | { readonly version: string }
  | { readonly isDevice: true }
  | { readonly service: DraService }
  | { readonly error: string };

function parsed(text: string): Version | string {
  const numbers = /^\s*v?([0-9]+(?:\.[0-9]+)*)/.exec(text)?.[1]?.split('.');
  if (!numbers) return `could not parse ${JSON.stringify(text)} as version`;
  const [major = ''] = numbers;
  if (numbers.length < 2) return `illegal version string ${JSON.stringify(text)}`;
  if (/^0./.test(major))
    return `illegal zero-prefixed version component ${JSON.stringify(major)} in ${JSON.stringify(text)}`;
  return numbers.map(BigInt);
}

function isLess(one: Version, other: Version): boolean {
  for (let at = 0; at < Math.max(one.length, other.length); at++) {
    const [mine, yours] = [one[at] ?? 0n, other[at] ?? 0n];
    if (mine !== yours) return mine < yours;
  }
  return false;
}

/** The highest version of CSI that both sides speak, or upstream's error when there is none. */
export function highestSupported(versions: readonly string[]): Version | string {
  let highest: Version | null = null;
  let problem = '<nil>';
  for (const text of versions.toReversed()) {
    const version = parsed(text);
    if (typeof version === 'string') problem = version;
    else if ((version[0] ?? 0n) <= 1n && (highest === null || isLess(highest, version))) highest = version;
  }
  if (highest === null) {
    const all = `(${goList(versions)})`;
    return `could not find a highest supported version from versions ${all} reported by this driver: ${problem}`;
  }
  if (highest[0] !== 1n) return `highest supported version reported by driver is ${highest.join('.')}, must be v1.x`;
  return highest;
}

function validated(
  { name, versions }: PluginInfo,
  endpoint: string,
  drivers: DriverVersions,
): Extract<Verdict, { readonly version: string } | { readonly error: string }> {
  const of = `kubernetes.io/csi: ValidatePlugin for CSI driver ${JSON.stringify(name)} failed.`;
  if (versions.length === 0) return { error: `${of} Plugin returned an empty list for supported versions` };
  const highest = highestSupported(versions);
  if (typeof highest === 'string') {
    const quoted = goList(versions.map((version) => JSON.stringify(version)));
    return { error: `${of} None of the versions specified ${quoted} are supported. err=${highest}` };
  }
  const existing = drivers.get(name);
  if (existing !== undefined && !isLess(existing.split('.').map(BigInt), highest)) {
    const other = 'Another driver with the same name is already registered with a higher supported version:';
    return { error: `${of} ${other} ${JSON.stringify(existing)}` };
  }
  const wrong = [...isDnsSubdomain(name)];
  if (name.length > DRIVER_NAME_MAX_CHARACTERS) wrong.push(`must be no more than ${DRIVER_NAME_MAX_CHARACTERS} bytes`);
  if (wrong.length > 0) return { error: `${of} Its name is not one of a CSI driver: ${wrong.join(', ')}` };
  if (!endpoint.startsWith('/')) return { error: `${of} Its endpoint must be the absolute path of a unix socket` };
  return { version: highest.join('.') };
}

export interface RegisteredPlugins {
  readonly drivers: DriverVersions;
  /** Sockets of resource drivers, as `driver endpoint`. */
  readonly draPlugins: ReadonlySet<string>;
  /** False on a node of 0.2.0. */
  readonly takesDra: boolean;
}

export const draKey = (driver: string, endpoint: string): string => `${driver} ${endpoint}`;

/** A resource driver, by the first service in its list that this node knows. */
function draVerdict(info: PluginInfo, endpoint: string, { draPlugins }: RegisteredPlugins): Verdict {
  const { name, versions } = info;
  const [service] = versions.flatMap((version) => DRA_SERVICES.filter((each) => each === version));
  if (service === undefined) {
    const none =
      versions.length === 0
        ? 'empty list of supported gRPC services (aka supported versions)'
        : `none of services supported by the plugin (${goQuoted(versions)}) are supported by the kubelet (${goQuoted(DRA_SERVICES)})`;
    const of = `invalid supported gRPC versions of DRA driver plugin ${name} at endpoint ${endpoint}`;
    return { error: `RegisterPlugin error -- plugin validation failed with err: ${of}: ${none}` };
  }
  if (!draPlugins.has(draKey(name, endpoint))) return { service };
  const taken = `endpoint ${endpoint} already registered for DRA driver plugin ${name}`;
  return { error: `RegisterPlugin error -- plugin registration failed with err: ${taken}` };
}

const goQuoted = (texts: readonly string[]): string => `[${texts.map((text) => JSON.stringify(text)).join(' ')}]`;

/** Whether the plugin that listens on `socket` is accepted; `error` is the text for the plugin. */
export function pluginVerdict(info: PluginInfo, socket: string, taken: RegisteredPlugins): Verdict {
  const { type, name } = info;
  if (type === DEVICE_PLUGIN) {
    const problem = announcementProblem(info.versions, name);
    if (problem === '') return { isDevice: true };
    return { error: `RegisterPlugin error -- plugin validation failed with err: ${problem}` };
  }
  if (type === DRA_PLUGIN && taken.takesDra) return draVerdict(info, endpointOf(info, socket), taken);
  if (type !== CSI_PLUGIN) {
    const failure = `no handler registered for plugin type: ${type} at socket ${socket}`;
    return { error: `RegisterPlugin error -- ${failure}` };
  }
  const endpoint = endpointOf(info, socket);
  const verdict = validated(info, endpoint, taken.drivers);
  if ('version' in verdict) return verdict;
  const reason = `validation failed for CSI Driver ${name} at endpoint ${endpoint}: ${verdict.error}`;
  return { error: `RegisterPlugin error -- plugin validation failed with err: ${reason}` };
}

/** The error for a driver that does not know this node; `null` if it does. */
export function nodeInfoProblem({ nodeID }: CSINodeInfo): string | null {
  const failure = 'error adding CSI driver node info: driverNodeID must';
  if (nodeID === '') return `${failure} not be empty`;
  return nodeID.length > NODE_ID_MAX_BYTES ? `${failure} be ${NODE_ID_MAX_BYTES} characters or less` : null;
}

export function driverOf(name: string, info: CSINodeInfo): CSIDriver {
  const { nodeID, maxVolumes, topologyKeys, topology } = info;
  const most = BigInt(maxVolumes);
  const count = most > 0n ? { count: Number(most < COUNT_MAX ? most : COUNT_MAX) } : {};
  return { name, nodeID, topologyKeys, ...(topology === undefined ? {} : { topology }), ...count };
}
