/**
 * Seeded chaos over the pods of a node: whatever goes wrong, nothing runs twice, and afterwards everything is as wanted
 * and nothing of anything else is left. `STATELET_SEEDS=1000` explores; these few are for every run.
 */
import { describe, expect, it } from 'vitest';
import { chaos } from '../support/pods-chaos.ts';

const SEEDS = Number(process.env['STATELET_SEEDS'] ?? 12);

describe('pods under chaos', () => {
  it.each(Array.from({ length: SEEDS }, (_, i) => i + 1))('seed %i', (seed) => {
    const { broken } = chaos(seed);
    expect(broken).toEqual([]);
  });
});
