/**
 * exec, attach and port forward of the node's API over the streaming server of a real containerd, by WebSocket (version
 * 5, version 4 and the SPDY tunnel), with volumes, slow clients and clients that disconnect.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { NodePod } from '../../src/actors/server/node-pods.ts';
import { runtimeStreamUrls } from '../../src/actors/server/streaming/endpoints.ts';
import type { Pod } from '../../src/machines/model/api/pod.ts';
import { type Containerd, containerdAvailable, startContainerd } from '../support/containerd.ts';
import { requirement } from '../support/require.ts';
import { commandOf, forwarded, StreamClients, V5 } from '../support/stream-clients.ts';
import { Bench, eventually } from './cri-bench.ts';

const MIB = 1024 * 1024;
/** A pod that returns its input, and serves HTTP on port 8080. */
const SCRIPT = `mkdir -p /www && echo hello > /www/index.html && dd if=/dev/zero of=/www/large bs=1M count=100 && httpd -p 127.0.0.1:8080 -h /www
trap 'exit 0' TERM; while :; do sleep 1; done`;

describe.skipIf(requirement('containerd', containerdAvailable()).skip)('streams of the node API', () => {
  let containerd: Containerd;
  let bench: Bench;
  let streams: StreamClients;

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
    const pod: NodePod = {
      uid,
      namespace,
      name,
      pod: { spec: { containers: [{ name: 'app' }] } } as unknown as Pod,
      status: null,
      runtime,
      mounted: [],
    };
    expect([podSandboxId, containerId].every((id) => id.length > 0)).toBe(true);
    streams = await StreamClients.open(pod, runtimeStreamUrls(bench.client.call.bind(bench.client)));
  });

  afterEach(() => streams.endClients());
  afterAll(async () => {
    await streams?.close();
    await bench.removeAll();
    await bench.close();
  });
  const connect: StreamClients['connect'] = (...asked) => streams.connect(...asked);
  const collect: StreamClients['collect'] = (client) => streams.collect(client);

  it('a command says its output and its exit code, in the order of the recording', async () => {
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

  it('the close signal of version 5 ends stdin, and the command with it', async () => {
    const client = connect(`${commandOf('cat')}&input=1&output=1`, V5);
    await once(client, 'open');
    client.send(Buffer.from('\0abc\n'));
    client.send(Buffer.from([255, 0]));
    const { channels } = await collect(client);
    expect([channels[1], channels[3]]).toEqual(['abc\n', '{"metadata":{},"status":"Success"}']);
  });

  it('a terminal is resized, and a command that is not there is an internal error', async () => {
    const resized = 'until stty size 2>/dev/null | grep -q "30 90"; do sleep 0.05; done; stty size';
    const client = connect(`${commandOf('sh', '-c', resized)}&input=1&output=1&tty=1`, V5);
    await once(client, 'open');
    client.send(Buffer.from('\x04{"Width":90,"Height":30}'));
    expect((await collect(client)).channels[1]).toBe('30 90\r\n');
    const missing = await collect(connect(`${commandOf('nosuchcmd')}&output=1`, V5));
    expect(JSON.parse(missing.channels[3]!)).toMatchObject({ reason: 'InternalError', code: 500 });
  });

  it("version 4 is the runtime's own", async () => {
    const { channels, code } = await collect(connect(`${commandOf('echo', 'hi')}&output=1`, ['v4.channel.k8s.io']));
    expect([channels[1], channels[3], code]).toEqual(['hi\n', '{"metadata":{},"status":"Success"}', 1000]);
  });

  it('a hundred MiB come whole through a command, and a client that reads slowly loses nothing', async () => {
    const size = 100 * MIB;
    const client = connect(`${commandOf('dd', 'if=/dev/zero', 'bs=1M', 'count=100')}&output=1`, V5);
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
  });

  it('a client that never reads costs no more than a small buffer', async () => {
    const client = connect(`${commandOf('yes')}&output=1`, V5);
    await once(client, 'open');
    client.pause();
    const before = process.memoryUsage().rss;
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect((process.memoryUsage().rss - before) / MIB).toBeLessThan(40);
  });

  it('a command ends when its client vanishes', async () => {
    const isRunning = async () => {
      const { channels } = await collect(connect(`${commandOf('ps')}&output=1`, V5));
      return channels[1]?.includes('cat -') ?? false;
    };
    const client = connect(`${commandOf('cat', '-')}&input=1&output=1`, V5);
    const hasBegun = await eventually(async () => (await isRunning()) || undefined);
    client.terminate();
    const hasEnded = await eventually(async () => !(await isRunning()) || undefined);
    expect([hasBegun, hasEnded]).toEqual([true, true]);
  });

  it('a hundred MiB come whole through a forwarded port', async () => {
    const spdy = await streams.tunnel();
    const { data, error } = await forwarded(spdy, '0', 8080, 'GET /large HTTP/1.0\r\n\r\n', 'with the answer');
    expect([data.length - data.indexOf('\r\n\r\n') - 4, error]).toEqual([100 * MIB, '']);
    spdy.close();
  });

  it('ports are forwarded through one tunnel, 200 times at once', async () => {
    const spdy = await streams.tunnel();
    const asked = 'GET /index.html HTTP/1.0\r\n\r\n';
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, nth) => forwarded(spdy, String(nth), 8080, asked, 'with the answer')),
    );
    expect(answers.filter(({ data, error }) => data.endsWith('hello\n') && error === '')).toHaveLength(200);
    spdy.close();
  });

  it('a port without a listener is reported on the error stream', async () => {
    const spdy = await streams.tunnel();
    const { error } = await forwarded(spdy, '0', 8081, 'x', 'with the answer');
    expect(error).toContain('connection refused');
    spdy.close();
  });

  async function refused(query: string, protocols: string[], kind: 'exec' | 'portForward'): Promise<[number, string]> {
    const client = connect(query, protocols, kind);
    const [, response] = (await once(client, 'unexpected-response')) as [
      unknown,
      AsyncIterable<Buffer> & { statusCode: number },
    ];
    let body = '';
    for await (const chunk of response) body += String(chunk);
    return [response.statusCode, body];
  }

  it('refusals are those of the recordings', async () => {
    expect(await refused('output=true', V5, 'exec')).toEqual([
      400,
      'you must specify at least 1 of stdin, stdout, stderr',
    ]);
    expect(await refused('port=abc', ['v4.channel.k8s.io'], 'portForward')).toEqual([
      400,
      'unable to parse "abc" as a port: strconv.ParseUint: parsing "abc": invalid syntax',
    ]);
    expect(await refused(`${commandOf('true')}&output=1`, ['v3.channel.k8s.io'], 'exec')).toEqual([403, '']);
    const plain = await fetch(`${streams.url('exec')}?output=1&command=true`);
    expect([plain.status, await plain.text()]).toEqual([500, 'Upgrade request required\n']);
  });
});
