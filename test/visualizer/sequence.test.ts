/** The sequence of messages in turns of a real kernel. */
import { expect, it } from 'vitest';
import type { ShownRecord } from '../../src/actors/server/visualizer/protocol.ts';
import type { KernelRecord } from '../../src/kernel/records.ts';
import { sequenceOf, WORLD } from '../../src/visualizer/sequence.ts';
import { bootBoss } from '../kernel/support.ts';

const shown = (records: readonly KernelRecord[]): ShownRecord[] =>
  records.map((record) => ({ n: record.n, t: 0, turn: 0, record }));

it('has an arrow for each message, request and answer of a turn, in their order', () => {
  const turns: ShownRecord[][] = [];
  const { kernel, world } = bootBoss({ onTurn: (records) => void turns.push(shown(records)) });
  kernel.dispatch('boss', { type: 'hire', name: 'ann' }, 'test');
  kernel.dispatch('boss', { type: 'order', name: 'ann' }, 'test');
  const arrowsOf = (turn: number) => sequenceOf(turns[turn]!).arrows.map(({ from, to, text }) => [from, to, text]);
  expect(arrowsOf(1)).toEqual([
    [WORLD, 'boss', 'hire'],
    ['boss', 'boss/worker-ann', 'is started'],
    ['boss/worker-ann', WORLD, 'world.listen'],
  ]);
  expect(sequenceOf(turns[1]!).columns).toEqual([WORLD, 'boss', 'boss/worker-ann']);
  expect(arrowsOf(2)).toEqual([
    [WORLD, 'boss', 'order'],
    ['boss', 'boss/worker-ann', 'work'],
    ['boss/worker-ann', WORLD, 'world.make'],
  ]);
  world.answer('world.make', { error: { name: 'Error', message: 'no wood', retriable: true } });
  expect(arrowsOf(3)).toEqual([[WORLD, 'boss/worker-ann', 'world.make failed']]);
  expect(sequenceOf([])).toEqual({ columns: [], arrows: [] });
});
