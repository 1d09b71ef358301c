import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { serializer } from '../../src/actors/serializer.ts';

it('serializes work with one key, also after a failure, and not work with different keys', async () => {
  const inTurn = serializer();
  const seen: string[] = [];
  const work =
    (name: string, ms: number, fails = false) =>
    async () => {
      seen.push(`${name} begins`);
      await sleep(ms);
      seen.push(`${name} ends`);
      if (fails) throw new Error(name);
      return name;
    };
  const answers = await Promise.allSettled([
    inTurn('a', work('first', 20, true)),
    inTurn('a', work('second', 0)),
    inTurn('b', work('other', 0)),
  ]);
  expect(answers.map((each) => (each.status === 'fulfilled' ? each.value : each.reason.message))).toEqual([
    'first',
    'second',
    'other',
  ]);
  expect(seen).toEqual(['first begins', 'other begins', 'other ends', 'first ends', 'second begins', 'second ends']);
});
