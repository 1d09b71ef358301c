/** The limits of a port's connections, of one client and of all. */
import { isIPv6, type Socket } from 'node:net';

/** Limit of one port: many times the needs of an API server, a scraper and users, and few enough for a small node. */
const CONNECTIONS_MAX = 2_000;
/** Limit of one client: an API server has one connection for each followed log and command. */
export const CLIENT_CONNECTIONS_MAX = 1_000;
/** An IPv6 client can use all addresses with the same first four groups. */
const IPV6_NETWORK_GROUPS = 4;

export interface ConnectionLimits {
  readonly port: number;
  readonly client: number;
}

const LIMITS: ConnectionLimits = { port: CONNECTIONS_MAX, client: CLIENT_CONNECTIONS_MAX };

/**
 * Limits the connections of a port, so that no client can monopolize it.
 *
 * Invariants: N1 a client has at most its share; N2 all clients together have at most the port's limit; N3 at a limit
 * the oldest idle connection is closed, of the client itself or of the client with the most connections. A new
 * connection is rejected only if there is no idle connection: a stream is never ended for another.
 */
export class Connections {
  readonly #isBusy: (socket: Socket) => boolean;
  readonly #limits: ConnectionLimits;
  /** By client, the oldest connection first. */
  readonly #clients = new Map<string, Set<Socket>>();
  readonly #owners = new Map<Socket, string>();

  /** @param isBusy whether a request or stream is in progress on a connection */
  constructor(isBusy: (socket: Socket) => boolean, limits: ConnectionLimits = LIMITS) {
    this.#isBusy = isBusy;
    this.#limits = limits;
  }

  /** Whether the connection may stay; it counts until it closes. Others may be closed for it. */
  admit(socket: Socket): boolean {
    const client = clientOf(socket.remoteAddress ?? '');
    const sockets = this.#clients.get(client) ?? new Set();
    if (sockets.size >= this.#limits.client && !this.#closeIdle(sockets)) return false;
    if (this.#owners.size >= this.#limits.port && !this.#closeIdle(this.#largest())) return false;
    this.#clients.set(client, sockets.add(socket));
    this.#owners.set(socket, client);
    socket.once('close', () => this.#forget(socket));
    return true;
  }

  closeAll(): void {
    for (const socket of this.#owners.keys()) socket.destroy();
  }

  #closeIdle(sockets: ReadonlySet<Socket>): boolean {
    for (const socket of sockets) {
      if (this.#isBusy(socket)) continue;
      this.#forget(socket);
      socket.destroy();
      return true;
    }
    return false;
  }

  #largest(): ReadonlySet<Socket> {
    let largest: ReadonlySet<Socket> = new Set();
    for (const sockets of this.#clients.values()) if (sockets.size > largest.size) largest = sockets;
    return largest;
  }

  #forget(socket: Socket): void {
    const client = this.#owners.get(socket);
    if (client === undefined) return;
    this.#owners.delete(socket);
    const sockets = this.#clients.get(client);
    sockets?.delete(socket);
    if (sockets?.size === 0) this.#clients.delete(client);
  }
}

/** Addresses that one client can easily use count as one. */
export function clientOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(address)) return address;
  const [withoutZone = ''] = address.split('%', 1);
  const [head = '', tail] = withoutZone.split('::');
  const groups = head === '' ? [] : head.split(':');
  const rest = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : 8 - groups.length - rest.length;
  return [...groups, ...Array.from({ length: zeros }, () => '0'), ...rest].slice(0, IPV6_NETWORK_GROUPS).join(':');
}
