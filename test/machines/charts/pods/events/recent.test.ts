import { expect, it } from 'vitest';
import {
  noneRecent,
  type Recent,
  recentOf,
  withRecent,
} from '../../../../../src/machines/charts/pods/events/event-correlator.ts';

const numbered = (count: number): Recent<number> => {
  let recent: Recent<number> = noneRecent;
  for (let i = 0; i < count; i++) recent = withRecent(recent, `k${i}`, i);
  return recent;
};
const sizeOf = (recent: Recent<number>): number =>
  recent.reduce((sum, list) => sum + list.split('\n').filter(Boolean).length, 0);

it('a value is what was kept last under its key', () => {
  const once = withRecent(noneRecent, 'a', 1);
  expect(recentOf(withRecent(once, 'a', 2), 'a')).toBe(2);
  expect([recentOf(once, 'a'), recentOf(once, 'b')]).toEqual([1, undefined]);
});

it('as many as a node needs stay, and of too many the newest', () => {
  expect(sizeOf(numbered(2_000))).toBe(2_000);
  const full = numbered(20_000);
  expect(sizeOf(full)).toBe(4_096);
  expect([recentOf(full, 'k0'), recentOf(full, 'k19999')]).toEqual([undefined, 19_999]);
});

it('the digest of a turn writes a text a list, not each value', () => {
  expect(new Set(numbered(20_000).map((list) => typeof list))).toEqual(new Set(['string']));
});
