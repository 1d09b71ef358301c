/**
 * exec, attach and port forward of the node's API over the streaming server of a real containerd, by WebSocket
 * (version 5, version 4 and the SPDY tunnel), with volumes, slow clients and clients that vanish.
 */
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createWebSocketStream, WebSocket } from 'ws';
import { ApiServer } from '../../src/actors/server/http/api-server.ts';
import type { NodePod, NodeView } from '../../src/actors/server/node-view.ts';
import { streamingEndpoints } from '../../src/actors/server/streaming/endpoints.ts';
import { TUNNEL_PROTOCOL } from '../../src/actors/server/streaming/port-forward.ts';
import { SpdyClient } from '../../src/actors/server/streaming/spdy.ts';
import { runtimeStreamUrls } from '../../src/actors/server/streaming/stream-urls.ts';
import type { Pod } from '../../src/machines/api/pod.ts';
import { type Containerd, containerdAvailable, startContainerd } from '../support/containerd.ts';
import { requirement } from '../support/require.ts';
import { Bench, eventually } from './cri-bench.ts';

/** How the library's own server gives a socket to a connection that is already upgraded. */
interface Adopting {
  _isServer: boolean;
  setSocket(socket: Socket, head: Buffer, options: object): void;
}

const MIB = 1024 * 1024;
/** A pod that echoes what it reads, and serves what it is asked for on port 8080. */
const SCRIPT = `mkdir -p /www && echo hello > /www/index.html && dd if=/dev/zero of=/www/large bs=1M count=100 && httpd -p 127.0.0.1:8080 -h /www
trap 'exit 0' TERM; while :; do sleep 1; done`;

