/**
 * `/logs/`: the files below the machine's folder of logs, as a file server, and the logs of services by query.
 *
 * Invariant: what a link leads to is served only when it lies below the folder of logs or that of pods' logs; upstream
 * follows links anywhere, and a pod that mounts the folder could so read any file of the machine.
 */
import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { type Answer, escapeHtml, notFound } from '../http/answer.ts';
import type { ApiRequest, Endpoint } from '../http/endpoint.ts';
import { journalQuery } from '../logs/journal-query.ts';

/** Names in one listing: a folder of logs with more is not for people. */
const LISTING_MAX = 100_000;

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
    options.isQueryEnabled && request.query.has('query')
      ? journalQuery(request, options.directory)
      : file(request, options);
  const common: Omit<Endpoint, 'path'> = { methods: ['GET'], subresources: ['log'], answer };
  return [
    { ...common, path: '/logs' },
    { ...common, path: '/logs/*' },
  ];
}

async function file(request: ApiRequest, options: NodeLogOptions): Promise<Answer> {
  const name = request.path.slice('/logs'.length).replace(/\/+$/, '') || '/';
  const path = await allowed(join(options.directory, join('/', name)), options);
  const info = path === null ? null : await stat(path).catch(() => null);
  if (path === null || info === null) return notFound();
  const isSlashed = request.path.endsWith('/');
  if (info.isDirectory()) {
    if (!isSlashed) return { status: 301, headers: { location: `${encodeURI(name.split('/').at(-1)!)}/` }, body: '' };
    return listing(await readdir(path, { withFileTypes: true }), info.mtime);
  }
  if (!info.isFile()) return notFound();
  if (isSlashed) return { status: 301, headers: { location: `../${encodeURI(name.split('/').at(-1)!)}` }, body: '' };
  return await content(request, path);
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

function listing(entries: readonly Dirent[], changed: Date): Answer {
  const rows = entries
    .slice(0, LISTING_MAX)
    .map((entry) => entry.name + (entry.isDirectory() ? '/' : ''))
    .toSorted()
    .map((name) => `<a href="${escapeHtml(encodeURIComponent(name).replace(/%2F$/, '/'))}">${escapeHtml(name)}</a>\n`);
  const body = `<!doctype html>\n<meta name="viewport" content="width=device-width">\n<pre>\n${rows.join('')}</pre>\n`;
  return {
    status: 200,
    headers: { 'content-type': 'text/html; charset=utf-8', 'last-modified': changed.toUTCString() },
    body,
  };
}

/** The file or the asked part of it. */
async function content({ raw }: ApiRequest, path: string): Promise<Answer> {
  const { default: send } = await import('@fastify/send');
  const slash = path.lastIndexOf(sep);
  const found = await send(raw, encodeURIComponent(path.slice(slash + 1)), {
    root: path.slice(0, slash) || sep,
    cacheControl: false,
    etag: false,
    dotfiles: 'allow',
    index: false,
  });
  const type = found.headers['Content-Type'] ?? 'text/plain; charset=utf-8';
  const isLog = path.endsWith('.log') || type.startsWith('application/octet-stream');
  const headers = { ...found.headers, 'Content-Type': path.endsWith('.log') ? LOG_TYPE : isLog ? PLAIN : type };
  return { status: found.statusCode, headers, body: found.stream };
}

const LOG_TYPE = 'text/x-log; charset=utf-8';
const PLAIN = 'text/plain; charset=utf-8';
