/**
 * `kubelet_internal_checkpoint`: which devices containers have, as the kubelet writes it. A projection of what
 * `allocation` gave. Pure. Upstream: devicemanager/checkpoint/checkpoint.go.
 */
import { fnv1a32 } from '../spec/hash.ts';
import { goField, goList, goMap, goStruct } from './checkpoint.ts';

export interface DeviceStateEntry {
  readonly podUid: string;
  readonly container: string;
  readonly resource: string;
  /** Ids by NUMA node, `-1` where there is none. */
  readonly nodes: Readonly<Record<string, readonly string[]>>;
  /** What the plugin said, in the bytes of the protocol. */
  readonly bytes: readonly number[];
  readonly base64: string;
}

type Registered = Readonly<Record<string, readonly string[]>>;

const sorted = <Value>(table: Readonly<Record<string, Value>>): (readonly [string, Value])[] =>
  Object.entries(table).toSorted(([a], [b]) => (a < b ? -1 : 1));

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

/** A list that there is not is not an empty one. */
const printedEntries = (entries: readonly DeviceStateEntry[]): string =>
  entries.length === 0 ? '<nil>' : goList(entries.map(printedEntry));

const checksum = (entries: readonly DeviceStateEntry[], registered: Registered): number =>
  fnv1a32(
    `(checkpoint.checkpointData)${goStruct(
      goField('PodDeviceEntries', '[]checkpoint.PodDevicesEntry', printedEntries(entries)),
      goField(
        'RegisteredDevices',
        'map[string][]string',
        goMap(sorted(registered).map(([resource, ids]) => [resource, goList(ids)])),
      ),
    )}`,
  );

export function deviceStateText(entries: readonly DeviceStateEntry[], registered: Registered): string {
  const written = entries.map(({ podUid, container, resource, nodes, base64 }) => ({
    PodUID: podUid,
    ContainerName: container,
    ResourceName: resource,
    DeviceIDs: Object.fromEntries(sorted(nodes)),
    AllocResp: base64,
  }));
  return JSON.stringify({
    Data: {
      PodDeviceEntries: written.length === 0 ? null : written,
      RegisteredDevices: Object.fromEntries(sorted(registered)),
    },
    Checksum: checksum(entries, registered),
  });
}
