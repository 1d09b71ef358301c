/**
 * The ResourceClaims of a pod, and their devices for its containers; and the file `dra_manager_state`: the
 * ResourceClaims prepared on this node and their pods, in the kubelet's format (JSON in JSON, with the CRC-32 of the
 * inner text). Pure.
 *
 * Invariant: files of a Go kubelet are readable here, and the reverse.
 *
 * Upstream: staging dynamic-resource-allocation/resourceclaim, pkg/kubelet/cm/dra/manager.go, claiminfo.go and state.
 * KEP 4381, KEP 5004 (extended resources that a driver backs).
 */
import { isObject, type JsonObject } from '../../../kernel/xstate.ts';
import { CORRUPTED, decoded } from '../allocation/checkpoint.ts';
import { isExtendedResource } from '../allocation/request.ts';
import type { Container, Pod } from '../api/pod.ts';
import type { ClaimDevice } from '../operations/dra.ts';
import { nanoOf } from '../values/quantity.ts';
import { mapValues, pickKeys } from '../values/tables.ts';
import type { ClaimHealth, ClaimWanted, DevicesByDriver, FetchedClaim, PreparedClaims } from './messages.ts';

/** Extended resources of this kind name a DeviceClass: KEP 5004. */
const DEVICE_CLASS_PREFIX = 'deviceclass.resource.kubernetes.io/';
/** Upstream's limit for the message of a device in a status. */
const HEALTH_MESSAGE_MAX = 1_024;
const CUT = '...';

type PodClaim = NonNullable<Pod['spec']['resourceClaims']>[number];

export interface ClaimSettings {
  /** The gate `DRAExtendedResource` is off. */
  readonly ignoresExtendedClaims?: boolean;
}

/** `null`: no claim was created, because there was nothing to allocate. */
function claimNameOf({ metadata, status }: Pod, claim: PodClaim): ClaimWanted | null | { readonly error: string } {
  const pod = `pod "${metadata.namespace}/${metadata.name}"`;
  if (claim.resourceClaimName !== undefined) return { name: claim.resourceClaimName, isOwned: false };
  if (claim.resourceClaimTemplateName === undefined) {
    return { error: `${pod}, spec.resourceClaim ${JSON.stringify(claim.name)}: none of the supported fields are set` };
  }
  const made = status?.resourceClaimStatuses?.find(({ name }) => name === claim.name);
  if (made === undefined) return { error: `${pod}: ResourceClaim not created yet` };
  const name = made.resourceClaimName ?? null;
  return name === null ? null : { name, isOwned: true };
}

const extendedClaimOf = ({ status }: Pod, { ignoresExtendedClaims }: ClaimSettings): string | undefined =>
  ignoresExtendedClaims === true ? undefined : status?.extendedResourceClaimStatus?.resourceClaimName;

export const usesClaims = (pod: Pod, node: ClaimSettings): boolean =>
  (pod.spec.resourceClaims ?? []).length > 0 || extendedClaimOf(pod, node) !== undefined;

/** The ResourceClaims of a pod in order, or upstream's text if one of them has no name yet. */
export function claimsWanted(pod: Pod, node: ClaimSettings): readonly ClaimWanted[] | { readonly error: string } {
  const claims: ClaimWanted[] = [];
  for (const claim of pod.spec.resourceClaims ?? []) {
    const found = claimNameOf(pod, claim);
    if (found === null) continue;
    if ('error' in found) return found;
    claims.push(found);
  }
  const extended = extendedClaimOf(pod, node);
  return extended === undefined ? claims : [...claims, { name: extended, isOwned: false }];
}

interface ClaimFor {
  readonly uid: string;
  readonly pod: string;
  readonly namespace: string;
}

/** A claim of the API server, or why this pod may not use it. */
export function claimVerdict(
  object: JsonObject,
  { isOwned, name }: ClaimWanted,
  pod: ClaimFor,
): FetchedClaim | { readonly error: string } {
  const { metadata, status } = object;
  const { uid: written, ownerReferences } = isObject(metadata) ? metadata : {};
  const uid = typeof written === 'string' ? written : '';
  const { reservedFor, allocation } = isObject(status) ? status : {};
  const isOwner = listOf(ownerReferences).some(
    ({ controller, uid: owner }) => controller === true && owner === pod.uid,
  );
  if (isOwned && !isOwner) {
    const both = `ResourceClaim ${pod.namespace}/${name} was not created for Pod ${pod.namespace}/${pod.pod}`;
    return { error: `${both} (Pod is not owner)` };
  }
  if (!listOf(reservedFor).some((each) => each['uid'] === pod.uid)) {
    return { error: `pod ${pod.pod} (${pod.uid}) is not allowed to use ResourceClaim ${name} (${uid})` };
  }
  if (!isObject(allocation)) return { error: `ResourceClaim ${name}: not allocated` };
  const { results } = isObject(allocation['devices']) ? allocation['devices'] : {};
  const drivers = listOf(results).flatMap(({ driver }) => (typeof driver === 'string' ? [driver] : []));
  return { uid, name, drivers: [...new Set(drivers)] };
}

