/**
 * Measures a node of a cluster: a pod from its POST to Running and from its DELETE to DELETED on a watch, compared with
 * raw CRI calls in the same run; the requests to the API server and the bytes of the journal for it; ninety pods at
 * once; an idle minute.
 *
 *   node bench/cluster.ts [--rounds 2] [--samples 10] [--pods 90] [--idle 60] [--only life,batch,idle]
 *
 * Requires containerd. The API server is that of the tests, in this process.
 */
import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { connectRuntime } from '../src/actors/cri/client.ts';
import { containerdAvailable, startContainerd } from '../test/support/containerd.ts';
import { eventually } from '../test/support/daemon.ts';
import { boundPod, bytesBelow, ClusterNode } from './cluster-node.ts';
import { CALL, type PodRequests, removeAll, renamed, startRaw, writeFiles } from './control.ts';
import { controlBatch } from './many-pods.ts';
import { type Bench, measure, pilot, untilEmpty } from './pod-life.ts';
import { RuntimeEvents } from './runtime-events.ts';
import { load, type Measure, median, percentile, printMeasures, printTable } from './statistics.ts';

/** Longer than every period that an agent may poll with, so that no phase is favoured. */
const PHASE_MS = 1_000;
/** After a pod: the time until its late writes are done, its status (10 s at most) and events. */
const SETTLE_MS = 12_000;

const { values: flags } = parseArgs({
  options: {
    rounds: { type: 'string', default: '2' },
    samples: { type: 'string', default: '10' },
    pods: { type: 'string', default: '90' },
    idle: { type: 'string', default: '60' },
    only: { type: 'string', default: 'life,batch,idle' },
  },
});
const only = new Set(flags.only.split(','));
const samples = Number(flags.samples);

interface Row {
  readonly what: string;
  readonly value: string;
  readonly aim: string;
}

interface Result {
  readonly measures: Measure[];
  readonly rows: Row[];
}

interface Lives {
  readonly start: number[];
  readonly stop: number[];
}

const randomPhase = () => sleep(Math.random() * PHASE_MS);

async function controlLives({ client }: Bench, requests: PodRequests): Promise<Lives> {
  const lives: Lives = { start: [], stop: [] };
  for (let i = 0; i < samples; i++) {
    const own = renamed(requests, `control-${i}`);
    await writeFiles(own);
    await randomPhase();
    const startAt = performance.now();
    const { sandboxId, containerId } = await startRaw(client, own);
    lives.start.push(performance.now() - startAt);
    await randomPhase();
    const stopAt = performance.now();
    await client.call('StopContainer', { container_id: containerId, timeout: '1' }, CALL);
    await client.call('StopPodSandbox', { pod_sandbox_id: sandboxId }, CALL);
    lives.stop.push(performance.now() - stopAt);
    await removeAll(client);
  }
  return lives;
}

interface Costs {
  readonly patches: number[];
  readonly reads: number[];
  readonly journalBytes: number[];
}

async function ourLives(bench: Bench, cluster: ClusterNode, costs: Costs): Promise<Lives> {
  const lives: Lives = { start: [], stop: [] };
  for (let i = 0; i <= samples; i++) {
    const name = `ours-${i}`;
    await randomPhase();
    const postedAtMs = Date.now();
    const journalBefore = bytesBelow(cluster.node.journal);
    const startMs = await cluster.user.start(boundPod(name, bench.containerd));
    await randomPhase();
    const asked = cluster.requestsSince(postedAtMs).filter((each) => each.includes(`/pods/${name}`));
    const stopMs = await cluster.user.remove(name);
    await untilEmpty(bench);
    // The first pod also waits for the objects that the node has just begun to follow.
    if (i === 0) continue;
    lives.start.push(startMs);
    lives.stop.push(stopMs);
    costs.patches.push(asked.filter((each) => each.startsWith('PATCH')).length);
    costs.reads.push(asked.filter((each) => each.startsWith('GET')).length);
    costs.journalBytes.push(bytesBelow(cluster.node.journal) - journalBefore);
  }
  return lives;
}

