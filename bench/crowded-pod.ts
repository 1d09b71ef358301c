/**
 * Measures one pod with many containers, from its manifest until all of them run: CPU per container, and the longest
 * turn, in the world of the tests, whose runtime answers at once.
 *
 *   node bench/crowded-pod.ts [--containers 10,100,200,500,1000]
 */
import { parseArgs } from 'node:util';
import { image, manifest, PodsNode } from '../test/support/pods-node.ts';
import { printTable } from './statistics.ts';

const { values: flags } = parseArgs({ options: { containers: { type: 'string', default: '10,100,200,500,1000' } } });
const IMAGE = 'app:1';
const MINUTE_MS = 60_000;

function measured(count: number): readonly string[] {
  let longestMs = 0;
  const node = new PodsNode({
    settings: { serializeImagePulls: false },
    onTurn: (_records, _kernel, tookMs) => {
      longestMs = Math.max(longestMs, tookMs);
    },
  });
  node.world.runtime.images.set(IMAGE, image(IMAGE));
  node.boot();
  const containers = Array.from({ length: count }, (_, i) => ({ name: `c${i}`, image: IMAGE }));
  const before = process.cpuUsage();
  node.world.setManifests([manifest({ uid: 'pod', containers })]);
  node.run(MINUTE_MS);
  const { user, system } = process.cpuUsage(before);
  if (node.phase('pod') !== 'Running') throw new Error(`the pod of ${count} containers is ${node.phase('pod')}`);
  return [String(count), ((user + system) / 1_000 / count).toFixed(2), longestMs.toFixed(0)];
}

measured(10);
const rows = flags.containers.split(',').map((count) => measured(Number(count)));
printTable(['containers of one pod', 'CPU a container, ms', 'longest turn, ms'], rows);
