/**
 * The recorded requests, sent to this server: status, relevant headers, and bodies are compared. Each difference is
 * listed with a reason in `test/golden/http-excused.ts`.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EXCUSED } from '../../golden/http-excused.ts';
import { exchange, exchangeRaw, headerOf, type Reply } from './exchange.ts';
import { GoldenNode, RUNS } from './golden-node.ts';
import { type Recorded, recordings } from './golden-records.ts';

/** Groups of other tests: streams of the runtime (`conformance/streams`), and handshakes (`tls`). */
const ELSEWHERE = /^(ws-|spdy-head|upgrade-plain|upgrade-method|tls)/;
const HEADERS = [
  'content-type',
  'location',
  'allow',
  'x-content-type-options',
  'content-encoding',
  'content-disposition',
  'accept-ranges',
  'warning',
  'x-go-pprof',
  'www-authenticate',
];
/** Headers that must be present with any value, because it depends on the process or on a file. */
const PRESENT = ['process-start-time-unix', 'last-modified', 'date'];
/**
 * Headers that say where a body ends: not compared if the size varies, or for a successful CONNECT, where they mean
 * nothing.
 */
const FRAMING = ['content-length', 'transfer-encoding'];
/** Bodies that depend on the moment and the node; other tests compare their shapes. */
const OF_A_MOMENT =
  /^\/(pods\/?|runningpods\/|stats\/summary\/?|metrics.*|configz|flagz|statusz|debug\/pprof\/.*)(\?|$)/;

const OF_A_HOST = /host (listing|directory|file)|host file|<gzip|<binary>/;

const judged = recordings().filter(({ group, error }) => !ELSEWHERE.test(group) && error === undefined);

let node: GoldenNode;
const ports = new Map<string, number>();

beforeAll(async () => {
  node = await GoldenNode.start();
  for (const run of Object.keys(RUNS) as (keyof typeof RUNS)[]) ports.set(run, await node.serve(run));
  ports.set('readonly', await node.serveReadOnly());
  ports.set('healthz', await node.serveHealthz());
});
afterAll(() => node.close());

function portOf({ server }: Recorded): number {
  if (server.startsWith('healthzPort')) return ports.get('healthz')!;
  const run = /run ([BCD])/.exec(server)?.[1] ?? 'A';
  return ports.get(server.startsWith('readOnlyPort') ? 'readonly' : run)!;
}

/** `…(5006 bytes)` stands for the rest of a long text. */
const whole = (text: string): string =>
  text.replace(/(.)…\((\d+) bytes\)$/, (_, last: string, bytes: string, at: number) =>
    last.repeat(Math.max(0, Number(bytes) - at)),
  );

function pathOf({ request, credential }: Recorded): string {
  void credential;
  return whole(request.path)
    .replaceAll('<uid>', 'uid-of-lines')
    .replaceAll('${PORT}', '10250')
    .replaceAll('<token>', 'the-token-of-token-nodes/metrics');
}

/** Replaces the names of tokens by the tokens. */
const headersOf = ({ request }: Recorded): string[] =>
  (request.headers ?? []).map((header) =>
    whole(header).replace(/<token with (nodes\/[a-z]+)>/, 'the-token-of-token-$1'),
  );

async function ask(recorded: Recorded): Promise<Reply> {
  const { request, credential, server } = recorded;
  return await exchange(request.method!, pathOf(recorded), {
    port: portOf(recorded),
    isPlain: /^(readOnly|healthz)Port/.test(server),
    shown: node.shown(credential),
    headers: headersOf(recorded),
    body: request.body,
    ...(recorded.ended === undefined ? {} : { quietMs: 700 }),
  });
}

const recordedHeader = ({ headers = [] }: Recorded, name: string): string | undefined =>
  headers.find(([each]) => each.toLowerCase() === name)?.[1];

/** Times and ids in the form of the corpus, and 1,000 equal letters as one. */
const normalized = (body: string): string =>
  body
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z/g, '<time>')
    .replace(/containerd:\/\/[a-z0-9-]+/g, 'containerd://<id>')
    .replaceAll('x'.repeat(1_000), '{x*1000}');

const bare = (path: string): string => path.replace(/^http:\/\/[^/]+/, '').replace('%70', 'p');

