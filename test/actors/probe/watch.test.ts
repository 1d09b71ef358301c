/** TCP, gRPC and exec probes, and their repetition by a watch. */
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { describe, expect, it, onTestFinished } from 'vitest';
import { criPorts } from '../../../src/actors/cri/ports.ts';
import { eventually } from '../../support/daemon.ts';
import { freePort } from '../../support/ports.ts';
import { FakeRuntime, type Handlers, never, Refusal } from '../cri/fake-runtime.ts';
import { attempt, beginningConnections, crowdedPort, HASTY, httpServer, portsOf, rawServer, watch } from './support.ts';

describe('TCP', () => {
  const tcp = (port: number, host = '127.0.0.1') => ({ kind: 'tcpSocket', host, port }) as const;

  it('is content with a connection', async () => {
    expect(await attempt(tcp(await rawServer(() => {})))).toMatchObject({ verdict: 'success' });
  });

  it('says who refused', async () => {
    const port = await freePort();
    expect(await attempt(tcp(port))).toMatchObject({
      verdict: 'failure',
      output: `dial tcp 127.0.0.1:${port}: connect: connection refused`,
    });
  });

  it('without an answer takes the timeout of the probe', async () => {
    expect(await attempt(tcp(9, '192.0.2.1'), HASTY)).toMatchObject({ verdict: 'failure' });
  });

  it('to an unknown name fails', async () => {
    expect(await attempt(tcp(80, 'nobody.invalid'), { timeoutSeconds: 5 })).toMatchObject({ verdict: 'failure' });
  });
});

describe('gRPC', () => {
  const ask = (port: number, service = '') => ({ kind: 'grpc', host: '127.0.0.1', port, service }) as const;
  type Check = (service: string, agent: string, answer: grpc.sendUnaryData<{ status: string }>) => void;

  async function healthServer(check: Check | null): Promise<number> {
    const server = new grpc.Server();
    const definitions = loadSync('grpc/health/v1/health.proto', {
      includeDirs: [fileURLToPath(new URL('../../../proto', import.meta.url))],
      enums: String,
    });
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the contract is text, read at run time
    const service = definitions['grpc.health.v1.Health'] as grpc.ServiceDefinition;
    if (check) {
      server.addService(service, {
        Check: (call: grpc.ServerUnaryCall<{ service: string }, object>, answer: grpc.sendUnaryData<object>) =>
          check(call.request.service, String(call.metadata.get('user-agent')[0]), answer),
      });
    }
    onTestFinished(() => server.forceShutdown());
    return new Promise((resolve, reject) => {
      server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) =>
        error ? reject(error) : resolve(port),
      );
    });
  }

  it('to a server that never answers leaves no connection behind', async () => {
    const open = new Set<Socket>();
    const port = await rawServer((socket) => {
      open.add(socket);
      socket.resume().once('close', () => open.delete(socket));
    });
    expect(await attempt(ask(port), HASTY)).toMatchObject({ verdict: 'failure' });
    await eventually('the end of each connection', () => open.size === 0);
  });

  it('to a server that accepts no connection leaves none behind that is not established', async () => {
    const port = await crowdedPort();
    expect(await attempt(ask(port), HASTY)).toMatchObject({ verdict: 'failure' });
    await eventually('the end of each connection', () => beginningConnections(port) === 0);
  });

  it('accepts SERVING, names its service, and names itself as the client', async () => {
    const asked: string[] = [];
    const port = await healthServer((service, agent, answer) => {
      asked.push(service, agent);
      answer(null, { status: 'SERVING' });
    });
    expect(await attempt(ask(port, 'db'))).toMatchObject({ verdict: 'success' });
    expect(asked).toEqual(['db', expect.stringMatching(/^kube-probe\/1\.36 /)]);
  });

  it.each(['NOT_SERVING', 'UNKNOWN', 'SERVICE_UNKNOWN'])('fails on %s', async (status) => {
    const port = await healthServer((_service, _agent, answer) => answer(null, { status }));
    expect(await attempt(ask(port))).toMatchObject({
      verdict: 'failure',
      output: `service unhealthy (responded with "${status}")`,
    });
  });

  it('fails where there is no health service', async () => {
    const outcome = await attempt(ask(await healthServer(null)));
    expect(outcome.verdict).toBe('failure');
    expect(outcome.output).toMatch(/^error: this server does not implement the grpc health protocol/);
  });

  it('fails where the answer is an error', async () => {
    const port = await healthServer((_service, _agent, answer) =>
      answer({ code: grpc.status.NOT_FOUND, details: 'no such service' }),
    );
    expect(await attempt(ask(port))).toMatchObject({
      output: 'error: health rpc probe failed: rpc error: code = NotFound desc = no such service',
    });
  });

  it('fails where the server goes before it answers, as Go says it', async () => {
    const emptySettings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    const port = await rawServer((socket) => {
      socket.on('error', () => {}).write(emptySettings);
      socket.on('data', () => setTimeout(() => socket.destroy(), 200));
    });
    expect(await attempt(ask(port))).toMatchObject({
      output: 'error: health rpc probe failed: rpc error: code = Unavailable desc = error reading from server: EOF',
    });
  });

  it('fails in time where the answer does not come', async () => {
    const port = await healthServer(() => {});
    expect(await attempt(ask(port), HASTY)).toMatchObject({ output: 'timeout: health rpc did not complete within 1s' });
  });

  it('fails in time without a listener, or with another protocol', async () => {
    const refused = await freePort();
    const silent = await rawServer(() => {});
    for (const port of [refused, silent]) {
      expect(await attempt(ask(port), HASTY)).toMatchObject({
        verdict: 'failure',
        output: `timeout: failed to connect service "127.0.0.1:${port}" within 1s: context deadline exceeded`,
      });
    }
  });
});

