/** HTTP probes of real servers, correct and incorrect ones: a probe takes at most its timeout and 10 KiB. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { probePorts } from '../../../src/actors/probe/index.ts';
import { Vault } from '../../../src/kernel/journal/secrets.ts';
import { OperationError } from '../../../src/kernel/json.ts';
import { perform, temporaryFolder } from '../../support/host-ports.ts';
import { freePort } from '../../support/ports.ts';
import { attempt, HASTY, httpServer, portsOf, rawServer, watch } from './support.ts';

const get = (port: number, path = '/', headers: { name: string; value: string }[] = []) =>
  ({ kind: 'httpGet', url: `http://127.0.0.1:${port}${path}`, headers }) as const;
const OK = 'HTTP/1.1 200 OK\r\n';
const LATE = 'context deadline exceeded (Client.Timeout exceeded while awaiting headers)';

describe('an answer', () => {
  it.each([
    [200, 'success'],
    [204, 'success'],
    [299, 'success'],
    [400, 'failure'],
    [404, 'failure'],
    [500, 'failure'],
    [599, 'failure'],
  ])('of %i is %s', async (status, verdict) => {
    const port = await httpServer((_, response) => response.writeHead(status).end('body'));
    const output = verdict === 'failure' ? `HTTP probe failed with statuscode: ${status}` : '';
    expect(await attempt(get(port))).toMatchObject({ verdict, output });
  });

  it.each([
    ['with bare line feeds', 'HTTP/1.1 200 OK\nContent-Type: text/plain\n\nok'],
    ['with a body in chunks and its length', `${OK}Content-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['with a header over several lines', `${OK}X-A: b\r\n c\r\n\r\nok`],
    ['with more than its length', `${OK}Content-Length: 2\r\n\r\nok and more`],
    ['with a body where there is none', 'HTTP/1.1 204 No Content\r\n\r\nbody'],
    ['with more headers than Node takes', `${OK}X-A: ${'a'.repeat(100_000)}\r\n\r\nok`],
  ])('%s is one to Go, and here', async (_, text) => {
    const port = await rawServer((socket) => socket.once('data', () => socket.end(text)));
    expect(await attempt(get(port))).toMatchObject({ verdict: 'success' });
  });

  it('that switches to a protocol without a request for it is a failure', async () => {
    const port = await rawServer((socket) => {
      socket.once('data', () =>
        socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n'),
      );
    });
    const output = 'HTTP probe failed with statuscode: 101';
    expect(await attempt(get(port))).toMatchObject({ verdict: 'failure', output });
  });

  it('that never ends is read as far as it matters', async () => {
    let sent = 0;
    const port = await httpServer((_, response) => {
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536))) sent += 65_536;
        if (!response.destroyed) response.once('drain', more);
      };
      response.writeHead(200, { 'content-length': 10_000_000_000 });
      more();
    });
    expect(await attempt(get(port))).toMatchObject({ verdict: 'success' });
    expect(sent).toBeLessThan(16 * 1024 * 1024);
  });
});

describe('a request', () => {
  async function headersOf(headers: { name: string; value: string }[]): Promise<IncomingHttpHeaders> {
    let seen: IncomingHttpHeaders = {};
    const port = await httpServer((request, response) => {
      seen = request.headers;
      response.end();
    });
    await attempt(get(port, '/', headers));
    return seen;
  }

  it('says who asks, and keeps no connection', async () => {
    const { host: _host, ...headers } = await headersOf([]);
    expect(headers).toEqual({ 'user-agent': 'kube-probe/1.36', accept: '*/*', connection: 'close' });
  });

  it('has the headers that the probe wants, also instead of its own', async () => {
    const wanted = { 'x-a': 'b', host: 'example.test', 'user-agent': 'mine', accept: 'text/plain' };
    const headers = await headersOf(Object.entries(wanted).map(([name, value]) => ({ name, value })));
    expect(headers).toMatchObject(wanted);
  });

  it('may have a header with a name that every object has', async () => {
    const headers = ['constructor', 'Constructor'].map((name) => ({ name, value: `of ${name}` }));
    expect(await headersOf(headers)).toMatchObject({
      constructor: 'of constructor, of Constructor',
    });
  });

  it('leaves out what is set to nothing', async () => {
    const headers = await headersOf([
      { name: 'Accept', value: '' },
      { name: 'User-Agent', value: '' },
    ]);
    expect(Object.keys(headers).toSorted()).toEqual(['connection', 'host']);
  });

  it('with a header that HTTP forbids fails, and says so', async () => {
    const port = await httpServer((_, response) => response.end());
    const outcome = await attempt(get(port, '/', [{ name: 'X-A', value: 'a\r\nb: c' }]));
    expect(outcome.verdict).toBe('failure');
    expect(outcome.output).toContain('X-A'.toLowerCase());
  });

  it('ignores the proxies of the environment', async () => {
    const before = process.env['http_proxy'];
    process.env['http_proxy'] = `http://127.0.0.1:${await freePort()}`;
    onTestFinished(() => {
      if (before === undefined) delete process.env['http_proxy'];
      else process.env['http_proxy'] = before;
    });
    const port = await httpServer((_, response) => response.end());
    expect(await attempt(get(port))).toMatchObject({ verdict: 'success' });
  });
});

