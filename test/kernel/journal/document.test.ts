import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import { temporaryDirectory } from './support.ts';

const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const page = read('docs/journal.md');

it('the example on the page is a journal', () => {
  const [, example] = /```ndjson\n(.*?)```/s.exec(page)!;
  const file = join(temporaryDirectory(), 'example.ndjson');
  writeFileSync(file, example!);
  const journal = readJournal(file);
  expect([...journal.records].map(({ n, k }) => `${n} ${k}`)).toEqual([
    '0 header',
    '1 effect',
    '2 end',
    '3 result',
    '4 message',
    '5 state',
    '6 end',
  ]);
  expect([...journal.records][4]).toMatchObject({ cause: 3, event: { version: { runtimeName: 'containerd' } } });
  expect(journal.torn).toBeUndefined();
});

it('the page has every record with every field, and no other', () => {
  const inSource = [...read('src/kernel/records.ts').matchAll(/interface (\w+Record)[^{]*\{(.*?)\n\}/gs)].map(
    ([, , body]) => {
      const fields = [...body!.matchAll(/readonly (\w+)\??:/g)].map(([, name]) => name!).filter((name) => name !== 'k');
      return `${/k: '(\w+)'/.exec(body!)![1]}: ${fields.join(' ')}`;
    },
  );
  const onPage = [...page.matchAll(/^\| `(\w{2,})` \| ([^|]+) \|/gm)].map(([, kind, fields]) => {
    return `${kind}: ${[...fields!.matchAll(/`(\w+)`/g)].map(([, name]) => name).join(' ')}`;
  });
  expect(onPage.toSorted()).toEqual(inSource.toSorted());
});
