/** exec, attach and port forward of the embedded runtime, through the node's API as clients use it. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { NodePod } from '../../../../src/actors/server/node-pods.ts';
import { runtimeStreamUrls, type StreamingOptions } from '../../../../src/actors/server/streaming/endpoints.ts';
import { openSpdy } from '../../../../src/actors/server/streaming/tunnel.ts';
import type { ContainerConfig } from '../../../../src/machines/model/api/cri.ts';
import { freePort } from '../../../support/ports.ts';
import { commandOf, forwarded, StreamClients, V5 } from '../../../support/stream-clients.ts';
import { eventually, isProcess, Node } from '../harness.ts';

const MIB = 1024 * 1024;
/** Longer than a busy machine takes to start a command. */
const IDLE_MS = 2_000;
const node = new Node();
const fronts: StreamClients[] = [];
let main: StreamClients;
let mainId: string;
let mainPod: NodePod;

beforeAll(async () => {
  await node.start();
  ({ front: main, id: mainId, pod: mainPod } = await podOf('trap "exit 0" TERM; while :; do sleep 1; done'));
});
afterEach(() => {
  for (const front of fronts) front.endClients();
});
afterAll(async () => {
  for (const front of fronts) await front.close();
  await node.destroy();
});

/** A running container `app` of a pod of its own, and the front for it. */
async function podOf(script: string, config: Partial<ContainerConfig> = {}, options: StreamingOptions = {}) {
  const sandbox = await node.pod();
  const id = await node.create(sandbox, { command: ['/bin/sh', '-c', script], ...config });
  await node.client.call('StartContainer', { container_id: id });
  const runtime = {
    containers: [{ metadata: { name: 'app' }, id, state: 'CONTAINER_RUNNING' }],
    sandboxes: [{ id: sandbox, state: 'SANDBOX_READY' }],
  };
  const pod = {
    uid: 'u',
    namespace: 'default',
    name: 'p',
    pod: { spec: { containers: [{ name: 'app', tty: config.tty }] } },
    status: null,
    runtime,
    mounted: [],
  } as unknown as NodePod;
  const call = (name: string, request: object) => node.client.call(name, request);
  const front = await StreamClients.open(pod, runtimeStreamUrls(call as never), options);
  fronts.push(front);
  return { front, id, pod };
}

const run = (query: string, protocols = V5) => main.collect(main.connect(query, protocols));
const success = '{"metadata":{},"status":"Success"}';

it('a command says its output, its errors and its exit code', async () => {
  const { channels, code, order } = await run(
    `${commandOf('sh', '-c', 'echo out; echo err >&2; exit 3')}&output=1&error=1`,
  );
  expect([channels[1], channels[2], code, order.at(-1)]).toEqual(['out\n', 'err\n', 1000, 3]);
  expect(JSON.parse(channels[3]!)).toMatchObject({
    reason: 'NonZeroExitCode',
    details: { causes: [{ reason: 'ExitCode', message: '3' }] },
  });
});

it('version 4 is as well spoken, and what is not there is told', async () => {
  expect((await run(`${commandOf('echo', 'hi')}&output=1`, ['v4.channel.k8s.io'])).channels).toEqual({
    1: 'hi\n',
    3: success,
  });
  const missing = await run(`${commandOf('nosuchcmd')}&output=1`);
  expect(JSON.parse(missing.channels[3]!)).toMatchObject({
    code: 500,
    message: expect.stringContaining('exec: "nosuchcmd": executable file not found in $PATH'),
  });
  const onTerminal = await run(`${commandOf('nosuchcmd')}&input=1&output=1&tty=1`);
  expect(onTerminal.channels[3]).toContain('executable file not found in $PATH');
});

it('input reaches the command and ends with the close signal', async () => {
  const client = main.connect(`${commandOf('cat')}&input=1&output=1`, V5);
  const collected = main.collect(client);
  await once(client, 'open');
  client.send(Buffer.from('\0abc\n'));
  client.send(Buffer.from([255, 0]));
  expect((await collected).channels).toEqual({ 1: 'abc\n', 3: success });
});

it('a terminal is one: it has a size, a name, and Ctrl-C', async () => {
  const script =
    'trap "stty size; exit 4" INT; echo $TERM; [ -t 0 ] && [ -t 2 ] && echo ready; while :; do sleep 1; done';
  const client = main.connect(`${commandOf('sh', '-c', script)}&input=1&output=1&tty=1`, V5);
  const collected = main.collect(client);
  await once(client, 'open');
  client.send(Buffer.from('\x04{"Width":90,"Height":30}'));
  let seen = '';
  client.on('message', (data: Buffer) => (seen += data.subarray(1).toString()));
  await eventually('the command runs', () => seen.includes('ready'));
  client.send(Buffer.from('\0\x03'));
  const { channels } = await collected;
  expect(channels[1]).toBe('xterm\r\nready\r\n^C30 90\r\n');
  expect(channels[3]).toContain('exit code 4');
});

