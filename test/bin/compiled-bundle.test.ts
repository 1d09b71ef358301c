/** Which compiled code of earlier processes a process uses. */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';

const LOADER = new URL('../../src/bin/compiled-bundle.js', import.meta.url).href;
/** Two texts of the same length, because V8 itself compares only the length. */
const [ONE, TWO] = ['one', 'two'].map(
  (word) => `const chunk = require('./chunk.cjs'); exports.main = () => chunk.said('${word}');`,
) as [string, string];

let root: string;
let compiled: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'compiled-bundle-'));
  compiled = join(root, 'compiled');
  mkdirSync(join(root, 'dist'));
  writeFileSync(join(root, 'dist/main.cjs'), ONE);
  writeFileSync(
    join(root, 'dist/chunk.cjs'),
    `const { sep } = require('node:path'); exports.said = (word) => word + sep + __filename.split(sep).at(-1);`,
  );
});
afterEach(() => rmSync(root, { recursive: true }));

function run(flags: readonly string[] = []): string {
  const script = `
    const { loadBundle } = await import(${JSON.stringify(LOADER)});
    process.stdout.write(loadBundle(${JSON.stringify(join(root, 'dist/main.cjs'))}, ${JSON.stringify(compiled)}).main());`;
  return execFileSync(process.execPath, [...flags, '--input-type=module', '--eval', script], { encoding: 'utf8' });
}

/** The compiled code of `main.cjs` on disk, a file for each V8 with its settings. */
const kept = (): string[] => readdirSync(compiled).map((tag) => join(compiled, tag, 'main.cjs'));

it('what a process compiled is kept, and taken by the next one', () => {
  expect(run()).toBe('one/chunk.cjs');
  const [file, ...others] = kept();
  expect(others).toEqual([]);
  expect(readdirSync(join(file!, '..')).sort()).toEqual(['chunk.cjs', 'main.cjs']);
  const { ino } = statSync(file!);
  expect(run()).toBe('one/chunk.cjs');
  expect(statSync(file!).ino).toBe(ino);
});

it('code of another text is not run, also when that is as long', () => {
  run();
  writeFileSync(join(root, 'dist/main.cjs'), TWO);
  expect(run()).toBe('two/chunk.cjs');
  expect(run()).toBe('two/chunk.cjs');
});

it.each([
  ['cut off', (bytes: Buffer) => bytes.subarray(0, bytes.length / 2)],
  ['empty', () => Buffer.alloc(0)],
  ['damaged', (bytes: Buffer) => bytes.fill(0xff, bytes.length - 40)],
])('a file that is %s is not taken, and is written anew', (_, damage) => {
  run();
  const [file] = kept();
  const whole = readFileSync(file!);
  writeFileSync(file!, damage(Buffer.from(whole)));
  expect(run()).toBe('one/chunk.cjs');
  expect(readFileSync(file!).length).toBe(whole.length);
});

it('a process with other settings has code of its own', () => {
  run();
  run(['--invocation-count-for-maglev=2000']);
  expect(kept()).toHaveLength(2);
});

it('where nothing can be written, it runs all the same', () => {
  writeFileSync(compiled, '');
  expect(run()).toBe('one/chunk.cjs');
  expect(existsSync(join(root, 'dist/compiled'))).toBe(false);
});

it('a process that began with a bundle goes on with it when another takes its place', () => {
  const chunk = join(root, 'dist/chunk.cjs');
  const swap = `const fs = require('node:fs'); fs.renameSync(${JSON.stringify(join(root, 'dist'))}, ${JSON.stringify(join(root, 'before'))});`;
  writeFileSync(
    join(root, 'dist/main.cjs'),
    `${swap} const chunk = require('./chunk.cjs'); exports.main = () => chunk.said('one');`,
  );
  expect(run()).toBe('one/chunk.cjs');
  expect(existsSync(chunk)).toBe(false);
});
