/**
 * The environment of a container, and the downward API (`fieldRef` and `resourceFieldRef`).
 *
 * Decides order and precedence: service variables, then `envFrom`, then `env`; a later one wins, and a reference sees
 * only earlier variables. Invariant: an unresolvable source is an error with upstream's text.
 *
 * Invariant of the downward API: it throws an `Error` with upstream's text for an unknown path, and never returns an
 * empty default.
 */
import type { KeyValue } from '../api/cri.ts';
import type { Container, EnvFromSource, EnvVar, Pod, ResourceList } from '../api/pod.ts';
import type { FileValues, FileVariable } from '../operations/volume.ts';
import { hasBehavior } from '../settings/behaviors.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { quote } from '../values/go-text.ts';
import { divideUp, milliUnits, type Nano, nanoOf } from '../values/quantity.ts';
import { ExpansionRoom, expand } from './expansion.ts';
import { knownHostIPs } from './host-ips.ts';
import { podContainers } from './qos.ts';
import { amountsOf, requestsOf } from './resources.ts';
import type { MountedVolumes } from './volumes.ts';

/** Values of an object by key; `null` if a variable cannot hold the value. */
type Texts = Readonly<Record<string, string | null>>;

/** Contents of the ConfigMaps and Secrets that a pod names, by name. */
export interface References {
  readonly configMaps: Readonly<Record<string, Texts>>;
  readonly secrets: Readonly<Record<string, Texts>>;
  /** By `<kind>/<namespace>/<name>`, why an object cannot be read now. */
  readonly unavailable?: Readonly<Record<string, string>>;
}

export interface EnvironmentInput {
  readonly pod: Pod;
  readonly container: Container;
  readonly podIPs: readonly string[];
  readonly node: NodeSettings;
  /** Variables of the services that the pod may use, oldest convention first. */
  readonly serviceVariables?: readonly KeyValue[];
  readonly references?: References;
  /** Volumes that are set up. */
  readonly volumes?: MountedVolumes;
  /** Values of variables from files in volumes. */
  readonly fileValues?: FileValues;
}

/** Throws an `Error` whose message is the waiting reason of the container. */
export function environment(input: EnvironmentInput): readonly KeyValue[] {
  const services = new Map((input.serviceVariables ?? []).map(({ key, value }) => [key ?? '', value ?? '']));
  const result = new Map<string, string>();
  for (const source of input.container.envFrom ?? []) {
    for (const [key, value] of sourceVariables(source, input)) result.set(key, value);
  }
  const variables = new Map(result);
  const room = new ExpansionRoom();
  const lookup = (name: string): string | undefined => variables.get(name) ?? services.get(name);
  for (const [at, variable] of (input.container.env ?? []).entries()) {
    const value = variableValue(variable, at, (text) => expand(text, lookup, room), input);
    if (value === undefined) continue;
    variables.set(variable.name, value);
  }
  const merged = new Map([...variables, ...[...services].filter(([key]) => !variables.has(key))]);
  return [...merged].map(([key, value]) => ({ key, value }));
}

function variableValue(
  variable: EnvVar,
  at: number,
  expanded: (text: string) => string,
  input: EnvironmentInput,
): string | undefined {
  const source = variable.valueFrom;
  if (source === undefined) return expanded(variable.value ?? '');
  const { pod, container, podIPs, node } = input;
  if (source.fieldRef !== undefined) return fieldValue(pod, source.fieldRef.fieldPath, podIPs, node);
  if (source.resourceFieldRef !== undefined) {
    return resourceValue(pod, container, source.resourceFieldRef, node, pod.spec.resources?.limits);
  }
  if (source.configMapKeyRef !== undefined) return keyValue('configMap', source.configMapKeyRef, input);
  if (source.secretKeyRef !== undefined) return keyValue('secret', source.secretKeyRef, input);
  if (source.fileKeyRef !== undefined) return fileValue(variable.name, source.fileKeyRef, at, input);
  throw new Error(`environment variable ${variable.name}: the node agent does not know where its value comes from`);
}

type FileKeyRef = NonNullable<NonNullable<EnvVar['valueFrom']>['fileKeyRef']>;

