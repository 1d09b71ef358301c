/**
 * Measures whether clients without credentials delay pods: a batch of pods alone, and one while eight clients send the
 * worst messages of the tests' fuzzer, with the agent's health requested all the time.
 *
 *   node bench/siege.ts [--rounds 3] [--pods 30] [--clients 8] [--seconds 60]
 *
 * The clients run at the lowest priority, because attackers are usually on other machines: the CPU that they use here
 * is not the agent's. Requires containerd (as `npm test` does).
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { connectRuntime } from '../src/actors/cri/client.ts';
import { containerdAvailable, startContainerd } from '../test/support/containerd.ts';
import type { TestNode } from '../test/support/daemon.ts';
import { batch, removeBatch, withHealth } from './batch.ts';
import { removeAll } from './control.ts';
import { type Bench, measure, newNode, untilEmpty } from './pod-life.ts';
import { RuntimeEvents } from './runtime-events.ts';
import { load, printMeasures } from './statistics.ts';

const { values: flags } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    pods: { type: 'string', default: '30' },
    clients: { type: 'string', default: '8' },
    seconds: { type: 'string', default: '60' },
  },
});
const [rounds, pods, clients, seconds] = [flags.rounds, flags.pods, flags.clients, flags.seconds].map(Number) as [
  number,
  number,
  number,
  number,
];
/** How long clients attack before the pods come. */
const LEAD_MS = 3_000;

async function removed(bench: Bench, node: TestNode): Promise<void> {
  removeBatch(node, pods);
  await untilEmpty(bench);
}

/** Runs `work` while clients attack, from before its beginning until after its end. */
async function besieged(node: TestNode, work: () => Promise<number>): Promise<number> {
  const ports = [node.port, node.healthzPort, node.visualizerPort];
  const workers = Array.from(
    { length: clients },
    (_, seed) => new Worker(new URL('siege-client.ts', import.meta.url), { workerData: { ports, seed } }),
  );
  const sent = workers.map(async (worker) => Number((await once(worker, 'message'))[0]));
  const [value, health] = await withHealth(node, async () => {
    const end = Date.now() + seconds * 1_000;
    await sleep(LEAD_MS);
    const took = await work();
    await sleep(Math.max(0, end - Date.now()));
    return took;
  });
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is of windows; these are threads
  for (const worker of workers) worker.postMessage('end');
  const messages = (await Promise.all(sent)).reduce((sum, each) => sum + each, 0);
  console.log(`  ${messages} messages; ${health}`);
  return value;
}

async function round(bench: Bench): Promise<{ readonly control: number[]; readonly ours: number[] }> {
  const node = newNode(bench);
  try {
    await node.start();
    // The first batch of an agent runs code for the first time.
    await batch(bench, node, pods);
    await removed(bench, node);
    const control = [await batch(bench, node, pods)];
    await removed(bench, node);
    const ours = [await besieged(node, () => batch(bench, node, pods))];
    await removed(bench, node);
    control.push(await batch(bench, node, pods));
    return { control, ours };
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${node.log}`, { cause: error });
  } finally {
    await node.close();
    await removeAll(bench.client);
  }
}

const unavailable = containerdAvailable();
if (unavailable !== null) {
  console.error(`bench/siege.ts cannot run here: ${unavailable}`);
  process.exit(1);
}
const containerd = await startContainerd();
const client = connectRuntime({ endpoint: containerd.endpoint });
const events = new RuntimeEvents(client);
try {
  console.log(`siege, Node ${process.version}, load before ${load()}`);
  const measured = measure(`${pods} pods while ${clients} clients attack`, 'the same pods alone', 's');
  for (let nth = 0; nth < rounds; nth++) measured.rounds.push(await round({ containerd, client, events }));
  printMeasures([measured]);
} finally {
  events.close();
  await removeAll(client).catch(() => {});
  client.close();
  await containerd.close();
}
