/**
 * `dra_manager_state`: the ResourceClaims prepared on this node and their pods, in the kubelet's format. Pure.
 *
 * Invariant: files of a Go kubelet are readable here, and the reverse.
 * Upstream: pkg/kubelet/cm/dra/state (JSON in JSON, with the CRC-32 of the inner text).
 */
import { isObject } from '../../../kernel/xstate.ts';
import { CORRUPTED, decoded } from '../allocation/checkpoint.ts';
import type { ClaimDevice } from '../operations/dra.ts';
import type { DevicesByDriver } from './messages.ts';

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
    DriverState: Object.fromEntries(Object.entries(drivers).map(([driver, all]) => [driver, writtenDevices(all)])),
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
