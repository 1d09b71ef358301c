/**
 * `/debug/pprof/*` and `/debug/flags/v`: what this process does, in the forms of V8's inspector, and how much it says.
 *
 * The names are those that Kubernetes' people know: `profile` is a CPU profile, `heap` a snapshot of the heap, `allocs`
 * a sampled allocation profile, `trace` V8's trace events, `goroutine` what the event loop waits for. All open in
 * Chrome's developer tools. Profiles of locks and threads have no meaning in one thread and do not exist.
 */
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { getHeapSnapshot } from 'node:v8';
import { parseUnsigned31 } from '../../../machines/startup/configuration/values/go-text.ts';
import { type Answer, pageNotFound, refusal } from '../http/answer.ts';
import { type ApiRequest, type Endpoint, first } from '../http/endpoint.ts';
import { allocations, cpuProfile, traceEvents } from '../http/inspector.ts';

const DEFAULT_SECONDS = 30;
/** Upstream's: no answer of its server takes longer. */
const WRITE_TIMEOUT_SECONDS = 4 * 60 * 60;
/** A level has few digits. */
const LEVEL_MAX_BYTES = 64;

export interface DebugOptions {
  readonly setVerbosity: (level: number) => void;
  readonly isProfilingEnabled: boolean;
  readonly isFlagsEnabled: boolean;
}

export function debugEndpoints(options: DebugOptions): Endpoint[] {
  const common = { methods: 'any', subresources: ['proxy'] } as const;
  const disabled = () => refusal(405, 'profiling endpoint is disabled.');
  return [
    { ...common, path: '/debug/pprof/', answer: options.isProfilingEnabled ? pageNotFound : disabled },
    options.isProfilingEnabled
      ? { ...common, path: '/debug/pprof/*', methods: ['GET'], produces: [], answer: profile }
      : { ...common, path: '/debug/pprof/*', answer: disabled },
    {
      path: '/debug/flags/v',
      methods: 'any',
      subresources: ['proxy'],
      answer: (request) =>
        options.isFlagsEnabled ? verbosity(request, options) : refusal(405, 'flags endpoint is disabled.'),
    },
  ];
}

const SNIFFLESS = { 'x-content-type-options': 'nosniff' };
const page = (body: string): Answer => ({
  status: 200,
  headers: { 'content-type': 'text/plain; charset=utf-8', ...SNIFFLESS },
  body,
});

const attachment = (name: string, body: Answer['body']): Answer => ({
  status: 200,
  headers: {
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="${name}"`,
    ...SNIFFLESS,
  },
  body,
});

async function profile(request: ApiRequest): Promise<Answer> {
  const name = request.path.slice('/debug/pprof/'.length);
  const isText = Number(first(request, 'debug') ?? 0) > 0;
  switch (name) {
    case 'cmdline':
      return page(process.argv.join('\0'));
    case 'symbol': {
      const [address = ''] = request.search.slice(1).split('+');
      return page(`num_symbols: 1\n${/^0x[0-9a-f]+$/.test(address) ? `${address} \n` : ''}`);
    }
    case 'profile':
      return await timed(request, name, cpuProfile, DEFAULT_SECONDS);
    case 'trace':
      return await timed(request, name, traceEvents, 1);
    case 'allocs':
      return await timed(request, name, allocations, 1);
    case 'heap':
      return isText ? page(memoryText()) : attachment(name, getHeapSnapshot());
    case 'goroutine':
      return isText ? page(waitingText()) : attachment(name, JSON.stringify(process.getActiveResourcesInfo()));
    default:
      return profileRefusal(404, 'Unknown profile');
  }
}

function profileRefusal(status: number, why: string): Answer {
  const refused = refusal(status, why);
  return { ...refused, headers: { ...refused.headers, 'x-go-pprof': '1' } };
}

async function timed(
  request: ApiRequest,
  name: string,
  measure: (seconds: number, signal: AbortSignal) => Promise<string>,
  otherwise: number,
): Promise<Answer> {
  const given = Number(first(request, 'seconds'));
  const seconds = given > 0 ? given : otherwise;
  if (seconds >= WRITE_TIMEOUT_SECONDS) return profileRefusal(400, "profile duration exceeds server's WriteTimeout");
  return attachment(name, await measure(seconds, request.signal));
}

const memoryText = (): string =>
  Object.entries(process.memoryUsage())
    .map(([name, bytes]) => `${name}: ${bytes}\n`)
    .join('');

function waitingText(): string {
  const counts = Object.entries(Object.groupBy(process.getActiveResourcesInfo(), (name) => name));
  return counts.map(([name, all]) => `${all?.length ?? 0} ${name}\n`).join('');
}

async function verbosity({ method, raw }: ApiRequest, { setVerbosity }: DebugOptions): Promise<Answer> {
  const plain = (status: number, body: string): Answer => ({
    status,
    headers: { 'content-type': 'text/plain', ...SNIFFLESS },
    body: `${body}\n`,
  });
  if (method !== 'PUT') return plain(406, 'unsupported http method');
  const text = await readText(raw, LEVEL_MAX_BYTES);
  const level = parseUnsigned31(text);
  if (level.error !== undefined) return plain(400, level.error);
  setVerbosity(level.value);
  return plain(200, `successfully set klog.logging.verbosity to ${text}`);
}

/** The body, or as much of it as there may be. */
async function readText(raw: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of Readable.from(raw)) {
    chunks.push(chunk as Buffer);
    size += (chunk as Buffer).length;
    if (size > maxBytes) break;
  }
  return Buffer.concat(chunks)
    .toString('utf8')
    .slice(0, maxBytes + 1);
}
