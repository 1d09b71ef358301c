/** A batch of equal pods, written without pauses, and the health of the agent meanwhile. */
import { setTimeout as sleep } from 'node:timers/promises';
import { SLEEP, shellPod, type TestNode } from '../test/support/daemon.ts';
import type { Bench } from './pod-life.ts';
import { percentile } from './statistics.ts';

const HEALTH_PERIOD_MS = 50;

/** Seconds from the first manifest to the last container's start. */
export async function batch({ containerd, events }: Bench, node: TestNode, pods: number): Promise<number> {
  const mark = events.mark();
  const names = Array.from({ length: pods }, (_, i) => `pod-${i}`);
  const startedAt = Date.now();
  for (const name of names) node.write(`${name}.json`, shellPod(name, containerd.image, SLEEP));
  const started = await events.wait(mark, 2 * pods, ({ topic }) => topic === 'start');
  return (started.at(-1)!.atMs - startedAt) / 1_000;
}

export const removeBatch = (node: TestNode, pods: number): void => {
  for (let i = 0; i < pods; i++) node.remove(`pod-${i}.json`);
};

/** Requests the agent's health until `work` is done; the second value describes the answers in words. */
export async function withHealth<T>(node: TestNode, work: () => Promise<T>): Promise<readonly [T, string]> {
  const waits: number[] = [];
  let refused = 0;
  const over = new AbortController();
  const asking = (async () => {
    for (; !over.signal.aborted; await sleep(HEALTH_PERIOD_MS)) {
      const begin = performance.now();
      if (await node.healthz().catch(() => false)) waits.push(performance.now() - begin);
      else refused++;
    }
  })();
  const value = await work();
  over.abort();
  await asking;
  const [p50, p99, longest] = [percentile(waits, 50), percentile(waits, 99), Math.max(...waits)].map((ms) =>
    ms.toFixed(1),
  );
  return [value, `healthz p50 ${p50}, p99 ${p99}, longest ${longest} ms, ${refused} times no answer`];
}
