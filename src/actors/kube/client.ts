/**
 * Requests to the API server under a client's rate limits: addresses, bodies, retries requested by the server.
 *
 * Invariants: a request waits for the rate limit before each attempt, including retries; only a request rejected with
 * Retry-After is retried here, everything else is the machine's decision.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { OperationError } from '../../kernel/json.ts';
import type { KubeTarget } from '../../machines/model/operations/kube.ts';
import { chunksOf, GrowingBytes } from '../byte-stream.ts';
import type { TokenBucket } from '../token-bucket.ts';
import { traceparent } from '../tracing/propagation.ts';
import { refusal, requestError } from './errors.ts';
import type { Transport, TransportAnswer, TransportRequest } from './transport.ts';

/** client-go's limit: after this many retries the server's `Retry-After` becomes an error. */
const RETRIES_MAX = 10;
/** A longer delay is left to the machine, so that a server that makes a node wait for minutes is visible. */
const RETRY_AFTER_MAX_MS = 30_000;
/** Size limit of a response that is not a watch. The largest list page of the largest objects is far smaller. */
const ANSWER_MAX_BYTES = 256 * 1_048_576;
/** Upstream waits forever and relies on pings, which HTTP/1.1 lacks. */
const HEADERS_TIMEOUT_MS = 60_000;
/** The time for the body of a response that is not a watch. Upstream waits forever for the rest of an answer. */
const BODY_TIMEOUT_MS = 300_000;

interface ClientOptions {
  readonly transport: Transport;
  readonly userAgent: string;
  readonly limit: TokenBucket | null;
  /** Timeout of the whole request; 0 for none. */
  readonly timeoutMs: number;
  readonly onRequest?: OnRequest;
}

/** Parts of one exchange, for metrics. */
type Exchanged =
  /** A request waited for the client's rate limit. */
  | { readonly kind: 'waited'; readonly durationMs: number }
  /** `code` is the status of the response or `<error>`, `bytes` the body's. */
  | { readonly kind: 'sent'; readonly code: string; readonly durationMs: number; readonly bytes: number }
  /** The body of a response was read. Not reported for a watch. */
  | { readonly kind: 'read'; readonly bytes: number };
/** `host` includes its port, `path` excludes the query. */
export type ObservedRequest = {
  readonly method: TransportRequest['method'];
  readonly host: string;
  readonly path: string;
} & Exchanged;
export type OnRequest = (seen: ObservedRequest) => void;

export interface ClientRequest {
  readonly method: TransportRequest['method'];
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: string;
  readonly contentType?: string;
  /** Requests of different lanes take turns when they wait for the rate limit. */
  readonly lane?: string;
  readonly signal: AbortSignal;
}

export class KubeClient {
  private readonly options: ClientOptions;

  constructor(options: ClientOptions) {
    this.options = options;
  }

  /** The body of a successful response as text. */
  async call(request: ClientRequest): Promise<string> {
    const { answer, signal, url } = await this.exchange(request);
    try {
      const body = await bodyOf(answer);
      this.report(request, { kind: 'read', bytes: body.length });
      return body.toString('utf8');
    } catch (error) {
      throw requestError({ method: request.method, url }, signal.aborted ? signal.reason : error);
    }
  }

  /** A successful response whose body is read as a stream, without a timeout. */
  async open(request: ClientRequest): Promise<TransportAnswer> {
    return (await this.exchange(request, { isStream: true })).answer;
  }