it('thousands of sizes, and what is no size, leave the last one that was', async () => {
  const client = main.connect(`${commandOf('sh', '-c', 'read go; stty size')}&input=1&output=1&tty=1`, V5);
  const collected = main.collect(client);
  await once(client, 'open');
  for (let nth = 0; nth < 5_000; nth++) client.send(Buffer.from(`\x04{"Width":${nth},"Height":${nth % 70}}`));
  for (const odd of ['', '{', 'null', '{"Width":-1,"Height":1e9}', '{"Width":"x"}', 'x'.repeat(70_000)]) {
    client.send(Buffer.from(`\x04${odd}`));
  }
  client.send(Buffer.from('\x04{"Width":81,"Height":41}'));
  client.send(Buffer.from('\0\r'));
  expect((await collected).channels[1]).toMatch(/41 81\r\n$/);
});

it('a hundred MiB come whole', async () => {
  const client = main.connect(`${commandOf('dd', 'if=/dev/zero', 'bs=1M', 'count=100')}&output=1`, V5);
  const hash = createHash('sha256');
  let bytes = 0;
  client.on('message', (data: Buffer) => {
    if (data[0] !== 1) return;
    hash.update(data.subarray(1));
    bytes += data.length - 1;
  });
  await once(client, 'close');
  const all = createHash('sha256').update(Buffer.alloc(100 * MIB));
  expect([bytes, hash.digest('hex')]).toEqual([100 * MIB, all.digest('hex')]);
});

it('a command ends when its client vanishes, tidily if it can and anyway if not', async () => {
  const pidOf = async (script: string) => {
    const client = main.connect(`${commandOf('sh', '-c', `echo $$; ${script}`)}&input=1&output=1`, V5);
    let output = '';
    client.on('message', (data: Buffer) => (output += data.subarray(1).toString()));
    await eventually('it says its number', () => output.endsWith('\n'));
    client.terminate();
    return Number(output);
  };
  const tidy = `${node.directory}/tidy`;
  const pids = [await pidOf(`cat; touch ${tidy}`), await pidOf('while :; do sleep 1; done')];
  await eventually('both are gone', () => !pids.some(isProcess));
  expect(readFileSync(tidy, 'utf8')).toBe('');
});

it('a client that attaches sees the output from now on, and ends with the container', async () => {
  const { front, id } = await podOf(
    'echo early; while [ ! -e go ]; do sleep 0.05; done; echo out; echo err >&2; exit 5',
    {
      working_dir: node.directory,
    },
  );
  await eventually('the first line is logged', async () => (await node.logLines(id)).length === 1);
  const client = front.connect('output=1&error=1', V5, 'attach');
  const collected = front.collect(client);
  await once(client, 'open');
  await new Promise((resolve) => setTimeout(resolve, 200));
  await run(commandOf('touch', `${node.directory}/go`) + '&output=1');
  expect((await collected).channels).toEqual({ 1: 'out\n', 2: 'err\n', 3: success });
  expect((await node.exited(id)).exit_code).toBe(5);
});

it('input of a container ends with its first client where that is asked, and stays open where not', async () => {
  const once1 = await podOf('while read line; do echo got $line; done; echo ended', { stdin: true, stdin_once: true });
  const stays = await podOf('while read line; do echo got $line; done; echo ended', { stdin: true });
  const send = async ({ front }: { front: StreamClients }) => {
    const client = front.connect('input=1&output=1', V5, 'attach');
    const collected = front.collect(client);
    await once(client, 'open');
    client.send(Buffer.from('\0word\n'));
    client.send(Buffer.from([255, 0]));
    return (await collected).channels;
  };
  expect(await send(once1)).toEqual({ 1: 'got word\nended\n', 3: success });
  expect((await send(stays))[3]).toBe(success);
  expect((await send(stays))[3]).toBe(success);
  await eventually('both words were heard', async () => (await node.logLines(stays.id)).length === 2);
  expect((await node.status(stays.id)).state).toBe('CONTAINER_RUNNING');
});

it('a container with a terminal is typed at, and its log is what the terminal showed', async () => {
  const { front, id } = await podOf('read line; echo "heard $line"; stty size', { stdin: true, tty: true });
  const client = front.connect('input=1&output=1&tty=1', V5, 'attach');
  const collected = front.collect(client);
  await once(client, 'open');
  client.send(Buffer.from('\x04{"Width":70,"Height":20}'));
  client.send(Buffer.from('\0word\r'));
  expect((await collected).channels[1]).toBe('word\r\nheard word\r\n20 70\r\n');
  expect((await node.exited(id)).exit_code).toBe(0);
  expect((await node.logLines(id)).map(({ stream, text }) => [stream, text.trimEnd()])).toEqual([
    ['stdout', 'word'],
    ['stdout', 'heard word'],
    ['stdout', '20 70'],
  ]);
});

