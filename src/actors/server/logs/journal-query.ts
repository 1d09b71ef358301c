/**
 * The logs of the machine's services: from systemd's journal, or from files with their names.
 *
 * Invariants: no shell is ever run; every query ends within {@link QUERY_TIMEOUT_MS}.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { PassThrough, pipeline, Readable } from 'node:stream';
import { createGzip } from 'node:zlib';
import { chunksOf } from '../../byte-stream.ts';
import { type Answer, firstHeader, measuredBody } from '../http/answer.ts';
import type { ApiRequest } from '../http/endpoint.ts';
import { nanoseconds } from './container-log.ts';
import { type OpenedPlace, openBelow } from './log-file.ts';
import type { NodeLogQuery } from './node-log-query.ts';

/** Upstream's timeout of both attempts of a query together. */
const QUERY_TIMEOUT_MS = 30_000;

export async function serviceLogs(request: ApiRequest, query: NodeLogQuery, directory: string): Promise<Answer> {
  const signal = AbortSignal.any([request.signal, AbortSignal.timeout(QUERY_TIMEOUT_MS)]);
  const plain = Readable.from(answered(query, directory, signal));
  const headers = { 'content-type': 'text/plain;charset=UTF-8' };
  // Upstream compares the whole header.
  if (firstHeader(request.raw, 'accept-encoding') !== 'gzip')
    return { status: 200, headers, body: await measuredBody(plain) };
  const body = await measuredBody(pipeline(plain, createGzip(), () => {}));
  return { status: 200, headers: { ...headers, 'content-encoding': 'gzip' }, body };
}

async function* answered(
  { services, options }: NodeLogQuery,
  directory: string,
  signal: AbortSignal,
): AsyncGenerator<Buffer | string> {
  const native = await Promise.all(services.map((service) => isInJournal(service, signal)));
  const journaled = services.filter((_, at) => native[at]);
  const filed = services.filter((_, at) => !native[at]);
  if (journaled.length > 0) {
    const child = journalctl(journalArguments(journaled, options), signal);
    yield* output(child, [child.stdout, child.stderr]);
    if (child.pid === undefined && (options.boot ?? 0) === 0) yield '\nerror: journal output not available\n';
  }
  if (filed.length === 0) return;
  if (Object.keys(options).length > 0) {
    yield `\noptions present and query resolved to log files for [${filed.join(' ')}]\ntry without specifying options\n`;
    return;
  }
  for (const name of filed) {
    const file = await logFileOf(name, directory);
    if (file === null) yield `\nlog not found for ${name}\n`;
    else yield* contentOf(file, signal);
  }
}

async function* contentOf({ path, handle }: OpenedPlace, signal: AbortSignal): AsyncGenerator<Buffer> {
  try {
    yield* chunksOf(createReadStream(path, { signal }));
  } catch (error) {
    // After the timeout, or without its client, a response ends where it is.
    if (!signal.aborted) throw error;
  } finally {
    await handle.close();
  }
}

/** The first regular file in the folder among `name`, `name.log` and `name/name.log`. */
async function logFileOf(name: string, directory: string): Promise<OpenedPlace | null> {
  for (const candidate of [name, `${name}.log`, join(name, `${name}.log`)]) {
    const place = await openBelow(join(directory, candidate), [directory]);
    if (place?.info.isFile()) return place;
    await place?.handle.close();
  }
  return null;
}

async function isInJournal(service: string, signal: AbortSignal): Promise<boolean> {
  const chunks: string[] = [];
  const argv = ['--output=short', '--lines=1', '--no-pager', `--unit=${service}`];
  const child = journalctl(argv, signal);
  for await (const chunk of output(child, [child.stdout])) chunks.push(String(chunk));
  const printed = chunks.join('');
  return printed.trim() !== '' && !printed.includes('-- No entries --');
}

function journalArguments(services: readonly string[], options: NodeLogQuery['options']): string[] {
  const { sinceTime, untilTime, tailLines, boot, pattern } = options;
  return [
    '--utc',
    '--no-pager',
    '--output=short-precise',
    ...(sinceTime === undefined ? [] : [`--since=${journalTime(sinceTime)}`]),
    ...(untilTime === undefined ? [] : [`--until=${journalTime(untilTime)}`]),
    ...(tailLines === undefined ? [] : [`--lines=${tailLines}`]),
    ...services.map((service) => `--unit=${service}`),
    ...(pattern === undefined ? [] : [`--grep=${pattern}`, '--case-sensitive=false']),
    ...(boot === undefined ? [] : [`--boot=${boot}`]),
  ];
}

const journalTime = (text: string): string =>
  new Date(Number(nanoseconds(text)! / 1_000_000n)).toISOString().replace('T', ' ').slice(0, 19);

type Child = ChildProcessByStdio<null, Readable, Readable>;

const journalctl = (argv: readonly string[], signal: AbortSignal): Child =>
  spawn('journalctl', argv, { stdio: ['ignore', 'pipe', 'pipe'], signal });

/** The output of the program as it arrives; empty if the program cannot be started, and truncated at the timeout. */
async function* output(child: Child, heard: readonly Readable[]): AsyncGenerator<Buffer> {
  const printed = new PassThrough();
  child.once('error', () => {}).once('close', () => printed.end());
  for (const written of [child.stdout, child.stderr]) {
    written.on('error', () => printed.end());
    if (heard.includes(written)) written.pipe(printed, { end: false });
    else written.resume();
  }
  try {
    yield* chunksOf(printed);
  } finally {
    child.kill();
    for (const written of [child.stdout, child.stderr]) written.destroy();
  }
}
