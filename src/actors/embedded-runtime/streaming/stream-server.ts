/**
 * The streaming server of the embedded runtime, which serves exec, attach and port forward at the URLs returned by CRI.
 *
 * Owns: a listener on a loopback port, opened with the first requested stream, and its tickets. A client needs an
 * unused ticket that has not expired. Ports of a pod are ports of the host.
 *
 * Invariants:
 *   M1 a ticket is a number that cannot be guessed, for one use within {@link TICKET_MS}; there are never more than
 *   {@link TICKETS_MAX}.
 *   M2 a failed stream affects only itself: its client gets the reason if the protocol can carry it.
 *   M3 a forwarded connection ends with its two streams, and the reverse; a request with only one stream is dropped.
 *
 * Protocols: `v4.channel.k8s.io` over SPDY and over WebSocket, `portforward.k8s.io` over SPDY.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, STATUS_CODES } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { status } from '@grpc/grpc-js';
import { codeOf, messageOf } from '../../../kernel/thrown.ts';
import { SpdyServer, type SpdyServerStream } from '../../spdy/server.ts';
import { CriError } from '../errors.ts';
import type { CommandStreams, StreamsAsked } from './command-streams.ts';
import { COMMAND_PROTOCOL, failureStatus, spdyStreams, webSocketStreams } from './command-streams.ts';

/** Upstream's lifetime of a URL. */
const TICKET_MS = 60_000;
/** Upstream's limit of unused URLs. */
const TICKETS_MAX = 1_000;
const TICKET_BYTES = 16;
/** Largest message of a WebSocket; kubectl sends up to 32 KiB. */
const MESSAGE_MAX_BYTES = 4 * 1024 * 1024;

/** The work after the client has connected. */
export type Stream =
  | {
      readonly kind: 'exec' | 'attach';
      readonly asked: StreamsAsked;
      /** Resolves at its end, with the status for the client. */
      readonly run: (streams: CommandStreams) => Promise<object>;
    }
  | { readonly kind: 'portforward'; readonly sandboxId: string };

interface Ticket {
  readonly stream: Stream;
  readonly expires: NodeJS.Timeout;
}

export class StreamServer {
  private readonly tickets = new Map<string, Ticket>();
  private readonly sockets = new Set<Duplex>();
  private server: Promise<Server> | undefined;

  /** The URL of this stream for a client. @throws CriError if too many URLs are unused */
  async place(stream: Stream): Promise<string> {
    if (this.tickets.size >= TICKETS_MAX) {
      throw new CriError(status.RESOURCE_EXHAUSTED, 'maximum number of in-flight requests exceeded');
    }
    this.server ??= this.listen();
    const { port } = (await this.server).address() as AddressInfo;
    const token = randomBytes(TICKET_BYTES).toString('base64url');
    const expires = setTimeout(() => this.tickets.delete(token), TICKET_MS);
    expires.unref();
    this.tickets.set(token, { stream, expires });
    return `http://127.0.0.1:${port}/${stream.kind}/${token}`;
  }

  /** Ends every stream. */
  async close(): Promise<void> {
    for (const { expires } of this.tickets.values()) clearTimeout(expires);
    this.tickets.clear();
    for (const socket of this.sockets) socket.destroy();
    const server = await this.server?.catch(() => undefined);
    server?.closeAllConnections();
    server?.close();
  }

  private async listen(): Promise<Server> {
    const server = createServer((request, response) => {
      response.writeHead(this.takeStream(request) ? 400 : 404, { connection: 'close' });
      response.end(
        request.url === undefined ? '' : 'you must open a stream here: upgrade to SPDY/3.1 or to a WebSocket\n',
      );
    });
    server.on('upgrade', (request, socket, head) => void this.upgraded(request, socket, head));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    // Streams keep the process alive, the listener does not.
    return server.unref();
  }

  private takeStream({ url = '' }: IncomingMessage): Stream | undefined {
    const [, kind = '', token = ''] = url.split(/[/?]/);
    const ticket = this.tickets.get(token);
    if (ticket?.stream.kind !== kind) return undefined;
    this.tickets.delete(token);
    clearTimeout(ticket.expires);
    return ticket.stream;
  }

