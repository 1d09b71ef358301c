/**
 * Runs pods that come and go, a round at once, in one daemon, and counts the resources that remain. Exits with 1 if
 * there are any.
 *
 *   node bench/soak.ts [--pods 2000] [--round 20]
 *
 * Requires containerd. The first quarter of the pods fills the caches; memory is judged by the others, from 1,000 pods
 * on.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { connectRuntime } from '../src/actors/cri/client.ts';
import { containerdAvailable, startContainerd } from '../test/support/containerd.ts';
import { boundPod, bytesBelow, ClusterNode } from './cluster-node.ts';
import { type HeldResources, heldResources } from './held-resources.ts';
import { rssMiB } from './process-cost.ts';
import { load, printTable } from './statistics.ts';

/**
 * The most that the daemon may grow for each pod that has ended. V8's heap varies by 25 MiB, so minima are compared.
 */
const KIB_A_POD_MAX = 16;
const REPORT_PODS = 100;
/** The time until everything is gone that outlives a pod: folders, log folders, dead containers, idle connections. */
const SETTLE_MS = 150_000;
const SETTLE_POLL_MS = 2_000;
/** With fewer pods, the heap varies by more than what could leak. */
const WEIGHED_PODS_MIN = 1_000;

const { values: flags } = parseArgs({
  options: { pods: { type: 'string', default: '2000' }, round: { type: 'string', default: '20' } },
});
const pods = Number(flags.pods);
const atOnce = Number(flags.round);

interface Weight {
  readonly pods: number;
  readonly mib: number;
}

async function oneRound({ user }: ClusterNode, first: number, manifest: (name: string) => ReturnType<typeof boundPod>) {
  const names = Array.from({ length: Math.min(atOnce, pods - first) }, (_, i) => `soak-${first + i}`);
  await Promise.all(names.map((name) => user.start(manifest(name))));
  await Promise.all(names.map((name) => user.remove(name)));
}

/** The names of the resources that have grown. */
const grown = (before: HeldResources, after: HeldResources): string[] =>
  Object.keys(after).filter((name) => (after[name] ?? 0) > (before[name] ?? 0));

/** The growth per pod, from the minimum in the second quarter of the run to the minimum in the last one. */
function growthKib(weights: readonly Weight[]): number {
  const least = (quarter: number) => {
    const inIt = weights.filter((weight) => Math.ceil((4 * weight.pods) / pods) === quarter);
    return Math.min(...inIt.map(({ mib }) => mib));
  };
  return ((least(4) - least(2)) * 1_024) / (pods / 2);
}

function report(before: HeldResources, after: HeldResources, weights: readonly Weight[]): boolean {
  const rows = Object.keys(after).map((name) => [name, String(before[name]), String(after[name])]);
  printTable(['what', 'before', 'after'], rows);
  const leaked = grown(before, after);
  for (const name of leaked)
    console.error(`leaked: ${name}: ${before[name]} before, ${after[name]} after ${pods} pods`);
  const kibAPod = growthKib(weights);
  console.log(`memory: ${kibAPod.toFixed(1)} KiB a pod (at most ${KIB_A_POD_MAX}, from ${WEIGHED_PODS_MIN} pods on)`);
  const isHeavy = pods >= WEIGHED_PODS_MIN && kibAPod > KIB_A_POD_MAX;
  if (isHeavy) console.error(`leaked: memory: ${kibAPod.toFixed(1)} KiB a pod`);
  return leaked.length === 0 && !isHeavy;
}

async function soak(cluster: ClusterNode, where: Parameters<typeof heldResources>[0]): Promise<boolean> {
  const manifest = (name: string) => boundPod(name, where.containerd);
  // The first pod creates what stays for good: connections, folders, groups.
  await cluster.user.start(manifest('first'));
  await cluster.user.remove('first');
  await settled(where, null);
  const before = await heldResources(where);
  const journalBefore = bytesBelow(cluster.node.journal);
  const weights: Weight[] = [];
  for (let done = 0; done < pods; ) {
    await oneRound(cluster, done, manifest);
    done = Math.min(pods, done + atOnce);
    weights.push({ pods: done, mib: rssMiB(cluster.node.pid) });
    if (done % REPORT_PODS < atOnce) console.log(`${done} pods: ${weights.at(-1)!.mib.toFixed(1)} MiB, load ${load()}`);
  }
  await settled(where, before);
  const journal = (bytesBelow(cluster.node.journal) - journalBefore) / pods;
  console.log(`journal: ${(journal / 1_024).toFixed(0)} KiB a pod`);
  const troubles = cluster.troubles();
  for (const trouble of new Set(troubles)) console.log(`  warning: ${trouble}`);
  return report(before, await heldResources(where), weights);
}

/** Waits until nothing is left of a pod, or until the time is over, so that the report lists the rest. */
async function settled(where: Parameters<typeof heldResources>[0], before: HeldResources | null): Promise<void> {
  const deadline = performance.now() + SETTLE_MS;
  while (performance.now() < deadline) {
    await sleep(SETTLE_POLL_MS);
    const now = await heldResources(where);
    const isQuiet =
      before === null ? now['sandboxes'] === 0 && now['containers'] === 0 : grown(before, now).length === 0;
    if (isQuiet) return;
  }
}

const unavailable = containerdAvailable();
if (unavailable !== null) {
  console.error(`bench/soak.ts cannot run here: ${unavailable}`);
  process.exit(1);
}
const containerd = await startContainerd();
const client = connectRuntime({ endpoint: containerd.endpoint });
const cluster = await ClusterNode.create(containerd);
try {
  console.log(`${pods} pods, ${atOnce} at once, Node ${process.version}, load before ${load()}`);
  await cluster.start();
  if (!(await soak(cluster, { cluster, containerd, client }))) process.exitCode = 1;
} catch (error) {
  throw new Error(`${(error as Error).message}\n${cluster.node.log}`, { cause: error });
} finally {
  await cluster.close();
  client.close();
  await containerd.close();
}
