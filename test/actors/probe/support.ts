/** Servers on loopback whose behaviour is decided by a test, and one attempt of a probe against them. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { onTestFinished } from 'vitest';
import { probePorts } from '../../../src/actors/probe/index.ts';
import { criOperations } from '../../../src/machines/model/operations/cri.ts';
import type { ProbeHandler, ProbeWatch } from '../../../src/machines/model/operations/probe.ts';
import { eventually } from '../../support/daemon.ts';
import { type OpenStream, openStream } from '../../support/host-ports.ts';

type Ports = ReturnType<typeof probePorts>;
type Runtime = Parameters<typeof probePorts>[0];

/** Fails the test that execs without a runtime. */
const noRuntime: Runtime = {
  'cri.execSync': () => Promise.reject(new Error(`${Object.keys(criOperations).length} operations, none of them here`)),
};

export const portsOf = (runtime: Runtime = noRuntime): Ports => probePorts(runtime);

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

/** An HTTP server; returns its port. */
export function httpServer(answer: RequestListener): Promise<number> {
  const server = createHttpServer(answer);
  onTestFinished(() => server.close().closeAllConnections());
  return listening(server);
}

/** A server of plain bytes; returns its port. */
export function rawServer(onConnection: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    onConnection(socket);
  });
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return listening(server);
}

/** A thread that listens and never accepts. */
const DEAF = `
  const { parentPort } = require('node:worker_threads');
  const server = require('node:net').createServer();
  server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
    parentPort.postMessage(server.address().port);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });
`;
/** More connections than the kernel queues for a listener that accepts none. */
const CROWD = 8;

/** A port whose queue of connections is full, so that the kernel answers no further connection. */
export async function crowdedPort(): Promise<number> {
  const worker = new Worker(DEAF, { eval: true });
  const [port] = (await once(worker, 'message')) as [number];
  const crowd = Array.from({ length: CROWD }, () => connect(port, '127.0.0.1').on('error', () => {}));
  onTestFinished(async () => {
    for (const socket of crowd) socket.destroy();
    await worker.terminate();
  });
  await eventually('a connection that is not answered', () => beginningConnections(port) > 0);
  const waiting = crowd.filter((socket) => socket.connecting);
  for (const socket of waiting) socket.destroy();
  return port;
}

const SYN_SENT = '02';

/** The connections to this loopback port that have begun and are not answered. */
export function beginningConnections(port: number): number {
  const remote = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const rows = readFileSync('/proc/self/net/tcp', 'utf8').split('\n');
  return rows.map((row) => row.trim().split(/ +/)).filter(([, , to, state]) => to === remote && state === SYN_SENT)
    .length;
}

/** For targets that do not answer in time. */
export const HASTY = { timeoutSeconds: 1 } as const;
const EACH_IS_A_VERDICT = { periodSeconds: 30, timeoutSeconds: 30, successThreshold: 1, failureThreshold: 1 };

export const watch = (
  handler: ProbeHandler,
  more: Partial<ProbeWatch> = {},
  ports = portsOf(),
): OpenStream<{ readonly type: string }> =>
  openStream(ports['probe.watch'], { handler, verdict: null, ...EACH_IS_A_VERDICT, ...more });

/** The result of one attempt: the verdict (`null` for none) and the reports. */
export async function attempt(
  handler: ProbeHandler,
  more: Partial<ProbeWatch> = {},
  ports = portsOf(),
): Promise<{ verdict: string | null; result: string | null; output: string }> {
  const stream = openStream(ports['probe.watch'], { handler, verdict: null, ...EACH_IS_A_VERDICT, ...more });
  const end = await stream.until((item) => item.type === 'probe.judged' || item.result === 'errored', 60_000);
  const report = stream.items.find((item) => item.type === 'probe.reported');
  await stream.close();
  return {
    verdict: end.type === 'probe.judged' ? end.verdict : null,
    result: report?.result ?? null,
    output: report?.output ?? '',
  };
}
