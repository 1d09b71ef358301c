/**
 * Requests before they reach their endpoint: the order of answers, malformed requests, and the parsing of targets, all
 * as in Go's server.
 *
 * Answers stay in order where Node's HTTP server does not keep it: an upgrade request, or malformed bytes, may arrive
 * while earlier requests are unanswered. Requests rejected by Node's parser, or by upstream before any routing, get
 * upstream's response bytes. A method unknown to Node is valid upstream: such a request is rebuilt from its headers and
 * handled normally.
 *
 * A target is parsed as by upstream's two routers. The outer router sees the path as sent: it cleans it (`//`, `.` and
 * `..` lead to a redirect) and matches segment by segment, so that an encoded slash never separates. Below some
 * prefixes a second router works on the decoded path, where an encoded slash separates and trailing slashes are
 * ignored.
 */
import { IncomingMessage, METHODS, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { trimRight } from '../../../machines/model/values/go-text.ts';

/** The limit of pipelined requests in the queue, each of which uses memory. No usual client of a node pipelines. */
const REQUESTS_AHEAD_MAX = 100;

const latestResponse = new WeakMap<Duplex, ServerResponse>();
const requestsAhead = new WeakMap<Duplex, number>();

/** Records the response to the latest request of a connection. */
export function noteAnswering(socket: Duplex, response: ServerResponse): void {
  latestResponse.set(socket, response);
}

/**
 * Whether a response is in progress. Only its event `close` comes after the server has detached it from the connection.
 */
export const isAnswering = (socket: Duplex): boolean => latestResponse.get(socket)?.closed === false;

/**
 * Calls `then` when the responses to all recorded requests have been sent; at once if there are none. Never calls it if
 * the connection ends before: earlier responses may close it.
 */
export function whenAnswered(socket: Duplex, then: () => void): void {
  if (!isAnswering(socket)) return then();
  latestResponse.get(socket)?.once('close', () => {
    if (!socket.destroyed && socket.writable) then();
  });
}

/**
 * Calls `then` when earlier requests are answered: a client has one request in progress per connection, however many it
 * sends at once. The connection of a client that pipelines too many is closed.
 */
export function inTurn(socket: Duplex, response: ServerResponse, then: () => void): void {
  const isLater = isAnswering(socket);
  const waiting = (requestsAhead.get(socket) ?? 0) + Number(isLater);
  if (waiting > REQUESTS_AHEAD_MAX) return void socket.destroy();
  requestsAhead.set(socket, waiting);
  whenAnswered(socket, () => {
    if (isLater) requestsAhead.set(socket, (requestsAhead.get(socket) ?? 1) - 1);
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

const sent = new WeakMap<IncomingMessage, string>();
const ROUTED = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

export const sentMethod = (request: IncomingMessage): string => sent.get(request) ?? request.method ?? '';

/** The method by which a request is routed: upstream treats every method that it gives no verb like OPTIONS. */
export function knownMethod(request: IncomingMessage): string {
  const method = request.method ?? '';
  if (!sent.has(request)) sent.set(request, method);
  return ROUTED.has(method) ? method : 'OPTIONS';
}

/** A request without a body counts as complete only a moment after its headers. */
export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

const head = (status: string) =>
  `HTTP/1.1 ${status}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n`;

const BAD_REQUEST = '400 Bad Request';
/** Matches host names that Go's library allows. */
const HOST = /^[A-Za-z0-9!$%&'()*+,\-.:;=[\]_~]*$/;
/** A fault found only by upstream's last check of headers: a name with spaces. */
const SPACED_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-][!#$%&'*+.^_`|~0-9A-Za-z -]*:/;
const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+:/;

const UNSUPPORTED_VERSION = '505 HTTP Version Not Supported: unsupported protocol version';

function end(socket: Socket, status: string, body = status): void {
  if (!socket.writable) return void socket.destroy();
  socket.write(head(status) + body);
  closeSoon(socket);
}

/** To upstream, the first line of an HTTP/2 client is a request for the target `*`. */
const HTTP2_PREFACE = 'PRI * HTTP/2.0\r\n\r\n';

function refuseHttp2(socket: Socket): void {
  const date = `Date: ${new Date().toUTCString()}`;
  socket.write(`HTTP/1.1 ${BAD_REQUEST}\r\nConnection: close\r\n${date}\r\nContent-Length: 0\r\n\r\n`);
  closeSoon(socket);
}

/** A body in an unsupported coding; upstream does not repeat its name. */
const refuseCoding = (socket: Socket): void => end(socket, '501 Not Implemented', 'Unsupported transfer encoding');

/** Connections with a rejected request: nothing after it is read. */
const refused = new WeakSet<Socket>();

/** False if the request was rejected here: it has no host, or two, or an invalid target or body. */
export function isAnswerable(request: IncomingMessage): boolean {
  const { socket, headersDistinct } = request;
  if (refused.has(socket)) return false;
  const codings = headersDistinct['transfer-encoding'] ?? [];
  const isCoded = codings.length > 0 && codings.join().toLowerCase() !== 'chunked';
  const why = isCoded ? '' : refusalOf(request);
  if (why === null) return true;
  refused.add(socket);
  whenAnswered(socket, () => (isCoded ? refuseCoding(socket) : end(socket, why)));
  return false;
}

function refusalOf({ httpVersion, httpVersionMajor, rawHeaders, url = '' }: IncomingMessage): string | null {
  if (httpVersionMajor !== 1) return httpVersionMajor === 0 ? BAD_REQUEST : UNSUPPORTED_VERSION;
  const hosts = rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === 'host');
  if (hosts.length > 1) return BAD_REQUEST;
  if (hosts.length === 0 && httpVersion !== '1.0') return `${BAD_REQUEST}: missing required Host header`;
  if (!HOST.test(hosts[0] ?? '')) return `${BAD_REQUEST}: malformed Host header`;
  const [path = ''] = url.split('?', 1);
  return /%(?![0-9a-f]{2})/i.test(path) ? BAD_REQUEST : null;
}

/** The packet is a buffer, whatever the library's types say. */
type ParserError = Error & { readonly code?: string; readonly rawPacket?: unknown };
type Dispatch = (request: IncomingMessage, response: ServerResponse) => void;

/** For the event `clientError` of a server. */
export function answerMalformed(error: ParserError, socket: Socket, dispatch: Dispatch): void {
  // Upstream does not answer a slow client: its next request would get that response.
  const isOver = error.code === 'ECONNRESET' || error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
  if (isOver || !socket.writable) return void socket.destroy();
  if (isAnswering(socket)) return whenAnswered(socket, () => closeSoon(socket));
  const packet = Buffer.isBuffer(error.rawPacket) ? error.rawPacket.toString('latin1') : '';
  if (error.code === 'HPE_INVALID_METHOD' && serveUnknownMethod(packet, socket, dispatch)) return;
  if (packet.startsWith(HTTP2_PREFACE)) return refuseHttp2(socket);
  if (/^[A-Z]+ \S+ HTTP\/[2-9]\.\d\r\n/.test(packet)) return end(socket, UNSUPPORTED_VERSION);
  if (error.code === 'HPE_INVALID_TRANSFER_ENCODING') return refuseCoding(socket);
  if (error.code === 'HPE_HEADER_OVERFLOW') return end(socket, '431 Request Header Fields Too Large');
  end(socket, isNameSpaced(packet) ? `${BAD_REQUEST}: invalid header name` : BAD_REQUEST);
}

/** Whether the only fault of a malformed header is a space in its name. */
function isNameSpaced(packet: string): boolean {
  const [head = ''] = packet.split('\r\n\r\n', 1);
  const [, ...lines] = head.split('\r\n');
  const wrong = lines.find((line) => !NAME.test(line));
  return wrong !== undefined && SPACED_NAME.test(wrong);
}

/** A request without a body whose method is a token; it is the last one of its connection. */
function serveUnknownMethod(packet: string, socket: Socket, dispatch: Dispatch): boolean {
  const [, method, url, fields = ''] =
    /^([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}) (\S+) HTTP\/1\.1\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n]*\r\n)*)\r\n$/.exec(
      packet,
    ) ?? [];
  if (method === undefined || METHODS.includes(method)) return false;
  const request = new IncomingMessage(socket);
  const pairs = fields.split('\r\n').filter((line) => line !== '');
  const headers = new Map<string, string>();
  for (const line of pairs) {
    const colon = line.indexOf(':');
    const [name, value] = [line.slice(0, colon), line.slice(colon + 1).trim()];
    request.rawHeaders.push(name, value);
    if (!headers.has(name.toLowerCase())) headers.set(name.toLowerCase(), value);
  }
  Object.assign(request, {
    method: 'OPTIONS',
    headers: Object.fromEntries(headers),
    url,
    httpVersion: '1.1',
    httpVersionMajor: 1,
    httpVersionMinor: 1,
    complete: true,
  });
  request.push(null);
  sent.set(request, method);
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket);
  response.once('finish', () => closeSoon(socket));
  dispatch(request, response);
  return true;
}

