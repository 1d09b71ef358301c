/**
 * The devices that plugins offer, those that containers hold, and the device manager's checkpoint of them. Pure.
 *
 * In the checkpoint, the response of a plugin is a `ContainerAllocateResponse` of proto/deviceplugin in bytes.
 * Invariants of decoding it: unknown fields are skipped; invalid bytes give `null`.
 */
import { isObject } from '../../../kernel/xstate.ts';
import type { Device, DeviceEntry, DeviceResponse } from '../operations/devices.ts';
import type { DeviceHolding, DeviceHoldings } from '../operations/grants.ts';
import { fnv1a32 } from '../spec/hash.ts';
import { byBytes, isBase64 } from '../values/go-text.ts';
import { memoize } from '../values/same.ts';
import { mapValues } from '../values/tables.ts';
import { CORRUPTED, decoded, goField, goList, goMap, goStruct, sortedEntries } from './checkpoint.ts';

export interface DeviceResource {
  readonly devices: readonly Device[];
  /** No plugin lists these devices now: they cannot be allocated, and keep the health that was last reported. */
  readonly isUnlisted?: boolean;
  /** The plugin wants to be asked for its preferred devices. */
  readonly prefers: boolean;
}

/** By resource: the devices of registered plugins, and of plugins that ended recently. */
export type Devices = Readonly<Record<string, DeviceResource>>;

const NO_NODE = '-1';
const NO_DEVICES: readonly Device[] = [];

export const idsOf = ({ nodes }: DeviceHolding): readonly string[] =>
  [...new Set(Object.values(nodes).flat())].toSorted();

export const heldIds = (holdings: readonly DeviceHoldings[], resource: string): readonly string[] =>
  holdings.flatMap((each) =>
    Object.values(each).flatMap((resources) => (resources[resource] ? idsOf(resources[resource]) : [])),
  );

/** By id; of two devices with one id the first counts. */
const byId = memoize(
  (devices: readonly Device[]) => new Map(devices.toReversed().map((device) => [device.id, device])),
);

export function holdingOf(ids: readonly string[], { devices }: DeviceResource): DeviceHolding {
  const nodes: Record<string, string[]> = {};
  for (const id of ids) {
    const known = byId(devices).get(id)?.nodes ?? [];
    for (const node of known.length === 0 ? [NO_NODE] : known) (nodes[node] ??= []).push(id);
  }
  return { nodes, response: null };
}

export const healthyIds = ({ devices, isUnlisted }: DeviceResource): readonly string[] =>
  isUnlisted === true ? [] : devices.filter(({ isHealthy }) => isHealthy).map(({ id }) => id);

/** Capacity and allocatable of the node's devices. */
export function deviceAmounts(devices: Devices): {
  readonly capacity: Readonly<Record<string, string>>;
  readonly allocatable: Readonly<Record<string, string>>;
} {
  const count = (of: (resource: DeviceResource) => number) => mapValues(devices, (resource) => String(of(resource)));
  return { capacity: count((each) => each.devices.length), allocatable: count((each) => healthyIds(each).length) };
}

/** The checkpoint's entries of a pod; devices that no plugin has allocated yet are left out. */
export const entriesOf = (podUid: string, holdings: DeviceHoldings): readonly DeviceEntry[] =>
  Object.entries(holdings).flatMap(([container, resources]) =>
    Object.entries(resources).flatMap(([resource, { nodes, response }]) =>
      response === null ? [] : [{ podUid, container, resource, nodes, response }],
    ),
  );

/**
 * The devices, mounts and variables of a container, for all its resources. The first of two with the same path counts.
 */
export function deviceSetup(resources: Readonly<Record<string, DeviceHolding>>): DeviceResponse {
  const byName = Object.entries(resources).toSorted(([a], [b]) => byBytes(a, b));
  const responses = byName.flatMap(([, { response }]) => response ?? []);
  const firstOf = <Item>(items: readonly Item[], key: (item: Item) => string): readonly Item[] =>
    [...Map.groupBy(items, key).values()].flatMap((same) => same.slice(0, 1));
  const lastFirst = responses.toReversed();
  return {
    envs: Object.fromEntries(lastFirst.flatMap(({ envs }) => Object.entries(envs))),
    mounts: firstOf(
      responses.flatMap(({ mounts }) => mounts),
      ({ containerPath }) => containerPath,
    ),
    devices: firstOf(
      responses.flatMap(({ devices }) => devices),
      ({ containerPath }) => containerPath,
    ),
    annotations: Object.fromEntries(lastFirst.flatMap(({ annotations }) => Object.entries(annotations))),
    cdiDevices: firstOf(
      responses.flatMap(({ cdiDevices }) => cdiDevices),
      (name) => name,
    ),
  };
}

