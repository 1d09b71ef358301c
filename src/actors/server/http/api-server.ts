/**
 * One HTTP server of the node: routing, authorization and limits.
 *
 * Owns: a fastify instance and the connections to it. A socket, TLS or not, is given to it by {@link ApiServer.accept}.
 * Invariants:
 *   A1 paths that are not served and paths that must be cleaned are answered before authentication, as upstream; every
 *   other request needs authorization.
 *   A2 every request is limited: headers, body, time, connections; a body that no endpoint reads is not read.
 *   A3 a failed endpoint affects only its request, never the server.
 */
import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Duplex, Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { messageOf } from '../../../kernel/thrown.ts';
import { carrying } from '../../tracing/propagation.ts';
import type { RequestSpan, TracedRequest } from '../../tracing/request-spans.ts';
import type { Answer, ApiRequest, Endpoint, Upgrade } from './endpoint.ts';
import {
  firstHeader,
  MEASURED_BYTES,
  methodNotAllowed,
  notAcceptable,
  notFound,
  redirect,
  takesOneOf,
  text,
  UPGRADED,
} from './endpoint.ts';
import {
  answerMalformed,
  closeSoon,
  hasBody,
  inTurn,
  isAnswerable,
  knownMethod,
  noteAnswering,
  queryOf,
  sentMethod,
  type Target,
  targetOf,
  whenAnswered,
} from './requests.ts';

/** Upstream's limit: its HTTP library accepts headers of slightly more than 1 MiB. */
export const HEADER_MAX_BYTES = 1024 * 1024 + 4096;
export interface RequestLimits {
  /** The time limit from the first to the last byte of a request's headers. */
  readonly headMs: number;
  /** The time limit of a whole request with its body: no endpoint reads more than a few bytes. */
  readonly requestMs: number;
  /** The interval of detecting slow requests. */
  readonly checkEveryMs: number;
}

const LIMITS: RequestLimits = { headMs: 30_000, requestMs: 60_000, checkEveryMs: 10_000 };
const IDLE_TIMEOUT_MS = 90_000;
/** The longest path segment: upstream matches any length within the header limit. */
const SEGMENT_MAX_CHARS = HEADER_MAX_BYTES;
/** Paths at which a client may upgrade; an upgrade of other paths is ignored. */
const STREAMED = /^\/+(exec|attach|portForward)\b/;
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** Whether a request may use an endpoint: `null` allows it, a response denies it. */
export type Gate = (request: IncomingMessage, endpoint: Endpoint) => Promise<Answer | null>;

export interface ApiServerOptions {
  readonly endpoints: readonly Endpoint[];
  readonly gate: Gate;
  /** Paths that exist only with a trailing slash: without it they are redirected. */
  readonly slashed?: ReadonlySet<string>;
  /** Receives each request with its decoded path, served or not. */
  readonly onRequest?: (method: string, path: string) => void;
  /** Receives each request when its response or stream has ended. */
  readonly onAnswered?: (method: string, path: string, durationMs: number) => void;
  /** Begins the span of an authorized request, if requests are traced; `route` is the endpoint's path. */
  readonly traced?: (route: string, request: TracedRequest) => RequestSpan | null;
  readonly limits?: RequestLimits;
  /** Receives errors thrown by endpoints. */
  readonly onFailure?: (path: string, error: unknown) => void;
}

export class ApiServer {
  private readonly targets = new WeakMap<IncomingMessage, Target>();
  private readonly upgrades = new WeakMap<IncomingMessage, Upgrade>();
  private readonly ends = new WeakMap<IncomingMessage, () => void>();
  private readonly options: ApiServerOptions;
  private readonly slashed: ReadonlySet<string>;
  private server!: Server;
  private app!: FastifyInstance;
  private dispatch!: (request: IncomingMessage, response: ServerResponse) => void;

  constructor(options: ApiServerOptions) {
    this.options = options;
    this.slashed = options.slashed ?? new Set();
  }

  /** Prepares to accept connections. */
  async open(): Promise<this> {
    const { fastify } = await import('fastify');
    this.app = fastify<Server>({
      serverFactory: (handle) => this.httpServer(handle),
      rewriteUrl: (request) => this.rewrite(request),
      routerOptions: { maxParamLength: SEGMENT_MAX_CHARS },
      exposeHeadRoutes: false,
      clientErrorHandler: (error, socket) => answerMalformed(error, socket, this.dispatch),
    });
    this.app.removeAllContentTypeParsers();
    this.app.addContentTypeParser('*', (_request, _payload, done) => done(null));
    this.app.setNotFoundHandler((request, reply) => this.unrouted(request, reply));
    this.app.setErrorHandler((error, request, reply) => this.failed(error, request, reply));
    for (const endpoint of this.options.endpoints) this.route(endpoint);
    await this.app.ready();
    return this;
  }

