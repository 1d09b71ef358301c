/** Two values are the same if their JSON is, independent of earlier comparisons. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { isSameJson } from '../../src/kernel/json.ts';

const json = (value: unknown): unknown => JSON.parse(JSON.stringify({ value })).value as unknown;

it.each<[unknown, unknown, boolean]>([
  [{ a: 1, b: 2 }, { b: 2, a: 1 }, false],
  [{ a: 1 }, { a: 1, b: undefined }, true],
  [{ a: 1 }, { a: 1, b: null }, false],
  [{ a: 1, b: 2 }, { a: 1 }, false],
  [[1, 2], [1, 2, 3], false],
  [[1], { 0: 1 }, false],
  [{ 0: 1 }, [1], false],
  [[null], [undefined], true],
  [null, Number.NaN, true],
  [null, {}, false],
  ['1970-01-01T00:00:00.000Z', new Date(0), true],
  [{ a: '1970-01-01T00:00:00.000Z' }, { a: new Date(0) }, true],
])('%j and %j', (logged, made, isSame) => {
  expect(isSameJson(logged, made)).toBe(isSame);
  expect(isSameJson(logged, made)).toBe(isSame);
});

it('as their texts are', () => {
  const value = fc.anything({
    maxDepth: 3,
    withNullPrototype: false,
    withBigInt: false,
    withMap: false,
    withSet: false,
  });
  fc.assert(
    fc.property(value, value, (one, other) => {
      expect(isSameJson(json(one), one)).toBe(true);
      expect(isSameJson(json(one), other)).toBe(JSON.stringify(json(one)) === JSON.stringify(json(other)));
    }),
  );
});
