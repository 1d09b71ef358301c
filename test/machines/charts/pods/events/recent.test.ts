import { expect, it } from 'vitest';
import {
  noneRecent,
  type Recent,
  recentOf,
  withRecent,
} from '../../../../../src/machines/charts/pods/events/event-recorder.ts';

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

it('what is kept again goes behind the others of its list, wherever it stood', () => {
  // The keys of one of the 128 lists over which these names are distributed.
  const [first] = numbered(1_000);
  const keys = first!.split('\n').map((text) => (JSON.parse(text) as [string, number])[0]);
  expect(keys.length).toBeGreaterThan(3);
  for (const key of keys) {
    const [list] = withRecent(numbered(1_000), key, -1);
    const after = list!.split('\n').map((text) => JSON.parse(text) as [string, number]);
    expect(after.map(([each]) => each)).toEqual([...keys.filter((each) => each !== key), key]);
    expect(after.at(-1)).toEqual([key, -1]);
  }
});

it('a key that begins as another one is another one', () => {
  const both = withRecent(withRecent(noneRecent, 'a', 1), 'a",2', 2);
  expect([recentOf(both, 'a'), recentOf(both, 'a",2')]).toEqual([1, 2]);
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
