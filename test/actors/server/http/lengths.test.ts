/** Which answers have a length: upstream's HTTP library sends it only for bodies that fit into its first buffer. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ApiServer } from '../../../../src/actors/server/http/api-server.ts';
import { type Endpoint, text } from '../../../../src/actors/server/http/endpoint.ts';
import { Listener } from '../../../../src/actors/server/tls/listener.ts';
import { exchange, exchangeRaw, headerOf } from '../exchange.ts';

const BUFFER_BYTES = 2_048;

const endpoints: Endpoint[] = [
  {
    path: '/bytes/:count',
    methods: 'any',
    subresources: ['proxy'],
    answer: ({ parameters }) => ({
      ...text(200, 'x'.repeat(Number(parameters['count']))),
      headers: { 'content-type': 'text/plain', 'x-several': ['one', 'two'] },
    }),
  },
];

let api: ApiServer;
let listener: Listener;
let port: number;

beforeAll(async () => {
  api = await new ApiServer({ endpoints, gate: async () => null }).open();
  listener = new Listener({ address: '127.0.0.1', port: 0, accept: (socket) => api.accept(socket), tls: null });
  port = await listener.listen();
});
afterAll(async () => {
  await listener.close();
  await api.close();
});

const CHUNKED = { length: undefined, coding: 'chunked' };
const WHOLE = { length: String(BUFFER_BYTES), coding: undefined };
const NEITHER = { length: undefined, coding: undefined };

it.each([
  ['GET', BUFFER_BYTES, WHOLE, BUFFER_BYTES],
  ['GET', BUFFER_BYTES + 1, CHUNKED, BUFFER_BYTES + 1],
  ['POST', BUFFER_BYTES + 1, CHUNKED, BUFFER_BYTES + 1],
  ['HEAD', BUFFER_BYTES, WHOLE, 0],
  ['HEAD', BUFFER_BYTES + 1, NEITHER, 0],
])('%s of %d bytes', async (method, count, said, got) => {
  const reply = await exchange(method, `/bytes/${count}`, { port, isPlain: true });
  expect({ length: headerOf(reply, 'content-length'), coding: headerOf(reply, 'transfer-encoding') }).toEqual(said);
  expect([reply.status, reply.body.length, headerOf(reply, 'content-type')]).toEqual([200, got, 'text/plain']);
  expect(reply.headers.filter(([name]) => name === 'x-several').map(([, value]) => value)).toEqual(['one', 'two']);
});

it('a client of HTTP/1.0 gets no chunks: the answer ends with the connection', async () => {
  const bytes = await exchangeRaw(`GET /bytes/${BUFFER_BYTES + 1} HTTP/1.0\r\n\r\n`, { port, isPlain: true });
  const [head = '', body] = bytes.toString('latin1').split('\r\n\r\n');
  expect(head).not.toMatch(/transfer-encoding|content-length/i);
  expect(body).toBe('x'.repeat(BUFFER_BYTES + 1));
});

it('a connection stays open after an answer in chunks', async () => {
  const asked = `GET /bytes/${BUFFER_BYTES + 1} HTTP/1.1\r\nHost: node1\r\n`;
  const bytes = await exchangeRaw(`${asked}\r\n${asked}Connection: close\r\n\r\n`, { port, isPlain: true });
  expect(bytes.toString('latin1').match(/HTTP\/1\.1 200 OK/g)).toHaveLength(2);
});
