/**
 * Ports for `devices.*`: the calls to device plugins, each over the connection on which its devices are followed.
 *
 * Invariant: a plugin is known by its resource while its stream is open, and for five minutes after: its containers can
 * restart without it, unless it requires a call before each start.
 * Upstream: pkg/kubelet/cm/devicemanager/endpoint.go and plugin/v1beta1/client.go.
 */

import * as grpc from '@grpc/grpc-js';
import { OperationError } from '../../kernel/json.ts';
import type { Port, PortCall, Ports } from '../../kernel/operation.ts';
import { messageOf } from '../../kernel/thrown.ts';
import { deviceStateText } from '../../machines/model/allocation/device-state.ts';
import type {
  Device,
  DeviceEntry,
  DevicePlugin,
  DeviceResponse,
  DevicesListed,
  deviceOperations,
} from '../../machines/model/operations/devices.ts';
import { toOperationError } from '../cri/client.ts';
import { replaceFile } from '../host/soft-state.ts';
import { connected, messagesOf, methodOf, unary } from '../plugins/connection.ts';
import { TokenBucket } from '../token-bucket.ts';
import { type AllocateReply, DEVICE_PLUGIN, isNewFolder, optionsAt, serveRegistration } from './device-registration.ts';

type Operations = typeof deviceOperations;

/** The timeout, after which only the pod fails. Upstream waits without limit. */
const ALLOCATE_TIMEOUT_MS = 120_000;
/** Upstream's timeout. */
const PRE_START_TIMEOUT_MS = 30_000;
/** Fits a node with thousands of devices; a plugin that sends more would fill the journal. */
const LIST_MAX_BYTES = 1_024 * 1_024;
/** Each listed device costs the turn some microseconds. */
const DEVICES_MAX = 8_192;
/** The limit of devices of all resources together: each report of the node contains all of them. */
const ALL_DEVICES_MAX = 32_768;
/** Lists of one plugin accepted at once, as when its devices fail one by one, and then per second. */
const [LISTS_BURST, LISTS_PER_SECOND] = [20, 2];

/** Upstream's grace period: after it the plugin has registered again, or was removed. */
const STOP_GRACE_MS = 300_000;

interface Connection extends DevicePlugin {
  readonly client: grpc.Client;
  /** Devices in its last list. */
  count: number;
  /** When the plugin's stream ended. */
  endedAtMs?: number;
}

export function devicePorts(): Ports<Operations> {
  const connections = new Map<string, Connection>();
  return {
    'devices.isNewFolder': isNewFolder,
    'devices.serveRegistration': serveRegistration,
    'devices.getOptions': ({ input: { endpoint }, signal }) => optionsAt(endpoint, signal),
    'devices.listAndWatch': (call) => listAndWatch(connections, call),
    'devices.getPreferredAllocation': preferredAllocation(connections),
    'devices.allocate': allocate(connections),
    'devices.preStartContainers': preStartContainers(connections),
    'devices.writeCheckpoint': writeDeviceCheckpoint,
  };
}

type Connections = ReadonlyMap<string, Connection>;

interface ListReply {
  readonly devices: readonly {
    readonly ID: string;
    readonly health: string;
    readonly topology: { readonly nodes: readonly { readonly ID: string }[] } | null;
  }[];
}

async function listAndWatch(
  connections: Map<string, Connection>,
  call: PortCall<DevicePlugin, DevicesListed>,
): Promise<null> {
  const { input, signal } = call;
  const options = { 'grpc.max_receive_message_length': LIST_MAX_BYTES };
  await connected(
    input.endpoint,
    signal,
    async (client) => {
      const connection: Connection = { ...input, client, count: 0 };
      forgetEnded(connections);
      connections.set(input.resource, connection);
      try {
        await followLists(connection, connections, call);
      } finally {
        connection.endedAtMs = performance.now();
      }
    },
    options,
  );
  return null;
}

/** A plugin that sends lists endlessly is slowed down by its own stream: no list is queued here. */
async function followLists(
  connection: Connection,
  connections: Connections,
  call: PortCall<DevicePlugin, DevicesListed>,
): Promise<void> {
  const { client } = connection;
  const { signal } = call;
  const method = methodOf<object, ListReply>(DEVICE_PLUGIN, 'ListAndWatch');
  const bucket = new TokenBucket(LISTS_PER_SECOND, LISTS_BURST);
  let before = '';
  try {
    for await (const { devices } of messagesOf(client, method, signal)) {
      enforceLimits(devices.length, connection, connections);
      connection.count = devices.length;
      await bucket.take(signal);
      const listed = devices.map(deviceOf).toSorted((a, b) => (a.id < b.id ? -1 : 1));
      const text = JSON.stringify(listed);
      if (text !== before) call.emit({ type: 'devices.listed', devices: listed });
      before = text;
    }
  } catch (error) {
    throw error instanceof OperationError ? error : toOperationError(error);
  }
}

function enforceLimits(count: number, connection: Connection, connections: Connections): void {
  if (count > DEVICES_MAX) throw tooMany(count, `${DEVICES_MAX} of one resource`);
  const others = [...connections.values()].filter((each) => each !== connection);
  const all = others.reduce((sum, each) => sum + each.count, count);
  if (all > ALL_DEVICES_MAX) throw tooMany(count, `${ALL_DEVICES_MAX} of all resources, and would have ${all}`);
}

const tooMany = (count: number, limit: string): OperationError =>
  new OperationError(`the plugin has ${count} devices: a node takes at most ${limit}`, { code: 'RESOURCE_EXHAUSTED' });

