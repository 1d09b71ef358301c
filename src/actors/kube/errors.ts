/** Errors between a request and its response: Go's texts, and codes for machines. */
import { isIP } from 'node:net';
import { memberOf, OperationError } from '../../kernel/json.ts';
import { codeOf } from '../../kernel/thrown.ts';
import { dialText, exchangeText, hostPort } from '../go-errors.ts';

/** Codes of undici that correspond to an errno. */
const CODES: Readonly<Record<string, string>> = {
  UND_ERR_CONNECT_TIMEOUT: 'ETIMEDOUT',
  UND_ERR_HEADERS_TIMEOUT: 'ETIMEDOUT',
  UND_ERR_BODY_TIMEOUT: 'ETIMEDOUT',
  UND_ERR_SOCKET: 'ECONNRESET',
  UND_ERR_INFO: 'ECONNRESET',
  UND_ERR_DESTROYED: 'ECONNRESET',
  UND_ERR_CLOSED: 'ECONNRESET',
  ERR_HTTP2_STREAM_ERROR: 'ECONNRESET',
  ERR_HTTP2_SESSION_ERROR: 'ECONNRESET',
  ERR_HTTP2_GOAWAY_SESSION: 'ECONNRESET',
  ERR_HTTP2_INVALID_SESSION: 'ECONNRESET',
};

export interface Request {
  readonly method: string;
  readonly url: string;
}

const VERBS: Readonly<Record<string, string>> = {
  GET: 'Get',
  POST: 'Post',
  PUT: 'Put',
  PATCH: 'Patch',
  DELETE: 'Delete',
};

/** `Get "https://…": dial tcp 10.0.0.1:6443: connect: connection refused`, net/http's text. */
export function requestError({ method, url }: Request, thrown: unknown): OperationError {
  if (thrown instanceof OperationError) return thrown;
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const code = requestCode(error);
  const message = `${VERBS[method] ?? method} "${url}": ${textOf(error, code, new URL(url))}`;
  return new OperationError(message, { name: 'RequestError', code, retriable: true });
}

function requestCode(error: Error): string {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : undefined;
  const code = codeOf(error) ?? codeOf(error.cause) ?? codeOf(first);
  if (error.name === 'TimeoutError') return 'ETIMEDOUT';
  return code === undefined ? 'ECONNRESET' : (CODES[code] ?? code);
}

function textOf(error: Error, code: string, { hostname, port }: URL): string {
  const address = hostPort(hostname.replace(/^\[|\]$/g, ''), Number(port || 443));
  if (error.name === 'TimeoutError') return 'context deadline exceeded';
  const errorCode = codeOf(error);
  if (errorCode === 'UND_ERR_CONNECT_TIMEOUT') return `dial tcp ${address}: i/o timeout`;
  if (errorCode === 'UND_ERR_HEADERS_TIMEOUT') return 'net/http: timeout awaiting response headers';
  const certificate = certificateText(code, error);
  if (certificate !== undefined) return `tls: failed to verify certificate: ${certificate}`;
  if (code === 'ECONNREFUSED') return dialText(address, Object.assign(new Error('connection refused'), { code }));
  if (errorCode?.startsWith('UND_ERR') || errorCode?.startsWith('ERR_HTTP2')) return 'EOF';
  return exchangeText(address, error);
}

/** Go's texts for OpenSSL's errors. */
function certificateText(code: string, error: Error): string | undefined {
  switch (code) {
    case 'CERT_HAS_EXPIRED':
    case 'CERT_NOT_YET_VALID':
      return 'x509: certificate has expired or is not yet valid';
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
      return 'x509: certificate signed by unknown authority';
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return `x509: ${hostnameText(error)}`;
    default:
      return undefined;
  }
}

/** More names are counted, not listed. */
const LISTED_NAMES = 100;

const stringOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Why the certificate is not this server's: the text of crypto/x509's HostnameError. */
function hostnameText(error: Error): string {
  const refused = error.cause ?? error;
  const names = memberOf(memberOf(refused, 'cert'), 'subjectaltname');
  const name = stringOf(memberOf(refused, 'host')).replace(/\.$/, '');
  const prefix = isIP(name) === 0 ? 'DNS:' : 'IP Address:';
  const entries = stringOf(names)
    .split(', ')
    .filter((entry) => entry.startsWith(prefix));
  if (prefix !== 'DNS:' && entries.length === 0)
    return `cannot validate certificate for ${name} because it doesn't contain any IP SANs`;
  if (entries.length === 0) return `certificate is not valid for any names, but wanted to match ${name}`;
  if (entries.length > LISTED_NAMES)
    return `certificate is valid for ${entries.length} names, but none matched ${name}`;
  return `certificate is valid for ${entries.map((entry) => entry.slice(prefix.length)).join(', ')}, not ${name}`;
}

/** Statuses after which the same request may succeed later. Not a conflict, which needs another request. */
const RETRIABLE = new Set([408, 425, 429, 500, 502, 503, 504]);

interface StatusObject {
  readonly message?: unknown;
  readonly reason?: unknown;
  readonly details?: { readonly retryAfterSeconds?: number };
}

/** The kept part of the server's explanation, which goes into journal, log and events; it fills a page at most. */
const MESSAGE_MAX_CHARS = 16_384;
/** Of a reason, which is one word. */
const REASON_MAX_CHARS = 1_024;

const SECOND_MS = 1_000;
/** The longest silence that a server may ask for: a node that waits for days does nothing for its pods. */
const SILENCE_MAX_MS = 600_000;
const REASONS: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  409: 'Conflict',
  410: 'Gone',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
  504: 'Timeout',
};

/** A rejection by the server. `body` is a Status, or the text of a proxy. */
export function refusal(status: number, body: string, retryAfter: string | undefined): OperationError {
  const answer = statusOf(body);
  const reason = textIn(answer?.reason, REASON_MAX_CHARS) || (REASONS[status] ?? `HTTP${status}`);
  const seconds = answer?.details?.retryAfterSeconds ?? Number(retryAfter);
  return new OperationError(textIn(answer?.message, MESSAGE_MAX_CHARS) || defaultText(status, reason), {
    name: 'StatusError',
    code: reason,
    retriable: RETRIABLE.has(status),
    retryAfterMs: Number.isFinite(seconds) ? Math.min(Math.max(0, seconds * SECOND_MS), SILENCE_MAX_MS) : undefined,
  });
}

const textIn = (value: unknown, maxChars: number): string => stringOf(value).slice(0, maxChars);

function statusOf(body: string): StatusObject | undefined {
  try {
    const value: (StatusObject & { kind?: string }) | null = JSON.parse(body);
    return value?.kind === 'Status' ? value : undefined;
  } catch {
    return undefined;
  }
}

function defaultText(status: number, reason: string): string {
  if (status === 401) return 'Unauthorized';
  if (status === 429) return 'the server has received too many requests and has asked us to try again later';
  if (status === 503) return 'the server is currently unable to handle the request';
  return `the server answered ${status} (${reason}) without saying why`;
}
