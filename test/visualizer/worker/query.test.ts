/** Searches in the syntax of users, over the records of a start. */
import { expect, it } from 'vitest';
import { namesIn, recordText, whoOf } from '../../../src/visualizer/words.ts';
import * as expressions from '../../../src/visualizer/worker/expressions.ts';
import { queryOf } from '../../../src/visualizer/worker/query.ts';
import { RecordPages } from '../../../src/visualizer/worker/record-pages.ts';
import { Search } from '../../../src/visualizer/worker/search.ts';
import { executed } from './records.ts';

const UID = '0123abcd-0123-4567-89ab-0123456789ab';
const records: ReturnType<typeof executed>['records'] = JSON.parse(
  JSON.stringify(executed().records).replaceAll('pod-u1', `pod-${UID}`),
);
const pages = new RecordPages(100);
pages.append(records);
const known = new Map([[UID, 'web-shop-1']]);
const names = { named: (text: string) => namesIn(text, known), names: known, started: records[0]!.t };

async function found(text: string) {
  const search = new Search(pages, queryOf(text, names, expressions));
  await search.go(() => {});
  return (await pages.at(search.found)).map(({ record }) => record);
}

it('finds all but the ends of turns where nothing is asked', async () => {
  expect((await found('')).length).toBe(records.filter(({ record }) => record.k !== 'end').length);
});

it('finds words in what the table shows and in payloads, whatever their case', async () => {
  const pulls = await found('CRI.pullImage');
  expect(new Set(pulls.map(({ k }) => k))).toEqual(new Set(['effect', 'result']));
  expect((await found('"app:1"')).length).toBeGreaterThan(3);
  expect((await found('pod-web kind:state')).length).toBeGreaterThan(3);
});

const EXPRESSIONS = [
  '/cri\\.(pull|start)/',
  '/pullx?Image/',
  '/image|pod/',
  '/^state.*pod-web/',
  '/[a-z]{3}Image/',
].concat(['/(cri|pods)\\.\\w+/', '/\\x63ri/', '/app:?1*/', '/(a(b)?)?web-shop{1,2}/', '/[)]web/']);

it('finds the same words whether it reads a record or its JSON first', async () => {
  const lines = records.map((shown) => names.named(`${whoOf(shown)} ${recordText(shown.record)}`));
  const words = [
    ...new Set(
      lines
        .join(' ')
        .toLowerCase()
        .split(/[^a-z\d_-]+/)
        .concat(lines.join(' ').split(/[^\w.-]+/)),
    ),
  ].filter((_, at) => at % 8 === 0);
  const parts = [
    'hop-1',
    'pod-web',
    'web-',
    'd-web-shop',
    'rtup.startK',
    'life.sync.',
    '/(startup|sync)\\.[a-z]+/',
    '/(alive|life)\\.(startup|sync)/',
    'states',
    'tarte',
    ...EXPRESSIONS,
    ...words.map((word) => word.slice(1, 6)),
  ];
  let shortcuts = 0;
  for (const word of new Set([...words, ...parts])) {
    const query = queryOf(word, names, expressions);
    if (query.mayMatchText) shortcuts++;
    const fast = new Search(pages, query);
    const slow = new Search(pages, { mayMatch: query.mayMatch, ...(query.matches && { matches: query.matches }) });
    for (const search of [fast, slow]) await search.go(() => {});
    expect(fast.found, word).toEqual(slow.found);
  }
  expect(shortcuts).toBeGreaterThan(20);
});

it('finds by kind, actor, number, time and any field', async () => {
  expect((await found('kind:request')).every(({ k }) => k === 'effect')).toBe(true);
  expect((await found('kind:effect name:cri.')).length).toBe((await found('kind:request name:cri.')).length);
  expect((await found('actor:containerManager kind:state')).every((record) => 'at' in record)).toBe(true);
  expect((await found('turn:<3')).length).toBeLessThan(40);
  expect((await found('t:>0.55 turn:>0')).every(({ n }) => n > 400)).toBe(true);
  expect((await found('n:201')).map(({ n }) => n)).toEqual([201]);
  expect((await found('level:warn')).every((record) => record.k === 'log' && record.level === 'warn')).toBe(true);
  const asked = await found('kind:request image:app:1');
  expect(asked.length).toBeGreaterThan(0);
  expect(asked.every((record) => JSON.stringify(record).includes('"image":'))).toBe(true);
  expect((await found('sandboxConfig.metadata.name:web')).length).toBeGreaterThan(0);
});

it('takes terms away, and finds by expressions', async () => {
  const [all, some] = [await found('kind:log'), await found('kind:info -Event')];
  expect(some.length).toBeGreaterThan(0);
  expect(some.length).toBeLessThan(all.length);
  expect((await found('/cri\\.(create|start)Container/ kind:result')).length).toBe(2);
  expect((await found('name:/^cri\\.[a-z]+Container$/')).length).toBeGreaterThan(1);
});

it('says what is wrong with a search', () => {
  expect(queryOf('/(/', names, expressions).error).toMatch(/^\/\(\/ is no expression: /);
  expect(queryOf('turn:many', names).error).toBe('turn is a number, as in turn:>10, not "many"');
  expect(queryOf('x'.repeat(501), names).error).toBe('a search has at most 500 characters');
  expect(queryOf(`/${'x'.repeat(201)}/`, names, expressions).error).toBe('an expression has at most 200 characters');
});

it('takes time that is linear in the text, whatever the expression', () => {
  const query = queryOf('text:/^(a+)+$/', names, expressions);
  const record = { n: 0, k: 'log' as const, at: 'a', level: 'info' as const, text: `${'a'.repeat(5_000)}!` };
  const beganMs = performance.now();
  expect(query.matches!({ n: 0, t: 0, turn: 0, record })).toBe(false);
  expect(performance.now() - beganMs).toBeLessThan(5_000);
});