function bodyDifference(recorded: Recorded, reply: Reply): string | null {
  const { body = '', bodyTruncated, bodyEncoding, request } = recorded;
  if (request.method === 'HEAD' || OF_A_MOMENT.test(bare(request.path))) return null;
  if (OF_A_HOST.test(body)) return null;
  const text = normalized(reply.body.toString(bodyEncoding?.startsWith('latin1') ? 'latin1' : 'utf8'));
  const wanted = body.replace('<cut time>', '').replace(/<cut [^>]*>$/, '');
  const isCut = bodyTruncated === true || body.includes('<cut') || Number(recorded.bodyBytes) > body.length;
  const isSame = isCut ? text.startsWith(wanted.trimEnd()) : text === wanted;
  return isSame ? null : `body ${JSON.stringify(wanted.slice(0, 200))} but ${JSON.stringify(text.slice(0, 200))}`;
}

function differences(recorded: Recorded, reply: Reply): string[] {
  const found: string[] = [];
  if (reply.status !== recorded.status) found.push(`status ${recorded.status} but ${reply.status}`);
  for (const name of HEADERS) {
    const [wanted, got] = [recordedHeader(recorded, name), headerOf(reply, name)];
    if (wanted !== got) found.push(`${name}: ${wanted} but ${got}`);
  }
  const { method, path } = recorded.request;
  const isSized = method === 'CONNECT' || recorded.status !== 200 || !OF_A_MOMENT.test(bare(path));
  const isFramed = isSized && !OF_A_HOST.test(recorded.body ?? '');
  for (const name of isFramed ? [...PRESENT, ...FRAMING] : PRESENT) {
    if ((recordedHeader(recorded, name) === undefined) !== (headerOf(reply, name) === undefined)) {
      found.push(`${name} is ${headerOf(reply, name) === undefined ? 'missing' : 'too much'}`);
    }
  }
  const wanted = bodyDifference(recorded, reply);
  return wanted === null ? found : [...found, wanted];
}

async function rawDifferences(recorded: Recorded): Promise<string[]> {
  const isPlain = recorded.server.includes('without TLS');
  const ending = recorded.raw === '' ? { withinMs: 400 } : { quietMs: 400 };
  const sent = { port: portOf(recorded), shown: node.shown(recorded.credential), isPlain, ...ending };
  const got = await exchangeRaw(recorded.request.raw!, sent);
  const text = withoutOrder(got.toString('latin1'));
  const wanted = withoutOrder(recorded.raw!);
  return text === wanted ? [] : [`${JSON.stringify(wanted)} but ${JSON.stringify(text)}`];
}

/** Times in the form of the corpus; order and case of headers are irrelevant. */
const withoutOrder = (text: string): string =>
  text
    .split(/(?=HTTP\/1\.\d \d{3})/)
    .map((answer) => {
      const [head = '', ...rest] = answer.split('\r\n\r\n');
      const [first, ...headers] = head.split('\r\n');
      const kept = headers.map((header) => header.toLowerCase().replace(/^date: .*/, 'date: <time>')).toSorted();
      return [first, ...kept, rest.join('\r\n\r\n')].join('\n');
    })
    .join('\n');

const judge = async (recorded: Recorded): Promise<string[]> =>
  recorded.raw === undefined ? differences(recorded, await ask(recorded)) : await rawDifferences(recorded);

describe('the recorded requests', () => {
  it(`${judged.length} of them`, { timeout: 300_000 }, async () => {
    const wrong = new Map<string, string>();
    const queue = judged.slice();
    const work = async () => {
      for (let next = queue.shift(); next; next = queue.shift()) {
        const found = await judge(next).catch((error: Error) => [error.message]);
        if (found.length > 0) wrong.set(next.id, found.join('; '));
      }
    };
    await Promise.all([work(), work(), work(), work()]);
    const excused = [...wrong.keys()].filter((id) => id in EXCUSED);
    const unexcused = [...wrong].filter(([id]) => !(id in EXCUSED));
    const equal = judged.length - wrong.size;
    process.stdout.write(
      `recorded requests: ${equal} of ${judged.length} equal (${((equal / judged.length) * 100).toFixed(1)}%), ` +
        `${excused.length} excused\n`,
    );
    expect(unexcused.map(([id, why]) => `${id} ${why}`)).toEqual([]);
    expect(Object.keys(EXCUSED).filter((id) => !wrong.has(id) && judged.some((each) => each.id === id))).toEqual([]);
    expect(equal / judged.length).toBeGreaterThanOrEqual(0.97);
  });
});
