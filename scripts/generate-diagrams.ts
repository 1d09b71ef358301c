/**
 * Writes `docs/diagrams/<machine id>.svg` for every machine that the kubelet's machine can start.
 *
 * Usage: `node scripts/generate-diagrams.ts [--check]`. With `--check` nothing is written, and the exit code is 1 if a
 * committed chart differs from its machine, is missing, or belongs to no machine.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { kubeletMachine } from '../src/machines/startup/kubelet.ts';
import { drawMachines } from './diagrams/draw.ts';

const DIRECTORY = join(import.meta.dirname, '../docs/diagrams');

/** The names of the charts on disk. */
function present(): string[] {
  mkdirSync(DIRECTORY, { recursive: true });
  return readdirSync(DIRECTORY).filter((name) => name.endsWith('.svg'));
}

/** The names of charts on disk that differ from those of the machines. */
function stale(charts: ReadonlyMap<string, string>): string[] {
  const names = new Set([...charts.keys(), ...present()]);
  const onDisk = new Set(present());
  return [...names].filter(
    (name) => !onDisk.has(name) || readFileSync(join(DIRECTORY, name), 'utf8') !== charts.get(name),
  );
}

const charts = await drawMachines(kubeletMachine);
const outdated = stale(charts);
if (process.argv.includes('--check')) {
  for (const name of outdated) process.stderr.write(`docs/diagrams/${name} is not the chart of its machine\n`);
  if (outdated.length > 0) process.stderr.write('run: node scripts/generate-diagrams.ts\n');
  process.exitCode = outdated.length > 0 ? 1 : 0;
} else {
  for (const name of outdated) {
    const chart = charts.get(name);
    if (chart === undefined) rmSync(join(DIRECTORY, name));
    else writeFileSync(join(DIRECTORY, name), chart);
  }
}
