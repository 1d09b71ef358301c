/**
 * Credentials of a gRPC client without TLS whose connections end with it.
 *
 * grpc-js leaves a connection open for ever whose server never answers its handshake, also after the client is closed:
 * each probe of a silent server would cost a descriptor.
 */
import type { Socket } from 'node:net';
import * as grpc from '@grpc/grpc-js';

type Create = grpc.ChannelCredentials['_createSecureConnector'];

/** For what a closed client says last. */
const LINGER_MS = 1_000;

export class PlainCredentials extends grpc.ChannelCredentials {
  readonly #plain = grpc.credentials.createInsecure();
  readonly #sockets = new Set<Socket>();
  #isClosed = false;

  /** Ends the connections that the client leaves open; to be called after its end. */
  close(): void {
    this.#isClosed = true;
    if (this.#sockets.size > 0) setTimeout(() => this.#destroy(), LINGER_MS).unref();
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
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
      // It connected after the end.
      if (this.#isClosed) socket.destroy();
      return connector.connect(socket);
    };
    return { ...connector, connect };
  }
}
