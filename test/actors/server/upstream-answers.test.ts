/**
 * Requests without a recording, with the answers according to upstream's sources: go-restful's router, net/http's
 * server and file server, Prometheus' handler, the handlers of the kubelet.
 */
import { utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exchange, exchangeRaw, headerOf, type Reply } from './exchange.ts';
import { GoldenNode } from './golden-node.ts';

let node: GoldenNode;
let ports: Readonly<Record<'A' | 'B', number>>;

beforeAll(async () => {
  node = await GoldenNode.start();
  ports = { A: await node.serve('A'), B: await node.serve('B') };
  const logs = (name: string) => join(node.logDirectory, name);
  writeFileSync(logs('wtmp'), Buffer.from([0, 1, 2, 3]));
  writeFileSync(logs('btmp'), '');
  writeFileSync(logs('old.1'), Buffer.from([0x1f, 0x8b, 0x08, 0]));
  writeFileSync(logs('notes'), 'just text\n');
  writeFileSync(logs('kubelet'), 'by its bare name\n');
  writeFileSync(logs('kubelet.log'), 'by its name\n');
  utimesSync(node.logDirectory, new Date('2026-01-02T03:04:05Z'), new Date('2026-01-02T03:04:05Z'));
});
afterAll(() => node.close());

interface Asked {
  readonly method?: string;
  readonly headers?: readonly string[];
  readonly body?: string;
  readonly run?: 'A' | 'B';
}

const ask = ({ method = 'GET', headers = [], body, run = 'A' }: Asked, path: string): Promise<Reply> =>
  exchange(method, path, { port: ports[run], shown: node.shown('x509-admin'), headers, body });

const bodyOf = ({ body }: Reply): string => body.toString();

/** `[path, what is asked, status, body]`; a pattern where only a part is upstream's. */
type Row = readonly [path: string, asked: Asked, status: number, body: string | RegExp];

function table(rows: readonly Row[]): void {
  it.each(rows)('%s %j', async (path, asked, status, body) => {
    const reply = await ask(asked, path);
    const isEqual = typeof body === 'string' ? bodyOf(reply) === body : body.test(bodyOf(reply));
    expect([reply.status, isEqual ? body : bodyOf(reply)]).toEqual([status, body]);
  });
}

const accept = (value: string): Asked => ({ headers: [`Accept: ${value}`] });
const NOT_ACCEPTABLE = '406: Not Acceptable\n\nAvailable representations: ';
const LOG = '/containerLogs/default/lines/main';

