import { expect, it } from 'vitest';
import { initialCadence, nextCadence, type RelistOutcome } from '../../../src/actors/cri/relist-timer.ts';

const clean: RelistOutcome = { listening: true, missed: false, troubled: false, active: false };
const after = (outcomes: readonly RelistOutcome[], from = initialCadence) => outcomes.reduce(nextCadence, from);
const times = (count: number, outcome: Partial<RelistOutcome> = {}) =>
  Array.from({ length: count }, () => ({ ...clean, ...outcome }));

it.each([
  ['at the start', [], 'fast'],
  ['four clean relists', times(4), 'fast'],
  ['five clean relists', times(5), 'settled'],
  ['six more', times(11), 'quiet'],
  ['busy but clean', times(50, { active: true }), 'settled'],
  ['quiet, then active', [...times(11), ...times(1, { active: true })], 'settled'],
  ['nobody to listen to', times(50, { listening: false }), 'fast'],
  ['quiet, then the stream breaks', [...times(11), ...times(1, { listening: false })], 'fast'],
  ['quiet, then a pod hangs', [...times(11), ...times(1, { troubled: true })], 'fast'],
  ['quiet, then a miss', [...times(11), ...times(1, { missed: true })], 'fast'],
  ['a miss asks for twice the proof', [...times(1, { missed: true }), ...times(9)], 'fast'],
  ['and takes it', [...times(1, { missed: true }), ...times(10)], 'settled'],
])('%s', (_what, outcomes, phase) => {
  expect(after(outcomes).phase).toBe(phase);
});

it('the proof that is asked for has a limit', () => {
  expect(after(times(100, { missed: true })).proof).toBe(320);
});
