/** Requests to the runtime for a stream, requests that are refused before, and the runtime's own refusals. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { NodePod } from '../../../../src/actors/server/node-pods.ts';
import type { NodeView } from '../../../../src/actors/server/node-view.ts';
import { type StreamUrls, streamingEndpoints } from '../../../../src/actors/server/streaming/endpoints.ts';
import { parsePorts } from '../../../../src/actors/server/streaming/tunnel.ts';
import { SpdyServer, type SpdyServerStream } from '../../../../src/actors/spdy/server.ts';
import { OperationError } from '../../../../src/kernel/json.ts';
import { type Front, openFront } from '../../../support/endpoint-front.ts';
import { freePort } from '../../../support/ports.ts';
import { exchange, headerOf } from '../exchange.ts';

const POD = {
  uid: 'u',
  name: 'p',
  namespace: 'default',
  pod: { spec: { containers: [{ name: 'main' }], ephemeralContainers: [{ name: 'debug', tty: true }] } },
  status: null,
  runtime: {
    sandboxes: [{ id: 'sandbox', state: 'SANDBOX_READY' }],
    containers: ['main', 'debug'].map((name) => ({ id: `${name}-1`, metadata: { name }, state: 'CONTAINER_RUNNING' })),
  },
  mounted: [],
} as unknown as NodePod;
const VIEW = { pods: () => [POD] } as unknown as NodeView;

const handshake = (path: string, protocol: string): string =>
  [
    `GET ${path} HTTP/1.1`,
    'Host: node1',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    `Sec-WebSocket-Protocol: ${protocol}`,
    '\r\n',
  ].join('\r\n');

let front: Front | undefined;
afterEach(async () => {
  await front?.close();
  front = undefined;
});

/** The answer to `path`, and the request to the runtime. */
async function ask(path: string, upgrade: string, url: () => string | Promise<string>) {
  const asked: object[] = [];
  const urlOf = async (request: object) => {
    asked.push(request);
    return await url();
  };
  const urls: StreamUrls = { exec: urlOf, attach: urlOf, portForward: urlOf };
  front = await openFront(streamingEndpoints(VIEW, urls));
  const headers = ['Connection: Upgrade', `Upgrade: ${upgrade}`];
  const reply = await exchange('GET', path, { port: front.port, isPlain: true, headers });
  return { asked, reply, answer: [reply.status, String(reply.body)] };
}

const refused = () => {
  throw new Error('refused');
};

describe('the ports of a WebSocket', () => {
  it.each<[string[], readonly number[] | string]>([
    [
      ['80,443', '8080'],
      [80, 443, 8080],
    ],
    [[], 'query parameter "port" is required'],
    [['80', ''], 'query parameter "port" cannot be empty'],
    [['80,x'], 'unable to parse "80,x" as a port: strconv.ParseUint: parsing "x": invalid syntax'],
    [['80,'], 'unable to parse "80," as a port: strconv.ParseUint: parsing "": invalid syntax'],
    [['80,65536'], 'unable to parse "80,65536" as a port: strconv.ParseUint: parsing "65536": value out of range'],
    [['80,0'], 'port "80,0" must be > 0'],
  ])('%j', (values, ports) => expect(parsePorts(values)).toEqual(ports));

  it('are asked of the runtime all together', async () => {
    const { asked } = await ask('/portForward/default/p?port=80,443', 'websocket', refused);
    expect(asked).toEqual([{ podSandboxId: 'sandbox', ports: [80, 443] }]);
  });

  it('are looked at before the pod is', async () => {
    const required = [400, 'query parameter "port" is required'];
    expect((await ask('/portForward/default/nope', 'websocket', refused)).answer).toEqual(required);
  });
});

describe("a runtime's refusal", () => {
  const rejects = (code: string) => () => {
    throw new OperationError(`rpc error: code = ${code}`, { code });
  };
  it.each([
    ['NOT_FOUND', 404, undefined],
    ['RESOURCE_EXHAUSTED', 429, '60'],
    ['UNAVAILABLE', 500, undefined],
  ])('%s', async (code, status, retryAfter) => {
    const { answer, reply } = await ask('/exec/default/p/main?output=1', 'SPDY/3.1', rejects(code));
    expect(answer).toEqual([status, `rpc error: code = ${code}`]);
    expect(headerOf(reply, 'retry-after')).toBe(retryAfter);
    expect(headerOf(reply, 'x-content-type-options')).toBeUndefined();
  });

  it('to be spoken to is told in the words of Go', async () => {
    const port = await freePort();
    const { answer, reply } = await ask('/exec/default/p/main?output=1', 'SPDY/3.1', () => `http://127.0.0.1:${port}/`);
    expect(answer).toEqual([500, `dial tcp 127.0.0.1:${port}: connect: connection refused\n`]);
    expect(headerOf(reply, 'x-content-type-options')).toBe('nosniff');
  });
});