describe.skipIf(requirement('containerd', containerdAvailable()).skip)('streams of the node API', () => {
  let containerd: Containerd;
  let bench: Bench;
  let api: ApiServer;
  let front: Server;
  let base: string;
  const clients = new Set<WebSocket>();

  beforeAll(async () => {
    bench = new Bench({
      name: 'containerd',
      isolates: true,
      start: async () => {
        containerd = await startContainerd();
        return containerd;
      },
    });
    await bench.start();
    const { config, podSandboxId, containerId, uid } = await bench.started(SCRIPT);
    const runtime = await bench.ask('cri.podStatus', { uid });
    const { name = '', namespace = '' } = config.metadata ?? {};
    const pod: NodePod = { uid, namespace, name, pod: {} as Pod, status: null, runtime, mounted: [] };
    expect([podSandboxId, containerId].every((id) => id.length > 0)).toBe(true);
    const view = { pods: () => [pod] } as unknown as NodeView;
    const call = bench.client.call.bind(bench.client);
    const endpoints = streamingEndpoints(view, runtimeStreamUrls(call));
    api = await new ApiServer({ endpoints, gate: async () => null }).open();
    front = createServer((socket) => api.accept(socket));
    front.listen(0, '127.0.0.1');
    await once(front, 'listening');
    base = `ws://127.0.0.1:${(front.address() as AddressInfo).port}`;
    path = `/${namespace}/${name}`;
  }, 60_000);
  let path = '';

  afterEach(() => {
    for (const client of clients) client.on('error', () => {}).terminate();
    clients.clear();
  });
  afterAll(async () => {
    await api?.close();
    front?.close();
    await bench.removeAll();
    await bench.close();
  });

  function connect(query: string, protocols: string[], kind = 'exec'): WebSocket {
    const target = kind === 'portForward' ? `/portForward${path}` : `/${kind}${path}/app`;
    const client = new WebSocket(`${base}${target}?${query}`, protocols);
    clients.add(client);
    return client;
  }

  const commandOf = (...command: string[]) => command.map((each) => `command=${encodeURIComponent(each)}`).join('&');

  /** Everything that came on each channel until the close. */
  async function collect(
    client: WebSocket,
  ): Promise<{ channels: Record<number, string>; code: number; order: number[] }> {
    const channels: Record<number, Buffer[]> = {};
    const order: number[] = [];
    client.on('message', (data: Buffer) => {
      order.push(data[0]!);
      (channels[data[0]!] ??= []).push(data.subarray(1));
    });
    const [code] = (await once(client, 'close')) as [number];
    const text = Object.entries(channels).map(([channel, parts]) => [channel, Buffer.concat(parts).toString()]);
    return { channels: Object.fromEntries(text), code, order };
  }

  test('a command says its output and its exit code, in the order of the recording', async () => {
    const client = connect(`${commandOf('sh', '-c', 'echo out; echo err >&2; exit 3')}&output=1&error=1`, [
      'v5.channel.k8s.io',
    ]);
    const { channels, code, order } = await collect(client);
    expect([order[0], order.at(-1), code]).toEqual([1, 3, 1000]);
    expect([channels[1], channels[2]]).toEqual(['out\n', 'err\n']);
    expect(JSON.parse(channels[3]!)).toEqual({
      metadata: {},
      status: 'Failure',
      message: 'command terminated with non-zero exit code: command terminated with exit code 3',
      reason: 'NonZeroExitCode',
      details: { causes: [{ reason: 'ExitCode', message: '3' }] },
    });
  });

  test('the close signal of version 5 ends stdin, and the command with it', async () => {
    const client = connect(`${commandOf('cat')}&input=1&output=1`, ['v5.channel.k8s.io']);
    await once(client, 'open');
    client.send(Buffer.from('\0abc\n'));
    client.send(Buffer.from([255, 0]));
    const { channels } = await collect(client);
    expect([channels[1], channels[3]]).toEqual(['abc\n', '{"metadata":{},"status":"Success"}']);
  });

  test('a terminal is resized, and a command that is not there is an internal error', async () => {
    const client = connect(`${commandOf('sh', '-c', 'sleep 0.5; stty size')}&input=1&output=1&tty=1`, [
      'v5.channel.k8s.io',
    ]);
    await once(client, 'open');
    client.send(Buffer.from('\x04{"Width":90,"Height":30}'));
    expect((await collect(client)).channels[1]).toBe('30 90\r\n');
    const missing = await collect(connect(`${commandOf('nosuchcmd')}&output=1`, ['v5.channel.k8s.io']));
    expect(JSON.parse(missing.channels[3]!)).toMatchObject({ reason: 'InternalError', code: 500 });
  });

  test("version 4 is the runtime's own", async () => {
    const { channels, code } = await collect(connect(`${commandOf('echo', 'hi')}&output=1`, ['v4.channel.k8s.io']));
    expect([channels[1], channels[3], code]).toEqual(['hi\n', '{"metadata":{},"status":"Success"}', 1000]);
  });

  test('a hundred MiB come whole through a command, and a client that reads slowly loses nothing', async () => {
    const size = 100 * MIB;
    const client = connect(`${commandOf('dd', 'if=/dev/zero', 'bs=1M', 'count=100')}&output=1`, ['v5.channel.k8s.io']);
    const hash = createHash('sha256');
    let bytes = 0;
    client.on('message', (data: Buffer) => {
      if (data[0] !== 1) return;
      hash.update(data.subarray(1));
      bytes += data.length - 1;
      if (bytes > 0 && bytes % (64 * 1024) === 0) {
        client.pause();
        setTimeout(() => client.resume(), 1);
      }
    });
    await once(client, 'close');
    expect([bytes, hash.digest('hex')]).toEqual([size, createHash('sha256').update(Buffer.alloc(size)).digest('hex')]);
  }, 60_000);

  test('a client that never reads costs no more than a small buffer', async () => {
    const client = connect(`${commandOf('yes')}&output=1`, ['v5.channel.k8s.io']);
    await once(client, 'open');
    client.pause();
    const before = process.memoryUsage().rss;
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect((process.memoryUsage().rss - before) / MIB).toBeLessThan(40);
  });

  test('a command ends when its client vanishes', async () => {
    const client = connect(`${commandOf('sh', '-c', 'cat; touch /tmp/ended')}&input=1&output=1`, ['v5.channel.k8s.io']);
    await once(client, 'open');
    client.terminate();
    const seen = await eventually(async () => {
      const { channels } = await collect(connect(`${commandOf('ls', '/tmp')}&output=1`, ['v5.channel.k8s.io']));
      return channels[1]?.includes('ended') ? true : undefined;
    });
    expect(seen).toBe(true);
  });

  /** A SPDY connection inside a WebSocket, as kubectl port-forward opens it; the library refuses to say its name. */
  async function tunnel() {
    const asked = request(`${base.replace('ws', 'http')}/portForward${path}`, {
      headers: {
        Connection: 'Upgrade',
        Upgrade: 'websocket',
        'Sec-WebSocket-Version': '13',
        'Sec-WebSocket-Key': randomBytes(16).toString('base64'),
        'Sec-WebSocket-Protocol': TUNNEL_PROTOCOL,
      },
    });
    asked.end();
    const [response, socket, head] = (await once(asked, 'upgrade')) as [IncomingMessage, Socket, Buffer];
    expect(response.headers['sec-websocket-protocol']).toBe(TUNNEL_PROTOCOL);
    const client = new (
      WebSocket as unknown as new (
        address: null,
        protocols: undefined,
        options: object,
      ) => WebSocket & Adopting
    )(null, undefined, {});
    client._isServer = false;
    client.setSocket(socket, head, { maxPayload: 0, skipUTF8Validation: false });
    clients.add(client);
    return new SpdyClient(createWebSocketStream(client), Buffer.alloc(0));
  }

  function forwarded(spdy: SpdyClient, requestID: string, port: number, request: string) {
    return new Promise<{ data: string; error: string }>((resolve) => {
      const seen = { data: '', error: '' };
      const open = new Set(['data', 'error']);
      const listener = (name: 'data' | 'error') => ({
        data: (chunk: Buffer) => void (seen[name] += chunk.toString()),
        end: () => void (open.delete(name) && open.size === 0 && resolve(seen)),
      });
      const headers = { port: String(port), requestID };
      spdy.open({ streamType: 'error', ...headers }, listener('error')).end();
      const data = spdy.open({ streamType: 'data', ...headers }, listener('data'));
      data.write(Buffer.from(request));
      data.end();
    });
  }

  test('a hundred MiB come whole through a forwarded port', async () => {
    const spdy = await tunnel();
    const { data, error } = await forwarded(spdy, '0', 8080, 'GET /large HTTP/1.0\r\n\r\n');
    expect([data.length - data.indexOf('\r\n\r\n') - 4, error]).toEqual([100 * MIB, '']);
    spdy.close();
  }, 60_000);

  test('ports are forwarded through one tunnel, 200 times at once', async () => {
    const spdy = await tunnel();
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, nth) => forwarded(spdy, String(nth), 8080, 'GET /index.html HTTP/1.0\r\n\r\n')),
    );
    expect(answers.filter(({ data, error }) => data.endsWith('hello\n') && error === '')).toHaveLength(200);
    spdy.close();
  }, 60_000);

  test('a port where nobody listens is told on the error stream', async () => {
    const spdy = await tunnel();
    const { error } = await forwarded(spdy, '0', 8081, 'x');
    expect(error).toContain('connection refused');
    spdy.close();
  });

  async function refused(query: string, protocols: string[], kind: string): Promise<[number, string]> {
    const client = connect(query, protocols, kind);
    const [, response] = (await once(client, 'unexpected-response')) as [
      unknown,
      AsyncIterable<Buffer> & { statusCode: number },
    ];
    let body = '';
    for await (const chunk of response) body += String(chunk);
    return [response.statusCode, body];
  }

  test('refusals are those of the recordings', async () => {
    expect(await refused('output=true', ['v5.channel.k8s.io'], 'exec')).toEqual([
      400,
      'you must specify at least 1 of stdin, stdout, stderr',
    ]);
    expect(await refused('port=abc', ['v4.channel.k8s.io'], 'portForward')).toEqual([
      400,
      'unable to parse "abc" as a port: strconv.ParseUint: parsing "abc": invalid syntax',
    ]);
    expect(await refused(`${commandOf('true')}&output=1`, ['v3.channel.k8s.io'], 'exec')).toEqual([403, '']);
    const plain = await fetch(`${base.replace('ws', 'http')}/exec${path}/app?output=1&command=true`);
    expect([plain.status, await plain.text()]).toEqual([500, 'Upgrade request required\n']);
  });
});
