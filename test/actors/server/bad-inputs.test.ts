/** Invalid requests: thousands of them, endless, huge and slow ones, and clients that do not read or disconnect. */
import { appendFileSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HEADER_MAX_BYTES } from '../../../src/actors/server/http/api-server.ts';
import { targetOf } from '../../../src/actors/server/http/requests.ts';
import { CLIENT_CONNECTIONS_MAX } from '../../../src/actors/server/tls/listener.ts';
import { Authority } from '../../fakes/api-server/pki.ts';
import { connect, exchange, exchangeRaw, headerOf, parseReply } from './exchange.ts';
import { GoldenNode } from './golden-node.ts';
import { recordings } from './golden-records.ts';

const FUZZED = 10_000;
const SEED = 20_261_121;
/** The limits are short here; the server's own limits are in `api-server.ts`. */
const LIMITS = { headMs: 400, requestMs: 800, checkEveryMs: 100 };

let node: GoldenNode;
let secure: number;
let open: number;

beforeAll(async () => {
  node = await GoldenNode.start();
  secure = await node.serve('A');
  open = await node.serveOpenly(LIMITS);
});
afterAll(() => node.close());

const isAlive = async (): Promise<boolean> =>
  (await exchange('GET', '/healthz', { port: secure, shown: node.shown('x509-admin') })).status === 200;

/** Profiles take seconds and a stream stays open: other tests cover them. */
const isQuick = (path: string): boolean => !/pprof\/(profile|trace|heap|allocs)|follow=/.test(path);
const paths = [...new Set(recordings().flatMap(({ request }) => request.path ?? []))].filter(
  (path) => path.length < 300 && isQuick(path),
);
const piece = fc.oneof(
  fc.constantFrom(
    '..',
    '.',
    '%2e%2e',
    '%2f',
    '%00',
    '%',
    '%zz',
    ';',
    '?',
    '#',
    '//',
    '\\',
    '%0d%0aSet-Cookie:x',
    'é',
    '=',
  ),
  fc.string({ maxLength: 12 }),
  fc.constantFrom(...paths),
);
const path = fc.oneof(
  fc.constantFrom(...paths),
  fc
    .tuple(fc.constantFrom(...paths), piece, fc.nat(80))
    .map(([base, odd, at]) => base.slice(0, at) + odd + base.slice(at)),
  fc.array(piece, { maxLength: 5 }).map((parts) => `/${parts.join('/')}`),
);
const method = fc.oneof(
  {
    weight: 20,
    arbitrary: fc.constantFrom('GET', 'GET', 'GET', 'POST', 'HEAD', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE'),
  },
  fc.constantFrom('FOO', 'get', 'CONNECT', 'PRI', '', 'G\0T', 'M'.repeat(70)),
);
const header = fc.oneof(
  fc.constantFrom(
    'Accept: */*;q=x',
    'Accept-Encoding: gzip',
    'Authorization: Bearer x',
    'Content-Length: -1',
    'Content-Length: 9',
    'Expect: 100-continue',
    'Host: b',
    'Range: bytes=9-1',
    'Transfer-Encoding: chunked',
    'Transfer-Encoding: gzip, chunked',
    'Upgrade: websocket',
    'Connection: Upgrade',
    ' folded',
    ':',
  ),
  fc.tuple(fc.string({ maxLength: 8 }), fc.string({ maxLength: 30 })).map(([name, value]) => `${name}: ${value}`),
);
const request = fc
  .record({
    method,
    path: fc.oneof(
      path.map((text) => encodeURI(text.toWellFormed()).replaceAll('%25', '%')),
      path,
    ),
    headers: fc.oneof(fc.constant([]), fc.constant([]), fc.array(header, { maxLength: 3 })),
    body: fc.oneof(fc.constant(''), fc.string({ maxLength: 20 })),
    version: fc.oneof({ weight: 12, arbitrary: fc.constant('1.1') }, fc.constantFrom('1.0', '2.0', '9', 'x')),
  })
  .map(({ method, path, headers, body, version }) =>
    [
      `${method} ${path} HTTP/${version}`,
      'Host: node1',
      'Connection: close',
      ...(body === '' ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]),
      ...headers,
      '',
      body,
    ].join('\r\n'),
  );