  accept(socket: Socket): void {
    this.server.emit('connection', socket);
  }

  /** Ends every connection and its requests. */
  async close(): Promise<void> {
    this.server.closeAllConnections();
    // Ends the timers of the server. The error that it does not listen is expected.
    this.server.close(() => {});
    await this.app.close();
  }

  private httpServer(handle: (request: IncomingMessage, response: ServerResponse) => void): Server {
    this.dispatch = (request, response) => {
      // A rejected request also occupies its connection until it is answered.
      if (!isAnswerable(request)) return noteAnswering(request.socket, response);
      inTurn(request.socket, response, () => {
        // `OPTIONS *` addresses the whole server: upstream answers before any routing.
        if (request.method === 'OPTIONS' && request.url === '*') response.setHeader('content-length', 0).end();
        else {
          request.method = knownMethod(request);
          handle(request, response);
        }
      });
    };
    const { headMs, requestMs, checkEveryMs } = this.options.limits ?? LIMITS;
    this.server = createServer(
      {
        maxHeaderSize: HEADER_MAX_BYTES,
        headersTimeout: headMs,
        requestTimeout: requestMs,
        connectionsCheckingInterval: checkEveryMs,
        keepAliveTimeout: IDLE_TIMEOUT_MS,
        requireHostHeader: false,
        noDelay: true,
        shouldUpgradeCallback: ({ url }) => STREAMED.test(url ?? ''),
      },
      (request, response) => this.dispatch(request, response),
    );
    this.server.on('upgrade', (request, socket, head) => this.upgraded(request, socket, head));
    // Upstream treats CONNECT like any other method.
    this.server.on('connect', (request, socket) => this.detached(request, socket));
    this.server.on('checkExpectation', ({ socket }, response) => {
      noteAnswering(socket, response);
      response.writeHead(417, { connection: 'close', 'content-length': 0 }).end();
    });
    // `100 Continue` is sent only by endpoints that read the body.
    this.server.on('checkContinue', (request, response) => this.dispatch(request, response));
    // The inner HTTP server never listens itself; this event starts its detection of slow requests.
    this.server.emit('listening');
    return this.server;
  }

  /** A request for a stream is answered like any other until its endpoint takes the connection. */
  private upgraded(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.detached(request, socket, (response) => {
      const take = () => {
        response.detachSocket(socket as Socket);
        return { socket, head };
      };
      this.upgrades.set(request, { take });
    });
  }

  /** Answers the last request of a connection that the server has detached, after the earlier requests. */
  private detached(
    request: IncomingMessage,
    socket: Duplex,
    prepare: (response: ServerResponse) => void = () => {},
  ): void {
    socket.on('error', () => socket.destroy());
    whenAnswered(socket, () => {
      const response = responseTo(request, socket);
      prepare(response);
      this.dispatch(request, response);
    });
  }

  private rewrite(request: IncomingMessage): string {
    const target = targetOf(request.url ?? '', this.slashed, sentMethod(request) === 'CONNECT');
    this.targets.set(request, target);
    return target.kind === 'resource' ? target.route : '/';
  }

  private route(endpoint: Endpoint): void {
    this.app.route({
      method: METHODS,
      url: endpoint.path,
      handler: (request, reply) => this.routed(endpoint, request, reply),
    });
  }

  private async routed(endpoint: Endpoint, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const target = this.targets.get(request.raw);
    if (target?.kind !== 'resource') return await this.unrouted(request, reply);
    this.begin(request, reply);
    const refused = await this.options.gate(request.raw, endpoint);
    if (refused) return this.send(refused, request, reply);
    const span = this.options.traced?.(endpoint.path, { ...target, method: sentMethod(request.raw), raw: request.raw });
    if (span) this.whenEnded(request.raw, () => span.end(reply.raw.statusCode));
    const answer = await carrying(span?.traceparent, () => this.answered(endpoint, target, request, reply));
    return this.send(answer, request, reply);
  }

  /** Adds to what is done when a request or its stream has ended. */
  private whenEnded(request: IncomingMessage, then: () => void): void {
    const before = this.ends.get(request);
    this.ends.set(request, () => {
      before?.();
      then();
    });
  }

