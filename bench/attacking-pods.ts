/**
 * Measures whether pods of one author delay pods of another: a batch beside a hundred attacking pods, and the same
 * batch beside as many harmless ones, while the agent's health is requested all the time.
 *
 *   node bench/attacking-pods.ts [--rounds 2] [--pods 30] [--attackers 100]
 *
 * An attacker has 200 containers with a missing image, variables that double, 1,000 ports or 5,000 variables. While the
 * batch starts, a tenth of the attackers is replaced each second. Requires containerd (as `npm test` does).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { connectRuntime } from '../src/actors/cri/client.ts';
import { containerdAvailable, startContainerd } from '../test/support/containerd.ts';
import { eventually, SLEEP, shellPod, TestNode } from '../test/support/daemon.ts';
import { withHealth } from './batch.ts';
import { removeAll } from './control.ts';
import { measure } from './pod-life.ts';
import { load, printMeasures } from './statistics.ts';

const { values: flags } = parseArgs({
  options: {
    rounds: { type: 'string', default: '2' },
    pods: { type: 'string', default: '30' },
    attackers: { type: 'string', default: '100' },
  },
});
const [rounds, pods, attackers] = [flags.rounds, flags.pods, flags.attackers].map(Number) as [number, number, number];
/** The time until the work that follows the first start of so many pods is done: back-offs, statuses, events. */
const SETTLE_MS = 15_000;
const REPLACE_PERIOD_MS = 1_000;
const REPLACED_SHARE = 10;

const many = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at));
const container = (image: string, more: object) => ({
  containers: [{ name: 'c', image, imagePullPolicy: 'IfNotPresent', command: ['sh', '-c', SLEEP], ...more }],
});
const doubling = (at: number) => ({ name: `V${at}`, value: at === 0 ? 'x' : `$(V${at - 1})$(V${at - 1})` });

/** One attack each. All names differ each time, so that each manifest is a new pod. */
const ATTACKS: readonly ((image: string) => object)[] = [
  () => ({ containers: many(200, (at) => ({ name: `c${at}`, image: 'not-there:1', imagePullPolicy: 'Never' })) }),
  (image) => container(image, { env: many(24, doubling) }),
  (image) => container(image, { ports: many(1_000, (at) => ({ name: `p${at}`, containerPort: at + 1 })) }),
  (image) => container(image, { env: many(5_000, (at) => ({ name: `E${at}`, value: `value ${at}` })) }),
];

let written = 0;
function write(node: TestNode, image: string, at: number, attacks: boolean): void {
  const pod = shellPod(`other-${at}`, image, SLEEP, attacks ? ATTACKS[at % ATTACKS.length]!(image) : {});
  const metadata = { ...pod.metadata, annotations: { written: String(written++) } };
  node.write(`other-${at}.json`, { ...pod, metadata });
}

/**
 * Seconds from the first manifest until all pods of the batch are reported as running. The runtime's events cannot
 * tell, because they include those of the other pods.
 */
async function batch(node: TestNode, image: string, name: string): Promise<number> {
  const names = new Set(many(pods, (at) => `${name}-${at}`));
  const from = node.log.length;
  const startedAt = performance.now();
  for (const each of names) node.write(`${each}.json`, shellPod(each, image, SLEEP));
  await eventually('the pods run', () => {
    const log = node.log.slice(from);
    return [...names].every((each) => new RegExp(`pod="default/${each}-node1".*phase="Running"`).test(log));
  });
  return (performance.now() - startedAt) / 1_000;
}

function removeBatch(node: TestNode, name: string): void {
  for (let at = 0; at < pods; at++) node.remove(`${name}-${at}.json`);
}

/** Seconds for the batch beside the other pods. */
async function beside(attacks: boolean): Promise<number> {
  const { image, endpoint } = containerd;
  const node = new TestNode({ endpoint, configuration: `maxPods: ${2 * (pods + attackers)}` });
  try {
    await node.start();
    for (let at = 0; at < attackers; at++) write(node, image, at, attacks);
    await eventually('the others are known', () => node.log.includes(`other-${attackers - 1}-node1`));
    await sleep(SETTLE_MS);
    // The first batch of an agent runs code for the first time.
    await batch(node, image, 'first');
    removeBatch(node, 'first');
    await sleep(SETTLE_MS);
    let next = 0;
    const replacing = setInterval(() => {
      for (let i = 0; i < attackers / REPLACED_SHARE; i++, next++) write(node, image, next % attackers, attacks);
    }, REPLACE_PERIOD_MS);
    const [took, health] = await withHealth(node, () => batch(node, image, 'pod'));
    clearInterval(replacing);
    console.log(`  beside ${attackers} ${attacks ? 'attackers' : 'harmless pods'}: ${took.toFixed(2)} s; ${health}`);
    return took;
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${node.log.slice(-20_000)}`, { cause: error });
  } finally {
    await node.close();
    await removeAll(client);
  }
}

const unavailable = containerdAvailable();
if (unavailable !== null) {
  console.error(`bench/attacking-pods.ts cannot run here: ${unavailable}`);
  process.exit(1);
}
const containerd = await startContainerd();
const client = connectRuntime({ endpoint: containerd.endpoint });
try {
  console.log(`attacking pods, Node ${process.version}, load before ${load()}`);
  const measured = measure(`${pods} pods beside ${attackers} that attack`, 'the same beside harmless ones', 's');
  for (let nth = 0; nth < rounds; nth++) {
    measured.rounds.push({ control: [await beside(false)], ours: [await beside(true)] });
  }
  printMeasures([measured]);
} finally {
  await removeAll(client).catch(() => {});
  client.close();
  await containerd.close();
}
