/**
 * The connections to one API server, shared by all clients of one identity.
 *
 * HTTP/2 if the server supports it: a connection carries a hundred watches. Connections are closed after a rotation of
 * certificates, by `closeConnections`, and when the server is silent ({@link endLostConnections}).
 *
 * Owns: the connections. Invariant: an unauthorized request is repeated once with freshly read credentials.
 */
import { subscribe } from 'node:diagnostics_channel';
import { type ClientHttp2Session, type ClientHttp2Stream, constants } from 'node:http2';
import { isIP } from 'node:net';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import { Agent, type Dispatcher, ProxyAgent, request as send } from 'undici';
import { environmentProxy } from '../urls.ts';
import { serverUrl } from './client-checks.ts';
import { CredentialSource, type Credentials } from './credentials.ts';
import { requestError } from './errors.ts';
import type { Kubeconfig } from './kubeconfig.ts';

const CONNECT_TIMEOUT_MS = 30_000;
/** TCP keep-alive detects a dead connection without HTTP/2. */
const TCP_KEEP_ALIVE_MS = 30_000;
/** Idle connections are closed before intermediate load balancers drop them. */
const KEEP_ALIVE_MS = 90_000;
const UNAUTHORIZED = 401;
/** The part of a 401 that is read so that its connection can be used again, and the time for it. */
const REFUSAL_MAX_BYTES = 128 * 1_024;
const REFUSAL_TIMEOUT_MS = 5_000;

export interface TransportRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** The path with its query, from the root of the server. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal: AbortSignal;
  /** The time limit until the headers of the response arrive; 0 for no limit. */
  readonly headersTimeoutMs: number;
}

export type TransportAnswer = Dispatcher.ResponseData;

cancelStreamsGivenUp();
endLostConnections();

/** Events in the life of the connections of one identity. */
type TransportActivity =
  /**
   * New connections use the current credentials. `pluginCertificate` is the certificate of an exec plugin as PEM, or
   * `null`.
   */
  | { readonly kind: 'opened'; readonly pluginCertificate: string | null }
  /** Connections were replaced by new ones, or closed with the client. */
  | { readonly kind: 'closed' };
export type OnTransport = (seen: TransportActivity) => void;

export class Transport {
  readonly server: string;
  private readonly config: Kubeconfig;
  private readonly credentials: CredentialSource;
  private readonly seen: OnTransport;
  private agent: { readonly dispatcher: Dispatcher; readonly identity: string } | undefined;

  constructor(config: Kubeconfig, certificateFile: string | null, seen: OnTransport = () => undefined) {
    this.server = serverUrl(config.server);
    this.seen = seen;
    this.config = config;
    this.credentials = new CredentialSource(config, certificateFile);
  }

  /** Rejects with the text of Go's client; rejections by the server are responses. */
  async request(request: TransportRequest): Promise<TransportAnswer> {
    const answer = await this.sendOnce(request);
    if (answer.statusCode !== UNAUTHORIZED) return answer;
    // A proxy in place of the API server may never end its answer.
    await answer.body
      .dump({ limit: REFUSAL_MAX_BYTES, signal: AbortSignal.timeout(REFUSAL_TIMEOUT_MS) })
      .catch(() => {});
    this.credentials.expire();
    return await this.sendOnce(request);
  }

  /** Closes every connection; the next request opens a new one. */
  async closeConnections(): Promise<void> {
    const agent = this.agent;
    this.agent = undefined;
    this.credentials.expire();
    if (agent) this.seen({ kind: 'closed' });
    await agent?.dispatcher.destroy(new Error('connections were closed'));
  }

  private async sendOnce({ method, path, headers, body, signal, headersTimeoutMs }: TransportRequest) {
    const url = `${this.server}${path}`;
    try {
      const credentials = await this.credentials.current();
      return await send(url, {
        dispatcher: this.dispatcherFor(credentials),
        method,
        headers: { ...headers, ...credentials.headers },
        body: body ?? null,
        signal,
        headersTimeout: headersTimeoutMs,
        bodyTimeout: 0,
      });
    } catch (error) {
      throw requestError({ method, url }, error);
    }
  }