describe('a redirect', () => {
  it('on the same host is followed', async () => {
    const port = await httpServer((request, response) =>
      request.url === '/end' ? response.end() : response.writeHead(302, { location: '/end' }).end(),
    );
    expect(await attempt(get(port))).toMatchObject({ verdict: 'success', result: null });
  });

  it('to another host is a success with a warning', async () => {
    const port = await httpServer((_, response) =>
      response.writeHead(302, { location: 'http://other.test/' }).end('x'),
    );
    expect(await attempt(get(port))).toEqual({
      verdict: 'success',
      result: 'warning',
      output: 'Probe terminated redirects, Response body: x',
    });
  });

  it('that comes back for ever ends', async () => {
    let requests = 0;
    const port = await httpServer((_, response) => {
      requests++;
      response.writeHead(307, { location: '/again' }).end();
    });
    const outcome = await attempt(get(port));
    expect(outcome).toMatchObject({ verdict: 'failure' });
    expect(outcome.output).toBe(`Get "http://127.0.0.1:${port}/again": stopped after 10 redirects`);
    expect(requests).toBe(10);
  });

  it('to a URL of ten megabytes fails, and is quoted in part', async () => {
    const headers = `HTTP/1.1 302 Found\r\ncontent-length: 0\r\nlocation: http://127.0.0.1:1/${'"'.repeat(10_000_000)}`;
    const port = await rawServer((socket) => socket.once('data', () => socket.end(`${headers}\r\n\r\n`)));
    const { verdict, output } = await attempt(get(port));
    expect([verdict, output.length]).toEqual(['failure', 10_240]);
    expect(output).toContain('failed to parse Location header "http://127.0.0.1:1/\\"');
  });

  it('to a long URL without an answer is quoted in part', async () => {
    const location = `http://127.0.0.1:${await freePort()}/${'a'.repeat(60_000)}`;
    const port = await httpServer((_, response) => response.writeHead(302, { location }).end());
    const { verdict, output } = await attempt(get(port));
    expect([verdict, output.length]).toEqual(['failure', 10_240]);
  });

  it('to what is no HTTP fails', async () => {
    const port = await httpServer((_, response) => response.writeHead(302, { location: 'file://127.0.0.1/x' }).end());
    expect(await attempt(get(port))).toMatchObject({ verdict: 'failure' });
  });
});