/** Prefixes below which the decoded path is matched. */
const DECODED = new Set([
  'pods',
  'runningpods',
  'stats',
  'containerLogs',
  'run',
  'exec',
  'attach',
  'portForward',
  'logs',
  'checkpoint',
]);

export type Target =
  | { readonly kind: 'malformed' }
  | { readonly kind: 'redirect'; readonly location: string; readonly path: string }
  | {
      readonly kind: 'resource';
      /** The path as sent, decoded: `/logs/apt/`. */
      readonly path: string;
      /** The path for the router: each segment encoded once, without a trailing slash if that slash is ignored. */
      readonly route: string;
      /** The text after the `?`, as sent. */
      readonly query: string;
    };

const MALFORMED: Target = { kind: 'malformed' };

/**
 * `slashed`: paths that exist only with a trailing slash: without it they are redirected. `isConnect`: as upstream, the
 * target of CONNECT may be only an authority, and its path is not cleaned.
 */
export function targetOf(url: string, slashed: ReadonlySet<string> = new Set(), isConnect = false): Target {
  const origin = originForm(isConnect && !url.startsWith('/') ? `http://${url}` : url);
  if (origin === null) return MALFORMED;
  const mark = origin.indexOf('?');
  const escaped = mark < 0 ? origin : origin.slice(0, mark);
  const query = mark < 0 ? '' : origin.slice(mark + 1);
  const path = decoded(escaped);
  if (path === null) return MALFORMED;
  const cleaned = isConnect ? escaped : clean(escaped);
  const canonical = slashed.has(cleaned) ? `${cleaned}/` : cleaned;
  if (canonical !== escaped) {
    const location = escapedAgain(canonical);
    return { kind: 'redirect', location: query === '' ? location : `${location}?${query}`, path };
  }
  return { kind: 'resource', path, route: routeOf(escaped, path), query };
}

