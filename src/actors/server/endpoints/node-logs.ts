/**
 * `/logs/`: the files below the machine's folder of logs, as a file server, and the logs of services by query.
 *
 * Invariant: what a link leads to is served only when it lies below the folder of logs or that of pods' logs; upstream
 * follows links anywhere, and a pod that mounts the folder could so read any file of the machine.
 */
import type { Dirent } from 'node:fs';
import { lstat, readdir, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { byBytes } from '../../../machines/startup/configuration/values/go-text.ts';
import { firstHeader } from '../http/accept.ts';
import { type Answer, escapeHtml, notFound, refusal } from '../http/answer.ts';
import type { ApiRequest, Endpoint } from '../http/endpoint.ts';
import { serviceLogs } from '../logs/journal-query.ts';
import { nodeLogQuery } from '../logs/node-log-query.ts';
import { sniffedType } from '../logs/sniffed-type.ts';

/** Names in one listing: a folder of logs with more is not for people. */
const LISTING_MAX = 100_000;
const MS_PER_SECOND = 1_000;

export interface NodeLogOptions {
  /** `/var/log`, absolute. */
  readonly directory: string;
  /** Where links may lead to, too. */
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

/** `path`: below the folder of logs, as it was asked for. */
async function file(request: ApiRequest, path: string, options: NodeLogOptions): Promise<Answer> {
  const moved = (to: string): Answer => ({ status: 301, headers: { location: `${to}${request.search}` }, body: '' });
  if (path.endsWith('/index.html')) return moved('./');
  const name = path.replace(/\/+$/, '') || '/';
  const real = await allowed(join(options.directory, join('/', name)), options);
  const info = real === null ? null : await stat(real).catch(() => null);
  if (real === null || info === null) return notFound();
  const isSlashed = path.endsWith('/');
  const last = encodeURI(name.split('/').at(-1)!);
  if (info.isDirectory()) return isSlashed ? await folder(request, real, info.mtime) : moved(`${last}/`);
  if (!info.isFile()) return notFound();
  return isSlashed ? moved(`../${last}`) : await content(request, real, info.size);
}

/** Where a path leads, or `null` when nothing is there or it may not be had. */
async function allowed(path: string, { directory, podLogsDir }: NodeLogOptions): Promise<string | null> {
  if (path.includes('\0')) return null;
  const [real, ...roots] = await Promise.all(
    [path, directory, podLogsDir].map((name) => realpath(name).catch(() => null)),
  );
  if (!real) return null;
  return roots.some((root) => root && (real === root || real.startsWith(root + sep))) ? real : null;
}

/** Its `index.html`, where it has one. */
async function folder(request: ApiRequest, path: string, changed: Date): Promise<Answer> {
  const index = join(path, 'index.html');
  const page = await lstat(index).catch(() => null);
  if (page?.isFile()) return await content(request, index, page.size);
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

/** As Go escapes a path; what could be taken for a scheme is marked as a name. */
function linkTo(name: string): string {
  const escaped = encodeURIComponent(name)
    .replaceAll(/%(24|26|2B|2C|2F|3A|3B|3D|40)/g, decodeURIComponent)
    .replaceAll(/[!'()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`);
  return escaped.split('/', 1)[0]!.includes(':') ? `./${escaped}` : escaped;
}

/** One range or several by byte; another unit is none. */
const RANGES = /^bytes=\s*(?:\d+-\d*|-\d+)\s*(?:,\s*(?:\d+-\d*|-\d+)?\s*)*$/;

/** The file or the asked part of it; of an empty one there is no part. */
async function content({ raw }: ApiRequest, path: string, size: number): Promise<Answer> {
  if (size === 0) delete raw.headers.range;
  const range = size === 0 ? '' : firstHeader(raw, 'range');
  if (range !== '' && !RANGES.test(range)) return refusal(416, 'invalid range');
  const { default: send } = await import('@fastify/send');
  const slash = path.lastIndexOf(sep);
  const found = await send(raw, encodeURIComponent(path.slice(slash + 1)), {
    root: path.slice(0, slash) || sep,
    cacheControl: false,
    etag: false,
    dotfiles: 'allow',
    index: false,
  });
  const { 'Content-Type': known = UNKNOWN, ...headers } = found.headers;
  if (found.statusCode === 416) return unsatisfiable(headers['Content-Range'] ?? '');
  if (found.statusCode === 304) return { ...UNCHANGED, headers: { 'Last-Modified': headers['Last-Modified'] ?? '' } };
  if (found.statusCode >= 400) return { status: found.statusCode, headers: {}, body: '' };
  return {
    status: found.statusCode,
    headers: { ...headers, 'Content-Type': await typeOf(path, known) },
    body: found.stream,
  };
}

function unsatisfiable(range: string): Answer {
  const refused = refusal(416, 'invalid range: failed to overlap');
  return { ...refused, headers: { ...refused.headers, 'content-range': range } };
}

const UNKNOWN = 'application/octet-stream';

/** By the name, else by what is in it; only text names its letters. */
async function typeOf(path: string, known: string): Promise<string> {
  if (path.endsWith('.log')) return 'text/x-log; charset=utf-8';
  if (!known.startsWith(UNKNOWN)) return known.startsWith('text/') ? known : known.split(';', 1)[0]!;
  return await sniffedType(path);
}
