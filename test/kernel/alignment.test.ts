/** Aligns two sequences of records: no record is lost or changes its place, and equal records are aligned. */
import { array, assert, constantFrom, property } from 'fast-check';
import { expect, it } from 'vitest';
import { align, type Pair } from '../../src/kernel/alignment.ts';
import type { JournalRecord } from '../../src/kernel/records.ts';

const line = (label: string): JournalRecord => {
  const [actor = '', text = ''] = label;
  return { n: 0, k: 'log', at: actor, level: 'info', text };
};
const numbered = (records: readonly JournalRecord[]): JournalRecord[] => records.map((record, n) => ({ ...record, n }));
const label = (record: JournalRecord | null): string =>
  record === null ? '-' : record.k === 'log' ? record.at + record.text : record.k;
const pairs = (a: readonly string[], b: readonly string[]): Pair[] =>
  align(numbered(a.map(line)), numbered(b.map(line)));
const matched = (a: readonly string[], b: readonly string[]): string[] =>
  pairs(a, b).map(({ expected, actual }) => `${label(expected)}|${label(actual)}`);

it('an added or missing record moves the others and changes none', () => {
  expect(matched(['a1', 'b1', 'c1'], ['a1', 'c1'])).toEqual(['a1|a1', 'b1|-', 'c1|c1']);
  expect(matched(['a1', 'c1'], ['a1', 'b1', 'c1'])).toEqual(['a1|a1', '-|b1', 'c1|c1']);
});

it('different records of one actor are a pair; records of different actors are not', () => {
  expect(matched(['a1', 'b1'], ['a2', 'b1'])).toEqual(['a1|a2', 'b1|b1']);
  expect(matched(['a1', 'b1'], ['c1', 'b1'])).toEqual(['a1|-', '-|c1', 'b1|b1']);
});

it('keeps every record, in its order, and pairs only what has one name', () => {
  const records = array(constantFrom('a1', 'a2', 'b1', 'b2', 'c1'), { maxLength: 30 });
  assert(
    property(records, records, (a, b) => {
      const aligned = pairs(a, b);
      expect(aligned.flatMap(({ expected }) => (expected ? [label(expected)] : []))).toEqual(a);
      expect(aligned.flatMap(({ actual }) => (actual ? [label(actual)] : []))).toEqual(b);
      const both = aligned.flatMap(({ expected, actual }) => (expected && actual ? [[expected, actual] as const] : []));
      for (const [expected, actual] of both) expect(label(expected)[0]).toBe(label(actual)[0]);
    }),
  );
});

it('turns of 20,000 records are compared quickly, position by position', () => {
  const long = Array.from({ length: 20_000 }, (_, i) => `a${i % 10}`);
  const begin = performance.now();
  const aligned = pairs(['b1', ...long], [...long, 'c1']);
  expect(aligned.length).toBeGreaterThanOrEqual(20_001);
  expect(performance.now() - begin).toBeLessThan(5_000);
});
