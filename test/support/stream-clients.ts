/**
 * Clients of the node's streams: a server with only these streams, and clients by WebSocket (version 5, version 4 and
 * the SPDY tunnel of kubectl port-forward).
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import { createWebSocketStream, WebSocket } from 'ws';
import type { NodePod } from '../../src/actors/server/node-pods.ts';
import type { NodeView } from '../../src/actors/server/node-view.ts';
import {
  type StreamingOptions,
  type StreamUrls,
  streamingEndpoints,
} from '../../src/actors/server/streaming/endpoints.ts';
import { TUNNEL_PROTOCOL } from '../../src/actors/server/streaming/tunnel.ts';
import { SpdyClient } from '../../src/actors/spdy/client.ts';
import { type Front, openFront } from './endpoint-front.ts';

/** How the library's own server passes a socket to a connection that is already upgraded. */
interface Adopting {
  _isServer: boolean;
  setSocket(socket: Socket, head: Buffer, options: object): void;
}

/** The messages of each channel until the close, the close code, and the channels in order. */
export interface Collected {
  readonly channels: Readonly<Record<number, string>>;
  readonly code: number;
  readonly order: readonly number[];
}

export const commandOf = (...command: string[]): string =>
  command.map((each) => `command=${encodeURIComponent(each)}`).join('&');

export const V5 = ['v5.channel.k8s.io'];

export class StreamClients {
  private readonly front: Front;
  private readonly path: string;
  private readonly clients = new Set<WebSocket>();

  private constructor(front: Front, path: string) {
    this.front = front;
    this.path = path;
  }

  /** A server for the one pod, whose container is `app`. */
  static async open(pod: NodePod, urls: StreamUrls, options: StreamingOptions = {}): Promise<StreamClients> {
    const view = { pods: () => [pod] } as unknown as NodeView;
    const front = await openFront(streamingEndpoints(view, urls, options));
    return new StreamClients(front, `/${pod.namespace}/${pod.name}`);
  }

  async close(): Promise<void> {
    this.endClients();
    await this.front.close();
  }

  /** Disconnects all clients, whatever they are doing. */
  endClients(): void {
    for (const client of this.clients) client.on('error', () => {}).terminate();
    this.clients.clear();
  }

  /** `http://127.0.0.1:<port>/<kind>/<namespace>/<pod>`, with the container if the kind has one. */
  url(kind: 'exec' | 'attach' | 'portForward'): string {
    const container = kind === 'portForward' ? '' : '/app';
    return `http://127.0.0.1:${this.front.port}/${kind}${this.path}${container}`;
  }

  connect(query: string, protocols: string[], kind: 'exec' | 'attach' | 'portForward' = 'exec'): WebSocket {
    const client = new WebSocket(`${this.url(kind).replace('http', 'ws')}?${query}`, protocols);
    this.clients.add(client);
    return client;
  }

  /** Everything until the close. */
  async collect(client: WebSocket): Promise<Collected> {
    const channels: Record<number, Buffer[]> = {};
    const order: number[] = [];
    client.on('message', (data: Buffer) => {
      order.push(data[0]!);
      (channels[data[0]!] ??= []).push(data.subarray(1));
    });
    const [code] = (await once(client, 'close')) as [number];
    const text = Object.entries(channels).map(([channel, parts]) => [channel, Buffer.concat(parts).toString()]);
    return { channels: Object.fromEntries(text) as Record<number, string>, code, order };
  }

  /**
   * A SPDY connection inside a WebSocket, as kubectl port-forward opens it; the library does not report its protocol.
   */
  async tunnel(): Promise<SpdyClient> {
    const asked = request(this.url('portForward'), {
      headers: {
        Connection: 'Upgrade',
        Upgrade: 'websocket',
        'Sec-WebSocket-Version': '13',
        'Sec-WebSocket-Key': randomBytes(16).toString('base64'),
        'Sec-WebSocket-Protocol': TUNNEL_PROTOCOL,
      },
    });
    asked.end();
    const [response, socket, head] = (await once(asked, 'upgrade')) as [IncomingMessage, Socket, Buffer];
    if (response.headers['sec-websocket-protocol'] !== TUNNEL_PROTOCOL) throw new Error('it is no SPDY tunnel');
    const client = new (
      WebSocket as unknown as new (
        address: null,
        protocols: undefined,
        options: object,
      ) => WebSocket & Adopting
    )(null, undefined, {});
    client._isServer = false;
    client.setSocket(socket, head, { maxPayload: 0, skipUTF8Validation: false });
    this.clients.add(client);
    return new SpdyClient(createWebSocketStream(client), Buffer.alloc(0));
  }
}

/**
 * One connection to a port through a tunnel: sends `asked` and receives everything. `ends`: whether this side closes
 * after sending; containerd then gives the other side one more second.
 */
export function forwarded(
  spdy: SpdyClient,
  requestID: string,
  port: number,
  asked: string,
  ends: 'at once' | 'with the answer' = 'at once',
) {
  return new Promise<{ data: string; error: string }>((resolve) => {
    const seen = { data: '', error: '' };
    const open = new Set(['data', 'error']);
    const listener = (name: 'data' | 'error') => ({
      data: (chunk: Buffer) => void (seen[name] += chunk.toString()),
      end: () => {
        if (name === 'data' && ends === 'with the answer') data.end();
        if (open.delete(name) && open.size === 0) resolve(seen);
      },
    });
    const headers = { port: String(port), requestID };
    spdy.open({ streamType: 'error', ...headers }, listener('error')).end();
    const data = spdy.open({ streamType: 'data', ...headers }, listener('data'));
    data.write(Buffer.from(asked));
    if (ends === 'at once') data.end();
  });
}
