/** Files that the runtime shares with its shims: complete or absent, claimed once, readable only by their owner. */
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { claim, readJson, writeJson } from '../../../../src/actors/embedded-runtime/store/records.ts';

const folder = mkdtempSync(join(tmpdir(), 'statelet-files-'));
afterAll(() => rmSync(folder, { recursive: true }));

const isList = (value: unknown): value is number[] => Array.isArray(value);

it('what is written is read, and only its owner may', () => {
  const path = join(folder, 'written.json');
  writeJson(path, [1]);
  writeJson(path, [1, 2]);
  expect(readJson(path, isList)).toEqual([1, 2]);
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

it('what is absent, torn or of another form is undefined', () => {
  const path = join(folder, 'torn.json');
  expect(readJson(path, isList)).toBeUndefined();
  writeFileSync(path, '[1, 2');
  expect(readJson(path, isList)).toBeUndefined();
  writeFileSync(path, '{}');
  expect(readJson(path, isList)).toBeUndefined();
});

it('what cannot be read is an error, not absent', () => {
  expect(() => readJson(folder, isList)).toThrow(/EISDIR/);
});

it('a claim has one winner, whose content stays', () => {
  const path = join(folder, 'claimed.json');
  expect([claim(path, ['first']), claim(path, ['second'])]).toEqual([true, false]);
  expect(readJson(path, isList)).toEqual(['first']);
  expect(readdirSync(folder).filter((name) => name.endsWith('.tmp'))).toEqual([]);
});
