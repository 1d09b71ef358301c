/**
 * Serves gRPC on a Unix socket. Access is controlled by the socket's directory, which pods may have mounted.
 * Connections are limited, because each is a descriptor of the agent.
 */
import { createServer } from 'node:net';
import * as grpc from '@grpc/grpc-js';
import { OperationError } from '../kernel/json.ts';

/** The limit of connections: several times the plugins and monitoring agents of a node. */
const CONNECTIONS_MAX = 128;

/** Serves on the socket. The returned function ends serving and closes the connections. */
export async function serveSocket(server: grpc.Server, path: string): Promise<() => void> {
  const injector = server.createConnectionInjector(grpc.ServerCredentials.createInsecure());
  const listener = createServer((socket) => injector.injectConnection(socket));
  listener.maxConnections = CONNECTIONS_MAX;
  await new Promise<void>((resolve, reject) => {
    listener.on('error', (error) => reject(new OperationError(`cannot listen on ${path}: ${error.message}`)));
    listener.listen(path, resolve);
  });
  return () => {
    listener.close();
    server.forceShutdown();
  };
}