const listOf = (value: unknown): readonly Readonly<Record<string, unknown>>[] =>
  Array.isArray(value) ? value.filter((each) => isObject(each)) : [];

/** The requests of the ResourceClaims that a container uses; an empty request stands for the whole claim. */
function requestsOf(pod: Pod, container: Container, node: ClaimSettings): readonly (readonly [string, string])[] {
  const containerClaims = container.resources?.claims ?? [];
  const named = (pod.spec.resourceClaims ?? []).flatMap((claim) => {
    const found = claimNameOf(pod, claim);
    if (found === null || 'error' in found) return [];
    return containerClaims
      .filter(({ name }) => name === claim.name)
      .map(({ request }) => [found.name, request ?? ''] as const);
  });
  return [...named, ...extendedRequestsOf(pod, container, node)];
}

/** Extended resources that are provided by the scheduler's claim instead of a device plugin. */
function extendedRequestsOf(pod: Pod, { name, resources }: Container, node: ClaimSettings) {
  const claim = extendedClaimOf(pod, node);
  if (claim === undefined) return [];
  const isAsked = (resource: string): boolean =>
    (isExtendedResource(resource) || resource.startsWith(DEVICE_CLASS_PREFIX)) &&
    nanoOf(resources?.requests?.[resource] ?? '0') !== 0n;
  return (pod.status?.extendedResourceClaimStatus?.requestMappings ?? []).flatMap(
    ({ containerName, resourceName, requestName }) =>
      containerName === name && isAsked(resourceName) ? [[claim, requestName] as const] : [],
  );
}

const isFor = ({ requests }: ClaimDevice, request: string): boolean =>
  request === '' || requests.length === 0 || requests.includes(request);

/** The CDI names of a container's devices, or upstream's text if one of its claims is not prepared. */
export function cdiDevicesOf(
  pod: Pod,
  container: Container,
  node: ClaimSettings,
  claims: PreparedClaims,
): readonly string[] | { readonly error: string } {
  const names: string[] = [];
  for (const [claim, request] of requestsOf(pod, container, node)) {
    const devices = Object.hasOwn(claims, claim) ? claims[claim] : undefined;
    if (devices === undefined) return { error: unknownClaim(claim, pod.metadata.namespace) };
    names.push(...allOf(devices).flatMap(([, device]) => (isFor(device, request) ? device.cdi : [])));
  }
  return names;
}

const unknownClaim = (claim: string, namespace: string): string =>
  `internal error: unable to get claim info for ResourceClaim ${claim} in namespace ${namespace}`;

/** Each device with the name of its driver. */
export const allOf = (devices: DevicesByDriver): readonly (readonly [driver: string, device: ClaimDevice])[] =>
  Object.entries(devices).flatMap(([driver, list]) => list.map((device) => [driver, device] as const));

export const deviceKey = (driver: string, { pool, device }: ClaimDevice): string => `${driver}/${pool}/${device}`;

/** The prepared claims of a container, each once: for the pod resources API. */
export function containerClaims(
  pod: Pod,
  container: Container,
  node: ClaimSettings,
  claims: PreparedClaims,
): PreparedClaims {
  const names = new Set(requestsOf(pod, container, node).map(([claim]) => claim));
  return pickKeys(claims, (name) => names.has(name));
}

interface ResourceHealth {
  readonly resourceID: string;
  readonly health: string;
  readonly message?: string;
}

/** `allocatedResourcesStatus` of a container: the health of its claims' devices. KEP 4680. */
export function claimHealthOf(
  pod: Pod,
  { resources }: Container,
  claims: PreparedClaims,
  health: ClaimHealth,
  hasMessages: boolean,
): readonly { readonly name: string; readonly resources: readonly ResourceHealth[] }[] {
  return (resources?.claims ?? []).flatMap(({ name, request = '' }) => {
    const claim = (pod.spec.resourceClaims ?? []).find((each) => each.name === name);
    const found = claim === undefined ? null : claimNameOf(pod, claim);
    if (found === null || 'error' in found) return [];
    const [base = ''] = request.split('/', 1);
    const devices = allOf(Object.hasOwn(claims, found.name) ? (claims[found.name] ?? {}) : {}).filter(([, device]) =>
      isFor(device, base),
    );
    const states = devices.map(([driver, device]) => healthOf(driver, device, health, hasMessages));
    const each = [...new Map(states.map((state) => [state.resourceID, state])).values()];
    return each.length === 0 ? [] : [{ name: `claim:${name}${request === '' ? '' : `/${request}`}`, resources: each }];
  });
}

function healthOf(driver: string, device: ClaimDevice, known: ClaimHealth, hasMessages: boolean): ResourceHealth {
  const key = deviceKey(driver, device);
  const { health = 'Unknown', message = '' } = known[key] ?? {};
  return {
    resourceID: device.cdi[0] ?? key,
    health,
    ...(hasMessages && message !== '' ? { message: shortened(message) } : {}),
  };
}

