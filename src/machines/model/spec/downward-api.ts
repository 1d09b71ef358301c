/**
 * The downward API: `fieldRef` and `resourceFieldRef`.
 *
 * Invariant: throws an `Error` with upstream's text for an unknown path; never returns an empty default.
 */
import type { Container, Pod, ResourceList } from '../api/pod.ts';
import { hasBehavior } from '../settings/behaviors.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { divideUp, milliUnits, type Nano, nanoOf } from '../values/quantity.ts';
import { podContainers } from './qos.ts';
import { amountsOf, requestsOf } from './resources.ts';

type DownwardSettings = Pick<
  NodeSettings,
  'nodeName' | 'nodeIPs' | 'allocatable' | 'cpuCapacityMilli' | 'memoryCapacityBytes' | 'behavior'
>;

const SUBSCRIPT = /^(metadata\.(?:labels|annotations))\['(.*)'\]$/s;

/** Whole maps are allowed only in volumes: one `key="value"` per line. */
export function fieldValue(pod: Pod, path: string, podIPs: readonly string[], node: DownwardSettings): string {
  const subscript = SUBSCRIPT.exec(path);
  if (subscript !== null) {
    const [, map, key = ''] = subscript;
    const { labels, annotations } = pod.metadata;
    return (map === 'metadata.labels' ? labels : annotations)?.[key] ?? '';
  }
  switch (path) {
    case 'metadata.name':
      return pod.metadata.name;
    case 'metadata.namespace':
      return pod.metadata.namespace;
    case 'metadata.uid':
      return pod.metadata.uid;
    case 'metadata.labels':
      return mapLines(pod.metadata.labels ?? {});
    case 'metadata.annotations':
      return mapLines(pod.metadata.annotations ?? {});
    case 'spec.nodeName':
      return pod.spec.nodeName ?? node.nodeName;
    case 'spec.serviceAccountName':
      return pod.spec.serviceAccountName ?? '';
    case 'status.hostIP':
      return node.nodeIPs[0] ?? '';
    case 'status.hostIPs':
      return node.nodeIPs.join(',');
    case 'status.podIP':
      return podIPs[0] ?? '';
    case 'status.podIPs':
      return podIPs.join(',');
    default:
      // The name of this field before v1, which upstream still accepts.
      if (path === 'spec.host' && hasBehavior(node, 'podsAsKubelet')) return pod.spec.nodeName ?? node.nodeName;
      throw new Error(`unsupported fieldPath: ${path}`);
  }
}

/** `key="value"` lines sorted by key, the value quoted as by Go's `%q`. */
function mapLines(map: Readonly<Record<string, string>>): string {
  return Object.entries(map)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${goQuote(value)}`)
    .join('\n');
}

const QUOTE_ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\u0007': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
};

/** Control characters, format marks, unassigned code points, and every space but U+0020. */
const UNPRINTABLE = /["\\\p{C}]|(?! )\p{Z}/gu;

export const goQuote = (text: string): string =>
  `"${text.replace(UNPRINTABLE, (character) => QUOTE_ESCAPES[character] ?? goEscape(character.codePointAt(0) ?? 0))}"`;

function goEscape(code: number): string {
  const hex = code.toString(16);
  if (code < 0x80) return `\\x${hex.padStart(2, '0')}`;
  return code < 0x1_0000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

export interface ResourceFieldRef {
  readonly containerName?: string;
  readonly resource: string;
  readonly divisor?: string;
}

/** An amount in units of the divisor, rounded up. `shared`: limits of the whole pod, if they apply. */
export function resourceValue(
  pod: Pod,
  container: Container,
  ref: ResourceFieldRef,
  node: DownwardSettings,
  shared: ResourceList = {},
): string {
  const owner = ref.containerName ? podContainers(pod).find(({ name }) => name === ref.containerName) : container;
  if (owner === undefined) throw new Error(`container ${ref.containerName} not found`);
  const [side = '', ...rest] = ref.resource.split('.');
  const name = rest.join('.');
  if ((side !== 'limits' && side !== 'requests') || !isDownwardResource(name)) {
    throw new Error(`unsupported container resource : ${ref.resource}`);
  }
  const amount =
    side === 'requests' ? (requestsOf(owner.resources)[name] ?? 0n) : limitAmount(owner, name, node, shared);
  return String(inUnitsOf(amount, ref.divisor, name));
}

/**
 * The most that a container may use: its own limit, its pod's, or the node's allocatable. Huge pages have no default.
 */
function limitAmount({ resources }: Container, name: string, node: DownwardSettings, shared: ResourceList): Nano {
  const limit = amountsOf(resources?.limits)[name] ?? 0n;
  if (limit > 0n || name.startsWith(HUGEPAGES_PREFIX)) return limit;
  const ofPod = name === EPHEMERAL_STORAGE ? 0n : (amountsOf(shared)[name] ?? 0n);
  return ofPod > 0n ? ofPod : nodeAmount(name, node);
}

const EPHEMERAL_STORAGE = 'ephemeral-storage';
const HUGEPAGES_PREFIX = 'hugepages-';

const isDownwardResource = (name: string): boolean =>
  name === 'cpu' || name === 'memory' || name === EPHEMERAL_STORAGE || name.startsWith(HUGEPAGES_PREFIX);

/** CPU is counted in thousandths before the division, so that a divisor of `1m` is exact. */
function inUnitsOf(amount: Nano, divisor: string | undefined, resource: string): bigint {
  const unit = divisor === undefined || nanoOf(divisor) === 0n ? nanoOf('1') : nanoOf(divisor);
  return resource === 'cpu' ? divideUp(milliUnits(amount), milliUnits(unit)) : divideUp(amount, unit);
}

function nodeAmount(resource: string, node: DownwardSettings): Nano {
  const allocatable = node.allocatable?.[resource];
  if (allocatable !== undefined) return nanoOf(allocatable);
  if (resource === 'cpu') return nanoOf(`${node.cpuCapacityMilli}m`);
  return resource === 'memory' ? nanoOf(node.memoryCapacityBytes) : 0n;
}