describe('the inner router', () => {
  table([
    ['/pods', accept('application/*'), 406, `${NOT_ACCEPTABLE}application/json`],
    ['/pods', accept('Application/JSON'), 406, `${NOT_ACCEPTABLE}application/json`],
    ['/pods', accept('application/json;q=0'), 200, /^\{"kind":"PodList"/],
    ['/pods', accept('text/html, application/json;q=0.1'), 200, /^\{"kind":"PodList".*\]\}\n$/],
    ['/pods', accept('text/html,  */*;q=0.1'), 200, /^\{"kind":"PodList"/],
    ['/runningpods/', accept('text/plain'), 406, `${NOT_ACCEPTABLE}application/json`],
    ['/stats/summary', { method: 'POST', ...accept('text/plain') }, 406, `${NOT_ACCEPTABLE}application/json`],
    ['/pods', { method: 'POST', ...accept('text/plain') }, 405, '405: Method Not Allowed'],
    ['/pods/extra', accept('text/plain'), 404, '404: Page Not Found'],
    // An error for a request without an acceptable type has no type to offer.
    [`${LOG}?tailLines=1`, accept('text/plain'), 406, NOT_ACCEPTABLE],
    [`${LOG}?tailLines=1`, accept('application/json, */*'), 200, 'eline 20\n'],
    ['/containerLogs/default/nope/main', accept('text/plain'), 406, NOT_ACCEPTABLE],
    ['/run/default/lines/main?cmd=true', { method: 'POST', ...accept('text/plain') }, 406, NOT_ACCEPTABLE],
    ['/exec/default/lines/main?output=1', accept('text/plain'), 406, NOT_ACCEPTABLE],
    ['/logs/', accept('text/html'), 406, NOT_ACCEPTABLE],
    ['/debug/pprof/cmdline', accept('text/plain'), 406, NOT_ACCEPTABLE],
    ['/checkpoint/default/nope/main', { method: 'POST', ...accept('text/plain') }, 406, /application\/json$/],
    [`${LOG}%2f%2f?tailLines=1`, {}, 200, 'eline 20\n'],
    ['/healthz', accept('application/nothing'), 200, 'ok'],
  ]);
});

describe('checks of health', () => {
  const all = '[+]ping ok\n[+]log ok\n[+]syncloop ok\n[+]device-plugin ok\n';
  const warning = 'warn: some health checks cannot be excluded: no matches for "nope"\n';
  table([
    ['/healthz/device-plugin', {}, 200, 'ok'],
    ['/healthz/device-plugin', { method: 'DELETE' }, 200, 'ok'],
    ['/healthz?verbose&exclude=nope', {}, 200, `${all}${warning}healthz check passed\n`],
    [
      '/healthz?verbose&exclude=x&exclude=nope',
      {},
      200,
      `${all}${warning.replace('"nope"', '"nope","x"')}healthz check passed\n`,
    ],
    ['/healthz?verbose=false', {}, 200, `${all}healthz check passed\n`],
    [
      '/healthz?verbose&exclude=log&exclude=ping',
      {},
      200,
      '[+]ping excluded: ok\n[+]log excluded: ok\n[+]syncloop ok\n[+]device-plugin ok\nhealthz check passed\n',
    ],
  ]);
});

describe('what the process says of itself', () => {
  table([
    ['/statusz', {}, 200, /\nUp: {2}\d+ hr \d\d min \d\d sec\n/],
    ['/flagz', {}, 200, /\nregister-with-taints:\n(.*\n)*reserved-memory:\n(.*\n)*vmodule:\n/],
  ]);
});

describe('streams', () => {
  const upgrade = { headers: ['Connection: Upgrade', 'Upgrade: SPDY/3.1'] };
  table([
    [
      '/exec/default/lines/main?command=a&error=1&tty=1',
      upgrade,
      400,
      'you must specify at least 1 of stdin, stdout, stderr',
    ],
    ['/attach/default/lines/main?error=1&tty=1', upgrade, 400, 'you must specify at least 1 of stdin, stdout, stderr'],
  ]);
});

describe('the logs of containers', () => {
  const invalid = '{"message": "Invalid request."}';
  const undecodable = '{"message": "Unable to decode query."}';
  table([
    [`${LOG}?tail=1`, {}, 200, 'eline 20\n'],
    [`${LOG}?tail=1&tailLines=3`, {}, 200, 'eline 20\n'],
    [`${LOG}?tail=all&tailLines=1`, {}, 200, /^line 1\n/],
    [`${LOG}?tail=&tailLines=1`, {}, 200, 'eline 20\n'],
    [`${LOG}?tail=x`, {}, 400, undecodable],
    [`${LOG}?tail=-1`, {}, 422, invalid],
    [`${LOG}?tailLines=%2B1`, {}, 200, 'eline 20\n'],
    [`${LOG}?tailLines=0x1`, {}, 400, undecodable],
    [`${LOG}?timestamps=False&tailLines=1`, {}, 200, 'eline 20\n'],
    [`${LOG}?timestamps=FALSE&tailLines=1`, {}, 200, 'eline 20\n'],
    [`${LOG}?timestamps=f&tailLines=1`, {}, 200, /^20.*Z eline 20\n$/],
    [`${LOG}?sinceTime=2020-01-01&tailLines=1`, {}, 400, undecodable],
    [`${LOG}?sinceTime=2020-02-30T00:00:00Z`, {}, 400, undecodable],
    [`${LOG}?limitBytes=0&sinceSeconds=x`, {}, 400, undecodable],
    [`${LOG}?limitBytes=1.0`, {}, 400, undecodable],
  ]);
});

describe('checkpoints', () => {
  const path = '/checkpoint/default/lines/main';
  const wrong = 'cannot parse value of timeout parameter';
  const failed = 'checkpointing of default/lines/main failed';
  const asked = { method: 'POST' };
  table([
    [`${path}?timeout=`, asked, 404, wrong],
    [`${path}?timeout=1.5`, asked, 404, wrong],
    [`${path}?timeout=9223372036854775808`, asked, 404, wrong],
    [`${path}?timeout=x&timeout=%2B5`, asked, 500, /\(rpc error: code = Unimplemented/],
    [`${path}?timeout=5&timeout=x`, asked, 404, wrong],
    [`${path}?timeout=-1`, asked, 500, `${failed} (CheckpointContainer requires the timeout value to be > 0)`],
  ]);
});

describe('profiles and flags', () => {
  table([
    ['/debug/pprof/symbol?0x401000', {}, 200, 'num_symbols: 1\n0x401000 \n'],
    ['/debug/pprof/symbol?nothing', {}, 200, 'num_symbols: 1\n'],
    ['/debug/pprof/heap/', {}, 404, 'Unknown profile\n'],
    ['/debug/pprof/a/b', {}, 404, 'Unknown profile\n'],
    ['/debug/pprof/profile?seconds=14400', {}, 400, "profile duration exceeds server's WriteTimeout\n"],
    ['/debug/flags/v', { method: 'PUT', body: '2147483648' }, 400, /parsing "2147483648": value out of range\n$/],
    ['/debug/flags/v', { method: 'PUT', body: '3\n' }, 400, /parsing "3\\n": invalid syntax\n$/],
  ]);
});

describe('metrics', () => {
  const typeFor = async (path: string, value: string) => headerOf(await ask(accept(value), path), 'content-type');
  const PROMETHEUS =
    'application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,' +
    'text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1';

  it('name the escaping that the scraper asks for', async () => {
    const text = 'text/plain; version=0.0.4; charset=utf-8; escaping=';
    expect(await typeFor('/metrics/slis', PROMETHEUS)).toBe(`${text}allow-utf-8`);
    expect(await typeFor('/metrics/slis', 'text/plain;escaping=dots')).toBe(`${text}dots`);
    expect(await typeFor('/metrics/slis', 'text/plain;escaping=nonsense')).toBe(`${text}underscores`);
    const message = 'application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited';
    expect(await typeFor('/metrics/slis', `${message};escaping=values`)).toMatch(/delimited; escaping=values$/);
    expect(await typeFor('/metrics/slis', `text/plain,${message};q=0.9`)).toBe(`${text}underscores`);
  });

  it.each(['/metrics', '/metrics/cadvisor', '/metrics/resource', '/metrics/probes', '/metrics/slis'])(
    '%s is compressed for those who want that more than plain text',
    async (path) => {
      const coded = async (value: string) => {
        const reply = await ask({ headers: [`Accept-Encoding: ${value}`] }, path);
        const coding = headerOf(reply, 'content-encoding');
        expect((coding === 'gzip' ? gunzipSync(reply.body) : reply.body).toString()).toMatch(/^# HELP/);
        return coding;
      };
      expect(await coded('gzip')).toBe('gzip');
      expect(await coded('deflate, gzip;q=0.5')).toBe('gzip');
      for (const value of ['gzip;q=0', '*', 'identity, gzip', 'deflate', 'br'])
        expect(await coded(value)).toBe(undefined);
    },
  );
});

describe('/statusz and /flagz', () => {
  const version = 'v=v1beta1;g=config.k8s.io';
  table([
    ['/statusz', accept(`*/*;as=Statusz;${version}`), 200, /^\{"kind":"Statusz","apiVersion":"config.k8s.io\/v1beta1"/],
    ['/statusz', accept(`application/*;as=Statusz;${version}`), 200, /^\{"kind":"Statusz"/],
    ['/flagz', accept('text/*'), 200, /^\nkubelet flagz\n/],
    ['/flagz', accept('*'), 200, /^\nkubelet flagz\n/],
    ['/flagz', accept(`text/plain;as=Flagz;${version}`), 406, /^\{\n  "kind": "Status"/],
    ['/flagz', accept('application/json;stream=watch'), 406, /^\{\n  "kind": "Status"/],
    ['/flagz', accept(`application/json;as=Flagz;${version};q=0.1, text/plain;q=0.9`), 200, /^\nkubelet flagz\n/],
    ['/flagz', accept('application/json;x=y'), 406, /^\{"kind":"Status".*\}\n$/],
    ['/flagz', accept('application/vnd.kubernetes.protobuf'), 406, /^\{\n  "kind": "Status"/],
    [
      '/flagz',
      accept('application/yaml'),
      406,
      /\nmessage: 'only the following media types are accepted: application\/json, application\/yaml,\n  text\/plain'\n/,
    ],
    ['/flagz?pretty=true', accept('application/json'), 406, /^\{\n  "kind": "Status"[^]*\}$/],
    [
      '/statusz',
      { headers: [`Accept: application/json;as=Statusz;${version}`, 'User-Agent: curl/8.5.0'] },
      200,
      /^\{\n  "kind": "Statusz"/,
    ],
    ['/statusz?pretty=1', accept(`application/yaml;as=Statusz;${version}`), 200, /^apiVersion: config/],
  ]);
});

describe("the machine's logs", () => {
  it('are of the type that they look like', async () => {
    const typeOf = async (name: string) => headerOf(await ask({}, `/logs/${name}`), 'content-type');
    expect(await typeOf('wtmp')).toBe('application/octet-stream');
    expect(await typeOf('btmp')).toBe('text/plain; charset=utf-8');
    expect(await typeOf('notes')).toBe('text/plain; charset=utf-8');
    expect(await typeOf('old.1')).toBe('application/x-gzip');
    expect(await typeOf('dpkg.log')).toBe('text/x-log; charset=utf-8');
  });

  it('move with their query', async () => {
    const moved = async (path: string) => headerOf(await ask({}, path), 'location');
    expect(await moved('/logs/apt?x=1')).toBe('apt/?x=1');
    expect(await moved('/logs/dpkg.log/')).toBe('../dpkg.log');
    expect(await moved('/logs/apt/index.html')).toBe('./');
  });

  it('are not sent again unchanged', async () => {
    const since = (time: string) => ({ headers: [`If-Modified-Since: ${time}`] });
    const known = await ask(since('Fri, 02 Jan 2026 03:04:05 GMT'), '/logs/');
    expect([known.status, bodyOf(known), headerOf(known, 'content-length')]).toEqual([304, '', undefined]);
    expect((await ask(since('Fri, 02 Jan 2026 03:04:04 GMT'), '/logs/')).status).toBe(200);
    const file = await ask(since('Fri, 02 Jan 2099 03:04:05 GMT'), '/logs/dpkg.log');
    expect([file.status, headerOf(file, 'content-type')]).toEqual([304, undefined]);
  });

  table([
    ['/logs/dpkg.log', { headers: ['Range: bytes=0-3'] }, 206, 'line'],
    ['/logs/dpkg.log', { headers: ['Range: bytes=-3'] }, 206, 'kg\n'],
    ['/logs/dpkg.log', { headers: ['Range: bytes=99999-'] }, 416, 'invalid range: failed to overlap\n'],
    ['/logs/dpkg.log', { headers: ['Range: lines=1-2'] }, 416, 'invalid range\n'],
    ['/logs/dpkg.log/more', {}, 404, '404 page not found\n'],
    ['/logs/btmp', { headers: ['Range: bytes=0-'] }, 200, ''],
  ]);
});

describe("queries of the machine's logs", () => {
  const many = (query: string): readonly [string, Asked] => [`/logs/?${query}`, { run: 'B' }];
  const row = (query: string, status: number, body: string | RegExp): Row => [...many(query), status, body];
  const empty = 'unit: Invalid value: [""]: unit cannot be empty';
  const time = 'sinceTime: Invalid value: "x": invalid time format';
  const lines = 'tailLines: Invalid value: "x": strconv.Atoi: parsing "x": invalid syntax';
  table([
    row('query=&query=kubelet', 200, 'by its bare name\n'),
    row('query=%20&query=', 400, 'unit: Invalid value: [" ",""]: unit cannot be empty\n'),
    row('query=&tailLines=x&sinceTime=x', 400, `[${empty}, ${time}, ${lines}]\n`),
    row('tailLines=x', 400, `${lines}\n`),
    row('tailLines=99999999999999999999', 400, /parsing "99999999999999999999": value out of range\n$/),
    row('tailLines=-1', 406, 'tailLines: Invalid value: -1: must be between 0 and 100000, inclusive\n'),
    row('boot=1&tailLines=-1', 406, /^\[boot: Invalid value: 1: must be less than 1, tailLines: .* inclusive\]\n$/),
    row('query=a%20b', 406, 'query: Invalid value: "a b": input contains unsupported characters\n'),
    row('query=a;b&query=c', 200, '\nlog not found for c\n'),
    row(
      'query=a/b&query=kubelet',
      406,
      'query: Invalid value: "[a/b], [kubelet]": cannot specify a file and service\n',
    ),
    row('query=a/b&query=c/d', 406, 'query: Invalid value: ["a/b","c/d"]: cannot specify more than one file\n'),
    row('query=a/b&tailLines=1', 406, 'query: Invalid value: ["a/b"]: cannot specify file with options\n'),
    row('query=apt/history.log', 200, '\nStart\n'),
    row('query=apt/', 200, /<a href="a.log">a.log<\/a>/),
    row('query=./apt', 301, ''),
    row(
      'query=k&sinceTime=2021-01-01T00:00:00Z&untilTime=2020-01-01T00:00:00.500%2B00:00',
      406,
      'untilTime: Invalid value: "2020-01-01T00:00:00.5Z": must be after `sinceTime`\n',
    ),
    row('query=k&pattern=(', 406, 'pattern: Invalid value: "(": error parsing regexp: missing closing ): `(`\n'),
    row('query=k&pattern=*', 406, /error parsing regexp: missing argument to repetition operator: `\*`\n$/),
    row('query=k&pattern=a**', 406, /error parsing regexp: invalid nested repetition operator: `\*\*`\n$/),
    row('query=k&pattern=(?i)x', 200, /^\noptions present and query resolved to log files for \[k\]\n/),
  ]);

  it('of one file are answered as the file server does', async () => {
    const reply = await ask({ run: 'B', headers: ['Range: bytes=0-2'] }, '/logs/?query=apt/history.log');
    expect([reply.status, bodyOf(reply), headerOf(reply, 'content-type')]).toEqual([
      206,
      '\nSt',
      'text/x-log; charset=utf-8',
    ]);
  });

  it('are compressed for those who take nothing else', async () => {
    const coded = async (value: string) =>
      headerOf(await ask({ run: 'B', headers: [`Accept-Encoding: ${value}`] }, '/logs/?query=k'), 'content-encoding');
    expect([await coded('gzip'), await coded('gzip, deflate')]).toEqual(['gzip', undefined]);
  });
});

describe('what is no request for anything', () => {
  const answerTo = async (head: string): Promise<string> => {
    const bytes = await exchangeRaw(`${head}\r\n\r\n`, {
      port: ports.A,
      shown: node.shown('x509-admin'),
      quietMs: 400,
    });
    const text = bytes.toString('latin1');
    return `${text.split('\r\n', 1)[0]}|${text.split('\r\n\r\n').slice(1).join('')}`;
  };
  const HOST = 'Host: node1';
  const bad = (why = '') => `HTTP/1.1 400 Bad Request${why}|400 Bad Request${why}`;

  it.each([
    ['GET /healthz HTTP/1.1\r\nHost: a b', bad(': malformed Host header')],
    ['GET /healthz HTTP/1.1\r\nHost: a/b', bad(': malformed Host header')],
    [`GET /healthz HTTP/1.1\r\n${HOST}\r\nBad(Header: x`, bad()],
    [`GET /healthz HTTP/1.1\r\n${HOST}\r\nX : x`, bad(': invalid header name')],
    [`GET /healthz HTTP/1.1\r\n${HOST}\r\nnocolon`, bad()],
    [`GET /healthz HTTP/1.1\r\n${HOST}\r\nX: a\x01b`, bad()],
    [`GET /healthz HTTP/1.1\r\n${HOST}\r\nContent-Length: x`, bad()],
    [
      `GET /healthz HTTP/1.1\r\n${HOST}\r\nTransfer-Encoding: gzip`,
      'HTTP/1.1 501 Not Implemented|Unsupported transfer encoding',
    ],
    [
      `GET /healthz HTTP/1.1\r\n${HOST}\r\nTransfer-Encoding: chunked, gzip`,
      'HTTP/1.1 501 Not Implemented|Unsupported transfer encoding',
    ],
    [`GET /healthz HTTP/1.1\r\n${HOST}\r\nExpect: 200-ok`, 'HTTP/1.1 417 Expectation Failed|'],
    [`OPTIONS * HTTP/1.1\r\n${HOST}`, 'HTTP/1.1 200 OK|'],
    ['PRI * HTTP/2.0\r\n\r\nSM', 'HTTP/1.1 400 Bad Request|'],
  ])('%j', async (head, answer) => expect(await answerTo(head)).toBe(answer));
});
