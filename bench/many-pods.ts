/**
 * Measures many pods: how fast they start, what they cost while they are idle, and how soon an agent that was killed
 * knows all of them again. The run fails if the restart of the agent touches a container.
 */

import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import pLimit from 'p-limit';
import { eventually, SLEEP, shellPod, type TestNode } from '../test/support/daemon.ts';
import { BareProcess } from './bare-process.ts';
import { type PodRequests, removeAll, renamed, startRaw, writeFiles } from './control.ts';
import { type Bench, measure, newNode, PHASE_MS } from './pod-life.ts';
import { cpuMs, familyCpuMs, rssMiB } from './process-cost.ts';
import { load, type Measure } from './statistics.ts';

/** The CPU is the limit: more calls at once only make each one slower. */
const CONCURRENCY = 2 * availableParallelism();
/** After a batch: the time until agent and runtime have the periods of an idle node. */
const SETTLE_MS = 15_000;
const IDLE_MS = 30_000;

interface Summaries {
  readonly pods: Readonly<Record<string, { readonly phase: string; readonly ready: boolean }>>;
}

/** Pods per second by raw calls. */
export async function controlBatch({ client, events }: Bench, pilot: PodRequests, pods: number): Promise<number> {
  const requests = Array.from({ length: pods }, (_, i) => renamed(pilot, `control-${i}-node1`));
  for (const each of requests) await writeFiles(each);
  const mark = events.mark();
  const startedAt = Date.now();
  const limit = pLimit(CONCURRENCY);
  await Promise.all(requests.map((each) => limit(() => startRaw(client, each))));
  const started = await events.wait(mark, 2 * pods, ({ topic }) => topic === 'start');
  return pods / ((started.at(-1)!.atMs - startedAt) / 1_000);
}

async function ourBatch({ containerd, events }: Bench, node: TestNode, pods: number): Promise<number> {
  const mark = events.mark();
  const startedAt = Date.now();
  for (let i = 0; i < pods; i++) node.write(`batch-${i}.json`, shellPod(`batch-${i}`, containerd.image, SLEEP));
  const started = await events.wait(mark, 2 * pods, ({ topic }) => topic === 'start');
  return pods / ((started.at(-1)!.atMs - startedAt) / 1_000);
}

/** Waits until the daemon has read the status of every pod from the runtime. */
async function verified(node: TestNode, pods: number): Promise<void> {
  await eventually(`${pods} pods are known to be ready`, async () => {
    const status = (await node.context('kubelet/status')) as Summaries | null;
    const known = Object.values(status?.pods ?? {});
    return known.filter(({ phase, ready }) => phase === 'Running' && ready).length === pods;
  });
}

async function recovery({ events }: Bench, node: TestNode, pods: number): Promise<number> {
  const mark = events.mark();
  await node.stop('SIGKILL');
  const startedAt = performance.now();
  await node.start();
  await verified(node, pods);
  const tookMs = performance.now() - startedAt;
  const touched = events.since(mark);
  if (touched.length > 0) throw new Error(`the restart touched ${JSON.stringify(touched)}\n${node.log}`);
  return tookMs;
}

async function bareInspection({ containerd }: Bench): Promise<number> {
  const startedAt = performance.now();
  const bare = new BareProcess('inspect', containerd.endpoint);
  await bare.ready();
  const tookMs = performance.now() - startedAt;
  await bare.close();
  return tookMs;
}

/** Milliseconds of CPU per second: of containerd, and of the agent if there is one. */
async function idleCpu({ containerd }: Bench, agent?: number): Promise<number> {
  const used = () => cpuMs(containerd.pid) + (agent === undefined ? 0 : familyCpuMs(agent));
  const before = used();
  await sleep(IDLE_MS);
  return (used() - before) / (IDLE_MS / 1_000);
}

/** The measures of a node with many pods, by their names on the command line. */
export const MANY_PODS = ['batch', 'recovery', 'idle', 'rss'] as const;
type Crowd = (typeof MANY_PODS)[number];
type CrowdMeasures = Readonly<Record<Crowd, Measure>>;

interface ManyPodsSizes {
  readonly rounds: number;
  readonly pods: number;
  readonly only: ReadonlySet<string>;
}

/** Measures a node with pods and without work: what it costs, and how soon a new agent knows its pods. */
async function withAgent(bench: Bench, node: TestNode, { pods, only }: ManyPodsSizes, into: CrowdMeasures) {
  await verified(node, pods);
  await sleep(SETTLE_MS);
  const idle = only.has('idle') ? [await idleCpu(bench, node.pid)] : [];
  const weight = [rssMiB(node.pid)];
  if (only.has('recovery')) {
    const bareMs = [await bareInspection(bench)];
    const ours = [await recovery(bench, node, pods), await recovery(bench, node, pods)];
    into.recovery.rounds.push({ control: [...bareMs, await bareInspection(bench)], ours });
  }
  return { idle, weight };
}

async function oneRound(bench: Bench, pilot: PodRequests, sizes: ManyPodsSizes, into: CrowdMeasures): Promise<void> {
  const { pods, only } = sizes;
  const control = only.has('batch') ? [await controlBatch(bench, pilot, pods)] : [];
  await removeAll(bench.client);
  const node = newNode(bench);
  try {
    await node.start();
    await sleep(PHASE_MS);
    const ours = [await ourBatch(bench, node, pods)];
    if (only.has('batch')) into.batch.rounds.push({ control, ours });
    const { idle, weight } = await withAgent(bench, node, sizes, into);
    await node.stop();
    await sleep(SETTLE_MS);
    const bare = new BareProcess('inspect', bench.containerd.endpoint);
    await bare.ready();
    if (only.has('idle')) into.idle.rounds.push({ control: [await idleCpu(bench)], ours: idle });
    if (only.has('rss')) into.rss.rounds.push({ control: [rssMiB(bare.pid)], ours: weight });
    await bare.close();
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${node.log}`, { cause: error });
  } finally {
    await node.close();
    await removeAll(bench.client);
  }
  if (!only.has('batch')) return;
  control.push(await controlBatch(bench, pilot, pods));
  await removeAll(bench.client);
}

/** Takes the measures of {@link MANY_PODS} that are in `only`; the others stay empty and are left out. */
export async function manyPods(bench: Bench, pilot: PodRequests, sizes: ManyPodsSizes): Promise<Measure[]> {
  const { rounds, pods, only } = sizes;
  const into: CrowdMeasures = {
    batch: measure(`${pods} pods at once`, `raw calls, ${CONCURRENCY} at a time`, 'pods/s'),
    recovery: measure(`SIGKILL, ${pods} pods known again`, 'a bare Node process that asks for every status'),
    idle: measure(`idle CPU with ${pods} pods`, 'containerd without an agent', 'ms/s'),
    rss: measure(`RSS with ${pods} pods`, 'a bare Node process that asked for every status', 'MiB'),
  };
  for (let round = 0; round < rounds; round++) {
    console.log(`round ${round + 1} of ${rounds} with ${pods} pods, load ${load()}`);
    await oneRound(bench, pilot, sizes, into);
  }
  return MANY_PODS.filter((name) => only.has(name)).map((name) => into[name]);
}