describe('a server', () => {
  it('that is not there', async () => {
    const port = await freePort();
    const output = `Get "http://127.0.0.1:${port}/": dial tcp 127.0.0.1:${port}: connect: connection refused`;
    expect(await attempt(get(port))).toEqual({ verdict: 'failure', result: 'failure', output });
  });

  it('that says nothing has the time of the probe', async () => {
    const port = await rawServer(() => {});
    const before = performance.now();
    const outcome = await attempt(get(port), HASTY);
    expect(outcome).toMatchObject({ verdict: 'failure', output: `Get "http://127.0.0.1:${port}/": ${LATE}` });
    expect(performance.now() - before).toBeGreaterThanOrEqual(HASTY.timeoutSeconds * 990);
  });

  it('that sends its headers a byte a time has no more', async () => {
    const port = await rawServer((socket) => {
      const timer = setInterval(() => socket.write('x'), 20);
      socket.write('HTTP/1.1 200 OK\r\n');
      socket.on('close', () => clearInterval(timer));
    });
    expect(await attempt(get(port), HASTY)).toMatchObject({ verdict: 'failure' });
  });

  it('that sends headers without end is cut off', async () => {
    const port = await rawServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      const more = (): void => {
        while (!socket.destroyed && socket.write(`X-A: ${'a'.repeat(1_000)}\r\n`));
        if (!socket.destroyed) socket.once('drain', more);
      };
      more();
    });
    expect(await attempt(get(port))).toMatchObject({ verdict: 'failure' });
  });

  it('that only says that it goes on is cut off', async () => {
    let sent = 0;
    const interim = 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(1_000);
    const port = await rawServer((socket) => {
      const more = (): void => {
        while (!socket.destroyed && socket.write(interim)) sent += interim.length;
        if (!socket.destroyed) socket.once('drain', more);
      };
      socket.once('data', more);
    });
    expect(await attempt(get(port), { timeoutSeconds: 60 })).toMatchObject({
      verdict: 'failure',
      output: expect.stringContaining('server response headers exceeded 10485760 bytes; aborted'),
    });
    expect(sent).toBeLessThan(8 * 1024 * 1024);
  });

  it('that hangs up', async () => {
    const port = await rawServer((socket) => socket.once('data', () => socket.end()));
    expect(await attempt(get(port))).toMatchObject({
      verdict: 'failure',
      output: `Get "http://127.0.0.1:${port}/": EOF`,
    });
  });

  it.each([
    ['speaks something else', 'SSH-2.0-OpenSSH\r\n'],
    ['sends nonsense', '\u0000\u0001\u0002\r\n\r\n'],
  ])('that %s', async (_, greeting) => {
    const port = await rawServer((socket) => socket.end(greeting));
    const outcome = await attempt(get(port));
    expect(outcome).toMatchObject({ verdict: 'failure' });
    expect(outcome.output).toContain('malformed');
  });

  it.each([
    ['with a chunk that is none', 'transfer-encoding: chunked\r\n\r\nZZ\r\nhello'],
    ['that ends too early', 'content-length: 100\r\n\r\nhello'],
  ])('whose body is one %s judges nothing', async (_, rest) => {
    const port = await rawServer((socket) => socket.once('data', () => socket.end(`HTTP/1.1 200 OK\r\n${rest}`)));
    const stream = watch(get(port));
    const report = await stream.until(({ type }) => type === 'probe.reported', 60_000);
    await stream.close();
    expect(report).toMatchObject({ result: 'errored', state: 'failure' });
    expect(stream.items).toHaveLength(1);
  });
});

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

describe.skipIf(!hasOpenssl)('TLS', () => {
  async function tlsServer(): Promise<number> {
    const folder = await temporaryFolder();
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    const made = [
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-keyout',
      key,
      '-out',
      cert,
      '-days',
      '1',
      '-subj',
      '/CN=other.test',
    ];
    spawnSync('openssl', ['req', '-x509', ...made]);
    const server = createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) }, (_, response) =>
      response.end(),
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => server.close().closeAllConnections());
    return (server.address() as AddressInfo).port;
  }

  it('accepts every certificate', async () => {
    const handler = { kind: 'httpGet', url: `https://127.0.0.1:${await tlsServer()}/`, headers: [] } as const;
    expect(await attempt(handler)).toMatchObject({ verdict: 'success' });
  });

  it('with a server that does not speak it fails', async () => {
    const port = await httpServer((_, response) => response.end());
    const outcome = await attempt({ kind: 'httpGet', url: `https://127.0.0.1:${port}/`, headers: [] });
    expect(outcome).toMatchObject({ verdict: 'failure' });
    expect(outcome.output).toContain('http: server gave HTTP response to HTTPS client');
  });
});

