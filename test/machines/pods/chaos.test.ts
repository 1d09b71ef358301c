/** Seeded chaos: whatever goes wrong, nothing runs twice, and afterwards everything is as wanted. */
import { describe, expect, it } from 'vitest';
import { chaos } from '../../support/pods-chaos.ts';

/** The simulation of the whole node has hundreds; these are enough to guard the room. */
const SEEDS = Number(process.env['CHAOS_SEEDS'] ?? 12);

describe('pods under chaos', () => {
  it.each(Array.from({ length: SEEDS }, (_, i) => i + 1))('seed %i', (seed) => {
    const { broken } = chaos(seed);
    expect(broken).toEqual([]);
  });
});