/** Allowed answers: none, or a valid HTTP head that redirects to no other place. */
function checkAnswer(bytes: Buffer, sent: string): void {
  if (bytes.length === 0) return;
  expect(bytes.toString('latin1', 0, 7), sent).toBe('HTTP/1.');
  const reply = parseReply(bytes);
  expect(reply.status, `${sent}\n${reply.body.toString().slice(0, 300)}`).toBeLessThan(600);
  expect(headerOf(reply, 'location') ?? '/', sent).toMatch(/^(\/(?!\/)|[^/:]+\/$)/);
  expect(reply.headers.filter(([name]) => name.toLowerCase() === 'set-cookie')).toEqual([]);
}

/**
 * Sends bytes over a new connection and returns what arrives until its end; does not wait for a server that waits for
 * more.
 */
async function send(text: string): Promise<Buffer> {
  const socket = await connect({ port: open, isPlain: true });
  const chunks: Buffer[] = [];
  const closed = new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, 30_000);
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('error', () => {});
    socket.once('close', () => (clearTimeout(timer), resolve()));
  });
  socket.end(text);
  await closed;
  socket.destroy();
  return Buffer.concat(chunks);
}

describe('fuzzed requests', () => {
  it(`${FUZZED} of them crash nothing and leave nothing`, { timeout: 240_000 }, async () => {
    const texts = fc.sample(request, { numRuns: FUZZED, seed: SEED });
    const answers = new Map<number, number>();
    const before = await settledHeap();
    const work = async () => {
      for (let text = texts.pop(); text !== undefined; text = texts.pop()) {
        const bytes = await send(text);
        checkAnswer(bytes, text);
        const status = bytes.length === 0 ? 0 : parseReply(bytes).status;
        answers.set(status, (answers.get(status) ?? 0) + 1);
        expect(status === 500 ? parseReply(bytes).body.toString() : '', text).not.toMatch(/^Internal Error/);
      }
    };
    await Promise.all(Array.from({ length: 16 }, work));
    const counts = [...answers].toSorted(([one], [other]) => one - other).map(([status, n]) => `${status}: ${n}`);
    process.stdout.write(`${FUZZED} fuzzed requests: ${counts.join(', ')}\n`);
    expect(await isAlive()).toBe(true);
    const grownMiB = ((await settledHeap()) - before) / 2 ** 20;
    expect(grownMiB, 'heap that stayed').toBeLessThan(40);
    const { body } = await exchange('GET', '/metrics', { port: secure, shown: node.shown('x509-admin') });
    const series = body.toString().match(/^kubelet_http_requests_total\{/gm) ?? [];
    expect(series.length, 'label values are few, whatever was sent').toBeLessThan(400);
  });

  it('what follows a request never cuts into its answer', async () => {
    const bytes = await exchangeRaw('GET /pods HTTP/1.1\r\nHost: node1\r\n\r\n\0garbage\r\n\r\n', {
      port: open,
      isPlain: true,
      quietMs: 2_000,
    });
    const reply = parseReply(bytes);
    expect(reply.status).toBe(200);
    expect(bytes.toString().match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect((JSON.parse(reply.body.toString()) as { kind: string }).kind).toBe('PodList');
  });

  it('no target leads out of this server, whatever it is', () => {
    fc.assert(
      fc.property(fc.oneof(path, fc.webUrl(), fc.string()), (url) => {
        const target = targetOf(url);
        expect(target.kind === 'redirect' ? target.location : '/').toMatch(/^\/(?!\/)/);
        expect(target.kind === 'resource' ? target.route : '').not.toMatch(/[^\x21-\x7e]/);
      }),
      { numRuns: 5_000, seed: SEED },
    );
  });
});

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

async function settledHeap(): Promise<number> {
  await pause(200);
  collect();
  return process.memoryUsage().heapUsed;
}

/** Writes until the other side takes no more; resolves with the sent bytes and the answer. */
async function flood(socket: Socket, chunk: string, totalBytes: number) {
  const chunks: Buffer[] = [];
  socket.on('data', (data: Buffer) => chunks.push(data)).on('error', () => {});
  let sent = 0;
  while (sent < totalBytes && !socket.destroyed && socket.writable) {
    sent += chunk.length;
    if (!socket.write(chunk)) {
      await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), pause(500)]);
      if (chunks.length > 0) break;
    }
  }
  for (let tries = 0; tries < 300 && chunks.length === 0 && !socket.destroyed; tries++) await pause(100);
  await pause(100);
  socket.destroy();
  return { sent, answer: Buffer.concat(chunks).toString('latin1') };
}

