/**
 * Connects to the runtime's streaming server, and tunnels a client's upgraded connection to it byte for byte.
 *
 * Invariants: U1 the client's credentials are not forwarded. U2 when one side ends, the other is ended, and a side that
 * does not read blocks only its own tunnel.
 */
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import type { Duplex } from 'node:stream';
import { createWebSocketStream, type WebSocket } from 'ws';
import { quote } from '../../../machines/model/values/go-text.ts';
import { exchangeText } from '../../go-errors.ts';
import type { Upgrade } from '../http/endpoint.ts';

/** Timeout of the runtime's upgrade response; the runtime's own limit for clients is similar. */
const UPGRADE_TIMEOUT_MS = 30_000;

/** A connection to the runtime's streaming server: the URL that it gave for one exec, attach or port forward. */
export type Opened =
  | { readonly kind: 'upgraded'; readonly response: IncomingMessage; readonly socket: Duplex; readonly head: Buffer }
  /** The runtime answered, but did not upgrade. */
  | { readonly kind: 'answered'; readonly response: IncomingMessage };

/**
 * Requests an upgrade at `url` with these headers.
 * @throws the connection error with Go's text: connection refused, or no answer in time
 */
export function openRuntimeStream(url: string, method: string, headers: OutgoingHttpHeaders): Promise<Opened> {
  return new Promise((resolve, reject) => {
    const upgrade = request(url, {
      method,
      headers,
      timeout: UPGRADE_TIMEOUT_MS,
      setDefaultHeaders: false,
      agent: false,
    });
    upgrade.once('upgrade', (response, socket, head) => {
      (socket as Duplex & { setTimeout(ms: number): void }).setTimeout(0);
      resolve({ kind: 'upgraded', response, socket, head });
    });
    upgrade.once('response', (response) => resolve({ kind: 'answered', response }));
    upgrade.once('timeout', () =>
      upgrade.destroy(new Error(`the runtime did not answer at ${new URL(url).host} in time`)),
    );
    upgrade.once('error', (error) => reject(new Error(exchangeText(new URL(url).host, error), { cause: error })));
    upgrade.end();
  });
}

/** Opens `url` as a SPDY client with one of `protocols`. */
export const openSpdy = (url: string, protocols: readonly string[]): Promise<Opened> =>
  openRuntimeStream(url, 'POST', {
    Host: new URL(url).host,
    Connection: 'Upgrade',
    Upgrade: 'SPDY/3.1',
    'X-Stream-Protocol-Version': [...protocols],
    'Content-Length': '0',
  });

const FORWARDED_FOR = 'X-Forwarded-For';
/** Headers that are not forwarded: they are for this node, or the runtime gets them in another form. */
const HOP_HEADERS = new Set(['authorization', 'cookie', 'host', 'x-forwarded-for']);
/** How long one side of a tunnel may leave bytes unread after the other has disconnected. */
const LINGER_MS = 10_000;
/** Browsers cannot set Authorization, so a token may be passed as the name of a subprotocol. */
const TOKEN_PROTOCOL = 'base64url.bearer.authorization.k8s.io.';

/** Upstream's HTTP library also adds a name for a client without one. */
const USER_AGENT = 'statelet';

/**
 * The forwarded header pairs of a client, with the runtime's host and, as upstream adds, the client's address: runtimes
 * report the number of headers in their errors.
 */
export function forwardedHeaders({ rawHeaders, headers: known, socket }: IncomingMessage, url: string) {
  const headers: Record<string, string | string[]> = { Host: new URL(url).host };
  if (known['user-agent'] === undefined) headers['User-Agent'] = USER_AGENT;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name, value] = [rawHeaders[at] ?? '', rawHeaders[at + 1] ?? ''];
    if (HOP_HEADERS.has(name.toLowerCase())) continue;
    const kept = name.toLowerCase() === 'sec-websocket-protocol' ? withoutToken(value) : value;
    const before = headers[name];
    headers[name] = before === undefined ? kept : [before, kept].flat();
  }
  headers[FORWARDED_FOR] = [known['x-forwarded-for'] ?? [], socket.remoteAddress ?? []].flat().join(', ');
  return headers;
}

