/**
 * The connections to one API server, shared by all clients of one identity.
 *
 * HTTP/2 where the server has it: a connection carries a hundred watches. Decides: when connections are given up
 * (rotated certificates, `closeConnections`; one that died in silence: `lost-connections.ts`). Invariant: an answer
 * that was refused as unauthorized is asked for once more with credentials that were read anew.
 */
import { Agent, type Dispatcher, ProxyAgent, request as send } from 'undici';
import { environmentProxy } from '../environment-proxy.ts';
import { CredentialSource, type Credentials } from './credentials.ts';
import { requestError } from './errors.ts';
import { cancelStreamsGivenUp } from './given-up.ts';
import type { Kubeconfig } from './kubeconfig.ts';
import { endLostConnections } from './lost-connections.ts';

const CONNECT_TIMEOUT_MS = 30_000;
/** Of the system: a connection without HTTP/2 that died in silence is found by it. */
const TCP_KEEP_ALIVE_MS = 30_000;
/** Idle connections are closed before load balancers in between forget them. */
const KEEP_ALIVE_MS = 90_000;
const UNAUTHORIZED = 401;

export interface TransportRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** With its query, from the root of the server. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal: AbortSignal;
  /** Until the headers of the answer are there; 0: for ever. */
  readonly headersTimeoutMs: number;
}

export type TransportAnswer = Dispatcher.ResponseData;

cancelStreamsGivenUp();
endLostConnections();

/** What becomes of the connections of one identity. */
type TransportSeen =
  /** New ones with the credentials of now; `pluginCertificate` is PEM, `null` where no exec plugin gave it. */
  | { readonly kind: 'opened'; readonly pluginCertificate: string | null }
  /** Given up: for new ones, or with the client. */
  | { readonly kind: 'closed' };
export type OnTransport = (seen: TransportSeen) => void;

export class Transport {
  readonly server: string;
  private readonly config: Kubeconfig;
  private readonly credentials: CredentialSource;
  private readonly seen: OnTransport;
  private agent: { readonly dispatcher: Dispatcher; readonly identity: string } | undefined;

  constructor(config: Kubeconfig, certificateFile: string | null, seen: OnTransport = () => undefined) {
    this.server = config.server;
    this.seen = seen;
    this.config = config;
    this.credentials = new CredentialSource(config, certificateFile);
  }

  /** Rejects with what Go's client would say; refusals of the server are answers. */
  async request(request: TransportRequest): Promise<TransportAnswer> {
    const answer = await this.sendOnce(request);
    if (answer.statusCode !== UNAUTHORIZED) return answer;
    await answer.body.dump();
    this.credentials.expire();
    return await this.sendOnce(request);
  }

  /** Breaks every connection; the next request opens a new one. */
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
    // Requests that are under way end on the old connections; new ones go out with the new certificate.
    if (this.agent) this.seen({ kind: 'closed' });
    void this.agent?.dispatcher.close();
    this.seen({ kind: 'opened', pluginCertificate });
    const proxyUrl = this.config.proxyUrl ?? environmentProxy(this.server);
    const common = { allowH2: true, keepAliveTimeout: KEEP_ALIVE_MS, h2Options: { pingInterval: 0 } };
    const connect = { ...tls, timeout: CONNECT_TIMEOUT_MS, keepAliveInitialDelay: TCP_KEEP_ALIVE_MS };
    const dispatcher = proxyUrl
      ? new ProxyAgent({ ...common, uri: proxyUrl, requestTls: connect })
      : new Agent({ ...common, connect });
    this.agent = { dispatcher, identity };
    return dispatcher;
  }
}