/** Runs a daemon only for this use, because the daemon of a node removes raw pods as orphaned. */
async function withNode<T>(bench: Bench, use: (cluster: ClusterNode) => Promise<T>): Promise<T> {
  const cluster = await ClusterNode.create(bench.containerd);
  try {
    await cluster.start();
    return await use(cluster);
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${cluster.node.log}`, { cause: error });
  } finally {
    await cluster.close();
    // The last requests of the daemon may still be under way.
    await eventually('the runtime is empty', () => removeAll(bench.client).then(() => true));
  }
}

async function life(bench: Bench, requests: PodRequests): Promise<Result> {
  const start = measure('POST to Running', '3 raw calls');
  const stop = measure('DELETE to DELETED', '2 raw calls');
  const costs: Costs = { patches: [], reads: [], journalBytes: [] };
  const rounds = Number(flags.rounds);
  for (let round = 0; round < rounds; round++) {
    console.log(`round ${round + 1} of ${rounds}, load ${load()}`);
    const control = [await controlLives(bench, requests)];
    const ours = await withNode(bench, (cluster) => ourLives(bench, cluster, costs));
    control.push(await controlLives(bench, requests));
    start.rounds.push({ control: control.flatMap((each) => each.start), ours: ours.start });
    stop.rounds.push({ control: control.flatMap((each) => each.stop), ours: ours.stop });
  }
  return { measures: [start, stop], rows: [...latencies(start, stop), ...prices(costs)] };
}

function latencies(start: Measure, stop: Measure): Row[] {
  const started = start.rounds.flatMap(({ ours }) => ours);
  const stopped = stop.rounds.flatMap(({ ours }) => ours);
  const raw = median(start.rounds.flatMap(({ control }) => control));
  return [
    { what: 'POST to Running, p50 and p99, ms', value: both(started), aim: '' },
    { what: 'p99 ÷ p50 of raw calls', value: (percentile(started, 99) / raw).toFixed(2), aim: '≤ 1.7' },
    { what: 'DELETE to DELETED, p50 and p99, ms', value: both(stopped), aim: 'p50 ≤ 400' },
  ];
}

function prices({ patches, reads, journalBytes }: Costs): Row[] {
  return [
    { what: 'PATCH of pods/status a start, most', value: String(Math.max(...patches)), aim: '≤ 2' },
    { what: 'GET of the pod a start, most', value: String(Math.max(...reads)), aim: '0' },
    { what: 'journal a pod, from POST to gone, bytes', value: median(journalBytes).toFixed(0), aim: '' },
  ];
}

const both = (values: readonly number[]): string =>
  `${percentile(values, 50).toFixed(0)}, ${percentile(values, 99).toFixed(0)}`;

async function batch(bench: Bench, requests: PodRequests): Promise<Result> {
  const pods = Number(flags.pods);
  console.log(`${pods} pods at once, load ${load()}`);
  const speed = measure(`${pods} pods at once`, 'raw calls', 'pods/s');
  const control = [await controlBatch(bench, requests, pods)];
  await removeAll(bench.client);
  const { started, stopped, troubles, ours, asked } = await withNode(bench, async (cluster) => {
    const names = Array.from({ length: pods }, (_, i) => `batch-${i}`);
    const sinceMs = Date.now();
    const started = await Promise.all(names.map((name) => cluster.user.start(boundPod(name, bench.containerd))));
    const asked = cluster.requestsSince(sinceMs).filter((each) => each.startsWith('PATCH') && each.includes('/pods/'));
    const stopped = await Promise.all(names.map((name) => cluster.user.remove(name)));
    return { started, stopped, asked, troubles: cluster.troubles(), ours: pods / (Math.max(...started) / 1_000) };
  });
  control.push(await controlBatch(bench, requests, pods));
  await removeAll(bench.client);
  speed.rounds.push({ control, ours: [ours] });
  const rows = [
    { what: `${pods} at once, POST to Running, p50 and p99, ms`, value: both(started), aim: '' },
    { what: `${pods} at once, DELETE to DELETED, p50 and p99, ms`, value: both(stopped), aim: '' },
    { what: `${pods} at once, PATCH of pods/status a start`, value: (asked.length / pods).toFixed(2), aim: '≤ 2' },
    { what: `${pods} at once, warnings`, value: String(troubles.length), aim: '0' },
  ];
  for (const trouble of troubles.slice(0, 5)) console.log(`  ${trouble}`);
  return { measures: [speed], rows };
}

/** Measures a node with one pod that does not change. */
async function idle(bench: Bench): Promise<Result> {
  const seconds = Number(flags.idle);
  console.log(`${seconds} s idle, load ${load()}`);
  const asked = await withNode(bench, async (cluster) => {
    await cluster.user.start(boundPod('quiet', bench.containerd));
    await sleep(SETTLE_MS);
    const sinceMs = Date.now();
    await sleep(seconds * 1_000);
    return cluster.requestsSince(sinceMs);
  });
  const kinds = Map.groupBy(asked, (each) => each);
  const isLease = (kind: string) => /^(PUT|PATCH) .*\/leases\/[^/]+$/.test(kind);
  const rows = [...kinds].map(([kind, all]) => ({
    what: `idle ${seconds} s: ${kind}`,
    value: String(all.length),
    aim: isLease(kind) ? '' : '0',
  }));
  return { measures: [], rows };
}

const PARTS = { life, batch, idle } as const;

async function measureAll(bench: Bench): Promise<void> {
  const requests = await pilot(bench);
  const results: Result[] = [];
  for (const [name, part] of Object.entries(PARTS)) if (only.has(name)) results.push(await part(bench, requests));
  printMeasures(results.flatMap(({ measures }) => measures));
  const rows = results.flatMap((result) => result.rows);
  printTable(
    ['what', 'value', 'aim'],
    rows.map(({ what, value, aim }) => [what, value, aim]),
  );
}

const unavailable = containerdAvailable();
if (unavailable !== null) {
  console.error(`bench/cluster.ts cannot run here: ${unavailable}`);
  process.exit(1);
}
const containerd = await startContainerd();
const client = connectRuntime({ endpoint: containerd.endpoint });
const events = new RuntimeEvents(client);
try {
  console.log(`cluster, Node ${process.version}, ${cpus().length} CPUs, load before ${load()}`);
  await measureAll({ containerd, client, events });
} finally {
  events.close();
  await removeAll(client).catch(() => {});
  client.close();
  await containerd.close();
}
