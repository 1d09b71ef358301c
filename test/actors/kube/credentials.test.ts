/** The credentials of the node at the API server, while they change, and the proxies on the way to it. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type ApiServer, startApiServer } from '../../fakes/api-server/index.ts';
import { bench, pod, pods, settings } from './support.ts';

let server: ApiServer;
let node: ReturnType<typeof bench>;
beforeEach(async () => {
  server = await startApiServer();
  node = bench();
  await node.ask('kube.connect', settings(await server.kubeconfig('n1')));
});
afterEach(async () => {
  await node?.connection.close();
  await server?.close();
});

describe('credentials', () => {
  it('reads a token from disk again when the server refuses the old one', async () => {
    const directory = mkdtempSync(join(server.directory, 'token-'));
    const tokenFile = join(directory, 'token');
    writeFileSync(tokenFile, 'old\n');
    server.users.tokens.set('old', { name: 'robot', groups: [] });
    await node.ask('kube.connect', settings(await server.kubeconfig('robot', { tokenFile })));
    server.create(pod('a'));
    await node.ask('kube.get', pods('a'));
    server.users.tokens.delete('old');
    server.users.tokens.set('new', { name: 'robot', groups: [] });
    writeFileSync(tokenFile, 'new\n');
    await expect(node.ask('kube.get', pods('a'))).resolves.toMatchObject({ metadata: { name: 'a' } });
    rmSync(tokenFile);
    await node.ask('kube.closeConnections', {});
    await expect(node.ask('kube.get', pods('a'))).resolves.toMatchObject({ metadata: { name: 'a' } });
  });

  it('names no login that stands in the URL of the server', async () => {
    const file = await server.kubeconfig('n1');
    const text = readFileSync(file, 'utf8').replace('https://', 'https://me:canary-password@');
    writeFileSync(file, text);
    const { server: named } = await node.ask('kube.connect', settings(file));
    expect(named).toMatch(/^https:\/\/<masked>@127\.0\.0\.1:\d+$/);
  });

  it('says what the server says when nothing helps', async () => {
    await node.ask('kube.connect', settings(await server.kubeconfig('nobody', { token: 'wrong' })));
    await expect(node.ask('kube.get', pods('a'))).rejects.toMatchObject({
      message: 'Unauthorized',
      code: 'Unauthorized',
    });
  });

  it('uses a rotated certificate after connections were closed', async () => {
    const rotated = join(server.directory, 'current.pem');
    const kubeconfig = await server.kubeconfig('old');
    await node.ask('kube.connect', settings(kubeconfig, { certificateFile: rotated }));
    await node.ask('kube.list', pods());
    const { cert, key } = await server.authority.issue({ commonName: 'system:node:new', usages: ['client auth'] });
    writeFileSync(rotated, cert + key);
    await node.ask('kube.closeConnections', {});
    await node.ask('kube.list', pods());
    expect(server.requests.map(({ user }) => user)).toEqual(['old', 'system:node:new']);
  });

  it('uses the old certificate until the key of the new one exists, too', async () => {
    const [certificate, key] = ['cert.pem', 'key.pem'].map((name) => join(server.directory, name)) as [string, string];
    const [old, next] = await Promise.all(
      ['old', 'new'].map((commonName) => server.authority.issue({ commonName, usages: ['client auth'] })),
    );
    const kubeconfig = await server.kubeconfig('pair');
    const config = JSON.parse(readFileSync(kubeconfig, 'utf8')) as { users: { user: unknown }[] };
    config.users[0]!.user = { 'client-certificate': certificate, 'client-key': key };
    writeFileSync(kubeconfig, JSON.stringify(config));
    const steps = [
      [certificate, old!.cert],
      [key, old!.key],
      [certificate, next!.cert],
      [key, next!.key],
    ] as const;
    for (const [file, content] of steps.slice(0, 2)) writeFileSync(file, content);
    await node.ask('kube.connect', settings(kubeconfig));
    await node.ask('kube.list', pods());
    for (const [file, content] of steps.slice(2)) {
      writeFileSync(file, content);
      await node.ask('kube.closeConnections', {});
      await node.ask('kube.list', pods());
    }
    expect(server.requests.map(({ user }) => user)).toEqual(['old', 'old', 'new']);
  });

  it('asks an exec plugin', async () => {
    server.users.tokens.set('from-plugin', { name: 'plugin', groups: [] });
    const kubeconfig = await server.kubeconfig('plugin', { token: 'unused' });
    const config = JSON.parse(readFileSync(kubeconfig, 'utf8')) as { users: { user: unknown }[] };
    const answer = JSON.stringify({
      apiVersion: 'client.authentication.k8s.io/v1',
      kind: 'ExecCredential',
      status: { token: 'from-plugin' },
    });
    const exec = {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: 'printf',
      args: ['%s', answer],
      interactiveMode: 'Never',
    };
    config.users[0]!.user = { exec };
    writeFileSync(kubeconfig, JSON.stringify(config));
    await node.ask('kube.connect', settings(kubeconfig));
    await node.ask('kube.list', pods());
    expect(server.requests.at(-1)?.user).toBe('plugin');
  });
});

describe('what a request says of its user', () => {
  /** A server that keeps the headers of its last request. */
  async function heard(user: object): Promise<IncomingHttpHeaders> {
    let headers: IncomingHttpHeaders = {};
    const plain = createServer((request, response) => {
      headers = request.headers;
      response.setHeader('content-type', 'application/json').end('{"metadata":{},"items":[]}');
    });
    await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve));
    const kubeconfig = await server.kubeconfig('headers');
    const config = JSON.parse(readFileSync(kubeconfig, 'utf8')) as { clusters: object[]; users: { user: unknown }[] };
    const { port } = plain.address() as AddressInfo;
    config.clusters = [{ name: 'test', cluster: { server: `127.0.0.1:${port}` } }];
    config.users[0]!.user = user;
    writeFileSync(kubeconfig, JSON.stringify(config));
    await node.ask('kube.connect', settings(kubeconfig));
    await node.ask('kube.list', pods()).catch(() => undefined);
    plain.closeAllConnections();
    await new Promise((resolve) => plain.close(resolve));
    return headers;
  }

  it('has no credentials without TLS, and a server without a scheme has none', async () => {
    const { authorization, accept } = await heard({ token: 'canary' });
    expect({ authorization, accept }).toEqual({ authorization: undefined, accept: 'application/json' });
  });

  it('names the user on whose behalf it is', async () => {
    const extra = { 'example.com/Scope': ['x', 'y'] };
    const user = { as: 'other', 'as-uid': '7', 'as-groups': ['g', 'h'], 'as-user-extra': extra };
    expect(await heard(user)).toMatchObject({
      'impersonate-user': 'other',
      'impersonate-uid': '7',
      'impersonate-group': 'g, h',
      'impersonate-extra-example.com%2fscope': 'x, y',
    });
  });

  it('has the token of the kubeconfig while there is none in its file', async () => {
    server.users.tokens.set('own', { name: 'robot', groups: [] });
    const kubeconfig = await server.kubeconfig('robot', { token: 'own' });
    const config = JSON.parse(readFileSync(kubeconfig, 'utf8')) as { users: { user: object }[] };
    Object.assign(config.users[0]!.user, { tokenFile: '/no/such' });
    writeFileSync(kubeconfig, JSON.stringify(config));
    await node.ask('kube.connect', settings(kubeconfig));
    await node.ask('kube.list', pods());
    expect(server.requests.at(-1)?.user).toBe('robot');
  });

  it('has no credentials of a program where the user has others', async () => {
    server.users.tokens.set('own', { name: 'robot', groups: [] });
    const kubeconfig = await server.kubeconfig('robot', { token: 'own' });
    const config = JSON.parse(readFileSync(kubeconfig, 'utf8')) as { users: { user: object }[] };
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: '/no/such', interactiveMode: 'Never' };
    Object.assign(config.users[0]!.user, { exec });
    writeFileSync(kubeconfig, JSON.stringify(config));
    await node.ask('kube.connect', settings(kubeconfig));
    await node.ask('kube.list', pods());
    expect(server.requests.at(-1)?.user).toBe('robot');
  });
});

