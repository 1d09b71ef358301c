/** Static pods behind a URL, over real HTTP. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { manifestUrlPort } from '../../../../src/actors/host/manifests/manifest-url.ts';
import { Vault } from '../../../../src/kernel/journal/secrets.ts';

type Fetched = { manifests: { uid: string; value: unknown }[] | null; error: string };
type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const vault = new Vault(Buffer.alloc(32, 1));
const pod = (name: string) => JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata: { name }, spec: {} });

const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
const list = (item: string, count: number) => `{"kind":"List","items":[${Array(count).fill(item).join()}]}`;
const redirect = (response: ServerResponse, location: string) => response.writeHead(302, { location }).end();
const bomb = (response: ServerResponse) =>
  response.setHeader('content-encoding', 'gzip').end(gzipSync(Buffer.alloc(64_000_000, ' ')));
const flood = (response: ServerResponse) => response.socket!.write(`HTTP/1.1 200 OK\r\n${'a: b\r\n'.repeat(1e6)}`);
const endless = (response: ServerResponse) => pipeline(Readable.from(spaces()), response).catch(() => undefined);
function* spaces() {
  for (;;) yield Buffer.alloc(64 * 1024, ' ');
}

let server: Server;
let answer: Answer;
let url: string;
let abort: AbortController;
let fetched: Fetched[];
let ended: Promise<unknown>;
const asked: IncomingMessage[] = [];

beforeEach(async () => {
  asked.length = 0;
  server = createServer((request, response) => {
    asked.push(request);
    answer(request, response);
  });
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/pods`;
  abort = new AbortController();
  fetched = [];
  ended = Promise.resolve();
});

afterEach(async () => {
  abort.abort();
  await ended;
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
});

function follow(headers: Record<string, string[]> = {}): void {
  const sealed = Object.entries(headers).map(([name, values]) => [name, values.map((value) => vault.seal(value))]);
  const input = { url, headers: Object.fromEntries(sealed), nodeName: 'node', periodMs: 20 };
  const emit = (item: Fetched): void => void fetched.push({ manifests: item.manifests, error: item.error });
  ended = manifestUrlPort(vault)({ id: 1, input, resume: false, signal: abort.signal, emit: emit as never });
}

const until = async (holds: () => boolean): Promise<void> => {
  await expect.poll(holds, { interval: 5 }).toBe(true);
};

describe('host.watchManifestUrl', () => {
  it('speaks of one pod or a list, and only when something changed', async () => {
    answer = (_, response) => response.end(pod('a'));
    follow();
    await until(() => asked.length > 4);
    expect(fetched).toHaveLength(1);
    answer = (_, response) => response.end(`{"kind":"PodList","apiVersion":"v1","items":[${pod('a')},${pod('b')}]}`);
    await until(() => fetched.length === 2);
    expect(fetched[1]!.manifests!.map(({ value }) => (value as { metadata: { name: string } }).metadata.name)).toEqual([
      'a',
      'b',
    ]);
    expect(fetched[0]!.manifests![0]!.uid).toBe(fetched[1]!.manifests![0]!.uid);
    expect(fetched[1]!.manifests![0]!.uid).not.toBe(fetched[1]!.manifests![1]!.uid);
  });

  it.each([204, 206, 304, 503])('takes no pods from an answer with the code %d', async (code) => {
    answer = (_, response) => response.writeHead(code).end(code === 206 ? pod('a') : undefined);
    follow();
    await until(() => fetched.length === 1);
    expect(fetched[0]!.manifests).toBeNull();
    expect(fetched[0]!.error).toContain(`/pods: ${code} `);
  });

  it('sends the values behind the handles, each header as often as it was given', async () => {
    answer = (_, response) => response.end(pod('a'));
    follow({ Authorization: ['Bearer s3cret'], 'X-Two': ['one', 'two'] });
    await until(() => fetched.length === 1);
    expect(asked[0]!.headers).toMatchObject({ authorization: 'Bearer s3cret', 'x-two': 'one, two' });
    expect(JSON.stringify(fetched)).not.toContain('s3cret');
  });

  it('sends the login of the URL as Go does, and tells of no value', async () => {
    answer = (_, response) => response.end(pod('a').replace('{}', '{"containers":[{"env":[{"value":"s3cret-env"}]}]}'));
    url = url.replace('//', `//${vault.seal('me:s3cret%21').$secret}@`);
    follow();
    await until(() => fetched.length === 1);
    expect(fetched[0]!.error).toBe('');
    expect(asked[0]!.headers.authorization).toBe(`Basic ${Buffer.from('me:s3cret!').toString('base64')}`);
    expect(JSON.stringify(fetched)).not.toContain('s3cret');
  });

  it('follows a redirect to another host without the values of its headers', async () => {
    const others: IncomingMessage[] = [];
    const other = createServer((request, response) => {
      others.push(request);
      response.end(pod('elsewhere'));
    });
    await new Promise<void>((done) => void other.listen(0, '127.0.0.1', done));
    onTestFinished(() => void other.close());
    const port = String((other.address() as AddressInfo).port);
    answer = ({ url: path }, response) =>
      void redirect(response, path === '/pods' ? '/moved' : `http://127.0.0.1:${port}/pods`);
    follow({ 'X-Token': ['s3cret'] });
    await until(() => fetched.length === 1);
    expect(fetched[0]).toMatchObject({ error: '', manifests: [{ value: { metadata: { name: 'elsewhere' } } }] });
    expect(asked.slice(0, 2).map(({ url: path, headers }) => [path, headers['x-token']])).toEqual([
      ['/pods', 's3cret'],
      ['/moved', 's3cret'],
    ]);
    expect(others[0]!.headers).not.toHaveProperty('x-token');
  });

  it('gives an answer that drips up after ten seconds', async () => {
    answer = (_, response) => {
      const dripping = setInterval(() => response.write(' '), 20);
      response.once('close', () => clearInterval(dripping));
    };
    follow();
    await expect.poll(() => fetched.length, { interval: 100, timeout: 15_000 }).toBe(1);
    expect(fetched[0]).toMatchObject({
      manifests: null,
      error: expect.stringMatching(/aborted due to timeout/) as string,
    });
  });

  it('takes the last of two equal keys, and tells of them', async () => {
    answer = (_, response) => response.end('apiVersion: v1\nkind: Pod\nmetadata: {name: a, name: b}\n');
    follow();
    await until(() => fetched.length === 1);
    expect(fetched[0]!.manifests).toMatchObject([{ value: { metadata: { name: 'b' } } }]);
    expect(fetched[0]!.error).toContain('Map keys must be unique at line 3');
  });

  it('keeps the names of prototypes as names', async () => {
    const text =
      '{"kind":"Pod","__proto__":{"spec":{"hostPID":true}},"metadata":{"__proto__":{"name":"b"},"name":"a"}}';
    answer = (_, response) => response.end(text);
    follow();
    await until(() => fetched.length === 1);
    const { value } = fetched[0]!.manifests![0]!;
    expect(JSON.stringify(value)).toBe(text);
    expect((value as { spec?: unknown }).spec).toBeUndefined();
  });

  it('goes by the proxy of the environment', async () => {
    vi.stubEnv('HTTP_PROXY', new URL(url).origin);
    onTestFinished(() => void vi.unstubAllEnvs());
    answer = (_, response) => response.end(pod('a'));
    url = 'http://pods.test/of/this-node';
    follow({ 'X-A': ['b'] });
    await until(() => asked.length > 2);
    expect(asked[0]).toMatchObject({ url, headers: { host: 'pods.test', 'x-a': 'b' } });
    expect(fetched).toMatchObject([{ manifests: [{ value: { metadata: { name: 'a' } } }], error: '' }]);
  });

  it('takes an empty answer for no pods, and says that it is wrong', async () => {
    answer = (_, response) => response.end();
    follow();
    await until(() => fetched.length === 1);
    expect(fetched).toEqual([{ manifests: [], error: `zero-length data received from ${url}` }]);
  });

  it.each<[string, Answer, RegExp]>([
    [
      'an answer that is no success',
      (_, response) => void response.writeHead(503).end('no'),
      /: 503 Service Unavailable$/,
    ],
    ['no YAML', (_, response) => void response.end('{"a":'), /./],
    ['a list that is none', (_, response) => void response.end('{"kind":"List","items":3}'), /items: must be a list/],
    ['a number', (_, response) => void response.end('7'), /not a Pod or a PodList/],
    ['a connection that breaks', (request) => void request.socket.destroy(), /fetch failed/],
    ['a body without end', (_, response) => void endless(response), /more than \d+ bytes/],
    ['a few bytes that unpack to 64 MB', (_, response) => void bomb(response), /more than \d+ bytes/],
    [
      'half a million pods',
      (_, response) => void response.end(list('{}', 500_000)),
      /items: 500000 pods; at most 2000/,
    ],
    ['100,000 levels', (_, response) => void response.end(`{"a":${nested(100_000)}}`), /nested deeper than 100 levels/],
    ['a redirect to a file', (_, response) => void redirect(response, 'file:///etc/hostname'), /is not HTTP/],
    ['a redirect to its own text', (_, response) => void redirect(response, 'data:,kind%3A%20Pod'), /is not HTTP/],
    ['a redirect to itself', (_, response) => void redirect(response, '/'), /stopped after 10 redirects/],
    ['headers without end', (_, response) => void flood(response), /Headers Overflow/],
    ['more than is read', (_, response) => void response.end('a'.repeat(2_000_000)), /more than \d+ bytes/],
  ])('%s is an error that takes nothing back', async (_, wrong, message) => {
    answer = wrong;
    follow();
    await until(() => fetched.length === 1);
    expect(fetched[0]!.manifests).toBeNull();
    expect(fetched[0]!.error).toMatch(message);
    answer = (__, response) => response.end(pod('a'));
    await until(() => fetched.length === 2);
    expect(fetched[1]).toMatchObject({ error: '', manifests: [{ value: { metadata: { name: 'a' } } }] });
  });
});