const shortened = (text: string): string =>
  text.length <= HEALTH_MESSAGE_MAX ? text : `${text.slice(0, HEALTH_MESSAGE_MAX - CUT.length)}${CUT}`;

/**
 * Why a node of 0.2.0, which had no resource drivers, ran no pod with claims: needed to replay its journals. `null`:
 * the pod waits for no claim.
 */
export function claimRefusal({ spec, status }: Pod): string | null {
  const namedClaims = (spec.resourceClaims ?? []).filter(({ name, resourceClaimName }) => {
    const made = status?.resourceClaimStatuses?.find((each) => each.name === name);
    // No claim was created, because there was nothing to allocate.
    return resourceClaimName !== undefined || made === undefined || (made.resourceClaimName ?? null) !== null;
  });
  const names = namedClaims.map(({ name }) => name);
  const extended = status?.extendedResourceClaimStatus?.resourceClaimName;
  const all = extended === undefined ? names : [...names, extended];
  return all.length === 0 ? null : `no resource driver is registered for the claims [${all.join(' ')}]`;
}

/** Below the root directory. */
export const CLAIM_STATE_FILE = 'dra_manager_state';

/** The state of a claim that pods of this node use. */
export interface ClaimState {
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
  /** Uids of the pods that use it. */
  readonly pods: readonly string[];
  /** All drivers in its allocation, including those without devices for it. */
  readonly drivers: DevicesByDriver;
}

const HEAD = { kind: 'DRACheckpoint', apiVersion: 'checkpoint.dra.kubelet.k8s.io/v1' };

const POLYNOMIAL = 0xedb88320;
const BYTE_VALUES = 256;
const BITS = 8;

/** The CRC of each byte value. */
const TABLE: readonly number[] = Array.from({ length: BYTE_VALUES }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < BITS; bit++) rest = (rest & 1) === 1 ? (rest >>> 1) ^ POLYNOMIAL : rest >>> 1;
  return rest;
});

/** CRC-32 (IEEE) of the UTF-8 of a text. */
export function crc32(text: string): number {
  let rest = 0xffffffff;
  for (const byte of new TextEncoder().encode(text)) rest = (rest >>> BITS) ^ TABLE[(rest ^ byte) & 0xff]!;
  return (rest ^ 0xffffffff) >>> 0;
}

export function claimStateText(claims: readonly ClaimState[]): string {
  const list = claims.map(({ uid, name, namespace, pods, drivers }) => ({
    ClaimUID: uid,
    ClaimName: name,
    Namespace: namespace,
    PodUIDs: Object.fromEntries(pods.toSorted().map((pod) => [pod, {}])),
    DriverState: mapValues(drivers, writtenDevices),
  }));
  const data = JSON.stringify({ ...HEAD, ClaimInfoStateList: list });
  return JSON.stringify({ Data: data, Checksum: crc32(data) });
}

const writtenDevices = (devices: readonly ClaimDevice[]) => ({
  Devices:
    devices.length === 0
      ? null
      : devices.map(({ pool, device, share, requests, cdi }) => ({
          PoolName: pool,
          DeviceName: device,
          ShareID: share,
          RequestNames: requests,
          CDIDeviceIDs: cdi,
        })),
});

/** The claims of a checkpoint, or upstream's error why it is unreadable. */
export function readClaimState(text: string): { readonly claims: readonly ClaimState[] } | { readonly error: string } {
  const outer = decoded(text, 'state.Checkpoint');
  if ('error' in outer) return outer;
  const { Data: data, Checksum: written } = outer.value;
  if (typeof data !== 'string' || written !== crc32(data)) return { error: CORRUPTED };
  const inner = decoded(data, 'state.CheckpointData');
  if ('error' in inner) return inner;
  const list = inner.value['ClaimInfoStateList'] ?? [];
  const claims = Array.isArray(list) ? list.map(claimIn) : [null];
  return claims.every((claim) => claim !== null) ? { claims } : { error: CORRUPTED };
}

function claimIn(value: unknown): ClaimState | null {
  if (!isObject(value)) return null;
  const { ClaimUID: uid, ClaimName: name, Namespace: namespace, PodUIDs: pods, DriverState: drivers } = value;
  if (typeof uid !== 'string' || typeof name !== 'string' || typeof namespace !== 'string') return null;
  const byDriver = Object.entries(isObject(drivers) ? drivers : {}).map(([driver, state]) => {
    const list = isObject(state) && Array.isArray(state['Devices']) ? state['Devices'] : [];
    return [driver, list.filter(isObject).map(deviceIn)] as const;
  });
  const uids = Object.keys(isObject(pods) ? pods : {});
  return { uid, name, namespace, pods: uids, drivers: Object.fromEntries(byDriver) };
}

const deviceIn = (value: Readonly<Record<string, unknown>>): ClaimDevice => ({
  pool: textOf(value['PoolName']),
  device: textOf(value['DeviceName']),
  share: typeof value['ShareID'] === 'string' ? value['ShareID'] : null,
  requests: textsOf(value['RequestNames']),
  cdi: textsOf(value['CDIDeviceIDs']),
});

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

const textsOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
