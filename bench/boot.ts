/** Measures the time from exec to the first answer of /healthz, and to the first container of an existing manifest. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually, SLEEP, shellPod } from '../test/support/daemon.ts';
import { freePort } from '../test/support/ports.ts';
import { BareProcess } from './bare-process.ts';
import { type PodRequests, removeAll, renamed, writeFiles } from './control.ts';
import { type Bench, measure, newNode, type Sizes } from './pod-life.ts';
import { load, type Measure } from './statistics.ts';

const isStart = ({ topic }: { topic: string }) => topic === 'start';

async function bareHealthz(): Promise<number> {
  const port = await freePort();
  const startedAt = performance.now();
  const bare = new BareProcess('healthz', String(port));
  await eventually('the bare server answers', async () => (await fetch(`http://127.0.0.1:${port}/healthz`)).ok);
  const tookMs = performance.now() - startedAt;
  await bare.close();
  return tookMs;
}

async function ourHealthz(bench: Bench): Promise<number> {
  const node = newNode(bench);
  try {
    return await node.start();
  } finally {
    await node.stop();
    await node.close();
  }
}

async function bareFirstPod({ containerd, client, events }: Bench, pilot: PodRequests): Promise<number> {
  const requests = renamed(pilot, 'first-node1');
  await writeFiles(requests);
  const file = join(containerd.directory, 'requests.json');
  writeFileSync(file, JSON.stringify(requests));
  const mark = events.mark();
  const startedAt = Date.now();
  const bare = new BareProcess('start', containerd.endpoint, file);
  const [, container] = await events.wait(mark, 2, isStart);
  await bare.close();
  await removeAll(client);
  return container!.atMs - startedAt;
}

async function ourFirstPod(bench: Bench): Promise<number> {
  const { containerd, client, events } = bench;
  const node = newNode(bench);
  try {
    node.write('first.json', shellPod('first', containerd.image, SLEEP));
    const mark = events.mark();
    const startedAt = Date.now();
    await node.start();
    const [, container] = await events.wait(mark, 2, isStart);
    return container!.atMs - startedAt;
  } finally {
    await node.stop();
    await node.close();
    await removeAll(client);
  }
}

export async function boot(bench: Bench, pilot: PodRequests, { rounds }: Pick<Sizes, 'rounds'>): Promise<Measure[]> {
  const healthz = measure('exec to healthz', 'a bare Node server, the same observer');
  const firstPod = measure('exec to first pod', 'a bare Node process that makes the 3 calls');
  for (let round = 0; round < rounds; round++) {
    console.log(`boot round ${round + 1} of ${rounds}, load ${load()}`);
    for (const [into, control, ours] of [
      [healthz, bareHealthz, () => ourHealthz(bench)],
      [firstPod, () => bareFirstPod(bench, pilot), () => ourFirstPod(bench)],
    ] as const) {
      const first = await control();
      const both = [await ours(), await ours()];
      into.rounds.push({ control: [first, await control()], ours: both });
    }
  }
  return [healthz, firstPod];
}