  private dispatcherFor({ tls, identity, pluginCertificate }: Credentials): Dispatcher {
    if (this.agent?.identity === identity) return this.agent.dispatcher;
    // Requests in progress end on the old connections; new ones use the new certificate.
    if (this.agent) this.seen({ kind: 'closed' });
    void this.agent?.dispatcher.close();
    this.seen({ kind: 'opened', pluginCertificate });
    const proxyUrl = this.config.proxyUrl ?? environmentProxy(this.server);
    // The variable with which Go's clients give up HTTP/2, for load balancers that do not handle it.
    const allowH2 = !process.env['DISABLE_HTTP2'];
    const common = { allowH2, keepAliveTimeout: KEEP_ALIVE_MS, h2Options: { pingInterval: 0 } };
    const connect = { ...tls, allowH2, timeout: CONNECT_TIMEOUT_MS, keepAliveInitialDelay: TCP_KEEP_ALIVE_MS };
    const dispatcher = proxyUrl
      ? new ProxyAgent({
          ...common,
          uri: proxyUrl,
          requestTls: { ...connect, ...namedFor(proxyUrl, this.server, tls) },
        })
      : new Agent({ ...common, connect });
    this.agent = { dispatcher, identity };
    return dispatcher;
  }
}

/** The name that is sent to a server whose address alone is known. */
const NAME_OF_ADDRESS = 'kubernetes';

/** The HTTP library sends the name of a server behind a SOCKS5 proxy, which must not be an address. */
function namedFor(proxyUrl: string, server: string, tls: Credentials['tls']): Partial<Credentials['tls']> {
  const host = new URL(server).hostname.replace(/^\[|\]$/g, '');
  if (!proxyUrl.startsWith('socks5:') || isIP(host) === 0 || tls.servername !== undefined) return {};
  const check = tls.checkServerIdentity ?? ((_name: string, cert: PeerCertificate) => checkServerIdentity(host, cert));
  return { servername: NAME_OF_ADDRESS, checkServerIdentity: check };
}

/**
 * Detects a dead HTTP/2 connection: an idle connection is pinged, and ended if no answer arrives in time.
 *
 * A connection may carry only watches, which can be silent for an hour. The HTTP library sends pings, but ignores
 * missing answers. Only connections with TLS are checked: connections of gRPC are local sockets, and gRPC servers close
 * a connection that is pinged too often.
 */
const SECOND_MS = 1_000;
/** Go's names and defaults. */
const READ_IDLE = { name: 'HTTP2_READ_IDLE_TIMEOUT_SECONDS', seconds: 30 };
const PING = { name: 'HTTP2_PING_TIMEOUT_SECONDS', seconds: 15 };

const tested = new WeakSet<ClientHttp2Session>();

/** Watches every connection of this process from its first stream on. */
function endLostConnections(): void {
  subscribe('http2.client.stream.created', (message) => {
    const { session } = (message as { readonly stream: ClientHttp2Stream }).stream;
    if (session?.encrypted) testRegularly(session as ClientHttp2Session);
  });
}

function testRegularly(session: ClientHttp2Session): void {
  const idleMs = millisecondsOf(READ_IDLE);
  if (idleMs === 0 || tested.has(session)) return;
  tested.add(session);
  const timer = setInterval(() => ping(session), idleMs).unref();
  session.once('close', () => clearInterval(timer));
}

function ping(session: ClientHttp2Session): void {
  if (session.destroyed) return;
  const limit = setTimeout(
    () => {
      session.destroy(Object.assign(new Error('http2: client connection lost'), { code: 'ECONNRESET' }));
    },
    millisecondsOf(PING) || PING.seconds * SECOND_MS,
  ).unref();
  session.ping(() => clearTimeout(limit));
}

/** A setting that is not a number counts as absent. */
function millisecondsOf({ name, seconds }: { readonly name: string; readonly seconds: number }): number {
  const setting = process.env[name] ?? '';
  return (/^\d+$/.test(setting) ? Number(setting) : seconds) * SECOND_MS;
}

/**
 * Cancels the stream of an abandoned request on a shared HTTP/2 connection, as Go's client does.
 *
 * The HTTP library closes its stream without an error code and destroys it at once. Node delays such a reset until the
 * body is sent; if destroyed before that, it is never sent, and the next write on the connection never ends: the
 * process hangs, and uses gigabytes. With a code the stream is reset at once. Applies to every client stream of this
 * process; a close with its own code is unchanged.
 */
function cancelStreamsGivenUp(): void {
  subscribe('http2.client.stream.created', (message) => {
    const { stream } = message as { readonly stream: ClientHttp2Stream };
    const close = stream.close.bind(stream);
    stream.close = (code = constants.NGHTTP2_CANCEL, callback) => close(code, callback);
  });
}
