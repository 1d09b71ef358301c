/** A search continues after records in its middle are dropped; names of dropped records are forgotten. */
import { expect, it } from 'vitest';
import type { ShownRecord } from '../../../src/actors/server/visualizer/protocol.ts';
import { PAGE_RECORDS, RecordPages, range } from '../../../src/visualizer/worker/record-pages.ts';
import { Search } from '../../../src/visualizer/worker/search.ts';

/** Each page has an actor of its own. */
const nameAt = (n: number): string => `a/${Math.floor(n / PAGE_RECORDS)}`;
const log = (n: number): ShownRecord => ({
  n,
  t: n,
  turn: n,
  record: { n, k: 'log', at: nameAt(n), level: 'info', text: `line ${n}` },
});

it('has the same as one that begins when all is there', async () => {
  const pages = new RecordPages(2);
  const query = {
    mayMatch: ({ n }: { readonly n: number }) => n % 3 === 0,
    matches: ({ n }: ShownRecord) => n % 5 === 0,
  };
  const search = new Search(pages, query);
  for (let n = 0; n < 140 * PAGE_RECORDS; n += 1_000) {
    const dropped = pages.append([...range(n, n + 1_000)].map(log));
    if (dropped) search.drop(dropped);
    if (n % 3_000 === 0) await search.go(() => {});
  }
  await search.go(() => {});
  const other = new Search(pages, query);
  await other.go(() => {});
  expect(pages.missed).toBeGreaterThan(0);
  expect(search.found).toEqual(other.found);
  expect(search.found.length).toBeGreaterThan(1_000);
  for (const index of range(0, pages.size)) {
    const { n, who } = pages.row(index)!;
    expect(who).toBe(nameAt(n));
  }
  expect(
    pages.indexesNaming(
      (name) => name === nameAt(81 * PAGE_RECORDS),
      () => true,
    ),
  ).toEqual([]);
});