describe('a hook', () => {
  const call = (url: string) => perform(portsOf()['probe.httpHook'], { url, headers: [] });

  it('accepts any answer, and names itself as the client', async () => {
    const agents: unknown[] = [];
    const port = await httpServer((request, response) => {
      agents.push(request.headers['user-agent']);
      response.writeHead(500).end();
    });
    expect(await call(`http://127.0.0.1:${port}/`)).toEqual({ fellBack: false });
    expect(agents).toEqual(['kube-lifecycle/1.36']);
  });

  it('over HTTPS falls back to HTTP if the server has no TLS', async () => {
    const port = await httpServer((_, response) => response.end());
    expect(await call(`https://127.0.0.1:${port}/`)).toEqual({ fellBack: true });
  });

  it('that falls back to HTTP does not send its credentials there', async () => {
    const sent: IncomingHttpHeaders[] = [];
    const port = await httpServer((request, response) => {
      sent.push(request.headers);
      response.end();
    });
    const headers = [
      { name: 'AUTHORIZATION', value: 'Bearer of a hook' },
      { name: 'X-Other', value: 'kept' },
    ];
    await perform(portsOf()['probe.httpHook'], { url: `https://127.0.0.1:${port}/`, headers });
    expect(sent).toHaveLength(1);
    expect(sent[0]).toMatchObject({ 'x-other': 'kept' });
    expect(sent[0]).not.toHaveProperty('authorization');
  });

  it('is not led to another host, and is content with the redirect', async () => {
    const visited: unknown[] = [];
    const other = await httpServer((request, response) => {
      visited.push(request.headers);
      response.end();
    });
    const port = await httpServer((_, response) =>
      response.writeHead(302, { location: `http://localhost:${other}/` }).end(),
    );
    expect(await call(`http://127.0.0.1:${port}/`)).toEqual({ fellBack: false });
    expect(visited).toEqual([]);
  });

  it('without an answer fails', async () => {
    const port = await freePort();
    await expect(call(`http://127.0.0.1:${port}/`)).rejects.toThrow('connection refused');
    await expect(call(`https://127.0.0.1:${port}/`)).rejects.toThrow('connection refused');
  });
});

it('a header whose value is known by a handle is sent as it was written', async () => {
  const vault = new Vault(Buffer.alloc(32, 1));
  const sent: IncomingHttpHeaders[] = [];
  const port = await httpServer((request, response) => {
    sent.push(request.headers);
    response.end();
  });
  const headers = [{ name: 'X-Token', value: vault.seal('Bearer of a probe').$secret }];
  const ports = probePorts({ 'cri.execSync': () => Promise.reject(new Error('none')) }, undefined, vault);
  await perform(ports['probe.httpHook'], { url: `http://127.0.0.1:${port}/`, headers });
  expect(sent[0]).toMatchObject({ 'x-token': 'Bearer of a probe' });
});

it('a command gets the values behind its handles, and its error is told without them', async () => {
  const vault = new Vault(Buffer.alloc(32, 1));
  const secret = vault.seal('value-of-a-variable');
  const commands: (readonly string[])[] = [];
  const execSync = ({ input }: { input: { command: readonly string[] } }) => {
    commands.push(input.command);
    return Promise.reject(new OperationError(`exec ${input.command.join(' ')}: not found`));
  };
  const command = ['check', `--as=${secret.$secret}`];
  const ports = probePorts({ 'cri.execSync': execSync }, undefined, vault);
  const { output } = await attempt({ kind: 'exec', containerId: 'c', command, secrets: [secret] }, {}, ports);
  expect(commands[0]).toEqual(['check', '--as=value-of-a-variable']);
  expect(output).toBe(`exec check --as=${secret.$secret}: not found`);
});
