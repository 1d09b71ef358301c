/** Seeded runs of a node in a cluster: whatever fails, all rules hold, and afterwards the node has its wanted state. */
import { describe, expect, it } from 'vitest';
import { buildInfo } from '../../src/kernel/build-info.ts';
import { kubeletMachine } from '../../src/machines/startup/kubelet.ts';
import { simulate } from '../../src/simulation/simulation.ts';

const FIRST = Number(process.env['STATELET_FIRST_SEED'] ?? 1);
const SEEDS = Number(process.env['STATELET_SEEDS'] ?? 8);
const build = buildInfo(kubeletMachine, '0');

describe('a node in a cluster under chaos', () => {
  it.each(Array.from({ length: SEEDS }, (_, i) => FIRST + i))('seed %i', (seed) => {
    const { problems, events } = simulate({ seed }, build);
    expect(problems, `\n${events.join('\n')}`).toEqual([]);
  });

  it('the same script is the same run, byte for byte', () => {
    const text = (steps: readonly number[]) => JSON.stringify(simulate({ seed: 3, steps }, build).starts);
    expect(text([0, 1, 2, 3, 4, 5])).toBe(text([0, 1, 2, 3, 4, 5]));
    expect(text([0, 1, 2])).not.toBe(text([0, 1, 3]));
  });

  it('without steps and faults nothing happens but the start', () => {
    const { problems, starts, events } = simulate({ seed: 1, steps: [], faults: false }, build);
    expect(problems).toEqual([]);
    expect(events).toEqual([expect.stringContaining('the disturbances end')]);
    expect(starts.length).toBeLessThanOrEqual(2);
  });
});
