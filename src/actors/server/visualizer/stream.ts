/**
 * The open pages: each hears every turn as one server-sent event.
 *
 * A page that reads too slowly is disconnected instead of being waited for; it comes back by itself with the number of
 * the last record it saw and gets the turns it missed. Invariant: what is held for one page never passes
 * CLIENT_BUFFER_BYTES.
 */
import type { ServerResponse } from 'node:http';
import type { HelloMessage, TurnMessage } from './protocol.ts';

/** Bytes waiting for one page: some seconds of a busy start. */
const CLIENT_BUFFER_BYTES = 4 * 1024 * 1024;
/** Open pages. A browser itself allows six to one address. */
export const CLIENTS_MAX = 16;
/** Milliseconds that a page waits before it comes back. */
const RETRY_MS = 1_000;

export class Stream {
  private readonly clients = new Set<ServerResponse>();

  get size(): number {
    return this.clients.size;
  }

  open(client: ServerResponse, hello: HelloMessage, missed: readonly TurnMessage[]): void {
    this.clients.add(client);
    client.once('close', () => this.clients.delete(client));
    client.write(`retry: ${RETRY_MS}\nevent: hello\ndata: ${JSON.stringify(hello)}\n\n`);
    for (const message of missed) client.write(turnEvent(message));
  }

  send(message: TurnMessage): void {
    const text = turnEvent(message);
    for (const client of this.clients) {
      client.write(text);
      if (client.writableLength > CLIENT_BUFFER_BYTES) client.destroy();
    }
  }

  close(): void {
    for (const client of this.clients) client.end();
  }
}

const turnEvent = (message: TurnMessage): string =>
  `id: ${message.n}\nevent: turn\ndata: ${JSON.stringify(message)}\n\n`;
