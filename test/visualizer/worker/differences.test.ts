/** What differs between two values of JSON. */
import { expect, it } from 'vitest';
import { differences } from '../../../src/visualizer/worker/execution.ts';

it('names members by their path, with both values', () => {
  const before = { a: 1, b: { c: [1, 2], d: 'x' }, gone: null };
  const after = { a: 1, b: { c: [1, 2, 3], d: 'x' }, came: true };
  expect(differences(before, after)).toEqual([
    { path: 'b.c', before: '[1,2]', after: '[1,2,3]' },
    { path: 'gone', before: 'null' },
    { path: 'came', after: 'true' },
  ]);
  expect(differences(before, structuredClone(before))).toEqual([]);
});

it('is of limited length and depth', () => {
  const many = Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`k${at}`, at]));
  expect(differences({}, many).length).toBe(100);
  const deep = (depth: number, leaf: string): unknown => (depth === 0 ? leaf : { in: deep(depth - 1, leaf) });
  expect(differences(deep(400, 'a'), deep(400, 'b'))).toHaveLength(1);
  expect(differences({ a: '' }, { a: 'x'.repeat(10_000) })[0]!.after!.length).toBeLessThan(2_100);
});
