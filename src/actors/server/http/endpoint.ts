/**
 * An endpoint of the node's API, a request for it, and the forms of its answers.
 *
 * Texts are equal to upstream's, byte by byte. Content negotiation: the interpretations of `Accept` and
 * `Accept-Encoding` by upstream's libraries, each for its own endpoints.
 */
import { type IncomingMessage, STATUS_CODES } from 'node:http';
import { type Duplex, Readable } from 'node:stream';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: string | Buffer | Readable;
}

/** The connection is no longer HTTP: the endpoint owns it. */
export const UPGRADED: Answer = { status: 101, headers: {}, body: '' };

/** Upstream's HTTP library sends a length only for a body that fits into its first buffer. */
export const MEASURED_BYTES = 2_048;

/** A body within the first buffer as a buffer; a longer one as a stream from its start. */
export async function measuredBody(body: Readable): Promise<Buffer | Readable> {
  const rest: AsyncIterator<Buffer | string> = body[Symbol.asyncIterator]();
  const chunks: Buffer[] = [];
  for (let bytes = 0; bytes <= MEASURED_BYTES; ) {
    const { done, value } = await rest.next();
    if (done) return Buffer.concat(chunks);
    const chunk = Buffer.from(value);
    chunks.push(chunk);
    bytes += chunk.length;
  }
  return Readable.from(continued(chunks, rest));
}

async function* continued(chunks: readonly Buffer[], rest: AsyncIterator<Buffer | string>) {
  yield Buffer.concat(chunks);
  yield* { [Symbol.asyncIterator]: () => rest };
}

const TEXT = 'text/plain; charset=utf-8';

/** A short response of the kubelet itself. */
export const text = (status: number, body: string | Buffer): Answer => ({
  status,
  headers: { 'content-type': TEXT },
  body,
});

/** As Go's `http.Error`: text that browsers must not interpret otherwise. */
export const refusal = (status: number, body: string): Answer => ({
  status,
  headers: { 'content-type': TEXT, 'x-content-type-options': 'nosniff' },
  body: `${body}\n`,
});

export const json = (body: string | Buffer): Answer => ({
  status: 200,
  headers: { 'content-type': 'application/json' },
  body,
});

/** The outer router's text for a path without an endpoint. */
export const notFound = (): Answer => refusal(404, '404 page not found');

/** The inner router's text for a path without an endpoint. */
export const pageNotFound = (): Answer => text(404, '404: Page Not Found');

export const methodNotAllowed = (allowed: readonly string[]): Answer => ({
  status: 405,
  headers: { 'content-type': TEXT, allow: allowed.join(', ') },
  body: '405: Method Not Allowed',
});

export const notAcceptable = (produced: readonly string[]): Answer =>
  text(406, `406: Not Acceptable\n\nAvailable representations: ${produced.join(', ')}`);

/** A body only for GET, and for HEAD not even its length, as Go's `http.Redirect`. */
export function redirect(method: string, location: string): Answer {
  const type = { 'content-type': 'text/html; charset=utf-8' };
  if (method === 'HEAD') return { status: 307, headers: { ...type, location }, body: Readable.from([]) };
  if (method !== 'GET') return { status: 307, headers: { location }, body: '' };
  const body = `<a href="${escapeHtml(location)}">${STATUS_CODES[307]}</a>.\n\n`;
  return { status: 307, headers: { ...type, location }, body };
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
};

export const escapeHtml = (value: string): string =>
  value.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);

interface MediaRange {
  readonly type: string;
  readonly subtype: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly quality: number;
}

/** The first header of this name, as Go's `Get`; empty without one. Node joins several into one text. */
export function firstHeader({ rawHeaders }: IncomingMessage, name: string): string {
  const at = rawHeaders.findIndex((each, place) => place % 2 === 0 && each.toLowerCase() === name);
  return at < 0 ? '' : (rawHeaders[at + 1] ?? '').trim();
}

/**
 * The ranges of an `Accept` header in the order of quality; ranges of equal quality in the order of specificity.
 * Malformed ranges are skipped.
 */
export function mediaRanges(header: string): MediaRange[] {
  return header
    .split(',')
    .flatMap((text) => rangeOf(text) ?? [])
    .toSorted((one, other) => other.quality - one.quality || wildcards(one) - wildcards(other));
}

