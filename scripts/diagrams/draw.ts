/**
 * Draws every machine that one machine can start: the names of the files and their contents, in the order of the names.
 */
import type { AnyStateMachine } from 'xstate';
import { machinesOf } from '../../src/kernel/steps.ts';
import { chartOf } from './chart.ts';
import { sheetsOf } from './sheets.ts';
import { svgOf } from './svg.ts';

export async function drawMachines(root: AnyStateMachine): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const machines = [...machinesOf(root).values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  for (const machine of machines) {
    for (const sheet of await sheetsOf(chartOf(machine))) files.set(`${sheet.name}.svg`, svgOf(sheet));
  }
  return files;
}
