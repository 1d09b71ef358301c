/**
 * What plugins of the node are asked, over gRPC at their own sockets: the handshake of registration, and what a CSI
 * driver calls this node.
 *
 * Invariants: one connection a question, closed with its answer; every question ends, by answer, deadline or abort.
 * Upstream: pkg/kubelet/pluginmanager/operationexecutor/operation_generator.go, pkg/volume/csi/csi_client.go.
 */
import * as grpc from '@grpc/grpc-js';
import { loadSync, type PackageDefinition } from '@grpc/proto-loader';
import { OperationError } from '../../kernel/json.ts';
import type { Port } from '../../kernel/operation.ts';
import type { pluginOperations } from '../../machines/operations/plugins.ts';
import { toOperationError } from '../cri/client.ts';
import { PROTO_DIRECTORY } from '../package-directory.ts';

/** Upstream's limits of the handshake. */
const DIAL_TIMEOUT_MS = 10_000;
const GET_INFO_TIMEOUT_MS = 1_000;
const NOTIFY_TIMEOUT_MS = 5_000;
/** Upstream's limit of a call to a CSI driver. */
const CSI_TIMEOUT_MS = 120_000;
/** The answers hold a few names; a plugin that sends more would fill the journal. */
const REPLY_MAX_BYTES = 64 * 1024;

const CHANNEL_OPTIONS: grpc.ChannelOptions = {
  'grpc.max_receive_message_length': REPLY_MAX_BYTES,
  'grpc.enable_retries': 0,
  'grpc.enable_channelz': 0,
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
  /** Behind one path there may be another plugin now. */
  'grpc.use_local_subchannel_pool': 1,
};

const REGISTRATION = 'pluginregistration.Registration';
const CSI_NODE = 'csi.v1.Node';

let contract: PackageDefinition | undefined;

function methodOf<Request, Reply>(service: string, name: string): grpc.MethodDefinition<Request, Reply> {
  contract ??= loadSync(['pluginregistration/v1/api.proto', 'csi/v1/csi.proto'], {
    includeDirs: [PROTO_DIRECTORY],
    keepCase: true,
    longs: String,
    enums: String,
    defaults: true,
  });
  const definition = contract[service] as Readonly<Record<string, unknown>>;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the contract is text, read at run time
  return definition[name] as grpc.MethodDefinition<Request, Reply>;
}

/** Opens a connection to a socket for as long as `talk` needs it. */
async function connected<Answer>(
  socket: string,
  signal: AbortSignal,
  talk: (client: grpc.Client) => Promise<Answer>,
): Promise<Answer> {
  const client = new grpc.Client(`unix://${socket}`, grpc.credentials.createInsecure(), CHANNEL_OPTIONS);
  const close = () => client.close();
  signal.addEventListener('abort', close, { once: true });
  try {
    await dialled(client, socket);
    return await talk(client);
  } finally {
    signal.removeEventListener('abort', close);
    close();
  }
}

function dialled(client: grpc.Client, socket: string): Promise<void> {
  return new Promise((resolve, reject) => {
    client.waitForReady(Date.now() + DIAL_TIMEOUT_MS, (error) => {
      const message = `failed to dial socket ${socket}, err: context deadline exceeded`;
      if (error) reject(new OperationError(message, { code: 'UNAVAILABLE', retriable: true }));
      else resolve();
    });
  });
}

function unary<Request, Reply>(
  client: grpc.Client,
  { path, requestSerialize, responseDeserialize }: grpc.MethodDefinition<Request, Reply>,
  request: Request,
  timeoutMs: number,
): Promise<Reply> {
  const deadline = Date.now() + timeoutMs;
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, { deadline }, (error, reply) => {
      if (reply === undefined) reject(toOperationError(error));
      else resolve(reply);
    });
  });
}

/** The same error with a sentence before it that says what was attempted. */
function within(what: string, thrown: unknown): OperationError {
  const { message, code, retriable } = thrown as OperationError;
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

export const getInfo: Port<(typeof pluginOperations)['plugins.getInfo']> = async ({ input: { socket }, signal }) => {
  let what = `dial failed at socket ${socket}`;
  try {
    return await connected(socket, signal, async (client) => {
      what = `failed to get plugin info using RPC GetInfo at socket ${socket}`;
      const method = methodOf<object, InfoReply>(REGISTRATION, 'GetInfo');
      const reply = await unary(client, method, {}, GET_INFO_TIMEOUT_MS);
      const { type, name, endpoint, supported_versions: versions } = reply;
      return { type, name, endpoint, versions };
    });
  } catch (error) {
    throw within(what, error);
  }
};

export const notifyRegistrationStatus: Port<(typeof pluginOperations)['plugins.notifyRegistrationStatus']> = async ({
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

export const csiNodeGetInfo: Port<(typeof pluginOperations)['plugins.csiNodeGetInfo']> = async ({
  input: { endpoint },
  signal,
}) => {
  const method = methodOf<object, NodeInfoReply>(CSI_NODE, 'NodeGetInfo');
  const reply = await connected(endpoint, signal, (client) => unary(client, method, {}, CSI_TIMEOUT_MS));
  const topologyKeys = Object.keys(reply.accessible_topology?.segments ?? {}).toSorted();
  return { nodeID: reply.node_id, maxVolumes: reply.max_volumes_per_node, topologyKeys };
};
