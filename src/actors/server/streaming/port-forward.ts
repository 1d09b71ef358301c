/**
 * Port forwarding by WebSocket: `SPDY/3.1+portforward.k8s.io` is a SPDY connection whose bytes travel in binary
 * messages. This node ends the WebSocket and hands the bytes to the runtime as they are.
 */
import type { Duplex } from 'node:stream';
import { createWebSocketStream, type WebSocket } from 'ws';
import { join } from './tunnel.ts';

export const TUNNEL_PROTOCOL = 'SPDY/3.1+portforward.k8s.io';

export function forwardPorts(client: WebSocket, runtime: { readonly socket: Duplex; readonly head: Buffer }): void {
  const stream = createWebSocketStream(client);
  if (runtime.head.length > 0) stream.write(runtime.head);
  join(stream, runtime.socket);
}

/** Upstream's refusals of `port` in the protocols that carry it in the query; `null` when all are fine. */
export function portRefusal(ports: readonly string[]): string | null {
  if (ports.length === 0) return 'query parameter "port" is required';
  for (const port of ports) {
    const why = parseError(port);
    if (why !== null) return why;
  }
  return null;
}

const PORT_MAX = 65_535;

function parseError(port: string): string | null {
  const unable = (why: string) =>
    `unable to parse ${JSON.stringify(port)} as a port: strconv.ParseUint: parsing ${JSON.stringify(port)}: ${why}`;
  if (!/^\d+$/.test(port)) return unable('invalid syntax');
  if (Number(port) > PORT_MAX) return unable('value out of range');
  return Number(port) === 0 ? `port ${JSON.stringify(port)} must be > 0` : null;
}
