/** What is shown of a value is small, however large the value is. */
import { assert, jsonValue, pre, property } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { trimmed } from '../../../../src/actors/server/visualizer/trim.ts';

describe('trimmed', () => {
  it.each<[string, unknown, unknown]>([
    ['keeps what is small', { a: [1, 'x', null, true] }, { a: [1, 'x', null, true] }],
    ['says how long a text was', 'x'.repeat(1_500), `${'x'.repeat(1_000)}… (1500 characters)`],
    ['keeps a name that objects have a meaning for', JSON.parse('{"__proto__":1}'), JSON.parse('{"__proto__":1}')],
  ])('%s', (_name, value, shown) => {
    expect(JSON.stringify(trimmed(value))).toBe(JSON.stringify(shown));
  });

  it('says how many members are not shown', () => {
    const list = trimmed(Array.from({ length: 100_000 }, (_, i) => i)) as unknown[];
    expect(list.at(-1)).toBe(`… ${100_000 - list.length + 1} more`);
    const object = trimmed(Object.fromEntries(Array.from({ length: 9_000 }, (_, i) => [`k${i}`, i]))) as object;
    expect(Object.entries(object).at(-1)).toEqual(['…', `${9_000 - Object.keys(object).length + 1} more`]);
  });

  it('is small for the deepest and for the widest value', () => {
    let deep: unknown = 'bottom';
    for (let i = 0; i < 5_000; i++) deep = [deep];
    expect(JSON.stringify(trimmed(deep)).length).toBeLessThan(100);
    const wide = Array.from({ length: 200 }, () => Array.from({ length: 200 }, () => 'y'.repeat(2_000)));
    expect(JSON.stringify(trimmed(wide)).length).toBeLessThan(40_000);
  });

  it('keeps any JSON that is small as it is', () => {
    assert(
      property(jsonValue({ maxDepth: 5 }), (value) => {
        pre(JSON.stringify(value).length < 900);
        expect(trimmed(value)).toEqual(value);
      }),
    );
  });
});