/** A target in absolute form repeats the host; any other form is invalid. */
function originForm(url: string): string | null {
  if (url.startsWith('/')) return url;
  const absolute = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*(?<rest>[/?].*)?$/i.exec(url);
  if (!absolute) return null;
  const rest = absolute.groups?.['rest'] ?? '/';
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/** `null` for an invalid escape. Bytes that are not UTF-8 become U+FFFD. */
function decoded(escaped: string): string | null {
  if (/%(?![0-9a-f]{2})/i.test(escaped)) return null;
  const bytes = Buffer.from(
    escaped.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  );
  return bytes.toString('utf8');
}

/** Go's path.Clean, keeping a trailing slash. */
function clean(path: string): string {
  const kept: string[] = [];
  for (const segment of path.split('/')) {
    if (segment === '' || segment === '.') continue;
    if (segment === '..') kept.pop();
    else kept.push(segment);
  }
  const joined = `/${kept.join('/')}`;
  return path.endsWith('/') && joined !== '/' ? `${joined}/` : joined;
}

/** As upstream's redirects: escape sequences in the path are escaped again. */
const escapedAgain = (path: string): string =>
  Buffer.from(path.toWellFormed(), 'utf8')
    .toString('latin1')
    .replace(/[^\w\-.~$&+,/:;=@]/g, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);

function routeOf(escaped: string, path: string): string {
  const [, first = ''] = escaped.split('/');
  const isDecoded = DECODED.has(decoded(first) ?? '');
  const segments = isDecoded ? trimRight(path, '/').split('/') : escaped.split('/').map((part) => decoded(part) ?? '');
  return segments.map((segment) => encodeURIComponent(segment.toWellFormed())).join('/') || '/';
}

/**
 * The parameters of a query as Go parses them: a pair with a semicolon or a bad escape is dropped, `+` is a space, the
 * first value counts.
 */
export function queryOf(text: string): ReadonlyMap<string, readonly string[]> {
  const parameters = new Map<string, string[]>();
  for (const pair of text.split('&')) {
    if (pair === '' || pair.includes(';')) continue;
    const equals = pair.indexOf('=');
    const key = decoded((equals < 0 ? pair : pair.slice(0, equals)).replaceAll('+', ' '));
    const value = decoded((equals < 0 ? '' : pair.slice(equals + 1)).replaceAll('+', ' '));
    if (key === null || value === null) continue;
    const values = parameters.get(key);
    if (values) values.push(value);
    else parameters.set(key, [value]);
  }
  return parameters;
}