describe('too much', () => {
  it('100 MB of headers end at the limit', async () => {
    const socket = await connect({ port: secure, shown: node.shown('none') });
    socket.write('GET /healthz HTTP/1.1\r\nHost: node1\r\n');
    const { sent, answer } = await flood(socket, `X-Big: ${'a'.repeat(65_536)}\r\n`, 100_000_000);
    expect(answer).toMatch(/^HTTP\/1\.1 431 Request Header Fields Too Large\r\n/);
    expect(sent).toBeLessThan(HEADER_MAX_BYTES * 8);
  });

  it('an endless body is not read', async () => {
    const socket = await connect({ port: secure, shown: node.shown('x509-admin') });
    socket.write('POST /pods HTTP/1.1\r\nHost: node1\r\nTransfer-Encoding: chunked\r\n\r\n');
    const { sent, answer } = await flood(socket, `10000\r\n${'a'.repeat(65_536)}\r\n`, 200_000_000);
    expect(answer).toMatch(/^HTTP\/1\.1 405 Method Not Allowed\r\n/);
    expect(sent).toBeLessThan(20_000_000);
  });

  it('an endless body of which the beginning is read is answered, too', async () => {
    const socket = await connect({ port: secure, shown: node.shown('x509-admin') });
    socket.write('PUT /debug/flags/v HTTP/1.1\r\nHost: node1\r\nTransfer-Encoding: chunked\r\n\r\n');
    const { answer } = await flood(socket, `10000\r\n${'1'.repeat(65_536)}\r\n`, 20_000_000);
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(await isAlive()).toBe(true);
  });

  it('a client that opens more connections than allowed loses its oldest, and the port serves all clients', async () => {
    const sockets: Socket[] = [];
    let closed = 0;
    for (let nth = 0; nth < CLIENT_CONNECTIONS_MAX + 50; nth++) {
      const socket = await connect({ port: secure, isPlain: true });
      socket.on('error', () => {}).once('close', () => closed++);
      sockets.push(socket);
    }
    await expect.poll(() => closed).toBeGreaterThanOrEqual(50);
    expect(await isAlive()).toBe(true);
    for (const socket of sockets) socket.destroy();
    await expect.poll(isAlive).toBe(true);
  });

  it('HTTP/2 is refused before any stream of it', async () => {
    const answer = await exchangeRaw('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', {
      port: secure,
      shown: node.shown('x509-admin'),
      quietMs: 1_000,
    });
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 (400|505) /);
  });
});

describe('too slow', () => {
  it('a head that comes letter by letter is not waited for', async () => {
    const socket = await connect({ port: open, isPlain: true });
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.on('error', () => {});
    socket.resume();
    const began = performance.now();
    const letters = setInterval(() => socket.write('X'), 50);
    socket.write('GET /healthz HTTP/1.1\r\n');
    await closed;
    clearInterval(letters);
    expect(performance.now() - began).toBeLessThan(20_000);
  });

  it.each(['', 'GET /healthz HTTP/1.1\r\n'])('after %j nothing is said, only closed', async (sent) => {
    expect((await exchangeRaw(sent, { port: open, isPlain: true, withinMs: 20_000 })).toString()).toBe('');
  });

  it('a hundred of them do not keep other clients from being served', async () => {
    const sockets = await Promise.all(Array.from({ length: 100 }, () => connect({ port: secure, shown: {} })));
    for (const socket of sockets) socket.on('error', () => {}).write('GET / HTTP/1.1\r\nX-Slow: ');
    expect(await isAlive()).toBe(true);
    for (const socket of sockets) socket.destroy();
  });
});

