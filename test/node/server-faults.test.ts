/** The thread of the servers fails in every way a thread can, and the daemon continues to decide. */
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { exchange } from '../actors/server/exchange.ts';
import { eventually, SLEEP, shellPod, TestNode } from '../support/daemon.ts';
import { InspectedWorker } from '../support/inspected-worker.ts';

const KILLS = Number(process.env['STATELET_KILLS'] ?? 50);
const PODS = 8;
/** Two ways to end at once, alternating. */
const ENDS = ['setImmediate(() => { throw new Error("an injected fault") })', 'process.exit(3)'];

let node: TestNode;
let worker: InspectedWorker;
let isOver: boolean;

beforeEach(async () => {
  node = new TestNode();
  isOver = false;
  await node.start(['--anonymous-auth=true'], { NODE_OPTIONS: '--inspect-port=0' });
  worker = await InspectedWorker.of(node.pid, () => node.log);
});
afterEach(async () => {
  isOver = true;
  await worker.close();
  await node.close();
});

const get = (path: string) => exchange('GET', path, { port: node.port });
const isServed = async (path: string): Promise<boolean> => (await get(path)).status === 200;
const losses = (): number => node.log.match(/server\] "the thread of the servers was lost/g)?.length ?? 0;

/** Milliseconds until both ports answer again after `fault` has ended the thread. */
async function outage(fault: string): Promise<number> {
  const before = losses();
  await worker.evaluate(fault);
  await eventually('the thread is lost', () => losses() > before);
  const lostAt = performance.now();
  await eventually('the ports are back', async () => (await node.healthz()) && (await isServed('/healthz')));
  return performance.now() - lostAt;
}

/** A command streams until the test is over; each time the stream breaks, another one begins. Counts the bytes. */
function streaming(pod: string): { bytes: number; opened: number } {
  const received = { bytes: 0, opened: 0 };
  const query = 'output=1&command=sh&command=-c&command=while+true%3B+do+echo+line%3B+sleep+0.01%3B+done';
  const open = (): void => {
    if (isOver) return;
    const url = `wss://127.0.0.1:${node.port}/exec/default/${pod}/c?${query}`;
    const client = new WebSocket(url, ['v5.channel.k8s.io'], { rejectUnauthorized: false });
    client.once('open', () => received.opened++);
    client.on('message', (data: Buffer) => (received.bytes += data.length));
    client.on('error', () => {});
    client.once('close', () => setTimeout(open, 20));
  };
  open();
  return received;
}

const phases = async (): Promise<string[]> => {
  const { items } = JSON.parse((await get('/pods')).body.toString()) as { items: { status: { phase?: string } }[] };
  return items.map(({ status }) => status.phase ?? '');
};

async function replaysTheSame(): Promise<void> {
  await worker.close();
  await node.stop('SIGINT');
  const replayed = node.statelet('replay', node.journal);
  expect(replayed.stderr + replayed.stdout).toContain('same');
  expect(replayed.code).toBe(0);
}

it(`is lost ${KILLS} times while pods start and a command streams: no decision is lost, the ports come back`, async () => {
  node.write('first.json', shellPod('first', 'busybox', SLEEP));
  await eventually('the first pod runs', async () => (await get('/runningpods/')).body.includes('first-node1'));
  const received = streaming('first-node1');
  await eventually('the command streams', () => received.bytes > 0);
  const { pid } = node;
  const outages: number[] = [];
  for (let kill = 0; kill < KILLS; kill++) {
    if (kill % Math.ceil(KILLS / PODS) === 0) node.write(`p${kill}.json`, shellPod(`p${kill}`, 'busybox', SLEEP));
    outages.push(await outage(ENDS[kill % ENDS.length]!));
    await pause(50);
  }
  const sorted = outages.toSorted((one, other) => one - other);
  console.log(
    `ports back after ${sorted[KILLS >> 1]!.toFixed()} ms (median), ${sorted.at(-1)!.toFixed()} ms (longest)`,
  );
  expect(losses()).toBe(KILLS);
  const pods = Math.ceil(KILLS / Math.ceil(KILLS / PODS)) + 1;
  await eventually('all pods run', async () => (await phases()).filter((phase) => phase === 'Running').length === pods);
  const { opened, bytes } = received;
  await eventually('the command streams again', () => received.opened > 1 && received.bytes > bytes);
  expect(opened).toBeGreaterThan(1);
  expect([node.pid, node.isRunning]).toEqual([pid, true]);
  isOver = true;
  await replaysTheSame();
});

it.each([
  ['a loop without an end', 'for (;;);', /lost: it has not answered for 5 s/],
  ['a heap that is full', 'globalThis.kept = []; for (;;) kept.push(new Array(1e5).fill(0.5));', /lost: .*memory/i],
])('%s is found, and pods start meanwhile', async (_name, fault, why) => {
  node.write('meanwhile.json', shellPod('meanwhile', 'busybox', SLEEP));
  const ms = await outage(fault);
  console.log(`ports back after ${ms.toFixed()} ms`);
  expect(node.log).toMatch(why);
  await eventually('the pod runs', () => /pod="default\/meanwhile-node1".*phase="Running"/.test(node.log));
  await replaysTheSame();
});
