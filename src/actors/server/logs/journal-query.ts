/**
 * The logs of the machine's services by query: from the journal of systemd, or from files of their names.
 *
 * Invariants: no shell is ever asked; names of services are letters, digits and a few marks; everything ends within
 * {@link QUERY_TIMEOUT_MS}. Texts of refusals are upstream's.
 */
import { spawn } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { lstat, realpath } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { quote } from '../../../machines/startup/configuration/go-text.ts';
import { type Answer, refusal } from '../http/answer.ts';
import type { ApiRequest } from '../http/endpoint.ts';
import { nanoseconds } from './cri-line.ts';

/** Upstream's: both tries of a query together. */
const QUERY_TIMEOUT_MS = 30_000;
const SERVICES_MAX = 4;
const NAME_MAX_CHARS = 256;
const TAIL_MAX_LINES = 100_000;
const SERVICE = /^[a-zA-Z\-_.:0-9@]+$/;

interface Query {
  readonly services: readonly string[];
  readonly files: readonly string[];
  readonly options: {
    readonly sinceTime?: string;
    readonly untilTime?: string;
    readonly tailLines?: number;
    readonly boot?: number;
    readonly pattern?: string;
  };
}

type Parsed = Query | { readonly refused: Answer };

const undecodable = (why: string) => ({ refused: refusal(400, why) });
const unacceptable = (why: string) => ({ refused: refusal(406, why) });

export async function journalQuery(request: ApiRequest, directory: string): Promise<Answer> {
  const query = await parsed(request.query, directory);
  if ('refused' in query) return query.refused;
  const signal = AbortSignal.any([request.signal, AbortSignal.timeout(QUERY_TIMEOUT_MS)]);
  const plain = Readable.from(answered(query, directory, signal));
  const headers = { 'content-type': 'text/plain;charset=UTF-8' };
  if (!/\bgzip\b/.test(request.raw.headers['accept-encoding'] ?? '')) return { status: 200, headers, body: plain };
  return { status: 200, headers: { ...headers, 'content-encoding': 'gzip' }, body: plain.pipe(createGzip()) };
}

// ---- the query ------------------------------------------------------------------------------------------------------

async function parsed(query: ApiRequest['query'], directory: string): Promise<Parsed> {
  const names = query.get('query') ?? [];
  const bad = names.find((name) => name === '');
  if (bad !== undefined)
    return undecodable(`unit: Invalid value: [${names.map(quote).join(',')}]: unit cannot be empty`);
  const options: Record<string, string | number> = {};
  for (const name of ['tailLines', 'boot'] as const) {
    const value = query.get(name)?.[0];
    if (value === undefined || value === '') continue;
    if (!/^[+-]?\d{1,15}$/.test(value)) {
      return undecodable(
        `${name}: Invalid value: ${quote(value)}: strconv.Atoi: parsing ${quote(value)}: invalid syntax`,
      );
    }
    options[name] = Number(value);
  }
  for (const name of ['sinceTime', 'untilTime', 'pattern'] as const) {
    const value = query.get(name)?.[0];
    if (value === undefined || value === '') continue;
    if (name !== 'pattern' && nanoseconds(value) === null) {
      return undecodable(`${name}: Invalid value: ${quote(value)}: invalid time format`);
    }
    options[name] = value;
  }
  const files = names.filter((name) => /[/\\]/.test(name));
  const services = names.filter((name) => !files.includes(name));
  const whole: Query = { services, files, options };
  const refused = refusalOf(whole) ?? (await refusalOfFiles(files, directory));
  return refused === null ? whole : unacceptable(refused);
}

function refusalOf({ services, files, options }: Query): string | null {
  const { tailLines, boot, sinceTime, untilTime, pattern } = options;
  const problems: string[] = [];
  if (services.length > SERVICES_MAX)
    problems.push(`query: Too many: ${services.length}: must have at most ${SERVICES_MAX} items`);
  const shown = (names: readonly string[]) => `[${names.map(quote).join(',')}]`;
  const isDecorated = Object.keys(options).length > 0;
  if (services.length > 0 && files.length > 0)
    problems.push(`query: Invalid value: ${shown([...services, ...files])}: cannot specify a file and service`);
  if (files.length > 1) problems.push(`query: Invalid value: ${shown(files)}: cannot specify more than one file`);
  if (files.length > 0 && isDecorated)
    problems.push(`query: Invalid value: ${shown(files)}: cannot specify file with options`);
  for (const service of services) {
    if (service.length > NAME_MAX_CHARS)
      problems.push(`query: Invalid value: ${quote(service)}: length must be less than 256`);
    else if (!SERVICE.test(service))
      problems.push(`query: Invalid value: ${quote(service)}: input contains unsupported characters`);
  }
  if (tailLines !== undefined && (tailLines < 0 || tailLines > TAIL_MAX_LINES))
    problems.push(`tailLines: Invalid value: ${tailLines}: must be between 0 and ${TAIL_MAX_LINES}, inclusive`);
  if (boot !== undefined && boot > 0) problems.push(`boot: Invalid value: ${boot}: must be less than 1`);
  if (sinceTime !== undefined && untilTime !== undefined && nanoseconds(untilTime)! < nanoseconds(sinceTime)!)
    problems.push(`untilTime: Invalid value: ${quote(untilTime)}: must be after \`sinceTime\``);
  const broken = pattern === undefined ? null : patternProblem(pattern);
  if (broken !== null) problems.push(`pattern: Invalid value: ${quote(pattern!)}: ${broken}`);
  if (problems.length === 0) return null;
  return problems.length === 1 ? problems[0]! : `[${problems.join(', ')}]`;
}

