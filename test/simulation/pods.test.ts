/**
 * Seeded chaos with the pods of a node: whatever fails, nothing runs twice, and afterwards everything wanted exists and
 * nothing else. `STATELET_SEEDS=1000` explores many seeds; every run has a few.
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
