/**
 * Measures the CPU that the agent's process alone takes for a batch of pods, over a runtime in memory
 * (`bench/memory-runtime.ts`), in turns with another build if one is named.
 *
 *   node bench/agent.ts [--rounds 4] [--pods 30] [--batches 3] [--beside CHECKOUT]
 *
 * CPU is the kernel's figure for the threads of the process, so other load on the machine hardly changes it.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { eventually, SLEEP, STATELET, shellPod, TestNode } from '../test/support/daemon.ts';
import type { Contents } from './memory-runtime.ts';
import { rssMiB } from './process-cost.ts';
import { load, median, printTable } from './statistics.ts';

const { values: flags } = parseArgs({
  options: {
    rounds: { type: 'string', default: '4' },
    pods: { type: 'string', default: '30' },
    batches: { type: 'string', default: '3' },
    beside: { type: 'string' },
  },
});
const [rounds, pods, batches] = [Number(flags.rounds), Number(flags.pods), Number(flags.batches)];

const NANOS_PER_MILLI = 1e6;
/** After a start or a removal: the time until the agent has finished the work that follows. */
const SETTLE_MS = 1_500;
/** The time until an idle process has returned memory. */
const REST_MS = 5_000;
const IMAGE = 'localhost/bb:1';

interface Build {
  readonly name: string;
  readonly entry: string;
}
const builds: Build[] = [
  ...(flags.beside === undefined ? [] : [{ name: 'beside', entry: join(flags.beside, 'src/bin/statelet.js') }]),
  { name: 'this', entry: STATELET },
];
/** By measure, the values of each build. */
const figures = new Map<string, Map<string, number[]>>();

function note(measure: string, build: string, value: number): void {
  const ofMeasure = figures.get(measure) ?? new Map<string, number[]>();
  figures.set(measure, ofMeasure.set(build, [...(ofMeasure.get(build) ?? []), value]));
}

/** Milliseconds of CPU: of all threads, and of V8's compiler threads. */
function cpuOf(pid: number): { all: number; compiling: number } {
  const used = { all: 0, compiling: 0 };
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const read = (name: string) => readFileSync(`/proc/${pid}/task/${thread}/${name}`, 'utf8');
    const ms = Number(read('schedstat').split(' ')[0]) / NANOS_PER_MILLI;
    used.all += ms;
    if (read('comm').includes('V8Worker')) used.compiling += ms;
  }
  return used;
}

async function contentsOf(runtime: ChildProcess): Promise<Contents> {
  const answer = once(runtime, 'message');
  runtime.send('contents');
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the only message that it sends after its endpoint
  return (await answer)[0] as Contents;
}

async function batch(build: Build, node: TestNode, runtime: ChildProcess, number: number): Promise<void> {
  const names = Array.from({ length: pods }, (_, i) => `batch${number}-${i}`);
  await contentsOf(runtime);
  const before = cpuOf(node.pid);
  let calls = 0;
  for (const name of names) node.write(`${name}.json`, shellPod(name, IMAGE, SLEEP));
  await eventually(`${pods} containers run`, async () => {
    const contents = await contentsOf(runtime);
    calls += contents.calls;
    return contents.running >= pods;
  });
  const after = cpuOf(node.pid);
  note(`batch ${number}: CPU a pod, ms`, build.name, (after.all - before.all) / pods);
  note(`batch ${number}: of it compiling, ms`, build.name, (after.compiling - before.compiling) / pods);
  await sleep(SETTLE_MS);
  calls += (await contentsOf(runtime)).calls;
  note(`batch ${number}: calls of CRI a pod`, build.name, calls / pods);
  for (const name of names) node.remove(`${name}.json`);
  await eventually('the runtime is empty', async () => (await contentsOf(runtime)).sandboxes === 0);
  await sleep(SETTLE_MS);
}

async function measure(build: Build): Promise<void> {
  const runtime = fork(join(import.meta.dirname, 'memory-runtime.ts'));
  const [endpoint] = (await once(runtime, 'message')) as [string];
  const elsewhere = ['sh', '-c', 'node=$0; shift; exec "$node" "$ENTRY" "$@"'];
  const node = new TestNode({ endpoint, within: elsewhere });
  try {
    await node.start(['--visualizer-port=off'], { ENTRY: build.entry });
    await sleep(SETTLE_MS);
    for (let number = 1; number <= batches; number++) await batch(build, node, runtime, number);
    note('resident after all, MiB', build.name, rssMiB(node.pid));
    await sleep(REST_MS);
    note(`resident ${REST_MS / 1_000} s later, MiB`, build.name, rssMiB(node.pid));
  } finally {
    await node.stop();
    await node.close();
    runtime.disconnect();
  }
}

console.log(`agent, Node ${process.version}, ${pods} pods a batch, load before ${load()}`);
for (let round = 0; round < rounds; round++) {
  for (const build of round % 2 === 0 ? builds : builds.toReversed()) await measure(build);
  console.log(`round ${round + 1} of ${rounds}, load ${load()}`);
}
const shown = (values: readonly number[] = []): string =>
  `${median(values).toFixed(1)} (${Math.min(...values).toFixed(1)}-${Math.max(...values).toFixed(1)})`;
const rows = [...figures].map(([measured, of]) => [measured, ...builds.map(({ name }) => shown(of.get(name)))]);
printTable(['measure, median (least-greatest)', ...builds.map(({ name }) => name)], rows);
