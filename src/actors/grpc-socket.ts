/**
 * gRPC over Unix sockets of this machine: addresses, credentials of clients, and servers.
 *
 * The connections of a client with these credentials (without TLS) end with the client: grpc-js never closes a
 * connection whose server does not answer its handshake, even after the client is closed, and closes one that is not
 * established only after two minutes, so each probe of a silent server would cost a descriptor.
 *
 * Access to a served socket is controlled by the socket's directory, which pods may have mounted. Connections are
 * limited, because each is a descriptor of the agent.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import { createServer, type Socket } from 'node:net';
import * as grpc from '@grpc/grpc-js';
import { OperationError } from '../kernel/json.ts';

type Create = grpc.ChannelCredentials['_createSecureConnector'];

/** The time for the last frames of a closed client, before its sockets are destroyed. */
const LINGER_MS = 1_000;

/** The client that owns a new connection: grpc-js hands out a connection only when it is established. */
const opener = new AsyncLocalStorage<(socket: Socket) => void>();
subscribe('net.client.socket', (message) => opener.getStore()?.((message as { readonly socket: Socket }).socket));

export class PlainCredentials extends grpc.ChannelCredentials {
  readonly #plain = grpc.credentials.createInsecure();
  readonly #sockets = new Set<Socket>();
  #isClosed = false;

  /** Runs `use`. The client owns every connection that begins meanwhile, also to a peer that never accepts it. */
  owning<Result>(use: () => Result): Result {
    return opener.run((socket) => this.#own(socket), use);
  }

  /** Ends the connections that the client leaves open; to be called after its end. */
  close(): void {
    this.#isClosed = true;
    if (this.#sockets.size > 0) setTimeout(() => this.#destroy(), LINGER_MS).unref();
  }

  #own(socket: Socket): void {
    if (this.#sockets.has(socket)) return;
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    // It began, or was established, after the end.
    if (this.#isClosed) socket.destroy();
  }

  #destroy(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  override _isSecure(): boolean {
    return false;
  }

  override _equals(other: grpc.ChannelCredentials): boolean {
    return this === other;
  }

  override _createSecureConnector(...given: Parameters<Create>): ReturnType<Create> {
    const connector = this.#plain._createSecureConnector(...given);
    const connect = (socket: Socket) => {
      this.#own(socket);
      return connector.connect(socket);
    };
    return { ...connector, connect };
  }
}

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
