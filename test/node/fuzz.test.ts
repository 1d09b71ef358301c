/**
 * A daemon whose ports get thousands of messages that are invalid, incomplete, or several at once: it runs, answers
 * health checks, and releases the resources for the messages. `STATELET_FUZZ` is the number of messages (a full run is
 * 200,000), `STATELET_FUZZ_SEED` their seed; message N of a seed is always the same.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { connect as connectPlain, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { message } from '../hardening/fuzz/messages.ts';
import { eventually, TestNode } from '../support/daemon.ts';
import { freePort } from '../support/ports.ts';

const MESSAGES = Number(process.env['STATELET_FUZZ'] ?? 3_000);
const SEED = Number(process.env['STATELET_FUZZ_SEED'] ?? 1);
/** The number of clients at the same time. */
const CLIENTS = 16;
/** How long a client waits for more of an answer before it disconnects. */
const QUIET_MS = 20;
/** For caches that are filled once, and for freed memory that the C library keeps. */
const MEMORY_MAX_KIB = 100 * 1_024;

let node: TestNode;
let readOnlyPort: number;
beforeEach(async () => {
  readOnlyPort = await freePort();
  node = new TestNode({ configuration: `readOnlyPort: ${readOnlyPort}` });
});
afterEach(() => node.close());

type Connect = () => Socket;

function doors(): readonly Connect[] {
  const plain = (port: number) => () => connectPlain(port, '127.0.0.1');
  return [
    () => connectTls({ port: node.port, host: '127.0.0.1', rejectUnauthorized: false }),
    plain(node.port),
    plain(readOnlyPort),
    plain(node.healthzPort),
    plain(node.visualizerPort),
    () => connectPlain(join(node.rootDir, 'statelet.sock')),
  ];
}

/**
 * Sends one message and disconnects when nothing more arrives. Every answer is right, and so is a closed connection.
 */
function send(connect: Connect, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect();
    socket.setTimeout(QUIET_MS, () => socket.destroy());
    socket.on('error', () => {}).on('data', () => {});
    socket.once('close', () => resolve());
    socket.write(bytes);
  });
}

const status = (name: string): number =>
  Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${node.pid}/status`, 'utf8'))?.[1]);
const descriptors = (): number => readdirSync(`/proc/${node.pid}/fd`).length;

it(`${MESSAGES} hostile messages end nothing, hide nothing and leave nothing`, async () => {
  await node.start(['--anonymous-auth=true']);
  const connects = doors();
  for (let number = 0; number < 200; number++) await send(connects[number % connects.length]!, message(0, number));
  const [memory, files] = [status('VmRSS'), descriptors()];

  let next = 0;
  const client = async (): Promise<void> => {
    for (let number = next++; number < MESSAGES; number = next++) {
      await send(connects[number % connects.length]!, message(SEED, number));
    }
  };
  const waits: number[] = [];
  const clients = Promise.all(Array.from({ length: CLIENTS }, client)).then(() => false);
  while (await Promise.race([clients, new Promise((resolve) => setTimeout(resolve, 50, true))])) {
    const begin = performance.now();
    expect(await node.healthz(), `health after some ${next} messages`).toBe(true);
    waits.push(performance.now() - begin);
  }

  const [median, longest] = [waits.toSorted((a, b) => a - b)[waits.length >> 1]!, Math.max(...waits)];
  console.log(`healthz during ${MESSAGES} messages: median ${median.toFixed(1)} ms, longest ${longest.toFixed(1)} ms`);
  expect(node.isRunning).toBe(true);
  expect(node.log).not.toContain('the thread of the servers was lost');
  await eventually('its connections are closed', () => descriptors() <= files + 10);
  const isGivenBack = () => status('VmRSS') - memory < MEMORY_MAX_KIB;
  await eventually('the memory is given back', isGivenBack);
  console.log(`memory: ${((status('VmRSS') - memory) / 1_024).toFixed(0)} MiB more than before`);
});
