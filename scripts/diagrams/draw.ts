/** Draws every machine that can be reached from one: file names and their contents, an overview before what it folds. */
import type { AnyStateMachine } from 'xstate';
import { machinesOf } from '../../src/kernel/atomic.ts';
import { chartOf } from './chart.ts';
import { drawingsOf } from './levels.ts';
import { svgOf } from './svg.ts';

export async function drawMachines(root: AnyStateMachine): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const machines = [...machinesOf(root).values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  for (const machine of machines) {
    for (const drawing of await drawingsOf(chartOf(machine))) files.set(`${drawing.name}.svg`, svgOf(drawing));
  }
  return files;
}
