/**
 * One GET of the node agent: no proxy, no keep-alive, no certificate check; a hostile or broken server costs at most
 * the configured time and bytes.
 *
 * Invariants: the timeout covers name resolution, connection, headers, redirects and body; of the body at most {@link
 * OUTPUT_MAX_BYTES} are read; redirects are followed on the same host only, at most {@link REDIRECTS_MAX}; interim
 * answers (1xx) are at most {@link INTERIM_MAX}; errors quote the server with at most {@link OUTPUT_MAX_BYTES}.
 */
import * as http from 'node:http';
import * as https from 'node:https';
import type { Header } from '../../machines/model/operations/probe.ts';
import { bodyText, exchangeText, hostPort, isPlainAnswer } from '../go-errors.ts';
import { limitMs } from '../pause.ts';
import { cut, OUTPUT_MAX_BYTES } from './attempt.ts';

const REDIRECTS_MAX = 10;
/** The limit of a redirect's URL, above the limits of servers: a URL of megabytes takes seconds to parse. */
const LOCATION_MAX_CHARS = 65_536;
/** The limit of interim answers: a server sends one or two, and each takes time of the main thread. */
const INTERIM_MAX = 100;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/**
 * Accepts what Go's client accepts: bare line feeds, folded headers, a length beside chunks, and headers of this size.
 * A container with such answers is healthy.
 */
const LENIENT = { insecureHTTPParser: true, maxHeaderSize: 10 << 20 } as const;
const AGENTS = {
  http: new http.Agent({ keepAlive: false }),
  https: new https.Agent({ keepAlive: false, rejectUnauthorized: false, maxCachedSessions: 0 }),
};

export interface GetOptions {
  readonly url: string;
  readonly headers: readonly Header[];
  readonly userAgent: string;
  /** `null` for no timeout. */
  readonly timeoutMs: number | null;
  readonly signal: AbortSignal;
}

export type Answer =
  | { readonly status: number; readonly body: string }
  /** No answer; `text` is the reason. `plain`: the server does not speak TLS. */
  | { readonly failed: 'exchange' | 'body'; readonly text: string; readonly plain: boolean };

type Step = Answer | { readonly location: string };

export async function httpGet(options: GetOptions): Promise<Answer> {
  const timer = new AbortController();
  const timeout = options.timeoutMs === null ? undefined : setTimeout(() => timer.abort(), limitMs(options.timeoutMs));
  const signal = AbortSignal.any([options.signal, timer.signal]);
  try {
    return await follow(options, signal, () => timer.signal.aborted);
  } finally {
    clearTimeout(timeout);
  }
}