/** The journal matches by itself; here a pattern is only known to be one. */
function patternProblem(pattern: string): string | null {
  try {
    RegExp(pattern, 'u');
    return null;
  } catch {
    const missing = /\[[^\]]*$/.exec(pattern);
    return `error parsing regexp: ${missing ? `missing closing ]: \`${missing[0]}\`` : `invalid pattern: \`${pattern}\``}`;
  }
}

async function refusalOfFiles(files: readonly string[], directory: string): Promise<string | null> {
  const [file] = files;
  if (file === undefined) return null;
  const why = await fileProblem(file, directory);
  return why === null ? null : `query: Invalid value: [${quote(file)}]: ${why}`;
}

async function fileProblem(file: string, directory: string): Promise<string | null> {
  const escapes = `statat ${file}: path escapes from parent`;
  if (file.includes('\0')) return `statat ${file}: invalid argument`;
  if (file.startsWith('/') || file.split('/').includes('..')) return escapes;
  const real = await realpath(join(directory, file)).catch(() => null);
  if (real === null) return `statat ${file}: no such file or directory`;
  const root = await realpath(directory);
  if (!real.startsWith(root + sep)) return escapes;
  return (await lstat(real)).isFile() ? null : `statat ${file}: is not a file`;
}

// ---- the answer -----------------------------------------------------------------------------------------------------

async function* answered(query: Query, directory: string, signal: AbortSignal): AsyncGenerator<Buffer | string> {
  const { services, files, options } = query;
  const native = await Promise.all(services.map((service) => isInJournal(service, signal)));
  const journaled = services.filter((_, at) => native[at]);
  const filed = [...services.filter((_, at) => !native[at]), ...files];
  if (journaled.length > 0) yield* output(journalArguments(journaled, options), signal);
  if (filed.length === 0) return;
  if (Object.keys(options).length > 0) {
    yield `\noptions present and query resolved to log files for [${filed.join(' ')}]\ntry without specifying options\n`;
    return;
  }
  for (const name of filed) {
    const path = await logFileOf(name, directory);
    if (path === null) yield `\nlog not found for ${name}\n`;
    else yield* createReadStream(path, { signal }) as AsyncIterable<Buffer>;
  }
}

/** `name`, `name.log` or `name/name.log`, where that is a file of the folder itself. */
async function logFileOf(name: string, directory: string): Promise<string | null> {
  const root = await realpath(directory).catch(() => null);
  for (const candidate of [`${name}.log`, join(name, `${name}.log`), name]) {
    const real = await realpath(join(directory, candidate)).catch(() => null);
    if (root && real?.startsWith(root + sep) && (await lstat(real)).isFile()) return real;
  }
  return null;
}

async function isInJournal(service: string, signal: AbortSignal): Promise<boolean> {
  const chunks: string[] = [];
  const argv = ['--output=short', '--lines=1', '--no-pager', `--unit=${service}`];
  for await (const chunk of output(argv, signal)) chunks.push(String(chunk));
  const said = chunks.join('');
  return said.trim() !== '' && !said.includes('-- No entries --');
}

function journalArguments(services: readonly string[], options: Query['options']): string[] {
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

/** What `journalctl` writes; nothing where there is none. */
async function* output(argv: readonly string[], signal: AbortSignal): AsyncGenerator<Buffer> {
  const child = spawn('journalctl', argv, { stdio: ['ignore', 'pipe', 'ignore'], signal });
  const ended = finished(child.stdout).catch(() => {});
  child.once('error', () => child.stdout.destroy());
  try {
    yield* child.stdout as AsyncIterable<Buffer>;
  } catch {
    // Without a journal there is nothing to read; a query that took too long has given what it found.
  } finally {
    child.kill();
    await ended;
  }
}