describe('exec', () => {
  const ask = (...command: string[]) => ({ kind: 'exec', containerId: 'c1', command }) as const;
  const base64 = (text: string) => Buffer.from(text).toString('base64');

  async function runtime(handlers: Handlers, requestTimeoutMs = 60_000) {
    // The container has no values of Secrets, because there is no mark beside its log.
    const withoutSecrets = () => ({ status: { id: 'c1', log_path: '/nowhere/app/0.log' } });
    const fake = await FakeRuntime.start({ ContainerStatus: withoutSecrets, ...handlers });
    const cri = criPorts({ endpoint: fake.endpoint, requestTimeoutMs });
    onTestFinished(async () => {
      cri.close();
      await fake.close();
    });
    return portsOf(cri.ports);
  }

  it('is content with exit code 0', async () => {
    const requests: object[] = [];
    const ports = await runtime({ ExecSync: (request) => (requests.push(request), { exit_code: 0 }) });
    expect(await attempt(ask('test', '-f', '/ok'), HASTY, ports)).toMatchObject({ verdict: 'success' });
    expect(requests).toMatchObject([{ container_id: 'c1', cmd: ['test', '-f', '/ok'], timeout: '1' }]);
  });

  it('tells what a command said that failed', async () => {
    const ports = await runtime({
      ExecSync: () => ({ exit_code: 2, stdout: base64('out\n'), stderr: base64('err\n') }),
    });
    expect(await attempt(ask('x'), {}, ports)).toEqual({ verdict: 'failure', result: 'failure', output: 'out\nerr\n' });
  });

  it('tells of a command that prints without end no more than its beginning', async () => {
    const ports = await runtime({ ExecSync: () => ({ exit_code: 1, stdout: base64('é'.repeat(1_000_000)) }) });
    expect((await attempt(ask('yes'), {}, ports)).output).toBe('é'.repeat(5_120));
  });

  it.each([
    [1, '1s'],
    [60, '1m0s'],
    [90, '1m30s'],
  ])('fails when its time of %d seconds is over', async (timeoutSeconds, shown) => {
    const ports = await runtime({
      ExecSync: () => {
        throw new Refusal(grpc.status.DEADLINE_EXCEEDED, 'timeout 1s exceeded');
      },
    });
    expect(await attempt(ask('sh', '-c', 'sleep 9'), { timeoutSeconds }, ports)).toMatchObject({
      verdict: 'failure',
      output: `command timed out: "sh -c sleep 9" timed out after ${shown}`,
    });
  });

  it('fails when the runtime does not answer', async () => {
    expect(await attempt(ask('x'), HASTY, await runtime({ ExecSync: never }, 300))).toMatchObject({
      verdict: 'failure',
    });
  });

  it('that the runtime cannot do judges nothing, after three tries', async () => {
    let tries = 0;
    const ports = await runtime({
      ExecSync: () => {
        tries++;
        throw new Refusal(grpc.status.NOT_FOUND, 'no running task found');
      },
    });
    expect(await attempt(ask('x'), {}, ports)).toEqual({
      verdict: null,
      result: 'errored',
      output: 'rpc error: code = NotFound desc = no running task found',
    });
    expect(tries).toBe(3);
  });
});