const logOf = (name: string): string => node.pods.find((pod) => pod.name === name)!.runtime!.containers[0]!.log_path;
const LINE = `2026-11-21T07:00:00.000000000Z stdout F ${'l'.repeat(1_000)}\n`;
/** The descriptors of this thread; the process has those of others. */
function held(): number {
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
const watchers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'FSEventWrap').length;

describe('a client of a log', () => {
  it('that never reads holds a few buffers, not the log', async () => {
    writeFileSync(logOf('target'), LINE.repeat(60_000));
    const before = held();
    const socket = await connect({ port: secure, shown: node.shown('x509-admin') });
    socket.pause();
    socket.write('GET /containerLogs/default/target/main HTTP/1.1\r\nHost: node1\r\n\r\n');
    await pause(1_000);
    expect((held() - before) / 2 ** 20, 'MiB').toBeLessThan(48);
    expect(await isAlive()).toBe(true);
    socket.destroy();
    writeFileSync(logOf('target'), '');
  });

  it('that vanishes while it follows leaves no watch behind', async () => {
    const before = watchers();
    const sockets = await Promise.all(
      Array.from({ length: 20 }, () => connect({ port: secure, shown: node.shown('x509-admin') })),
    );
    for (const socket of sockets) {
      socket.write('GET /containerLogs/default/lines/main?follow=1&tailLines=1 HTTP/1.1\r\nHost: node1\r\n\r\n');
    }
    await expect.poll(watchers).toBeGreaterThanOrEqual(before + 20);
    for (const socket of sockets) socket.destroy();
    appendFileSync(logOf('lines'), '');
    await expect.poll(watchers).toBeLessThanOrEqual(before);
  });
});

describe('certificates that do not count', () => {
  it.each([
    ['not valid yet', { notBefore: new Date(Date.now() + 3_600_000) }, 401],
    ['not valid any more', { notBefore: new Date('2020-01-01'), notAfter: new Date('2020-02-01') }, 401],
    ['for servers', { usages: ['server auth'] }, 401],
    ['without a name of a host, which clients need not have', {}, 200],
  ])('%s', async (_, options, status) => {
    const admin = { commonName: 'admin', organizations: ['system:masters'], usages: ['client auth'] };
    const certificate = await node.authority.issue({ ...admin, ...options });
    expect((await exchange('GET', '/healthz', { port: secure, shown: { certificate } })).status).toBe(status);
  });

  it('of another authority', async () => {
    const other = await Authority.create('golden-ca');
    const certificate = await other.issue({
      commonName: 'admin',
      organizations: ['system:masters'],
      usages: ['client auth'],
    });
    expect((await exchange('GET', '/healthz', { port: secure, shown: { certificate } })).status).toBe(401);
  });
});

describe('paths that want out', () => {
  it.each([
    '/containerLogs/default/..%2f..%2fetc/passwd',
    '/containerLogs/default/%252e%252e%252f/main',
    '/containerLogs/..%2f..%2f/lines/main',
    '/logs/%252e%252e/etc/passwd',
    '/logs/..%2f..%2f..%2fetc%2fpasswd',
    '/logs/%2e%2e/%2e%2e/etc/passwd',
    '/logs/etc%00',
    '/logs/link',
  ])('%s', async (wanted) => {
    const { status, body } = await exchange('GET', wanted, { port: secure, shown: node.shown('x509-admin') });
    expect(status).toBe(404);
    expect(body.toString()).not.toContain('root:');
  });
});