describe('a proxy on the way', () => {
  let proxy: Server;
  let asked: string[];
  beforeEach(async () => {
    asked = [];
    proxy = createServer().on('connect', ({ url = '' }, near) => {
      asked.push(url);
      const far = connect(Number(url.split(':')[1]), '127.0.0.1', () => {
        near.write('HTTP/1.1 200 Connection Established\r\n\r\n');
        far.pipe(near).pipe(far);
      });
      near.on('close', () => far.destroy());
      far.on('error', () => near.destroy());
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    await node.connection.close();
    proxy.closeAllConnections();
    await new Promise((resolve) => proxy.close(resolve));
  });

  const place = () => `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  async function ask(cluster: Record<string, string>): Promise<void> {
    const kubeconfig = await server.kubeconfig('proxied');
    const config = JSON.parse(readFileSync(kubeconfig, 'utf8')) as { clusters: { cluster: Record<string, string> }[] };
    Object.assign(config.clusters[0]!.cluster, cluster);
    writeFileSync(kubeconfig, JSON.stringify(config));
    await node.ask('kube.connect', settings(kubeconfig));
    await expect(node.ask('kube.list', pods())).resolves.toMatchObject({ items: [] });
    expect(server.requests.at(-1)?.user).toBe('proxied');
  }

  it('is the one that the kubeconfig names', async () => {
    vi.stubEnv('HTTPS_PROXY', 'http://127.0.0.1:1');
    await ask({ 'proxy-url': place() });
    expect(asked).toEqual([new URL(server.url).host]);
  });

  it('is the one of the environment where the kubeconfig names none', async () => {
    vi.stubEnv('HTTPS_PROXY', place());
    const host = `api.invalid:${new URL(server.url).port}`;
    await ask({ server: `https://${host}`, 'tls-server-name': 'localhost' });
    expect(asked).toEqual([host]);
  });

  it('may speak SOCKS5', async () => {
    const socks = createTcpServer((near) => {
      near.once('data', () => {
        near.write(Buffer.from([5, 0]));
        near.once('data', (request: Buffer) => {
          const port = request.readUInt16BE(request.length - 2);
          asked.push(`port ${port}`);
          const far = connect(port, '127.0.0.1', () => {
            near.write(Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]));
            far.pipe(near).pipe(far);
          });
          near.on('close', () => far.destroy());
          far.on('error', () => near.destroy());
        });
      });
      near.on('error', () => undefined);
    });
    await new Promise<void>((resolve) => socks.listen(0, '127.0.0.1', resolve));
    await ask({ 'proxy-url': `socks5://127.0.0.1:${(socks.address() as AddressInfo).port}` });
    expect(asked).toEqual([`port ${new URL(server.url).port}`]);
    await node.connection.close();
    await new Promise((resolve) => socks.close(resolve));
  });
});

it('HTTP/2 is given up where the environment wants that', async () => {
  const versionOf = async () => {
    await node.ask('kube.connect', settings(await server.kubeconfig('n1')));
    await node.ask('kube.list', pods());
    return server.requests.at(-1)?.httpVersion;
  };
  expect(await versionOf()).toBe('2.0');
  vi.stubEnv('DISABLE_HTTP2', '1');
  expect(await versionOf()).toBe('1.1');
  vi.unstubAllEnvs();
});
