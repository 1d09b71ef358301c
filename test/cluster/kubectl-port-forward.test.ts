/**
 * The recorded kubectl port-forward commands, by WebSocket and by SPDY, with a daemon on a real containerd and through
 * an API server, and a client that sends the same requests as the recorder's.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { containerdAvailable } from '../support/containerd.ts';
import { eventually } from '../support/daemon.ts';
import { Scene } from '../support/kubectl-scene.ts';
import { differences, protocol, type Transcript, transcripts } from '../support/kubectl-transcripts.ts';
import { freePort } from '../support/ports.ts';
import { requirement } from '../support/require.ts';

const missing = spawnSync('which', ['kubectl']).status === 0 ? null : 'there is no kubectl';
const skip = requirement('kubectl', missing).skip || requirement('containerd', containerdAvailable()).skip;

/** The answers to the recorder's client, and its remark: how it sent requests, and how many at once. */
interface Forwarding extends Transcript {
  readonly note: string;
  readonly client?: unknown;
}

const LARGE_BYTES = 3_000_000;
/** The folder of the files that the recorded pod serves, in its container. */
const SERVED = '/work';
const WRITE_LARGE = ['dd', 'if=/dev/zero', `of=${SERVED}/large`, 'bs=1000', `count=${LARGE_BYTES / 1_000}`];

describe.skipIf(skip)('kubectl port-forward', () => {
  let scene: Scene;
  beforeAll(async () => {
    scene = await Scene.open({
      pods: ['web', 'hostnet', 'waiting', 'done'],
      settled: ['web Running 2', 'hostnet Running 1', 'done Succeeded 0'],
    });
    await scene.kubectl.run({ argv: ['exec', 'web', '-c', 'httpd', '--', ...WRITE_LARGE] });
  });
  afterAll(() => scene?.close());

  it.each(['websocket', 'spdy'])('by %s', async (name) => {
    const as = { name: `portforward-${name}`, env: protocol(name === 'websocket') };
    const recorded = transcripts('portforward-spdy', as) as Forwarding[];
    const wrong = new Map<string, string>();
    for (const each of recorded) {
      const found = await played(each);
      if (found.length > 0) wrong.set(each.id, `${each.argv.join(' ')} (${each.note}): ${found.join('; ')}`);
    }
    scene.judge(recorded, wrong);
  });

  async function played(recorded: Forwarding): Promise<string[]> {
    const { argv, ports, remote } = await withPorts(recorded.argv);
    if (!recorded.client) return differences(recorded, await scene.kubectl.run({ ...recorded, argv }), scene.kubectl);
    const child = scene.kubectl.start({ ...recorded, argv });
    const printed = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const)
      child[name]!.on('data', (chunk) => (printed[name] += String(chunk)));
    const ended = once(child, 'close') as Promise<[number]>;
    await eventually('kubectl forwards', () => printed.stdout.split('Forwarding from').length > ports.length);
    const found = await clientDifferences(recorded, ports);
    if (recorded.exitCode === 0) child.kill('SIGINT');
    const [exitCode] = await ended;
    const stdout = printed.stdout.replaceAll(`-> ${remote}\n`, '-> ${PORT}\n');
    const output = { exitCode, stdout: Buffer.from(stdout), stderr: Buffer.from(printed.stderr) };
    return [...found, ...differences(recorded, output, scene.kubectl)];
  }

  /** Replaces ports by free ones, and a port of the recorded machine by the node's health port. */
  async function withPorts(words: readonly string[]) {
    const ports: number[] = [];
    const remote = scene.node.healthzPort;
    const argv: string[] = [];
    for (const word of words) {
      const port = word.startsWith('${PORT}:') ? await freePort() : 0;
      if (port > 0) ports.push(port);
      argv.push(word.replace('${PORT}', String(port)).replace('${PORT}', String(remote)));
    }
    return { argv, ports, remote };
  }
});

async function clientDifferences({ client, note, argv }: Forwarding, ports: readonly number[]): Promise<string[]> {
  const wanted = answersIn(client);
  const path = note.startsWith('3 MB') ? '/large' : argv[1] === 'hostnet' ? '/healthz' : '/index.html';
  const opened = (nth: number) => connect(ports[ports.length > 1 ? nth : 0]!, '127.0.0.1');
  // The first connection to a port without a server ends the forwarding: a second connection is refused.
  if (wanted.length === 0) await answerTo(opened(0), path);
  const first = note.startsWith('interleaved') ? opened(0) : null;
  const got = await Promise.all(wanted.slice(first ? 1 : 0).map((_each, nth) => answerTo(opened(nth), path)));
  if (first) got.push(await answerTo(first, path));
  return wanted.flatMap((want, nth) =>
    want === got[nth] ? [] : [`the client got ${JSON.stringify(got[nth])} instead of ${JSON.stringify(want)}`],
  );
}

/** The status and the body of each answer to the client. */
function answersIn(client: unknown): string[] {
  if (typeof client === 'string') return client.startsWith('HTTP/') ? [summary(client)] : [];
  if (typeof client !== 'object' || client === null) return [];
  // The recording has the number of bytes of head and body together, and the head is the server's own.
  if ('sha256' in client) return [`200 ${checksum(Buffer.alloc(LARGE_BYTES))}`];
  return Object.values(client).flatMap(answersIn);
}

async function answerTo(socket: Socket, path: string): Promise<string> {
  const parts: Buffer[] = [];
  socket.on('data', (part: Buffer) => parts.push(part));
  socket.on('error', () => {});
  socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
  await once(socket, 'close');
  return summary(Buffer.concat(parts).toString('latin1'));
}

function summary(answer: string): string {
  const [head = '', ...rest] = answer.split('\r\n\r\n');
  const body = rest.join('\r\n\r\n');
  return `${head.split(' ')[1]} ${body.length > 1_000 ? checksum(Buffer.from(body, 'latin1')) : body}`;
}

const checksum = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