const withoutToken = (value: string): string =>
  value
    .split(',')
    .map((protocol) => protocol.trim())
    .filter((protocol) => !protocol.startsWith(TOKEN_PROTOCOL))
    .join(', ');

function rawHead({ statusCode, statusMessage, rawHeaders }: IncomingMessage): string {
  const lines = [`HTTP/1.1 ${statusCode} ${statusMessage}`];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  return `${lines.join('\r\n')}\r\n\r\n`;
}

/** Joins two connections. When one ends, the other still receives pending bytes, and then ends as well. */
export function join(left: Duplex, right: Duplex): void {
  follow(left, right);
  follow(right, left);
}

/**
 * One write per round of the event loop, so that data sent by a peer before it closed is read before a write can fail:
 * Node closes a connection at its first failed write, and unread data is lost.
 */
function follow(from: Duplex, to: Duplex): void {
  let waiting: Buffer[] = [];
  let flushing: NodeJS.Immediate | undefined;
  const flush = (): void => {
    clearImmediate(flushing);
    flushing = undefined;
    const [first, ...more] = waiting;
    const bytes = first && more.length === 0 ? first : Buffer.concat(waiting);
    waiting = [];
    if (bytes.length === 0 || to.destroyed || to.writableEnded || to.write(bytes)) return;
    from.pause();
    to.once('drain', () => from.resume());
  };
  from.on('data', (chunk: Buffer) => {
    waiting.push(chunk);
    flushing ??= setImmediate(flush);
  });
  from.on('error', () => from.destroy());
  const endOther = (): void => {
    flush();
    if (!to.writableEnded) to.end();
  };
  // The other side is ended, not destroyed: a reset would lose pending bytes.
  const closeOther = (): void => {
    endOther();
    destroyIdle(to);
  };
  if (from.closed) return closeOther();
  if (from.readableEnded) endOther();
  else from.once('end', endOther);
  from.once('close', closeOther);
}

/** Ends the connection once its peer stops reading; a slow reader still receives the rest. */
function destroyIdle(to: Duplex): void {
  if (to.closed) return;
  let leftBytes = to.writableLength;
  const check = setInterval(() => {
    if (to.writableLength < leftBytes) leftBytes = to.writableLength;
    else to.destroy();
  }, LINGER_MS);
  to.once('close', () => clearInterval(check));
}

/**
 * Connects the client to `url` and returns the runtime's response. The connection is taken only then.
 * @returns the runtime's response if it was no upgrade; the caller sends it
 */
export async function tunnel(url: string, request: IncomingMessage, upgrade: Upgrade): Promise<IncomingMessage | null> {
  const opened = await openRuntimeStream(url, request.method ?? 'GET', forwardedHeaders(request, url));
  if (opened.kind === 'answered') return opened.response;
  const client = upgrade.take();
  client.socket.write(rawHead(opened.response));
  if (opened.head.length > 0) client.socket.write(opened.head);
  if (client.head.length > 0) opened.socket.write(client.head);
  join(client.socket, opened.socket);
  return null;
}

/** The protocol of port forwarding by WebSocket: a SPDY connection inside binary messages. */
export const TUNNEL_PROTOCOL = 'SPDY/3.1+portforward.k8s.io';

/** Terminates the WebSocket at this node and forwards its bytes to the runtime unchanged. */
export function forwardPorts(client: WebSocket, runtime: { readonly socket: Duplex; readonly head: Buffer }): void {
  const stream = createWebSocketStream(client);
  if (runtime.head.length > 0) stream.write(runtime.head);
  join(stream, runtime.socket);
}

const PORT_MAX = 65_535;

/**
 * The ports in the values of `port`, for protocols with ports in the query: an API server joins several by commas. Or
 * upstream's error about them.
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
