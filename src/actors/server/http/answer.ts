/** Responses of endpoints, and common forms of them. Upstream's texts are byte for byte. */
import { STATUS_CODES } from 'node:http';
import { Readable } from 'node:stream';

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

export const json = (body: string | Buffer, status = 200): Answer => ({
  status,
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

/** A body only for GET and HEAD, as Go's `http.Redirect`. */
export function redirect(method: string, location: string, status: 307 | 301 = 307): Answer {
  const reads = method === 'GET' || method === 'HEAD';
  return {
    status,
    headers: { ...(reads ? { 'content-type': 'text/html; charset=utf-8' } : {}), location },
    body: reads ? `<a href="${escapeHtml(location)}">${STATUS_CODES[status]}</a>.\n\n` : '',
  };
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
