/**
 * Takes the requests of one connection one after the other, as upstream does, and keeps their answers in order where
 * Node's HTTP server no longer does: a request that takes the connection out of HTTP, and bytes that are no HTTP, may
 * come while earlier requests have no answer.
 */
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** Requests that came before their turn. No client of a node sends one; each costs memory until its turn. */
const AHEAD_MAX = 100;

const latest = new WeakMap<Duplex, ServerResponse>();
const ahead = new WeakMap<Duplex, number>();

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
  latest.get(socket)?.once('close', () => {
    if (!socket.destroyed && socket.writable) then();
  });
}

/**
 * Calls `then` when the requests before this one have their answers: a client has one request under way on each of its
 * connections, however many it sends at once. One that sends too many ahead loses the connection.
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

/** How long a client may go on sending, into nothing, so that it can read why it was refused. Upstream's. */
const LINGER_MS = 500;

/** Closes a connection after its pending bytes were written, whether the client closes it, too, or goes on sending. */
export function closeSoon(socket: Duplex): void {
  if (socket.destroyed) return;
  socket.end();
  socket.removeAllListeners('data').on('data', () => {});
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(timer));
}
