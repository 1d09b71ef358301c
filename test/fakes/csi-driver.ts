/** A plugin of the node as its sidecar and its driver make one: real gRPC on real sockets, and a memory of what it heard. */
import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const CONTRACT = loadSync(['pluginregistration/v1/api.proto', 'csi/v1/csi.proto'], {
  includeDirs: [fileURLToPath(new URL('../../proto', import.meta.url))],
  keepCase: true,
  longs: String,
  defaults: true,
});

export interface CsiDriverOptions {
  /** Socket of the registration. */
  readonly socket: string;
  readonly type?: string;
  readonly name?: string;
  /** Socket of the driver; default: the one of the registration. */
  readonly endpoint?: string;
  readonly versions?: readonly string[];
  /** What the driver says of the node; an error instead of it fails the call. */
  readonly nodeInfo?: Record<string, unknown> | { readonly code: grpc.status; readonly details: string };
}

export interface CsiDriver {
  /** What the kubelet said of the registration, in order. */
  readonly statuses: { readonly plugin_registered: boolean; readonly error: string }[];
  /** Ends both services; their sockets are removed. */
  close(): void;
}

type Handler = grpc.handleUnaryCall<Record<string, unknown>, unknown>;

const NODE_INFO = { node_id: 'id-of-node1', max_volumes_per_node: '7', accessible_topology: null };

export async function startCsiDriver(options: CsiDriverOptions): Promise<CsiDriver> {
  const statuses: CsiDriver['statuses'] = [];
  const { socket, type = 'CSIPlugin', name = 'csi.example.test', endpoint = '', versions = ['1.0.0'] } = options;
  const nodeInfo = options.nodeInfo ?? NODE_INFO;
  const registration: Record<string, Handler> = {
    GetInfo: (_call, reply) => reply(null, { type, name, endpoint, supported_versions: versions }),
    NotifyRegistrationStatus: ({ request }, reply) => {
      statuses.push(request as never);
      reply(null, {});
    },
  };
  const node: Record<string, Handler> = {
    NodeGetInfo: (_call, reply) => ('code' in nodeInfo ? reply(nodeInfo) : reply(null, nodeInfo)),
  };
  const servers = [new grpc.Server()];
  if (endpoint !== '' && endpoint !== socket) servers.push(new grpc.Server());
  servers[0]!.addService(CONTRACT['pluginregistration.Registration'] as grpc.ServiceDefinition, registration);
  servers.at(-1)!.addService(CONTRACT['csi.v1.Node'] as grpc.ServiceDefinition, node);
  if (servers.length > 1) await listen(servers[1]!, endpoint);
  await listen(servers[0]!, socket);
  return { statuses, close: () => void servers.map((server) => server.forceShutdown()) };
}

const listen = (server: grpc.Server, socket: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const done = (error: Error | null, port: number) => (error ? reject(error) : resolve(port));
    server.bindAsync(`unix://${socket}`, grpc.ServerCredentials.createInsecure(), done);
  });
