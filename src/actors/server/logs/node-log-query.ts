/**
 * Parses queries of the machine's logs, with upstream's errors: invalid syntax (400) and invalid combinations (406),
 * all at once. Pure, except for the check of the requested file.
 *
 * The logs of the machine's services: from systemd's journal, or from files with their names.
 *
 * Invariants: no shell is ever run; every query ends within {@link QUERY_TIMEOUT_MS}.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { PassThrough, pipeline, Readable } from 'node:stream';
import { createGzip } from 'node:zlib';
import { messageOf } from '../../../kernel/thrown.ts';
import { aggregate, parseDecimal, quote, trimRight } from '../../../machines/model/values/go-text.ts';
import { chunksOf } from '../../byte-stream.ts';
import { type Answer, type ApiRequest, firstHeader, measuredBody, refusal } from '../http/endpoint.ts';
import { nanoseconds, type OpenedPlace, openBelow } from './log-file.ts';

const SERVICES_MAX = 4;
const NAME_MAX_CHARS = 256;
const TAIL_MAX_LINES = 100_000;
const SERVICE = /^[a-zA-Z\-_.:0-9@]+$/;

interface NodeLogQuery {
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

type Parameters = ReadonlyMap<string, readonly string[]>;

/** @param directory of the machine's logs; files outside it are rejected */
export async function nodeLogQuery(
  parameters: Parameters,
  directory: string,
): Promise<NodeLogQuery | { readonly refused: Answer }> {
  const { query, problems } = read(parameters);
  if (problems.length > 0) return { refused: refusal(400, aggregate(problems)) };
  const refused = [
    ...serviceProblems(query.services),
    ...(await fileProblems(query, directory)),
    ...optionProblems(query.options),
  ];
  return refused.length === 0 ? query : { refused: refusal(406, aggregate(refused)) };
}

const invalid = (field: string, value: string, why: string): string => `${field}: Invalid value: ${value}: ${why}`;

/** Reads the parameters. A name with a slash is a file; any other name is a service, for which a file may exist. */
function read(parameters: Parameters): { query: NodeLogQuery; problems: string[] } {
  const problems: string[] = [];
  const names = parameters.get('query') ?? [];
  const files = names.filter((name) => /[/\\]/.test(name));
  const services = names.filter((name) => !/[/\\]/.test(name) && name.trim() !== '');
  if (names.length > 0 && files.length + services.length === 0) {
    problems.push(invalid('unit', JSON.stringify(names), 'unit cannot be empty'));
  }
  const options: Record<string, string | number> = {};
  const given = (name: string): string => parameters.get(name)?.[0] ?? '';
  for (const name of ['sinceTime', 'untilTime']) {
    if (given(name) === '') continue;
    if (nanoseconds(given(name)) === null) problems.push(invalid(name, quote(given(name)), 'invalid time format'));
    else options[name] = given(name);
  }
  for (const name of ['boot', 'tailLines']) {
    if (given(name) === '') continue;
    const number = parseDecimal(given(name));
    if (number.error === undefined) options[name] = number.value;
    else problems.push(invalid(name, quote(given(name)), number.error));
  }
  if (given('pattern') !== '') options['pattern'] = given('pattern');
  return { query: { services, files, options }, problems };
}

function serviceProblems(services: readonly string[]): string[] {
  const problems = services.flatMap((service) => {
    if (service.length > NAME_MAX_CHARS) return [invalid('query', quote(service), 'length must be less than 256')];
    return SERVICE.test(service) ? [] : [invalid('query', quote(service), 'input contains unsupported characters')];
  });
  if (services.length <= SERVICES_MAX) return problems;
  return [...problems, `query: Too many: ${services.length}: must have at most ${SERVICES_MAX} items`];
}

async function fileProblems({ services, files, options }: NodeLogQuery, directory: string): Promise<string[]> {
  const [file] = files;
  if (file === undefined) return [];
  const shown = JSON.stringify(files);
  if (services.length > 0) {
    const both = quote(`[${files.join(' ')}], [${services.join(' ')}]`);
    return [invalid('query', both, 'cannot specify a file and service')];
  }
  if (files.length > 1) return [invalid('query', shown, 'cannot specify more than one file')];
  if (Object.keys(options).length > 0) return [invalid('query', shown, 'cannot specify file with options')];
  const why = await fileProblem(file, directory);
  return why === null ? [] : [invalid('query', shown, why)];
}

