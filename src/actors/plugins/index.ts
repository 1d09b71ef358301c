/** Ports for `plugins.*`, `devices.*` and `dra.*`: the plugin registration folder, and the calls to plugins. */

import { OperationError, toPlainError } from '../../kernel/json.ts';
import type { Port, Ports } from '../../kernel/operation.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type { deviceOperations } from '../../machines/model/operations/devices.ts';
import type { draOperations } from '../../machines/model/operations/dra.ts';
import type { CSINodeInfo, pluginOperations } from '../../machines/model/operations/plugins.ts';
import { callDriver } from '../csi/volumes.ts';
import { devicePorts } from '../devices/devices.ts';
import { draPorts } from '../dra/index.ts';
import { pause, watchChanges } from '../pause.ts';
import { connected, methodOf, unary } from './connection.ts';
import { watchPlugins } from './sockets.ts';

export const pluginPorts = (): Ports<typeof pluginOperations & typeof deviceOperations & typeof draOperations> => ({
  ...devicePorts(),
  ...draPorts(),
  'plugins.watch': watchPlugins,
  'plugins.getInfo': getInfo,
  'plugins.notifyRegistrationStatus': notifyRegistrationStatus,
  'plugins.csiNodeGetInfo': csiNodeGetInfo,
  'plugins.followNodeInfo': followNodeInfo,
});

/** Upstream's timeouts of the handshake. */
const GET_INFO_TIMEOUT_MS = 1_000;
const NOTIFY_TIMEOUT_MS = 5_000;

const REGISTRATION = 'pluginregistration.Registration';

/** The same error, prefixed with the attempted action. */
function prefixedError(what: string, thrown: unknown): OperationError {
  const { message, code, retriable } = toPlainError(thrown);
  return new OperationError(`RegisterPlugin error -- ${what}, err: ${message}`, {
    ...(code ? { code } : {}),
    retriable,
  });
}

interface InfoReply {
  readonly type: string;
  readonly name: string;
  readonly endpoint: string;
  readonly supported_versions: readonly string[];
}

/**
 * Calls to plugins of the node over gRPC at their own sockets: the registration handshake, and a CSI driver's
 * information about this node.
 *
 * Upstream: pkg/kubelet/pluginmanager/operationexecutor/operation_generator.go, pkg/volume/csi/csi_client.go.
 */
const getInfo: Port<(typeof pluginOperations)['plugins.getInfo']> = async ({ input: { socket }, signal }) => {
  let failure = `dial failed at socket ${socket}`;
  try {
    return await connected(socket, signal, async (client) => {
      failure = `failed to get plugin info using RPC GetInfo at socket ${socket}`;
      const method = methodOf<object, InfoReply>(REGISTRATION, 'GetInfo');
      const reply = await unary(client, method, {}, GET_INFO_TIMEOUT_MS);
      const { type, name, endpoint, supported_versions: versions } = reply;
      return { type, name, endpoint, versions };
    });
  } catch (error) {
    throw prefixedError(failure, error);
  }
};

const notifyRegistrationStatus: Port<(typeof pluginOperations)['plugins.notifyRegistrationStatus']> = async ({
  input: { socket, registered, error },
  signal,
}) => {
  const method = methodOf<object, object>(REGISTRATION, 'NotifyRegistrationStatus');
  const status = { plugin_registered: registered, error };
  await connected(socket, signal, (client) => unary(client, method, status, NOTIFY_TIMEOUT_MS));
  return null;
};

interface NodeInfoReply {
  readonly node_id: string;
  readonly max_volumes_per_node: string;
  readonly accessible_topology: { readonly segments: Readonly<Record<string, string>> } | null;
}

async function askNodeInfo(endpoint: string, signal: AbortSignal): Promise<CSINodeInfo> {
  const reply = await callDriver<NodeInfoReply>(endpoint, 'NodeGetInfo', {}, signal);
  const topology = reply.accessible_topology?.segments ?? {};
  const topologyKeys = Object.keys(topology).toSorted();
  return { nodeID: reply.node_id, maxVolumes: reply.max_volumes_per_node, topologyKeys, topology };
}

const csiNodeGetInfo: Port<(typeof pluginOperations)['plugins.csiNodeGetInfo']> = ({ input: { endpoint }, signal }) =>
  askNodeInfo(endpoint, signal);

const followNodeInfo: Port<(typeof pluginOperations)['plugins.followNodeInfo']> = async (call) => {
  const { endpoint, periodMs } = call.input;
  const { signal } = call;
  const ask = () =>
    askNodeInfo(endpoint, signal).then(
      (info) => ({ info, error: '' }),
      (error: unknown) => ({ info: null, error: messageOf(error) }),
    );
  // The driver was already asked at its registration.
  await pause(periodMs, signal);
  return await watchChanges({
    ask,
    periodMs,
    signal,
    emit: (answer) => call.emit({ type: 'plugin.nodeInfo', ...answer }),
  });
};
