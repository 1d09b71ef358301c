/** Which files of a journal a page or a report gets. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { JournalFiles } from '../../../../src/actors/server/visualizer/journal-files.ts';

const SEGMENT = 'j-000002-000000000000.ndjson';
const VALUE = `blobs/${createHash('sha256').update('value').digest('hex')}`;

let folder: string;
let journal: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'statelet-files-'));
  journal = join(folder, 'journal');
  mkdirSync(join(journal, 'blobs'), { recursive: true });
  writeFileSync(join(folder, 'private'), 'secret');
  writeFileSync(join(journal, SEGMENT), '');
  writeFileSync(join(journal, 'c-000002-000000000000.json'), '');
  writeFileSync(join(journal, VALUE), 'value');
});
afterEach(() => rmSync(folder, { recursive: true }));

it('it has its segments, checkpoints and values', () => {
  const files = new JournalFiles(journal);
  expect(files.names()).toEqual([SEGMENT, 'c-000002-000000000000.json', VALUE]);
  expect(files.pathOf(VALUE)).toBe(join(journal, VALUE));
  for (const name of ['private', '../private', 'blobs/../../private', `blobs/${'0'.repeat(64)}`, 'blobs'])
    expect([name, files.pathOf(name)]).toEqual([name, undefined]);
});

it('what leads to a file elsewhere is not of it, under whichever name', () => {
  const stranger = `blobs/${'0'.repeat(64)}`;
  const names = ['j-000001-000000000000.ndjson', stranger, 'c-000002-000000000000.json'];
  rmSync(join(journal, names[2]!));
  for (const name of names) symlinkSync(join(folder, 'private'), join(journal, name));
  const files = new JournalFiles(journal);
  expect(files.names()).toEqual([SEGMENT, VALUE]);
  for (const name of names) expect([name, files.pathOf(name)]).toEqual([name, undefined]);
});

it('what is no file is not of it', () => {
  execFileSync('mkfifo', [join(journal, 'j-000001-000000000000.ndjson')]);
  mkdirSync(join(journal, `blobs/${'1'.repeat(64)}`));
  expect(new JournalFiles(journal).names()).toEqual([SEGMENT, 'c-000002-000000000000.json', VALUE]);
});

it('it may be reached by a link, and a segment of it too', () => {
  symlinkSync(journal, join(folder, 'linked'));
  symlinkSync(join(journal, SEGMENT), join(journal, 'j-000003-000000000000.ndjson'));
  expect(new JournalFiles(join(folder, 'linked')).names()).toContain('j-000003-000000000000.ndjson');
});