/** The health of a container's devices, by resource, as in a status. */
interface ResourceStatus {
  readonly name: string;
  readonly resources: readonly {
    readonly resourceID: string;
    readonly health: string;
    /** Sent by resource drivers only. */
    readonly message?: string;
  }[];
}

/** By container. */
export type DeviceHealth = Readonly<Record<string, readonly ResourceStatus[]>>;

/** The health of devices that pods hold. A device without a report counts as healthy, as upstream. */
export function deviceHealth(holdings: DeviceHoldings, devices: Devices): DeviceHealth {
  const statusOf = ([name, holding]: readonly [string, DeviceHolding]): ResourceStatus => ({
    name,
    resources: idsOf(holding).map((id) => {
      const isHealthy = byId(devices[name]?.devices ?? NO_DEVICES).get(id)?.isHealthy ?? true;
      return { resourceID: id, health: isHealthy ? 'Healthy' : 'Unhealthy' };
    }),
  });
  return mapValues(holdings, (resources) =>
    Object.entries(resources)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(statusOf),
  );
}

/**
 * `kubelet_internal_checkpoint`: the devices of containers in the kubelet's format, derived from the grants of
 * `allocation`. Pure. Upstream: devicemanager/checkpoint/checkpoint.go.
 */
export interface DeviceStateEntry {
  readonly podUid: string;
  readonly container: string;
  readonly resource: string;
  /** Ids by NUMA node, `-1` for no node. */
  readonly nodes: Readonly<Record<string, readonly string[]>>;
  /** The plugin's response, in the bytes of the protocol. */
  readonly bytes: readonly number[];
  readonly base64: string;
}

type Registered = Readonly<Record<string, readonly string[]>>;

const printedEntry = ({ podUid, container, resource, nodes, bytes }: DeviceStateEntry): string =>
  goStruct(
    goField('PodUID', 'string', podUid),
    goField('ContainerName', 'string', container),
    goField('ResourceName', 'string', resource),
    goField(
      'DeviceIDs',
      'checkpoint.DevicesPerNUMA',
      goMap(Object.entries(nodes).map(([node, ids]) => [Number(node), goList(ids)])),
    ),
    goField('AllocResp', '[]uint8', goList(bytes.map(String))),
  );

/** Go prints a nil slice differently from an empty one. */
const printedEntries = (entries: readonly DeviceStateEntry[]): string =>
  entries.length === 0 ? '<nil>' : goList(entries.map(printedEntry));

const checksum = (entries: readonly DeviceStateEntry[], registered: Registered): number =>
  fnv1a32(
    `(checkpoint.checkpointData)${goStruct(
      goField('PodDeviceEntries', '[]checkpoint.PodDevicesEntry', printedEntries(entries)),
      goField(
        'RegisteredDevices',
        'map[string][]string',
        goMap(sortedEntries(registered).map(([resource, ids]) => [resource, goList(ids)])),
      ),
    )}`,
  );

/** The content of a checkpoint. */
export interface DeviceState {
  readonly entries: readonly DeviceStateEntry[];
  readonly registered: Registered;
}

/** The content of a checkpoint, or upstream's error why it cannot be read. */
export function readDeviceState(text: string): DeviceState | { readonly error: string } {
  const found = decoded(text, 'checkpoint.Data');
  if ('error' in found) return found;
  const { Data: data, Checksum: written } = found.value;
  const { PodDeviceEntries: list, RegisteredDevices: registered } = isObject(data) ? data : {};
  const entries = (Array.isArray(list) ? list : []).map(entryOf);
  if (!isListTable(registered) || !entries.every((entry) => entry !== null)) return { error: CORRUPTED };
  return written === checksum(entries, registered) ? { entries, registered } : { error: CORRUPTED };
}

function entryOf(value: unknown): DeviceStateEntry | null {
  if (!isObject(value)) return null;
  const { PodUID: podUid, ContainerName: container, ResourceName: resource, DeviceIDs: nodes } = value;
  const base64 = value['AllocResp'] ?? '';
  if (typeof podUid !== 'string' || typeof container !== 'string' || typeof resource !== 'string') return null;
  if (!isListTable(nodes) || typeof base64 !== 'string' || !isBase64(base64)) return null;
  const bytes = Array.from(atob(base64), (character) => character.charCodeAt(0));
  return { podUid, container, resource, nodes, bytes, base64 };
}

