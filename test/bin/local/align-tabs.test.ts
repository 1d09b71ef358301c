import { expect, it } from 'vitest';
import { age, alignTabs } from '../../../src/bin/local/pod-table.ts';

it('aligns the cells of neighbouring lines, and no others', () => {
  expect(alignTabs('a:\t1\nlonger:\t2\nplain\nb:\t3')).toBe('a:       1\nlonger:  2\nplain\nb:  3');
  expect(alignTabs('x\ty\tz\nxx\tyyyy\tz')).toBe('x   y     z\nxx  yyyy  z');
});

it.each([
  [0, '0s'],
  [119, '119s'],
  [120, '2m'],
  [194, '3m14s'],
  [600, '10m'],
  [3 * 3600 - 1, '179m'],
  [3 * 3600, '3h'],
  [3 * 3600 + 120, '3h2m'],
  [9 * 3600, '9h'],
  [50 * 3600, '2d2h'],
  [9 * 86400, '9d'],
  [800 * 86400, '2y70d'],
])('an age of %i seconds is %s', (seconds, text) => {
  expect(age('1970-01-01T00:00:00Z', seconds * 1_000)).toBe(text);
});
