/**
 * Keeps answers of one connection in the order of their requests where Node's HTTP server no longer does: a request
 * that takes the connection out of HTTP, and bytes that are no HTTP, may come while earlier requests have no answer.
 */
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

const latest = new WeakMap<Duplex, ServerResponse>();

/** Notes the answer to the latest request of a connection. */
export function noteAnswering(socket: Duplex, response: ServerResponse): void {
  latest.set(socket, response);
}

/** Whether an answer is on its way. Only its event `close` comes after the server has taken it off the connection. */
export const isAnswering = (socket: Duplex): boolean => latest.get(socket)?.closed === false;

/**
 * Calls `then` when the answers to all requests noted so far have left the connection; at once without any. Never calls
 * it when the connection ends before: earlier answers may close it.
 */
export function whenAnswered(socket: Duplex, then: () => void): void {
  if (!isAnswering(socket)) return then();
  latest.get(socket)!.once('close', () => {
    if (!socket.destroyed && socket.writable) then();
  });
}

/** How long a client may go on sending, into nothing, so that it can read why it was refused. Upstream's. */
const LINGER_MS = 500;

/** Closes a connection after what was written to it, whether its client closes it, too, or goes on sending. */
export function closeSoon(socket: Duplex): void {
  if (socket.destroyed) return;
  socket.end();
  socket.removeAllListeners('data').on('data', () => {});
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(timer));
}