const isListTable = (value: unknown): value is Registered =>
  isObject(value) &&
  Object.values(value).every((list) => Array.isArray(list) && list.every((id) => typeof id === 'string'));

export function deviceStateText(entries: readonly DeviceStateEntry[], registered: Registered): string {
  const written = entries.map(({ podUid, container, resource, nodes, base64 }) => ({
    PodUID: podUid,
    ContainerName: container,
    ResourceName: resource,
    DeviceIDs: Object.fromEntries(sortedEntries(nodes)),
    AllocResp: base64,
  }));
  return JSON.stringify({
    Data: {
      PodDeviceEntries: written.length === 0 ? null : written,
      RegisteredDevices: Object.fromEntries(sortedEntries(registered)),
    },
    Checksum: checksum(entries, registered),
  });
}

/** The bytes of a message, and the read position. */
interface Reader {
  readonly bytes: Uint8Array;
  at: number;
}

/** Fields by number, in the order of the message: bytes for one with a length, else a number. */
type Fields = ReadonlyMap<number, readonly (Uint8Array | number)[]>;

class Malformed extends Error {}

const VARINT = 0;
const FIXED_64 = 1;
const DELIMITED = 2;
const FIXED_32 = 5;
/** The continuation bit of a varint's bytes; the other seven are data. */
const MORE = 0x80;
const BITS = 7;
/** The wire type is in the lowest three bits of a field's key. */
const KINDS = 8;
const LONGEST_VARINT = 10;

export function decodedResponse(base64: string): DeviceResponse | null {
  try {
    const fields = fieldsOf(Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)));
    return {
      envs: table(fields, 1),
      mounts: messages(fields, 2).map((mount) => ({
        containerPath: text(mount, 1),
        hostPath: text(mount, 2),
        readOnly: mount.get(3)?.at(-1) === 1,
      })),
      devices: messages(fields, 3).map((device) => ({
        containerPath: text(device, 1),
        hostPath: text(device, 2),
        permissions: text(device, 3),
      })),
      annotations: table(fields, 4),
      cdiDevices: messages(fields, 5).map((device) => text(device, 1)),
    };
  } catch {
    return null;
  }
}

function fieldsOf(bytes: Uint8Array): Fields {
  const reader = { bytes, at: 0 };
  const fields = new Map<number, (Uint8Array | number)[]>();
  while (reader.at < bytes.length) {
    const key = readVarint(reader);
    const number = Math.floor(key / KINDS);
    fields.set(number, [...(fields.get(number) ?? []), readValue(reader, key % KINDS)]);
  }
  return fields;
}

function readValue(reader: Reader, kind: number): Uint8Array | number {
  if (kind === VARINT) return readVarint(reader);
  if (kind === DELIMITED) return take(reader, readVarint(reader));
  if (kind === FIXED_64) return take(reader, 8);
  if (kind === FIXED_32) return take(reader, 4);
  throw new Malformed();
}

function readVarint(reader: Reader): number {
  let value = 0;
  for (let place = 0; place < LONGEST_VARINT; place += 1) {
    const byte = reader.bytes[reader.at];
    if (byte === undefined) throw new Malformed();
    reader.at += 1;
    value += (byte % MORE) * 2 ** (BITS * place);
    if (byte < MORE) return value;
  }
  throw new Malformed();
}

function take(reader: Reader, length: number): Uint8Array {
  const end = reader.at + length;
  if (end > reader.bytes.length) throw new Malformed();
  const taken = reader.bytes.subarray(reader.at, end);
  reader.at = end;
  return taken;
}

const messages = (fields: Fields, number: number): readonly Fields[] =>
  (fields.get(number) ?? []).map((value) => {
    if (typeof value === 'number') throw new Malformed();
    return fieldsOf(value);
  });

function text(fields: Fields, number: number): string {
  const value = fields.get(number)?.at(-1) ?? new Uint8Array();
  if (typeof value === 'number') throw new Malformed();
  return new TextDecoder().decode(value);
}

/** A map is a list of messages with a key and a value. */
const table = (fields: Fields, number: number): Readonly<Record<string, string>> =>
  Object.fromEntries(messages(fields, number).map((entry) => [text(entry, 1), text(entry, 2)]));
