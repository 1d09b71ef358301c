/**
 * Measures what the node agent adds to the runtime, as ratios to a control of the same run; `bench/pod-life.ts`,
 * `bench/boot.ts` and `bench/many-pods.ts` describe the controls.
 *
 *   node bench/pods.ts [--rounds 3] [--samples 10] [--pods 30] [--only life,boot,batch,recovery,idle,rss] [--json FILE]
 *
 * Requires containerd (as `npm test` does). Nothing else should run on the machine meanwhile.
 */
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { connectRuntime } from '../src/actors/cri/client.ts';
import { containerdAvailable, startContainerd } from '../test/support/containerd.ts';
import { boot } from './boot.ts';
import { CALL, removeAll } from './control.ts';
import { MANY_PODS, manyPods } from './many-pods.ts';
import { type Bench, pilot, podLife } from './pod-life.ts';
import { RuntimeEvents } from './runtime-events.ts';
import { load, type Measure, printMeasures, summary } from './statistics.ts';

const { values: flags } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    samples: { type: 'string', default: '10' },
    pods: { type: 'string', default: '30' },
    only: { type: 'string', default: ['life', 'boot', ...MANY_PODS].join(',') },
    json: { type: 'string' },
  },
});
const rounds = Number(flags.rounds);
const samples = Number(flags.samples);
const pods = Number(flags.pods);

async function measureAll(bench: Bench): Promise<Measure[]> {
  const requests = await pilot(bench);
  const only = new Set(flags.only.split(','));
  const measures: Measure[] = [];
  if (only.has('life')) measures.push(...(await podLife(bench, requests, { rounds, samples })));
  if (only.has('boot')) measures.push(...(await boot(bench, requests, { rounds })));
  if (MANY_PODS.some((name) => only.has(name)))
    measures.push(...(await manyPods(bench, requests, { rounds, pods, only })));
  return measures;
}

const unavailable = containerdAvailable();
if (unavailable !== null) {
  console.error(`bench/pods.ts cannot run here: ${unavailable}`);
  process.exit(1);
}
const containerd = await startContainerd();
const client = connectRuntime({ endpoint: containerd.endpoint });
const events = new RuntimeEvents(client);
try {
  const version = await client.call('Version', {}, CALL);
  const machine = {
    runtime: `${version.runtime_name} ${version.runtime_version}`,
    node: process.version,
    cpus: cpus().length,
    load: load(),
  };
  console.log(`pods, ${machine.runtime}, Node ${machine.node}, ${machine.cpus} CPUs, load before ${machine.load}`);
  const measures = await measureAll({ containerd, client, events });
  printMeasures(measures);
  if (flags.json !== undefined) {
    const result = { machine, rounds, samples, pods, summaries: measures.map(summary), measures };
    writeFileSync(flags.json, `${JSON.stringify(result, null, 2)}\n`);
  }
} finally {
  events.close();
  await removeAll(client).catch(() => {});
  client.close();
  await containerd.close();
}
