/**
 * Serializes the requests of one connection, as upstream does, and keeps their answers in order where Node's HTTP
 * server does not: an upgrade request, or malformed bytes, may arrive while earlier requests are unanswered.
 */
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** The limit of pipelined requests in the queue, each of which uses memory. No usual client of a node pipelines. */
const AHEAD_MAX = 100;

const latest = new WeakMap<Duplex, ServerResponse>();
const ahead = new WeakMap<Duplex, number>();

/** Records the response to the latest request of a connection. */
export function noteAnswering(socket: Duplex, response: ServerResponse): void {
  latest.set(socket, response);
}

/**
 * Whether a response is in progress. Only its event `close` comes after the server has detached it from the connection.
 */
export const isAnswering = (socket: Duplex): boolean => latest.get(socket)?.closed === false;

/**
 * Calls `then` when the responses to all recorded requests have been sent; at once if there are none. Never calls it if
 * the connection ends before: earlier responses may close it.
 */
export function whenAnswered(socket: Duplex, then: () => void): void {
  if (!isAnswering(socket)) return then();
  latest.get(socket)?.once('close', () => {
    if (!socket.destroyed && socket.writable) then();
  });
}

/**
 * Calls `then` when earlier requests are answered: a client has one request in progress per connection, however many it
 * sends at once. The connection of a client that pipelines too many is closed.
 */
export function inTurn(socket: Duplex, response: ServerResponse, then: () => void): void {
  const isLater = isAnswering(socket);
  const waiting = (ahead.get(socket) ?? 0) + Number(isLater);
  if (waiting > AHEAD_MAX) return void socket.destroy();
  ahead.set(socket, waiting);
  whenAnswered(socket, () => {
    if (isLater) ahead.set(socket, (ahead.get(socket) ?? 1) - 1);
    then();
  });
  noteAnswering(socket, response);
}

/** How long a rejected client may continue to send, so that it can read the reason; as upstream. */
const LINGER_MS = 500;

/** Closes a connection after its pending bytes were written, even if the client keeps sending. */
export function closeSoon(socket: Duplex): void {
  if (socket.destroyed) return;
  socket.end();
  socket.removeAllListeners('data').on('data', () => {});
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(timer));
}