  private async upgraded(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    this.sockets.add(socket);
    socket.once('close', () => this.sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    const stream = this.takeStream(request);
    if (!stream) return answer(socket, 404, {}, '404 page not found\n');
    try {
      if (request.headers.upgrade?.toLowerCase() === 'websocket') await overWebSocket(stream, request, socket, head);
      else await overSpdy(stream, request, socket, head);
    } catch {
      // The client disconnected, or violated the protocol: no answer can reach it.
      socket.destroy();
    }
  }
}

async function overSpdy(stream: Stream, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
  const accepted = stream.kind === 'portforward' ? PORT_PROTOCOL : COMMAND_PROTOCOL;
  const offered = (request.headersDistinct['x-stream-protocol-version'] ?? []).flatMap((line) => line.split(/, */));
  if (offered.length === 0) {
    return answer(socket, 400, {}, 'unable to upgrade: X-Stream-Protocol-Version is required\n');
  }
  if (!offered.includes(accepted)) {
    const why = `unable to negotiate protocol: client supports [${offered.join(' ')}], server accepts [${accepted}]`;
    return answer(socket, 403, { 'X-Accepted-Stream-Protocol-Versions': accepted }, `unable to upgrade: ${why}\n`);
  }
  const headers = { Connection: 'Upgrade', Upgrade: 'SPDY/3.1', 'X-Stream-Protocol-Version': accepted };
  socket.write(headOf(101, headers));
  if (stream.kind === 'portforward') forwardPorts(socket, head, stream.sandboxId);
  else await runStream(stream, await spdyStreams(socket, head, stream.asked));
}

async function overWebSocket(stream: Stream, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
  const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
  if (stream.kind === 'portforward' || !offered.includes(COMMAND_PROTOCOL)) return answer(socket, 403, {}, '');
  const { WebSocketServer } = await import('ws');
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: MESSAGE_MAX_BYTES,
    perMessageDeflate: false,
    handleProtocols: () => COMMAND_PROTOCOL,
  });
  server.handleUpgrade(request, socket, head, (client) => {
    void runStream(stream, webSocketStreams(client, stream.asked));
  });
}

async function runStream(stream: Exclude<Stream, { kind: 'portforward' }>, streams: CommandStreams): Promise<void> {
  const ended = await stream.run(streams).catch((thrown: unknown) => failureStatus(messageOf(thrown)));
  streams.end(ended);
}

function answer(socket: Duplex, code: number, headers: Readonly<Record<string, string>>, body: string): void {
  const length = { 'Content-Type': 'text/plain; charset=utf-8', 'Content-Length': String(body.length) };
  socket.end(headOf(code, { ...headers, ...length, Connection: 'close' }) + body);
}

function headOf(code: number, headers: Readonly<Record<string, string>>): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${code} ${STATUS_CODES[code]}\r\n${lines.join('')}\r\n`;
}

const PORT_PROTOCOL = 'portforward.k8s.io';

/** Upstream's limit for the second stream of a request. */
const PAIRING_LIMIT_MS = 30_000;

interface Pair {
  data?: SpdyServerStream;
  error?: SpdyServerStream;
  readonly late: NodeJS.Timeout;
}

/**
 * Serves a client connection, with many connections to ports, until the client ends it. A request of the client is two
 * streams with the same `requestid`, for data and for errors.
 */
function forwardPorts(socket: Duplex, head: Buffer, sandboxId: string): void {
  const pairs = new Map<string, Pair>();
  const drop = (id: string): void => {
    const pair = pairs.get(id);
    pairs.delete(id);
    pair?.data?.destroy();
    pair?.error?.destroy();
  };
  const session = new SpdyServer(socket, head, (stream) => {
    const { streamtype: type, requestid: id = '', port = '' } = stream.headers;
    if (type !== 'data' && type !== 'error') {
      stream.destroy();
      return;
    }
    const pair = pairs.get(id) ?? { late: setTimeout(() => drop(id), PAIRING_LIMIT_MS) };
    pairs.set(id, pair);
    pair[type] = stream;
    if (!pair.data || !pair.error) return;
    clearTimeout(pair.late);
    pairs.delete(id);
    void forward(Number(port), pair.data, pair.error, sandboxId);
  });
  session.gone.addEventListener('abort', () => {
    for (const { late } of pairs.values()) clearTimeout(late);
  });
}

async function forward(port: number, data: SpdyServerStream, error: SpdyServerStream, sandboxId: string) {
  // The client sends nothing on the error stream.
  error.resume();
  try {
    join(await connected(port), data);
    data.once('close', () => error.end());
  } catch (thrown) {
    const why = `error forwarding port ${port} to pod ${sandboxId}, uid : ${messageOf(thrown)}`;
    error.end(why);
    data.end();
    data.resume();
  }
}

/** Connects to a local port over IPv4 or IPv6, as upstream. Rejects with both errors in one text. */
async function connected(port: number): Promise<Socket> {
  const refusals: string[] = [];
  for (const host of ['127.0.0.1', '::1']) {
    try {
      return await opened(port, host);
    } catch (thrown) {
      refusals.push(codeOf(thrown) === 'ECONNREFUSED' ? 'connection refused' : String(thrown));
    }
  }
  const [first = '', second = ''] = refusals;
  throw new Error(
    `failed to connect to localhost:${port} on the host, IPv4: dial tcp4 127.0.0.1:${port}: connect: ${first} ` +
      `IPv6 dial tcp6 [::1]:${port}: connect: ${second}`,
  );
}

const opened = (port: number, host: string): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect({ port, host, allowHalfOpen: true, noDelay: true });
    socket.once('connect', () => {
      socket.removeListener('error', reject);
      resolve(socket);
    });
    socket.once('error', reject);
  });

/** Forwards the end of each side; if one side breaks without an end, the other is destroyed. */
function join(socket: Socket, stream: SpdyServerStream): void {
  socket.on('error', () => socket.destroy());
  socket.pipe(stream);
  stream.pipe(socket);
  socket.once('close', () => {
    if (!socket.readableEnded) stream.destroy();
  });
  stream.once('close', () => {
    if (!stream.readableEnded || !stream.writableFinished) socket.destroy();
  });
}