it('a container never waits for an attached client that does not read', async () => {
  const { front, id } = await podOf('dd if=/dev/zero bs=1M count=64 2>/dev/null | tr "\\0" x; echo done >&2', {
    log_path: '',
  });
  const client = front.connect('output=1', V5, 'attach');
  await once(client, 'open');
  client.pause();
  expect((await node.exited(id)).exit_code).toBe(0);
});

it('attached once more after the runtime came back', async () => {
  const { front, id } = await podOf('read line; echo heard $line', { stdin: true, stdin_once: true });
  await node.stop();
  await node.start();
  const client = front.connect('input=1&output=1', V5, 'attach');
  const collected = front.collect(client);
  await once(client, 'open');
  client.send(Buffer.from('\0word\n'));
  expect((await collected).channels).toEqual({ 1: 'heard word\n', 3: success });
  expect((await node.exited(id)).exit_code).toBe(0);
});

async function echoServer(answer: (socket: Socket) => void): Promise<{ port: number; server: Server }> {
  const port = await freePort();
  const server = createServer({ allowHalfOpen: true }, answer).listen(port, '127.0.0.1');
  await once(server, 'listening');
  return { port, server };
}

it('ports are forwarded through one tunnel, 200 times at once, and a port without a server is reported', async () => {
  const { port, server } = await echoServer((socket) => socket.pipe(socket));
  const spdy = await main.tunnel();
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, nth) => forwarded(spdy, String(nth), port, `hello ${nth}`)),
  );
  expect(answers).toEqual(Array.from({ length: 200 }, (_, nth) => ({ data: `hello ${nth}`, error: '' })));
  server.close();
  await once(server, 'close');
  const { error } = await forwarded(spdy, '200', port, 'x');
  expect(error).toMatch(`error forwarding port ${port} to pod `);
  expect(error).toContain('connection refused');
  spdy.close();
});

it('a hundred MiB come whole through a forwarded port', async () => {
  const { port, server } = await echoServer((socket) => socket.end(Buffer.alloc(100 * MIB, 'y')));
  const spdy = await main.tunnel();
  const { data, error } = await forwarded(spdy, '0', port, '');
  expect([data.length, error]).toEqual([100 * MIB, '']);
  spdy.close();
  server.close();
});

it('a place is for one client, and for one that speaks a protocol of it', async () => {
  const ask = (method: string, request: object) => node.client.call<{ url: string }>(method, request);
  const exec = () => ask('Exec', { container_id: mainId, cmd: ['true'], stdout: true });
  const { url } = await exec();
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/exec\/[\w-]{22}$/);
  const refused = await openSpdy(url, ['v1.channel.k8s.io']);
  expect(refused).toMatchObject({ kind: 'answered', response: { statusCode: 403 } });
  expect(await openSpdy(url, ['v4.channel.k8s.io'])).toMatchObject({ response: { statusCode: 404 } });
  const other = new URL((await exec()).url);
  expect((await fetch(other)).status).toBe(400);
  expect((await fetch(new URL('/attach/nothing', other))).status).toBe(404);
  await expect(ask('Exec', { container_id: mainId, cmd: ['true'] })).rejects.toThrow('one of stdin, stdout, or stderr');
  await expect(ask('Exec', { container_id: 'nope', cmd: ['true'], stdout: true })).rejects.toThrow('not found');
});

it.each([
  ['by WebSocket', V5],
  ["by the runtime's protocol", ['v4.channel.k8s.io']],
])('a stream on which nothing is said ends after its time, %s', async (_how, protocols) => {
  const { front } = await podOf('sleep 1000', {}, { idleMs: () => IDLE_MS });
  const silent = front.connect(`${commandOf('sleep', '1000')}&input=1&output=1`, protocols);
  const before = performance.now();
  await once(silent, 'close');
  expect(performance.now() - before).toBeGreaterThan(IDLE_MS * 0.9);
  const talking = front.connect(
    `${commandOf('sh', '-c', 'for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done')}&output=1`,
    V5,
  );
  expect((await front.collect(talking)).channels[3]).toBe(success);
});

it('a runtime that sends its clients elsewhere is not believed', async () => {
  const elsewhere = createHttpServer((_request, response) => {
    response.writeHead(302, { location: 'http://10.0.0.1/secret' }).end();
  }).listen(0, '127.0.0.1');
  await once(elsewhere, 'listening');
  const url = `http://127.0.0.1:${(elsewhere.address() as { port: number }).port}/`;
  const front = await StreamClients.open(mainPod, {
    exec: async () => url,
    attach: async () => url,
    portForward: async () => url,
  });
  fronts.push(front);
  for (const [kind, protocols] of [
    ['exec', V5],
    ['exec', ['v4.channel.k8s.io']],
    ['portForward', ['v4.channel.k8s.io']],
  ] as const) {
    const client = front.connect('command=true&output=1&port=80', [...protocols], kind);
    const [, response] = (await once(client, 'unexpected-response')) as [unknown, IncomingMessage];
    expect([response.statusCode, response.headers.location]).toEqual([502, undefined]);
  }
  elsewhere.close();
});
