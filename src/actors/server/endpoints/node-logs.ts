/**
 * `/logs/`: a file server for the machine's log folder, and queries of service logs.
 *
 * Invariant: the target of a link is served only if it is below the log folder or that of pods' logs; upstream follows
 * any link, so a pod that mounts the folder could read any file of the machine.
 */
import type { Dirent } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { byBytes, trimRight } from '../../../machines/model/values/go-text.ts';
import type { Answer, ApiRequest, Endpoint } from '../http/endpoint.ts';
import { escapeHtml, firstHeader, notFound, refusal } from '../http/endpoint.ts';
import { type OpenedPlace, openBelow } from '../logs/log-file.ts';
import { nodeLogQuery, serviceLogs } from '../logs/node-log-query.ts';

/** The limit of names in one listing. */
const LISTING_MAX = 100_000;
const MS_PER_SECOND = 1_000;

export interface NodeLogOptions {
  /** `/var/log`, absolute. */
  readonly directory: string;
  /** Another allowed target of links. */
  readonly podLogsDir: string;
  /** `enableSystemLogQuery` and its gate. */
  readonly isQueryEnabled: boolean;
}

export function nodeLogEndpoints(options: NodeLogOptions): Endpoint[] {
  const answer = (request: ApiRequest) =>
    options.isQueryEnabled ? queried(request, options) : file(request, pathOf(request), options);
  const common: Omit<Endpoint, 'path'> = { methods: ['GET'], produces: [], subresources: ['log'], answer };
  return [
    { ...common, path: '/logs' },
    { ...common, path: '/logs/*' },
  ];
}

const pathOf = ({ path }: ApiRequest): string => path.slice('/logs'.length);

async function queried(request: ApiRequest, options: NodeLogOptions): Promise<Answer> {
  const query = await nodeLogQuery(request.query, options.directory);
  if ('refused' in query) return query.refused;
  if (query.services.length > 0) return serviceLogs(request, query, options.directory);
  const [asked] = query.files;
  return await file(request, asked === undefined ? pathOf(request) : `/${asked}`, options);
}

/** `path`: below the folder of logs, as in the request. */
async function file(request: ApiRequest, path: string, options: NodeLogOptions): Promise<Answer> {
  const moved = (to: string): Answer => ({ status: 301, headers: { location: `${to}${request.search}` }, body: '' });
  if (path.endsWith('/index.html')) return moved('./');
  const name = trimRight(path, '/') || '/';
  const roots = [options.directory, options.podLogsDir];
  const place = await openBelow(join(options.directory, join('/', name)), roots);
  if (place === null) return notFound();
  return await closing(place, async () => {
    const isSlashed = path.endsWith('/');
    const last = encodeURI(name.slice(name.lastIndexOf('/') + 1));
    if (place.info.isDirectory()) return isSlashed ? await folder(request, place, roots) : moved(`${last}/`);
    return isSlashed ? moved(`../${last}`) : await content(request, place);
  });
}

/** Creates the response, and keeps the file open until the body has been read. */
async function closing({ handle }: OpenedPlace, answer: () => Promise<Answer>): Promise<Answer> {
  const result = await answer().catch(async (error: unknown) => {
    await handle.close();
    throw error;
  });
  if (result.body instanceof Readable) result.body.once('close', () => void handle.close().catch(() => undefined));
  else await handle.close();
  return result;
}

/** Serves the `index.html` of the folder, or a listing. */
async function folder(request: ApiRequest, { path, info }: OpenedPlace, roots: readonly string[]): Promise<Answer> {
  const index = await openBelow(join(path, 'index.html'), roots);
  if (index !== null) return await closing(index, () => content(request, index));
  const changed = info.mtime;
  const known = Date.parse(firstHeader(request.raw, 'if-modified-since'));
  if (Math.floor(changed.getTime() / MS_PER_SECOND) * MS_PER_SECOND <= known) return UNCHANGED;
  return listing(await readdir(path, { withFileTypes: true }), changed);
}

const UNCHANGED: Answer = { status: 304, headers: {}, body: '' };

function listing(entries: readonly Dirent[], changed: Date): Answer {
  const rows = entries
    .slice(0, LISTING_MAX)
    .toSorted((one, other) => byBytes(one.name, other.name))
    .map((entry) => entry.name + (entry.isDirectory() ? '/' : ''))
    .map((name) => `<a href="${linkTo(name)}">${escapeHtml(name)}</a>\n`);
  const body = `<!doctype html>\n<meta name="viewport" content="width=device-width">\n<pre>\n${rows.join('')}</pre>\n`;
  return {
    status: 200,
    headers: { 'content-type': 'text/html; charset=utf-8', 'last-modified': changed.toUTCString() },
    body,
  };
}