async function follow(options: GetOptions, signal: AbortSignal, isLate: () => boolean): Promise<Answer> {
  let url: URL | null = URL.parse(options.url);
  let headers = headersOf(options);
  for (let hops = 0; url !== null; hops++) {
    const step = await get(url, headers, signal, isLate);
    if (!('location' in step)) return step;
    const next: URL | null = isTooLong(step.location) ? null : URL.parse(step.location, url);
    if (next === null) return failed('exchange', url, `failed to parse Location header ${quoted(step.location)}`);
    if (hops + 1 >= REDIRECTS_MAX) return failed('exchange', next, `stopped after ${REDIRECTS_MAX} redirects`);
    if (/^([a-z][a-z0-9+.-]*:)?\/\//i.test(step.location)) headers = withoutHost(headers);
    url = next;
  }
  return failed('exchange', options.url, 'invalid URL');
}

const isTooLong = (location: string): boolean => location.length > LOCATION_MAX_CHARS;
const quoted = (location: string): string => JSON.stringify(location.slice(0, OUTPUT_MAX_BYTES));

const failed = (what: 'exchange' | 'body', url: URL | string, text: string, plain = false): Answer => ({
  failed: what,
  text: cut(what === 'body' ? text : `Get ${JSON.stringify(String(url))}: ${text}`),
  plain,
});

function get(url: URL, headers: http.OutgoingHttpHeaders, signal: AbortSignal, isLate: () => boolean): Promise<Step> {
  const scheme = url.protocol === 'https:' ? https : http;
  const agent = url.protocol === 'https:' ? AGENTS.https : AGENTS.http;
  return new Promise((resolve) => {
    if (url.protocol !== 'https:' && url.protocol !== 'http:') {
      return resolve(
        failed('exchange', url, `unsupported protocol scheme ${JSON.stringify(url.protocol.slice(0, -1))}`),
      );
    }
    let request: http.ClientRequest;
    const fail = (error: Error): void =>
      resolve(
        failed('exchange', url, isLate() ? LATE_HEADERS : exchangeText(addressOf(url), error), isPlainAnswer(error)),
      );
    try {
      request = scheme.request(url, { agent, headers, signal, ...LENIENT });
    } catch (error) {
      return fail(error as Error);
    }
    request.on('error', fail);
    limitInterim(request);
    // Node reports an answer 101 only here. It ends the exchange, though no upgrade was requested.
    request.once('upgrade', ({ statusCode = 0 }, socket) => {
      socket.on('error', () => {}).destroy();
      resolve({ status: statusCode, body: '' });
    });
    request.once('response', (response) => {
      const location = redirectOf(response, url);
      if (location !== null) {
        request.destroy();
        return resolve({ location });
      }
      // Bytes after a complete response are not part of it.
      const failBody = (error: Error): void => {
        if (!response.complete) resolve(failed('body', url, isLate() ? LATE_BODY : bodyText(error)));
      };
      request.off('error', fail).on('error', failBody);
      readBody(response.on('error', failBody), (answer) => {
        resolve(answer);
        request.destroy();
      });
    });
    request.end();
  });
}

function limitInterim(request: http.ClientRequest): void {
  let interim = 0;
  request.on('information', () => {
    if (++interim > INTERIM_MAX) request.destroy(new Error(TOO_LONG));
  });
}

/** Go's error for headers with too many bytes. */
const TOO_LONG = 'net/http: server response headers exceeded 10485760 bytes; aborted';
const LATE_HEADERS = 'context deadline exceeded (Client.Timeout exceeded while awaiting headers)';
const LATE_BODY = 'context deadline exceeded (Client.Timeout or context cancellation while reading body)';

/** The URL of the next request; `null` if the response is final. */
function redirectOf({ statusCode = 0, headers }: http.IncomingMessage, url: URL): string | null {
  const { location } = headers;
  if (!REDIRECTS.has(statusCode) || location === undefined || location === '') return null;
  if (isTooLong(location)) return location;
  const target = URL.parse(location, url);
  return target === null || target.hostname === url.hostname ? location : null;
}

function readBody(response: http.IncomingMessage, answer: (answer: Answer) => void): void {
  const chunks: Buffer[] = [];
  let size = 0;
  const end = (): void => {
    const body = Buffer.concat(chunks).subarray(0, OUTPUT_MAX_BYTES).toString('utf8');
    answer({ status: response.statusCode ?? 0, body });
  };
  response.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    size += chunk.length;
    if (size > OUTPUT_MAX_BYTES) end();
  });
  response.once('end', end);
}

function addressOf({ protocol, hostname, port }: URL): string {
  const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
  return hostPort(host, Number(port) || (protocol === 'https:' ? 443 : 80));
}

/** User agent and `Accept`, unless set; an empty header is not sent. */
function headersOf({ headers, userAgent }: GetOptions): http.OutgoingHttpHeaders {
  const own = Map.groupBy(headers, ({ name }) => name.toLowerCase());
  const result = new Map([...own].map(([name, given]) => [name, given.map(({ value }) => value)]));
  if (!result.has('user-agent')) result.set('user-agent', [userAgent]);
  if (!result.has('accept')) result.set('accept', ['*/*']);
  const [host] = result.get('host') ?? [];
  const kept = [...result].filter(
    ([name, [first]]) => name !== 'host' && !(first === '' && (name === 'accept' || name === 'user-agent')),
  );
  return { ...Object.fromEntries(kept), ...(host ? { host } : {}), connection: 'close' };
}

function withoutHost(headers: http.OutgoingHttpHeaders): http.OutgoingHttpHeaders {
  const { host: _gone, ...rest } = headers;
  return rest;
}
