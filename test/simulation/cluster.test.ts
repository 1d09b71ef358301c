/** Seeded runs of a node in a cluster: whatever goes wrong, all rules hold, and afterwards all is as wanted. */
import { describe, expect, it } from 'vitest';
import { Simulation } from './cluster/simulation.ts';

const FIRST = Number(process.env['STATELET_FIRST_SEED'] ?? 1);
const SEEDS = Number(process.env['STATELET_SEEDS'] ?? 8);

describe('a node in a cluster under chaos', () => {
  it.each(Array.from({ length: SEEDS }, (_, i) => FIRST + i))('seed %i', (seed) => {
    const simulation = new Simulation(seed).run();
    expect(simulation.rules.broken, `\n${simulation.log.join('\n')}`).toEqual([]);
  });
});