async function fileProblem(file: string, directory: string): Promise<string | null> {
  const escapes = `statat ${file}: path escapes from parent`;
  if (file.includes('\0')) return `statat ${file}: invalid argument`;
  if (file.startsWith('/') || file.split('/').includes('..')) return escapes;
  const real = await realpath(join(directory, file)).catch(() => null);
  if (real === null) return `statat ${file}: no such file or directory`;
  const root = await realpath(directory);
  return real === root || real.startsWith(root + sep) ? null : escapes;
}

function optionProblems({ sinceTime, untilTime, boot, tailLines, pattern }: NodeLogQuery['options']): string[] {
  const problems: string[] = [];
  if (sinceTime !== undefined && untilTime !== undefined && nanoseconds(untilTime)! < nanoseconds(sinceTime)!) {
    problems.push(invalid('untilTime', JSON.stringify(goTime(untilTime)), 'must be after `sinceTime`'));
  }
  if (boot !== undefined && boot > 0) problems.push(invalid('boot', String(boot), 'must be less than 1'));
  if (tailLines !== undefined && (tailLines < 0 || tailLines > TAIL_MAX_LINES)) {
    problems.push(invalid('tailLines', String(tailLines), `must be between 0 and ${TAIL_MAX_LINES}, inclusive`));
  }
  const broken = pattern === undefined ? null : patternProblem(pattern);
  if (pattern !== undefined && broken !== null) {
    problems.push(invalid('pattern', quote(pattern), `error parsing regexp: ${broken}`));
  }
  return problems;
}

/** The time as formatted by Go: without trailing zeros in its fraction, and `Z` for UTC. */
function goTime(text: string): string {
  const [, time = '', fraction = '', zone = ''] = /^(.*?)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)$/.exec(text) ?? [];
  const kept = trimRight(fraction, '0');
  return `${time}${kept === '' ? '' : `.${kept}`}${zone.replace(/^[+-]00:00$/, 'Z')}`;
}

/** Converts `(?i)` and named groups to JavaScript's syntax. */
const inJavaScriptSyntax = (pattern: string): string =>
  pattern
    .replaceAll(/\(\?[imsU]+(?:-[imsU]+)?\)/g, '')
    .replaceAll('(?P<', '(?<')
    .replaceAll(/\(\?[imsU]+:/g, '(?:');

type Reason = readonly [printed: RegExp, upstream: (pattern: string) => string];

const REASONS: readonly Reason[] = [
  [/Unterminated character class/, (pattern) => `missing closing ]: \`${openClass(pattern)}\``],
  [/Range out of order/, (pattern) => `invalid character class range: \`${outOfOrder(pattern)}\``],
  [/Unterminated group/, (pattern) => `missing closing ): \`${pattern}\``],
  [/Unmatched '\)'/, (pattern) => `unexpected ): \`${pattern}\``],
  [/Nothing to repeat/, (pattern) => repetition(pattern)],
  [/\\ at end of pattern/, () => 'trailing backslash at end of expression: ``'],
];

/** The limit of a pattern: compiling takes time for each character. */
const PATTERN_MAX_CHARS = 4_096;

/** Go's error why a pattern is no regular expression; `null` if it is valid. Journald does the matching. */
export function patternProblem(pattern: string): string | null {
  if (pattern.length > PATTERN_MAX_CHARS) return 'expression too large';
  try {
    RegExp(inJavaScriptSyntax(pattern));
    return null;
  } catch (error) {
    const message = messageOf(error);
    const reason = REASONS.find(([printed]) => printed.test(message));
    return reason ? reason[1](pattern) : `invalid or unsupported Perl syntax: \`${pattern}\``;
  }
}

/** The text from the first unclosed bracket on. */
function openClass(pattern: string): string {
  const open = pattern.indexOf('[', pattern.lastIndexOf(']') + 1);
  return open < 0 ? pattern : pattern.slice(open);
}

function repetition(pattern: string): string {
  const nested = /[*+?]{2,}/.exec(pattern)?.[0];
  if (nested !== undefined && !pattern.startsWith(nested)) return `invalid nested repetition operator: \`${nested}\``;
  return `missing argument to repetition operator: \`${/[*+?]/.exec(pattern)?.[0] ?? ''}\``;
}

function outOfOrder(pattern: string): string {
  const ranges = [...pattern.matchAll(/(.)-(.)/g)];
  return ranges.find(([, low = '', high = '']) => low > high)?.[0] ?? pattern;
}

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
