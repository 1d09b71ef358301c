/**
 * Port forwarding by WebSocket: `SPDY/3.1+portforward.k8s.io` is a SPDY connection whose bytes travel in binary
 * messages. This node ends the WebSocket and hands the bytes to the runtime as they are.
 */
import type { Duplex } from 'node:stream';
import { createWebSocketStream, type WebSocket } from 'ws';
import { quote } from '../../../machines/model/values/go-text.ts';
import { join } from './tunnel.ts';

export const TUNNEL_PROTOCOL = 'SPDY/3.1+portforward.k8s.io';

export function forwardPorts(client: WebSocket, runtime: { readonly socket: Duplex; readonly head: Buffer }): void {
  const stream = createWebSocketStream(client);
  if (runtime.head.length > 0) stream.write(runtime.head);
  join(stream, runtime.socket);
}

const PORT_MAX = 65_535;

/**
 * The ports in the values of `port`, for the protocols that carry them in the query: an API server joins several by
 * commas. Or upstream's word of what is wrong with them.
 */
export function parsePorts(values: readonly string[]): readonly number[] | string {
  if (values.length === 0) return 'query parameter "port" is required';
  const ports: number[] = [];
  for (const value of values) {
    if (value === '') return 'query parameter "port" cannot be empty';
    for (const port of value.split(',')) {
      const why = refusalOf(port, value);
      if (why !== null) return why;
      ports.push(Number(port));
    }
  }
  return ports;
}

function refusalOf(port: string, value: string): string | null {
  const unable = (why: string) =>
    `unable to parse ${quote(value)} as a port: strconv.ParseUint: parsing ${quote(port)}: ${why}`;
  if (!/^\d+$/.test(port)) return unable('invalid syntax');
  if (Number(port) > PORT_MAX) return unable('value out of range');
  return Number(port) === 0 ? `port ${quote(value)} must be > 0` : null;
}