  private answered(
    { methods, produces, answer }: Endpoint,
    { path, query }: Target & { readonly kind: 'resource' },
    request: FastifyRequest,
    reply: FastifyReply,
  ): Answer | Promise<Answer> {
    if (methods !== 'any' && !methods.includes(request.method)) return methodNotAllowed(methods);
    if (produces && !takesOneOf(firstHeader(request.raw, 'accept'), produces)) return notAcceptable(produces);
    const gone = new AbortController();
    // The client may have left while it was authenticated.
    if (reply.raw.destroyed) gone.abort();
    else reply.raw.once('close', () => gone.abort());
    const parameters = request.params as ApiRequest['parameters'];
    const { method, raw } = request;
    const upgrade = this.upgrades.get(raw) ?? null;
    const search = query === '' ? '' : `?${query}`;
    return answer({ method, path, parameters, query: queryOf(query), search, raw, upgrade, signal: gone.signal });
  }

  private async unrouted(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const target = this.targets.get(request.raw);
    this.begin(request, reply);
    if (target?.kind === 'redirect') {
      return this.send(redirect(sentMethod(request.raw), target.location), request, reply);
    }
    if (target?.kind === 'malformed') {
      reply.header('connection', 'close');
      return this.send({ status: 400, headers: {}, body: '' }, request, reply);
    }
    return this.send(notFound(), request, reply);
  }

  private async failed(error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    this.options.onFailure?.(request.url, error);
    if (!this.ends.has(request.raw)) this.begin(request, reply);
    const why = messageOf(error);
    return this.send(text(500, `Internal Error: ${why}`), request, reply);
  }

  private begin({ raw }: FastifyRequest, reply: FastifyReply): void {
    const { onRequest, onAnswered } = this.options;
    const method = sentMethod(raw);
    const target = this.targets.get(raw);
    const path = target && target.kind !== 'malformed' ? target.path : '';
    // Upstream does not announce keep-alive, which is the default of HTTP/1.1.
    if (reply.raw.shouldKeepAlive && raw.httpVersion === '1.1') reply.raw.removeHeader('connection');
    onRequest?.(method, path);
    this.ends.set(raw, () => onAnswered?.(method, path, reply.elapsedTime));
    reply.raw.once('close', () => this.ends.get(raw)?.());
  }

  /** Leaves the connection to the endpoint: its stream is in progress until the connection closes. */
  private handOver({ raw }: FastifyRequest, reply: FastifyReply): FastifyReply {
    const ended = this.ends.get(raw)!;
    if (raw.socket.destroyed) ended();
    else raw.socket.once('close', ended);
    return reply.hijack();
  }

  private send(answer: Answer, request: FastifyRequest, reply: FastifyReply): FastifyReply {
    if (answer === UPGRADED) return this.handOver(request, reply);
    const { status, headers, body } = answer;
    reply.code(status).headers(headers);
    const isTunnel = sentMethod(request.raw) === 'CONNECT' && status < 300;
    if (!request.raw.complete && hasBody(request.raw) && !isTunnel) endAfter(request.raw, reply);
    if (body instanceof Readable) return request.method === 'HEAD' ? headOnly(body, reply) : streamed(body, reply);
    if (status === 304) return reply.send();
    if (body.length === 0) return reply.header('content-length', '0').send();
    const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body);
    if (isTunnel) return without(FRAME, bytes, reply);
    const isMeasured = bytes.length <= MEASURED_BYTES || reply.hasHeader('content-length');
    return isMeasured ? reply.send(bytes) : without(LENGTH, bytes, reply);
  }
}

/** The answer to the last request of a connection. */
function responseTo(request: IncomingMessage, socket: Duplex): ServerResponse {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket as Socket);
  response.once('finish', () => closeSoon(socket));
  return response;
}

/** Sends a body as a stream. The headers are sent at once, because the body may take long. */
function streamed(body: Readable, reply: FastifyReply): FastifyReply {
  if (reply.raw.destroyed) {
    body.destroy();
    return reply.hijack();
  }
  reply.send(body);
  reply.raw.flushHeaders();
  return reply;
}

/**
 * Without this header a response is chunked. For HTTP/1.0 it ends with the connection; for HEAD it has only headers.
 */
const LENGTH = ['content-length'];
/** A successful answer to CONNECT has no framing headers (RFC 9110 9.3.6). */
const FRAME = ['connection', 'content-length', 'transfer-encoding'];

/** Sends the body without headers that Node or fastify would add. */
function without(names: readonly string[], body: Buffer, reply: FastifyReply): FastifyReply {
  const { raw } = reply.hijack();
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) raw.setHeader(name, value);
  raw.statusCode = reply.statusCode;
  for (const name of names) raw.removeHeader(name);
  raw.end(body);
  return reply;
}

function headOnly(body: Readable, reply: FastifyReply): FastifyReply {
  body.destroy();
  return reply.send();
}

/** Ends the connection after the response if the body of the request was not read. */
function endAfter(request: IncomingMessage, reply: FastifyReply): void {
  const { socket } = request;
  reply.header('connection', 'close');
  reply.raw.once('finish', () => {
    if (!request.complete) socket.destroySoon();
  });
}
