/**
 * Measures a flood of pods: how long an agent takes until all pods run that come at once, how long a pod waits that
 * comes in the middle, and the longest time without an answer of /healthz and without a decision. The runtime has no
 * containers (`bench/memory-runtime.ts`), so that the agent is the limit.
 *
 *   node bench/flood.ts [--pods 1000] [--source file|api]
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startApiServer } from '../test/fakes/api-server/index.ts';
import { eventually, SLEEP, shellPod, TestNode } from '../test/support/daemon.ts';
import { ApiUser } from './api-user.ts';
import type { Contents } from './memory-runtime.ts';
import { rssMiB } from './process-cost.ts';
import { load, percentile } from './statistics.ts';

const { values: flags } = parseArgs({
  options: { pods: { type: 'string', default: '1000' }, source: { type: 'string', default: 'file' } },
});
const pods = Number(flags.pods);

const NODE = 'node1';
const IMAGE = 'localhost/bb:1';
const LIMIT_MS = 30 * 60_000;
const ASK_MS = 50;
/** After the start: the time until the agent has finished the work that follows. */
const SETTLE_MS = 2_000;
/** The time after the first pod at which the measured pod comes. */
const LATE_AFTER_MS = 1_500;

async function contentsOf(runtime: ChildProcess): Promise<Contents> {
  const answer = once(runtime, 'message');
  runtime.send('contents');
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the only message that it sends after its endpoint
  return (await answer)[0] as Contents;
}

/** Asks again and again until the returned function is called, which resolves with the duration of each answer. */
function asked(question: () => Promise<unknown>): () => Promise<number[]> {
  const times: number[] = [];
  const stop = new AbortController();
  const run = async () => {
    while (!stop.signal.aborted) {
      const began = performance.now();
      await question().catch((error: Error) => console.log(`no answer: ${error.message}`));
      times.push(performance.now() - began);
      await sleep(ASK_MS);
    }
  };
  const running = run();
  return async () => {
    stop.abort();
    await running;
    return times;
  };
}

const shown = (times: readonly number[]): string =>
  `p50 ${percentile(times, 50).toFixed(1)}, p99 ${percentile(times, 99).toFixed(1)}, longest ${Math.max(...times).toFixed(0)} ms`;

/** Writes the pods for the node, as files or to the API server. */
interface Source {
  readonly flags: readonly string[];
  put(name: string): Promise<void>;
  close(): Promise<void>;
}

async function apiSource(): Promise<Source> {
  const server = await startApiServer();
  const user = new ApiUser(server);
  const bound = { nodeName: NODE, automountServiceAccountToken: false, dnsPolicy: 'Default' };
  return {
    flags: [`--kubeconfig=${await server.kubeconfig(`system:node:${NODE}`)}`],
    put: (name) => user.post(shellPod(name, IMAGE, SLEEP, bound)),
    async close() {
      await user.close();
      await server.close();
    },
  };
}

const runtime = fork(join(import.meta.dirname, 'memory-runtime.ts'));
const [endpoint] = (await once(runtime, 'message')) as [string];
const api = flags.source === 'api' ? await apiSource() : undefined;
const node = new TestNode({
  endpoint,
  flags: api?.flags ?? [],
  configuration: `maxPods: ${pods + 10}\npodPidsLimit: 100`,
});
const source = api ?? {
  put: async (name: string) => node.write(`${name}.json`, shellPod(name, IMAGE, SLEEP)),
  close: async () => {},
};
console.log(`flood of ${pods} pods (${flags.source}), Node ${process.version}, load before ${load()}`);
try {
  await node.start();
  await sleep(SETTLE_MS);
  const health = asked(() => node.healthz());
  const decisions = asked(() => node.context('kubelet/watchdog'));
  const began = performance.now();
  const since = () => ((performance.now() - began) / 1_000).toFixed(1);
  const putting = Promise.all(Array.from({ length: pods }, (_, i) => source.put(`flood-${i}`)));
  const late = sleep(LATE_AFTER_MS).then(async () => {
    await source.put('late');
    const put = performance.now();
    await eventually(
      'the late pod runs',
      async () => (await contentsOf(runtime)).names.some((name) => name.startsWith('late')),
      LIMIT_MS,
    );
    return performance.now() - put;
  });
  await putting;
  console.log(`all given after ${since()} s`);
  await late.then((ms) => console.log(`a pod that comes in the middle runs after ${(ms / 1_000).toFixed(1)} s`));
  await eventually('all run', async () => (await contentsOf(runtime)).running > pods, LIMIT_MS);
  console.log(`all run after ${since()} s: ${((pods / (performance.now() - began)) * 1_000).toFixed(1)} a second`);
  console.log(`healthz: ${shown(await health())}`);
  console.log(`a question to the thread that decides: ${shown(await decisions())}`);
  console.log(`resident ${rssMiB(node.pid).toFixed(0)} MiB; load ${load()}`);
} finally {
  await node.stop('SIGKILL');
  await node.close();
  await source.close();
  runtime.disconnect();
}