it('a client that attaches gets the terminal of the container, whatever it has itself', async () => {
  const attached = async (query: string) => (await ask(`/attach/default/p/${query}`, 'SPDY/3.1', refused)).asked;
  const streams = { stdin: true, stdout: true, stderr: false };
  expect(await attached('main?input=1&output=1&tty=1')).toEqual([{ ...streams, containerId: 'main-1', tty: false }]);
  expect(await attached('debug?input=1&output=1')).toEqual([{ ...streams, containerId: 'debug-1', tty: true }]);
});

it.each([['v4.channel.k8s.io'], ['v5.channel.k8s.io']])(
  'a client of %s that leaves before the runtime answered takes its stream with it',
  async (protocol) => {
    const upgraded = Promise.withResolvers<Duplex>();
    const runtime = createServer().on('upgrade', (_request, socket: Duplex) => upgraded.resolve(socket));
    await once(runtime.listen(0, '127.0.0.1'), 'listening');
    const url = async () => `http://127.0.0.1:${(runtime.address() as AddressInfo).port}/`;
    front = await openFront(streamingEndpoints(VIEW, { exec: url, attach: url, portForward: url }));
    const client = connect(front.port, '127.0.0.1');
    client.write(handshake('/exec/default/p/main?output=1', protocol));
    const stream = await upgraded.promise;
    client.destroy();
    await new Promise((resolve) => setTimeout(resolve, 50));
    stream.on('error', () => {}).write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n');
    const ended = once(stream, 'end');
    stream.resume();
    await ended;
    stream.destroy();
    runtime.close();
  },
);

it('a client that attaches and closes its input receives the output to its end', async () => {
  const happened: string[] = [];
  const runtime = createServer().on('upgrade', (_request, socket: Duplex, head: Buffer) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n');
    const streams: Record<string, SpdyServerStream> = {};
    void new SpdyServer(socket, head, (stream) => {
      const { streamtype: type = '' } = stream.headers;
      streams[type] = stream;
      if (type !== 'stdin') return;
      stream.on('data', (chunk) => setImmediate(() => streams['stdout']!.write(`heard ${chunk}`)));
      // As containerd: it ends its stream, and the session ends.
      stream.on('end', () => {
        streams['stdout']!.end();
        streams['error']!.end('{"status":"Success"}');
      });
    });
  });
  await once(runtime.listen(0, '127.0.0.1'), 'listening');
  const url = async () => `http://127.0.0.1:${(runtime.address() as AddressInfo).port}/`;
  front = await openFront(streamingEndpoints(VIEW, { exec: url, attach: url, portForward: url }));
  const client = new WebSocket(`ws://127.0.0.1:${front.port}/attach/default/p/main?input=1&output=1`, [
    'v5.channel.k8s.io',
  ]);
  client.on('message', (data: Buffer) => happened.push(`${data[0]} ${String(data.subarray(1))}`));
  await once(client, 'open');
  client.send(Buffer.from('\0bye'));
  client.send(Buffer.from([255, 0]));
  await once(client, 'close');
  expect(happened).toEqual(['1 ', '1 heard bye', '3 {"metadata":{},"status":"Success"}']);
  runtime.close();
});

describe('the status of a command', () => {
  const failure = (message: string) =>
    expect.stringContaining(`"message":${JSON.stringify(`Internal error occurred: ${message}`)}`);
  const exit = '{"reason":"NonZeroExitCode","details":{"causes":[null,{"reason":"ExitCode","message":"3"}]}}';

  it.each([
    ['{"status":"Success"}', '3 {"metadata":{},"status":"Success"}'],
    [exit, expect.stringContaining('command terminated with exit code 3')],
    ['null', failure('null')],
    ['7', failure('7')],
    ['[]', failure('[]')],
    ['{"message":"m"}', failure('m')],
    ['{"message":{}}', failure('{"message":{}}')],
    ['{"reason":"NonZeroExitCode","details":{"causes":{}},"message":"m"}', failure('m')],
    ['{"reason":"NonZeroExitCode","details":null,"message":"m"}', failure('m')],
    ['{', failure('{')],
  ])('%s is an answer', async (status, told) => {
    const runtime = createServer().on('upgrade', (_request, socket: Duplex, head: Buffer) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n');
      void new SpdyServer(socket, head, (stream) => {
        stream.end(stream.headers['streamtype'] === 'error' ? status : '');
      });
    });
    await once(runtime.listen(0, '127.0.0.1'), 'listening');
    const url = async () => `http://127.0.0.1:${(runtime.address() as AddressInfo).port}/`;
    front = await openFront(streamingEndpoints(VIEW, { exec: url, attach: url, portForward: url }));
    const client = new WebSocket(`ws://127.0.0.1:${front.port}/exec/default/p/main?output=1&command=x`, [
      'v5.channel.k8s.io',
    ]);
    const heard: string[] = [];
    client.on('message', (data: Buffer) => heard.push(`${data[0]} ${String(data.subarray(1))}`));
    await once(client, 'close');
    expect(heard.at(-1)).toEqual(told);
    runtime.close();
  });
});