describe('a watch', () => {
  const asking = (port: number) => ({ kind: 'httpGet', url: `http://127.0.0.1:${port}/`, headers: [] }) as const;

  it('asks each period, and speaks when something changed', async () => {
    let [requests, status] = [0, 200];
    const port = await httpServer((_, response) => {
      requests++;
      response.writeHead(status).end();
    });
    const stream = watch(asking(port), { periodSeconds: 0.05, verdict: 'failure', failureThreshold: 2 });
    await stream.until(({ type }) => type === 'probe.judged');
    await eventually('six requests', () => requests >= 6);
    expect(stream.items).toEqual([{ type: 'probe.judged', verdict: 'success' }]);
    status = 503;
    const output = 'HTTP probe failed with statuscode: 503';
    await stream.until((item) => JSON.stringify(item).includes('"failure"}'));
    expect(stream.items.slice(1)).toEqual([
      { type: 'probe.reported', result: 'failure', output },
      { type: 'probe.reported', result: 'failure', output },
      { type: 'probe.judged', verdict: 'failure' },
    ]);
  });

  it('asks more often while its verdict is not success', async () => {
    let [requests, status] = [0, 503];
    const port = await httpServer((_, response) => {
      requests++;
      response.writeHead(status).end();
    });
    const stream = watch(asking(port), { periodSeconds: 3_600, unreadyPeriodSeconds: 0.02, verdict: 'failure' });
    await eventually('three requests', () => requests >= 3);
    status = 200;
    await stream.until(({ type }) => type === 'probe.judged');
    const known = requests;
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(requests).toBe(known);
  });

  it('with the longest period asks once, and with the longest timeout waits for the answer', async () => {
    const LONGEST_SECONDS = 2_147_483_647;
    let requests = 0;
    const port = await httpServer((_, response) => {
      requests++;
      setTimeout(() => response.end(), 50);
    });
    const odd = { periodSeconds: LONGEST_SECONDS, timeoutSeconds: LONGEST_SECONDS };
    const stream = watch(asking(port), odd);
    await stream.until(({ type }) => type === 'probe.judged');
    const silent = watch({ kind: 'tcpSocket', host: '192.0.2.1', port: 9 }, odd);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(requests).toBe(1);
    expect(stream.items).toEqual([{ type: 'probe.judged', verdict: 'success' }]);
    expect(JSON.stringify(silent.items)).not.toContain('i/o timeout');
  });

  it('never asks twice at the same time', async () => {
    let [open, most] = [0, 0];
    const port = await httpServer((_, response) => {
      most = Math.max(most, ++open);
      setTimeout(() => {
        open--;
        response.end();
      }, 60);
    });
    const stream = watch(asking(port), { periodSeconds: 0.01, verdict: 'failure', successThreshold: 4 });
    await stream.until(({ type }) => type === 'probe.judged');
    expect(most).toBe(1);
  });

  it('that is cancelled ends at once, during an attempt, and reports nothing more', async () => {
    const port = await rawServer(() => {});
    const stream = watch(asking(port), { timeoutSeconds: 60 });
    await new Promise((resolve) => setTimeout(resolve, 50));
    const before = performance.now();
    await stream.close();
    expect(performance.now() - before).toBeLessThan(30_000);
    expect(stream.items).toEqual([]);
  });
});
