/** Static pods behind a URL, over real HTTP. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { manifestUrlPort } from '../../../../src/actors/host/manifests/manifest-url.ts';
import { Vault } from '../../../../src/kernel/journal/index.ts';

type Fetched = { manifests: { uid: string; value: unknown }[] | null; error: string };
type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const vault = new Vault(Buffer.alloc(32, 1));
const pod = (name: string) => JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata: { name }, spec: {} });

let server: Server;
let answer: Answer;
let url: string;
let abort: AbortController;
let said: Fetched[];
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
  said = [];
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
  const emit = (item: Fetched): void => void said.push({ manifests: item.manifests, error: item.error });
  ended = manifestUrlPort(vault)({ id: 1, input, resume: false, signal: abort.signal, emit: emit as never });
}

const until = async (holds: () => boolean): Promise<void> => {
  await expect.poll(holds, { interval: 5 }).toBe(true);
};

/** Sends for as long as it is read. */
const endless: Answer = (_, response) => {
  const send = (): void => {
    while (!response.destroyed && response.write('a'.repeat(65_536)));
  };
  response.on('drain', send);
  send();
};

describe('host.watchManifestUrl', () => {
  it('speaks of one pod or a list, and only when something changed', async () => {
    answer = (_, response) => response.end(pod('a'));
    follow();
    await until(() => asked.length > 4);
    expect(said).toHaveLength(1);
    answer = (_, response) => response.end(`{"kind":"PodList","apiVersion":"v1","items":[${pod('a')},${pod('b')}]}`);
    await until(() => said.length === 2);
    expect(said[1]!.manifests!.map(({ value }) => (value as { metadata: { name: string } }).metadata.name)).toEqual([
      'a',
      'b',
    ]);
    expect(said[0]!.manifests![0]!.uid).toBe(said[1]!.manifests![0]!.uid);
    expect(said[1]!.manifests![0]!.uid).not.toBe(said[1]!.manifests![1]!.uid);
  });

  it('sends the values behind the handles, each header as often as it was given', async () => {
    answer = (_, response) => response.end(pod('a'));
    follow({ Authorization: ['Bearer s3cret'], 'X-Two': ['one', 'two'] });
    await until(() => said.length === 1);
    expect(asked[0]!.headers).toMatchObject({ authorization: 'Bearer s3cret', 'x-two': 'one, two' });
    expect(JSON.stringify(said)).not.toContain('s3cret');
  });

  it('goes by the proxy of the environment', async () => {
    vi.stubEnv('HTTP_PROXY', new URL(url).origin);
    onTestFinished(() => void vi.unstubAllEnvs());
    answer = (_, response) => response.end(pod('a'));
    url = 'http://pods.test/of/this-node';
    follow({ 'X-A': ['b'] });
    await until(() => asked.length > 2);
    expect(asked[0]).toMatchObject({ url, headers: { host: 'pods.test', 'x-a': 'b' } });
    expect(said).toMatchObject([{ manifests: [{ value: { metadata: { name: 'a' } } }], error: '' }]);
  });

  it('takes an empty answer for no pods, and says that it is wrong', async () => {
    answer = (_, response) => response.end();
    follow();
    await until(() => said.length === 1);
    expect(said).toEqual([{ manifests: [], error: `zero-length data received from ${url}` }]);
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
    ['an endless body', endless, /more than \d+ bytes/],
    ['more levels than are read', (_, response) => void response.end('['.repeat(100_000)), /./],
    [
      'a redirect to a file',
      (_, response) => void response.writeHead(302, { location: 'file:///etc/passwd' }).end(),
      /./,
    ],
    ['a redirect in a circle', (_, response) => void response.writeHead(302, { location: url }).end(), /redirect/],
    ['more than is read', (_, response) => void response.end('a'.repeat(2_000_000)), /more than \d+ bytes/],
  ])('%s is an error that takes nothing back', async (_, wrong, message) => {
    answer = wrong;
    follow();
    await until(() => said.length === 1);
    expect(said[0]!.manifests).toBeNull();
    expect(said[0]!.error).toMatch(message);
    answer = (__, response) => response.end(pod('a'));
    await until(() => said.length === 2);
    expect(said[1]).toMatchObject({ error: '', manifests: [{ value: { metadata: { name: 'a' } } }] });
  });

  it('names of prototypes are names', async () => {
    const named =
      '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"constructor":"x"}},"__proto__":{"kind":"no"}}';
    answer = (_, response) => response.end(named);
    follow();
    await until(() => said.length === 1);
    expect(said[0]!.error).toBe('');
    expect(said[0]!.manifests![0]!.value).toMatchObject({ kind: 'Pod', metadata: { labels: { constructor: 'x' } } });
    expect(({} as { kind?: string }).kind).toBeUndefined();
  });
});