const wildcards = ({ type, subtype }: MediaRange): number => (type === '*' ? 2 : 0) + (subtype === '*' ? 1 : 0);

function rangeOf(text: string): MediaRange | null {
  const [name = '', ...rest] = text.split(';');
  const [type = '', subtype, ...more] = name.split('/').map((part) => part.trim());
  if (more.length > 0 || (subtype === undefined && type !== '*')) return null;
  const pairs = rest.map((pair) => pair.split('=')).filter(({ length }) => length === 2);
  const { q, ...parameters } = Object.fromEntries(pairs.map(([key = '', value = '']) => [key.trim(), value.trim()]));
  return { type, subtype: subtype ?? '*', parameters, quality: q === undefined ? 1 : Number.parseFloat(q) || 0 };
}

/** Whether `type/subtype` is in the range. */
export const covers = (range: MediaRange, type: string, subtype: string): boolean =>
  (range.type === type && (range.subtype === subtype || range.subtype === '*')) ||
  (range.type === '*' && range.subtype === '*');

/**
 * Whether the header accepts one of the types, by the parsing of the inner router: whole names only, whatever their
 * quality. Without a header everything is accepted.
 */
export function takesOneOf(header: string, produced: readonly string[]): boolean {
  if (header === '') return true;
  return header.split(',').some((text) => {
    const [range = ''] = text.split(';', 1);
    const type = withoutSpaces(range);
    return type === '*/*' || produced.includes(type);
  });
}

/** Trims spaces only, as upstream. A regular expression would take quadratic time for a long run of spaces. */
function withoutSpaces(text: string): string {
  let [start, end] = [0, text.length];
  while (start < end && text[start] === ' ') start += 1;
  while (end > start && text[end - 1] === ' ') end -= 1;
  return text.slice(start, end);
}

/** For metrics: `gzip` only if the client prefers it to plain text. */
export function prefersGzip(header: string): boolean {
  const encodings = header.split(',').map((text) => {
    const [coding = '', quality] = text.split(';');
    const weight = /^\s*q=(.*)$/.exec(quality ?? '')?.[1];
    return { coding: coding.trim(), quality: weight === undefined ? 1 : Number.parseFloat(weight) || 0 };
  });
  const best = (offer: string): number =>
    encodings.reduce(
      (most, { coding, quality }) => (coding === offer || coding === '*' ? Math.max(most, quality) : most),
      -1,
    );
  return best('gzip') > Math.max(0, best('identity'));
}

/** A subresource of nodes in authorization; `proxy` covers all paths without their own. */
export type Subresource =
  | 'healthz'
  | 'pods'
  | 'configz'
  | 'stats'
  | 'metrics'
  | 'log'
  | 'checkpoint'
  | 'statusz'
  | 'proxy';

export interface User {
  readonly name: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

export interface Upgrade {
  /** Takes the connection, with the bytes after the request. May be called once. */
  take(): { readonly socket: Duplex; readonly head: Buffer };
}

export interface ApiRequest {
  readonly method: string;
  readonly path: string;
  /** Path parameters by name, decoded. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly query: ReadonlyMap<string, readonly string[]>;
  /** The raw query including its question mark; empty without a query. */
  readonly search: string;
  readonly raw: IncomingMessage;
  /** The upgrade that the client requested. An endpoint that takes it returns {@link UPGRADED}. */
  readonly upgrade: Upgrade | null;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
}

export interface Endpoint {
  /** `:name` stands for one segment, `*` at the end for the rest. */
  readonly path: string;
  /** `any`: the outer router accepts every method. */
  readonly methods: readonly string[] | 'any';
  /** The content types that the inner router checks; empty: only clients that accept any type. Absent: no check. */
  readonly produces?: readonly string[];
  /** The rights, each of which is sufficient, in the order of the checks. */
  readonly subresources: readonly Subresource[];
  readonly answer: (request: ApiRequest) => Answer | Promise<Answer>;
}

/** The first value of a parameter, as Go's `Get`. */
export const first = ({ query }: ApiRequest, name: string): string | undefined => query.get(name)?.[0];