/** A name escaped as Go escapes paths. A name like `a:b` gets the prefix `./`, so that `a` is not read as a scheme. */
function linkTo(name: string): string {
  const escaped = encodeURIComponent(name)
    .replaceAll(/%(24|26|2B|2C|2F|3A|3B|3D|40)/g, decodeURIComponent)
    .replaceAll(/[!'()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`);
  const [first = ''] = escaped.split('/', 1);
  return first.includes(':') ? `./${escaped}` : escaped;
}

/** The limit of ranges; a client needs few to resume a download. */
const RANGES_MAX = 64;

/** Whether the header requests byte ranges; an empty range among several is ignored. */
function isByteRanges(header: string): boolean {
  const [unit, ranges, ...more] = header.split('=');
  if (unit !== 'bytes' || ranges === undefined || more.length > 0) return false;
  const parts = ranges.split(',', RANGES_MAX + 1).map((part) => part.trim());
  return (
    parts.length <= RANGES_MAX && parts.every((part, at) => (part === '' && at > 0) || /^(?:\d+-\d*|-\d+)$/.test(part))
  );
}

/** The file or the requested range of it; an empty file has no ranges. */
async function content({ raw }: ApiRequest, { path, realPath, info: { size } }: OpenedPlace): Promise<Answer> {
  if (size === 0) delete raw.headers.range;
  const range = size === 0 ? '' : firstHeader(raw, 'range');
  if (range !== '' && !isByteRanges(range)) return refusal(416, 'invalid range');
  const { default: send, mime } = await import('@fastify/send');
  const found = await send(raw, basename(path), {
    root: dirname(path),
    cacheControl: false,
    etag: false,
    dotfiles: 'allow',
    index: false,
  });
  const { headers } = found;
  if (found.statusCode === 416) return unsatisfiable(headers['Content-Range'] ?? '');
  if (found.statusCode === 304) return { ...UNCHANGED, headers: { 'Last-Modified': headers['Last-Modified'] ?? '' } };
  if (found.statusCode >= 400) return { status: found.statusCode, headers: {}, body: '' };
  return {
    status: found.statusCode,
    headers: { ...headers, 'Content-Type': await typeOf(realPath, mime.getType(realPath), path) },
    body: found.stream,
  };
}

function unsatisfiable(range: string): Answer {
  const refused = refusal(416, 'invalid range: failed to overlap');
  return { ...refused, headers: { ...refused.headers, 'content-range': range } };
}

/** The content type by the name of the file, else by its content; only text has a charset. */
async function typeOf(name: string, known: string | null, path: string): Promise<string> {
  if (name.endsWith('.log')) return 'text/x-log; charset=utf-8';
  if (known === null || known === 'application/octet-stream') return await sniffedType(path);
  return known.startsWith('text/') ? `${known}; charset=utf-8` : known;
}

/** How many bytes Go reads to detect a content type. */
const SNIFFED_BYTES = 512;

const SIGNATURES: readonly (readonly [bytes: string, type: string])[] = [
  ['\x1f\x8b\x08', 'application/x-gzip'],
  ['PK\x03\x04', 'application/zip'],
  ['%PDF-', 'application/pdf'],
  ['\x89PNG\r\n\x1a\n', 'image/png'],
  ['\xfe\xff', 'text/plain; charset=utf-16be'],
  ['\xff\xfe', 'text/plain; charset=utf-16le'],
];
const HTML =
  /^[\t\n\f\r ]*<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|!--)[ >]/i;
const XML = /^[\t\n\f\r ]*<\?xml/;
/** Bytes that text never contains: control characters other than white space and escape. */
const isBinary = (byte: number): boolean =>
  byte < SPACE && !(byte >= TAB && byte <= CARRIAGE_RETURN && byte !== VERTICAL_TAB) && byte !== ESCAPE;
const [TAB, VERTICAL_TAB, CARRIAGE_RETURN, ESCAPE, SPACE] = [0x09, 0x0b, 0x0d, 0x1b, 0x20];

/** The content type of a file without a known extension, by its first bytes, as Go's `DetectContentType`. */
async function sniffedType(path: string): Promise<string> {
  const handle = await open(path);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(SNIFFED_BYTES), 0, SNIFFED_BYTES, 0);
    const first = buffer.toString('latin1', 0, bytesRead);
    const known = SIGNATURES.find(([bytes]) => first.startsWith(bytes));
    if (known) return known[1];
    if (HTML.test(first)) return 'text/html; charset=utf-8';
    if (XML.test(first)) return 'text/xml; charset=utf-8';
    return buffer.subarray(0, bytesRead).some(isBinary) ? 'application/octet-stream' : 'text/plain; charset=utf-8';
  } finally {
    await handle.close();
  }
}
