/**
 * `/debug/pprof/*` and `/debug/flags/v`: profiles of this process in V8's formats, and the log verbosity.
 *
 * The names are Go's: `profile` is a CPU profile, `heap` a heap snapshot, `allocs` a sampled allocation profile,
 * `trace` V8's trace events, `goroutine` the resources that the event loop waits for. All open in Chrome's developer
 * tools. Profiles of locks and threads are meaningless in one thread and not supported.
 */
import type { IncomingMessage } from 'node:http';
import { parseUnsigned31 } from '../../../machines/model/values/go-text.ts';
import { chunksOf } from '../../byte-stream.ts';
import { type Answer, type ApiRequest, type Endpoint, first, pageNotFound, refusal } from '../http/endpoint.ts';
import type { Insight, ProfileKind } from '../http/inspector.ts';

const DEFAULT_SECONDS = 30;
/** Upstream's limit for a response of its server. */
const WRITE_TIMEOUT_SECONDS = 4 * 60 * 60;
/** The limit of a verbosity level, which has few digits. */
const LEVEL_MAX_BYTES = 64;

export interface DebugOptions {
  readonly setVerbosity: (level: number) => void;
  readonly insight: Insight;
  readonly isProfilingEnabled: boolean;
  readonly isFlagsEnabled: boolean;
}

export function debugEndpoints(options: DebugOptions): Endpoint[] {
  const common = { methods: 'any', subresources: ['proxy'] } as const;
  const disabled = () => refusal(405, 'profiling endpoint is disabled.');
  return [
    { ...common, path: '/debug/pprof/', answer: options.isProfilingEnabled ? pageNotFound : disabled },
    options.isProfilingEnabled
      ? {
          ...common,
          path: '/debug/pprof/*',
          methods: ['GET'],
          produces: [],
          answer: (request) => profile(request, options.insight),
        }
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

const NO_SNIFF = { 'x-content-type-options': 'nosniff' };
const page = (body: string): Answer => ({
  status: 200,
  headers: { 'content-type': 'text/plain; charset=utf-8', ...NO_SNIFF },
  body,
});

const attachment = (name: string, body: Answer['body']): Answer => ({
  status: 200,
  headers: {
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="${name}"`,
    ...NO_SNIFF,
  },
  body,
});

async function profile(request: ApiRequest, insight: Insight): Promise<Answer> {
  const name = request.path.slice('/debug/pprof/'.length);
  const isText = Number(first(request, 'debug') ?? 0) > 0;
  switch (name) {
    case 'cmdline':
      return page((await insight.facts()).argv.join('\0'));
    case 'symbol': {
      const [address = ''] = request.search.slice(1).split('+');
      return page(`num_symbols: 1\n${/^0x[0-9a-f]+$/.test(address) ? `${address} \n` : ''}`);
    }
    case 'profile':
      return await timed(request, insight, 'cpu', DEFAULT_SECONDS);
    case 'trace':
      return await timed(request, insight, 'trace', 1);
    case 'allocs':
      return await timed(request, insight, 'allocations', 1);
    case 'heap':
      return isText ? page(memoryText(await insight.facts())) : attachment(name, insight.heap());
    case 'goroutine':
      return await waiting(name, insight, isText);
    default:
      return profileRefusal(404, 'Unknown profile');
  }
}

function profileRefusal(status: number, why: string): Answer {
  const refused = refusal(status, why);
  return { ...refused, headers: { ...refused.headers, 'x-go-pprof': '1' } };
}

async function timed(request: ApiRequest, insight: Insight, kind: ProfileKind, otherwise: number): Promise<Answer> {
  const given = Number(first(request, 'seconds'));
  const seconds = given > 0 ? given : otherwise;
  if (seconds >= WRITE_TIMEOUT_SECONDS) return profileRefusal(400, "profile duration exceeds server's WriteTimeout");
  return attachment(NAMES[kind], await insight.profile(kind, seconds, request.signal));
}

const NAMES = { cpu: 'profile', trace: 'trace', allocations: 'allocs' } as const;

const memoryText = ({ memory }: Awaited<ReturnType<Insight['facts']>>): string =>
  Object.entries(memory)
    .map(([name, bytes]) => `${name}: ${bytes}\n`)
    .join('');

async function waiting(name: string, insight: Insight, isText: boolean): Promise<Answer> {
  const { waitsFor } = await insight.facts();
  if (!isText) return attachment(name, JSON.stringify(waitsFor));
  const counts = Object.entries(Object.groupBy(waitsFor, (each) => each));
  return page(counts.map(([each, all]) => `${all?.length ?? 0} ${each}\n`).join(''));
}

async function verbosity({ method, raw }: ApiRequest, { setVerbosity }: DebugOptions): Promise<Answer> {
  const plain = (status: number, body: string): Answer => ({
    status,
    headers: { 'content-type': 'text/plain', ...NO_SNIFF },
    body: `${body}\n`,
  });
  if (method !== 'PUT') return plain(406, 'unsupported http method');
  const text = await levelIn(raw);
  const level = parseUnsigned31(text);
  if (level.error !== undefined) return plain(400, level.error);
  setVerbosity(level.value);
  return plain(200, `successfully set klog.logging.verbosity to ${text}`);
}

/** The body as text, truncated at the limit, so that the client of a longer body still gets an answer. */
async function levelIn(raw: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of chunksOf(raw.iterator({ destroyOnReturn: false }))) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > LEVEL_MAX_BYTES) break;
  }
  return Buffer.concat(chunks)
    .toString('utf8')
    .slice(0, LEVEL_MAX_BYTES + 1);
}