  private async exchange(request: ClientRequest, { isStream = false } = {}) {
    const { timeoutMs, transport } = this.options;
    const isTimed = timeoutMs > 0 && !isStream;
    const signal = isTimed ? AbortSignal.any([request.signal, AbortSignal.timeout(timeoutMs)]) : request.signal;
    const path = this.pathOf(request, isTimed);
    for (let tries = 1; ; tries += 1) {
      await this.turn(request, signal);
      const answer = await this.sendWithRetries(request, path, signal);
      if (answer.statusCode < 300) return { answer, signal, url: `${transport.server}${path}` };
      const body = await bodyOf(answer);
      this.report(request, { kind: 'read', bytes: body.length });
      const retryAfter = retryAfterOf(answer);
      const error = refusal(answer.statusCode, body.toString('utf8'), retryAfter);
      const waitMs = retryAfter === undefined ? undefined : error.retryAfterMs;
      if (waitMs === undefined || waitMs > RETRY_AFTER_MAX_MS || tries > RETRIES_MAX) throw error;
      await sleep(waitMs, undefined, { signal });
    }
  }

  private async turn(request: ClientRequest, signal: AbortSignal): Promise<void> {
    const { limit } = this.options;
    if (!limit) return;
    const beganMs = performance.now();
    await limit.take(signal, request.lane);
    this.report(request, { kind: 'waited', durationMs: performance.now() - beganMs });
  }

  private async sendWithRetries(request: ClientRequest, path: string, signal: AbortSignal): Promise<TransportAnswer> {
    const { method, body } = request;
    const beganMs = performance.now();
    let code = '<error>';
    try {
      const answer = await this.options.transport.request({
        method,
        path,
        headers: this.headers(request),
        ...(body === undefined ? {} : { body }),
        signal,
        headersTimeoutMs: HEADERS_TIMEOUT_MS,
      });
      code = String(answer.statusCode);
      return answer;
    } finally {
      const bytes = body === undefined ? 0 : Buffer.byteLength(body);
      this.report(request, { kind: 'sent', code, durationMs: performance.now() - beganMs, bytes });
    }
  }

  private report({ method, path }: ClientRequest, what: Exchanged): void {
    this.options.onRequest?.({ method, host: new URL(this.options.transport.server).host, path, ...what });
  }

  private headers({ body, contentType = 'application/json' }: ClientRequest): Record<string, string> {
    const span = traceparent();
    return {
      accept: 'application/json',
      'user-agent': this.options.userAgent,
      ...(body === undefined ? {} : { 'content-type': contentType }),
      ...(span === undefined ? {} : { traceparent: span }),
    };
  }

  private pathOf({ path, query = {} }: ClientRequest, isTimed: boolean): string {
    const timeout = isTimed ? { timeout: `${this.options.timeoutMs / 1_000}s` } : {};
    const all: NonNullable<ClientRequest['query']> = { ...query, ...timeout };
    const given = Object.entries(all).filter(([, value]) => value !== undefined && value !== '');
    const search = new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]));
    return search.size === 0 ? path : `${path}?${search.toString()}`;
  }
}

function retryAfterOf({ headers }: TransportAnswer): string | undefined {
  const value = headers['retry-after'];
  return typeof value === 'string' ? value : value?.[0];
}

async function bodyOf({ body }: TransportAnswer): Promise<Buffer> {
  const bytes = new GrowingBytes();
  const late = new OperationError('the answer does not end', { code: 'ETIMEDOUT', retriable: true });
  const limit = setTimeout(() => body.destroy(late), BODY_TIMEOUT_MS);
  try {
    for await (const chunk of chunksOf(body)) {
      bytes.add(chunk);
      if (bytes.length > ANSWER_MAX_BYTES) {
        throw new OperationError(`the answer has more than ${ANSWER_MAX_BYTES} bytes`, { code: 'TooLarge' });
      }
    }
  } finally {
    clearTimeout(limit);
  }
  return bytes.take();
}

/** Path of an object, or of its collection without `name`. */
export function pathOf({ apiVersion, resource, namespace, name, subresource }: KubeTarget): string {
  const parts = [
    ...(apiVersion.includes('/') ? ['apis', ...apiVersion.split('/')] : ['api', apiVersion]),
    ...(namespace === undefined ? [] : ['namespaces', namespace]),
    resource,
    ...(name === undefined ? [] : [name]),
    ...(subresource === undefined ? [] : [subresource]),
  ];
  return `/${parts.map(encodeURIComponent).join('/')}`;
}