function fileValue(variable: string, ref: FileKeyRef, at: number, input: EnvironmentInput): string | undefined {
  volumePath(ref, input.volumes);
  const value = input.fileValues?.[at];
  if (value === undefined) throw new Error(`environment variable ${variable}: its file was not read`);
  return value?.$secret;
}

function volumePath({ volumeName }: FileKeyRef, volumes: MountedVolumes = {}): string {
  const volume = Object.hasOwn(volumes, volumeName) ? volumes[volumeName] : undefined;
  if (volume !== undefined) return volume.hostPath;
  throw new Error(`cannot find the volume ${JSON.stringify(volumeName)} referenced by FileKeyRef`);
}

/** Variables whose files must be read before the container is created; none if its configuration is invalid anyway. */
export function fileVariables(
  { name, env = [] }: Container,
  volumes: MountedVolumes | undefined,
): readonly FileVariable[] {
  try {
    return env.flatMap(({ valueFrom }, at) => {
      if (valueFrom?.fileKeyRef === undefined) return [];
      const { path, key, optional = false } = valueFrom.fileKeyRef;
      return [{ container: name, env: at, volumePath: volumePath(valueFrom.fileKeyRef, volumes), path, key, optional }];
    });
  } catch {
    return [];
  }
}

interface KeyRef {
  readonly name?: string;
  readonly key: string;
  readonly optional?: boolean;
}

function keyValue(kind: 'configMap' | 'secret', ref: KeyRef, input: EnvironmentInput): string | undefined {
  const object = referenced(kind, ref, input);
  const value = object && ownValue(object, ref.key);
  const place = `${kind === 'configMap' ? 'ConfigMap' : 'Secret'} ${input.pod.metadata.namespace}/${ref.name ?? ''}`;
  if (value === null) throw new Error(`key ${ref.key} in ${place} is not UTF-8 text, which a variable cannot hold`);
  if (value !== undefined || ref.optional === true) return value;
  throw new Error(`couldn't find key ${ref.key} in ${place}`);
}

function sourceVariables(source: EnvFromSource, input: EnvironmentInput): ReadonlyArray<readonly [string, string]> {
  const isConfigMap = source.configMapRef !== undefined;
  const ref = source.configMapRef ?? source.secretRef;
  if (ref === undefined) return [];
  const object = referenced(isConfigMap ? 'configMap' : 'secret', ref, input) ?? {};
  return Object.entries(object)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([key, value]) => (value === null ? [] : [[`${source.prefix ?? ''}${key}`, value] as const]));
}

/** Own properties only: `constructor` may be a key. */
const ownValue = <T>(map: Readonly<Record<string, T>>, key: string): T | undefined =>
  Object.hasOwn(map, key) ? map[key] : undefined;

function referenced(
  kind: 'configMap' | 'secret',
  ref: { readonly name?: string; readonly optional?: boolean },
  input: EnvironmentInput,
): Texts | undefined {
  const name = ref.name ?? '';
  const { references } = input;
  if (references === undefined) {
    throw new Error(`couldn't get ${kind} ${input.pod.metadata.namespace}/${name}, no kubeClient defined`);
  }
  const object = ownValue(kind === 'configMap' ? references.configMaps : references.secrets, name);
  const why =
    references.unavailable?.[
      `${kind === 'configMap' ? 'ConfigMap' : 'Secret'}/${input.pod.metadata.namespace}/${name}`
    ];
  if (object === undefined && why !== undefined) throw new Error(why);
  if (object === undefined && ref.optional !== true) throw new Error(`${kind.toLowerCase()} "${name}" not found`);
  return object;
}

type DownwardSettings = Pick<
  NodeSettings,
  'nodeName' | 'nodeIPs' | 'hostAddresses' | 'allocatable' | 'cpuCapacityMilli' | 'memoryCapacityBytes' | 'behavior'
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
      return knownHostIPs(node)[0] ?? '';
    case 'status.hostIPs':
      return knownHostIPs(node).join(',');
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
    .map(([key, value]) => `${key}=${quote(value)}`)
    .join('\n');
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
