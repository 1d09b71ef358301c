/** Pages of records: packed and unpacked, found by number and by turn, with a start that is never dropped. */
import { expect, it } from 'vitest';
import type { ShownRecord } from '../../../src/actors/server/visualizer/protocol.ts';
import { PAGE_RECORDS, RecordPages, range } from '../../../src/visualizer/worker/record-pages.ts';

const log = (n: number, cause?: number): ShownRecord => ({
  n,
  t: 1_000 + n,
  turn: Math.floor(n / 4),
  ...(cause === undefined ? {} : { cause }),
  record: { n, k: 'log', at: `a/${n % 3}`, level: 'info', text: `line ${n}` },
});
const logs = (from: number, to: number) => [...range(from, to)].map((n) => log(n, n === 0 ? undefined : n - 1));

it('gives back what it was given, packed or not', async () => {
  const pages = new RecordPages(10);
  const given = logs(0, 3 * PAGE_RECORDS + 7);
  pages.append(given);
  await expect.poll(() => pages.packedBytes).toBeGreaterThan(0);
  expect(pages.size).toBe(given.length);
  expect(await pages.at(range(0, pages.size))).toEqual(given);
  expect(await pages.turn(5)).toEqual(given.filter(({ turn }) => turn === 5));
});

it('finds records by number, also where some are missing, and counts those', () => {
  const pages = new RecordPages(10);
  pages.append([...logs(0, 10), ...logs(50, 60)]);
  expect([pages.indexOf(5), pages.indexOf(20), pages.indexOf(55), pages.indexOf(99)]).toEqual([5, 10, 15, 20]);
  expect([pages.has(9), pages.has(20)]).toEqual([true, false]);
  expect(pages.missed).toBe(40);
  pages.append(logs(55, 62));
  expect([pages.size, pages.last]).toEqual([22, 61]);
});

it('drops pages of the middle, never the start', async () => {
  const pages = new RecordPages(2);
  const all = logs(0, 100 * PAGE_RECORDS);
  const dropped = [];
  for (let at = 0; at < all.length; at += 500) dropped.push(pages.append(all.slice(at, at + 500)));
  expect(pages.row(80 * PAGE_RECORDS - 1)!.n).toBe(80 * PAGE_RECORDS - 1);
  expect(pages.row(80 * PAGE_RECORDS)!.n).toBe(96 * PAGE_RECORDS);
  expect(pages.missed).toBe(16 * PAGE_RECORDS);
  const [from, count] = [80 * PAGE_RECORDS, 16 * PAGE_RECORDS];
  expect(dropped.find((each) => each)).toEqual({ from, to: from + count - 1, index: from, count });
});

it('names what followed from a record, directly or through others', () => {
  const pages = new RecordPages(2);
  pages.append([log(0), log(1, 0), log(2), log(3, 1), log(4, 2), log(5, 3)]);
  expect(pages.followers(0, 9)).toEqual([1, 3, 5]);
  expect(pages.followers(0, 2)).toEqual([1, 3]);
  expect(pages.followers(5, 9)).toEqual([]);
});

it('counts records by actor and in time', () => {
  const pages = new RecordPages(2);
  pages.append(logs(0, 9));
  expect(pages.busiest()).toEqual([0, 1, 2].map((id) => ({ name: `a/${id}`, records: 3 })));
  expect(pages.pauses(3)).toEqual([1, 1, 1]);
});

it('finds the records that a name is in: as actor, as sender, as the object that a line is about', () => {
  const pages = new RecordPages(2);
  const line: ShownRecord = { ...log(2), record: { ...log(2).record, fields: { object: 'default/web' } } as never };
  const message = { n: 3, k: 'message', from: 'a/9', to: 'b', event: { type: 'x' } } as const;
  pages.append([log(0), log(1), line, { ...log(3), record: message }]);
  const naming = (...names: string[]) =>
    pages.indexesNaming(
      (name) => names.includes(name),
      () => true,
    );
  expect([naming('a/1'), naming('a/9'), naming('b', 'default/web'), naming('none')]).toEqual([[1], [3], [2, 3], []]);
});