const deviceOf = ({ ID, health, topology }: ListReply['devices'][number]): Device => ({
  id: ID,
  isHealthy: health === 'Healthy',
  nodes: topology === null ? null : topology.nodes.map((node) => Number(node.ID)).toSorted((a, b) => a - b),
});

const isKnown = ({ endedAtMs }: Connection): boolean =>
  endedAtMs === undefined || performance.now() - endedAtMs < STOP_GRACE_MS;

function forgetEnded(connections: Map<string, Connection>): void {
  for (const [resource, connection] of connections) if (!isKnown(connection)) connections.delete(resource);
}

function connectionOf(connections: Connections, resource: string): Connection {
  const found = connections.get(resource);
  if (found && isKnown(found)) return found;
  throw new OperationError(`endpoint not found in cache for a registered resource: ${resource}`, { code: 'NOT_FOUND' });
}

function openConnection(connections: Connections, resource: string): Connection {
  const found = connectionOf(connections, resource);
  if (found.endedAtMs === undefined) return found;
  throw new OperationError(`endpoint ${resource} has been stopped`, { code: 'NOT_FOUND' });
}

interface PreferredReply {
  readonly container_responses: readonly { readonly deviceIDs: readonly string[] }[];
}

const preferredAllocation =
  (connections: Connections): Port<Operations['devices.getPreferredAllocation']> =>
  async ({ input: { resource, available, mustInclude, size } }) => {
    const { client } = openConnection(connections, resource);
    const request = {
      available_deviceIDs: available,
      must_include_deviceIDs: mustInclude,
      allocation_size: size,
    };
    const method = methodOf<object, PreferredReply>(DEVICE_PLUGIN, 'GetPreferredAllocation');
    const reply = await unary(client, method, { container_requests: [request] }, ALLOCATE_TIMEOUT_MS);
    return { ids: reply.container_responses[0]?.deviceIDs ?? [] };
  };

const allocate =
  (connections: Connections): Port<Operations['devices.allocate']> =>
  async ({ input: { resource, ids } }) => {
    const { client } = openConnection(connections, resource);
    const method = methodOf<object, AllocateReply>(DEVICE_PLUGIN, 'Allocate');
    const request = { container_requests: [{ devices_ids: ids }] };
    const { container_responses: responses } = await unary(client, method, request, ALLOCATE_TIMEOUT_MS);
    if (responses[0] === undefined) {
      throw new OperationError('no containers return in allocation response &AllocateResponse{}', { code: 'EMPTY' });
    }
    return responseOf(responses[0]);
  };

const responseOf = (reply: AllocateReply['container_responses'][number]): DeviceResponse => ({
  envs: reply.envs,
  mounts: reply.mounts.map((mount) => ({
    containerPath: mount.container_path,
    hostPath: mount.host_path,
    readOnly: mount.read_only,
  })),
  devices: reply.devices.map((device) => ({
    containerPath: device.container_path,
    hostPath: device.host_path,
    permissions: device.permissions,
  })),
  annotations: reply.annotations,
  cdiDevices: reply.cdi_devices.map(({ name }) => name),
});

const preStartContainers =
  (connections: Connections): Port<Operations['devices.preStartContainers']> =>
  async ({ input: { containers } }) => {
    const failed = new Map<string, string>();
    const started = containers.map(async ({ name, devices }) => {
      try {
        for (const [resource, ids] of Object.entries(devices)) await preStart(connections, resource, ids);
      } catch (error) {
        failed.set(name, messageOf(error));
      }
    });
    await Promise.all(started);
    return { failed: Object.fromEntries(failed) };
  };

async function preStart(connections: Connections, resource: string, ids: readonly string[]): Promise<void> {
  if (!connectionOf(connections, resource).options.preStart) return;
  try {
    const { client } = openConnection(connections, resource);
    const method = methodOf<object, object>(DEVICE_PLUGIN, 'PreStartContainer');
    await unary(client, method, { devices_ids: ids }, PRE_START_TIMEOUT_MS);
  } catch (error) {
    throw new OperationError(`device plugin PreStartContainer rpc failed with err: ${messageOf(error)}`);
  }
}

/**
 * `devices.writeCheckpoint`: the kubelet's file of each container's devices. It stores the plugins' responses as
 * protobuf bytes.
 */
const writeDeviceCheckpoint: Port<(typeof deviceOperations)['devices.writeCheckpoint']> = async ({
  id,
  input: { path, entries, registered },
}) => {
  await replaceFile(path, deviceStateText(entries.map(withBytes), registered), id);
  return null;
};

function withBytes({ response, ...entry }: DeviceEntry) {
  const bytes = encoded(response);
  return { ...entry, bytes: [...bytes], base64: bytes.toString('base64') };
}

/** The continuation bit of a varint's bytes. */
const MORE_GROUPS = 0x80;

/** A container's response is preceded by its field number and length. */
function encoded({ envs, mounts, devices, annotations, cdiDevices }: DeviceResponse): Buffer {
  const { responseSerialize } = methodOf<object, AllocateReply>(DEVICE_PLUGIN, 'Allocate');
  const reply = responseSerialize({
    container_responses: [
      {
        envs,
        mounts: mounts.map((mount) => ({
          container_path: mount.containerPath,
          host_path: mount.hostPath,
          read_only: mount.readOnly,
        })),
        devices: devices.map((device) => ({
          container_path: device.containerPath,
          host_path: device.hostPath,
          permissions: device.permissions,
        })),
        annotations,
        cdi_devices: cdiDevices.map((name) => ({ name })),
      },
    ],
  });
  let start = 1;
  while ((reply[start]! & MORE_GROUPS) !== 0) start += 1;
  return reply.subarray(start + 1);
}
