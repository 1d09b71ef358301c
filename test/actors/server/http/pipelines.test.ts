/** Several requests in one write, whose last one takes over the connection: CONNECT, an upgrade, or no HTTP. */
import { once } from 'node:events';
import { connect as connectHalf } from 'node:net';
import { setImmediate as nextRound } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { ApiServer } from '../../../../src/actors/server/http/api-server.ts';
import { type Endpoint, text } from '../../../../src/actors/server/http/endpoint.ts';
import { Listener } from '../../../../src/actors/server/tls/listener.ts';
import { connect, exchange, exchangeRaw } from '../exchange.ts';

const HOST = 'Host: node1\r\n';
const SLOW = `GET /slow HTTP/1.1\r\n${HOST}\r\n`;
const WEB_SOCKET = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n';
const LAST = {
  CONNECT: `CONNECT / HTTP/1.1\r\n${HOST}\r\n`,
  'a WebSocket': `GET /exec/a/b/c HTTP/1.1\r\n${HOST}${WEB_SOCKET}Sec-WebSocket-Key: ${'A'.repeat(22)}==\r\n\r\n`,
  SPDY: `POST /exec/a/b/c HTTP/1.1\r\n${HOST}Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n`,
  'a method that HTTP does not have': `FOO / HTTP/1.1\r\n${HOST}\r\n`,
  'a request without a host': 'GET /slow HTTP/1.1\r\n\r\n',
  'no HTTP at all': '\0\0\0\0\r\n\r\n',
};
/** Rounds of the event loop before the answer to a slow request is ready. */
const ROUNDS = 20;

const endpoints: Endpoint[] = [
  {
    path: '/slow',
    methods: 'any',
    subresources: ['proxy'],
    answer: async () => {
      underWay.most = Math.max(underWay.most, ++underWay.now);
      for (let round = 0; round < ROUNDS; round++) await nextRound();
      underWay.now--;
      return text(200, 'slow');
    },
  },
  { path: '/exec/*', methods: 'any', subresources: ['proxy'], answer: () => text(403, 'refused') },
];

/** The requests that are being answered, and their maximum. */
const underWay = { now: 0, most: 0 };

let api: ApiServer;
let listener: Listener;
let port: number;
let open = 0;

beforeAll(async () => {
  api = await new ApiServer({ endpoints, gate: async () => null }).open();
  const accept: ConstructorParameters<typeof Listener>[0]['accept'] = (socket) => {
    open++;
    socket.once('close', () => open--);
    api.accept(socket);
  };
  listener = new Listener({ address: '127.0.0.1', port: 0, accept, tls: null });
  port = await listener.listen();
});
afterAll(async () => {
  await listener.close();
  await api.close();
});

const statuses = (bytes: Buffer): string[] => bytes.toString('latin1').match(/(?<=HTTP\/1\.1 )\d{3}/g) ?? [];
const FIRST = { 'a slow request': SLOW, 'an OPTIONS of the server': `OPTIONS * HTTP/1.1\r\n${HOST}\r\n` };

for (const [first, head] of Object.entries(FIRST)) {
  it.each(Object.entries(LAST))(`${first}, then %s: answered in their order, and closed`, async (_name, last) => {
    const bytes = await exchangeRaw(head + last, { port, isPlain: true });
    expect(statuses(bytes)[0]).toBe('200');
    expect(bytes.toString('latin1').indexOf('slow')).toBe(
      head === SLOW ? bytes.toString('latin1').lastIndexOf('slow') : -1,
    );
    expect((await exchange('GET', '/slow', { port, isPlain: true })).status).toBe(200);
  });
}

/** Answered before any routing, by the parser of heads. */
const REFUSED = {
  'a request without a host': ['GET /slow HTTP/1.1\r\n\r\n', '400'],
  'one with two hosts': [`GET /slow HTTP/1.1\r\n${HOST}${HOST}\r\n`, '400'],
  'an expectation': [`GET /slow HTTP/1.1\r\n${HOST}Expect: nothing\r\n\r\n`, '417'],
} as const;

for (const [first, [head, status]] of Object.entries(REFUSED)) {
  it.each(Object.entries(LAST))(`${first}, then %s: the first is refused, and nothing fails`, async (_name, last) => {
    const bytes = await exchangeRaw(head + last, { port, isPlain: true });
    expect(statuses(bytes)[0]).toBe(status);
    expect((await exchange('GET', '/slow', { port, isPlain: true })).status).toBe(200);
  });
}

it('what is refused after two that are answered comes third', async () => {
  const bytes = await exchangeRaw(SLOW + SLOW + LAST['a WebSocket'], { port, isPlain: true });
  expect(statuses(bytes)).toEqual(['200', '200', '403']);
});

it('a client that sends fifty requests at once has one under way', async () => {
  underWay.most = 0;
  const bytes = await exchangeRaw(SLOW.repeat(50) + LAST.CONNECT, { port, isPlain: true });
  expect(statuses(bytes)).toEqual([...Array.from({ length: 50 }, () => '200'), '404']);
  expect(underWay.most).toBe(1);
});

it('a client that sends a thousand requests before it has an answer loses its connection', async () => {
  underWay.most = 0;
  const bytes = await exchangeRaw(SLOW.repeat(1_000), { port, isPlain: true });
  expect(statuses(bytes).length).toBeLessThan(2);
  await expect.poll(() => open).toBe(0);
  expect(underWay.most).toBeLessThan(2);
});

it('a client that is refused and does not leave is closed', async () => {
  const socket = connectHalf({ host: '127.0.0.1', port, allowHalfOpen: true });
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => {}).resume();
  socket.write(LAST['a WebSocket']);
  await once(socket, 'end');
  await expect.poll(() => open).toBe(0);
});

it('a client that leaves while its turn has not come costs nothing', async () => {
  const socket = await connect({ port, isPlain: true });
  await new Promise<void>((resolve) => socket.write(SLOW + LAST.CONNECT, () => resolve()));
  socket.destroy();
  await expect.poll(() => open).toBe(0);
});

it('a path that is not served, and one that is redirected, leave the connection open', async () => {
  const requests = ['/nothing', '//slow', '/slow'].map((path) => `GET ${path} HTTP/1.1\r\n${HOST}\r\n`);
  const bytes = await exchangeRaw(requests.join('') + LAST.SPDY, { port, isPlain: true });
  expect(statuses(bytes)).toEqual(['404', '307', '200', '403']);
});

it('an unread body of such a request closes it', async () => {
  const bytes = await exchangeRaw(`POST /nothing HTTP/1.1\r\n${HOST}Content-Length: 5\r\n\r\nab${SLOW}`, {
    port,
    isPlain: true,
  });
  expect(statuses(bytes)).toEqual(['404']);
});
