import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const DOOR = ['src/bin/newest-code.js', 'src/bin/compiled-bundle.js'];
const HOUR = 3600;
const NOW = Date.now() / 1000;
let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'newest-code-'));
});
afterEach(() => rmSync(root, { recursive: true }));

function write(path: string, text: string, hoursAgo: number): void {
  const file = join(root, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  utimesSync(file, NOW, NOW - hoursAgo * HOUR);
}

/** A program of two files that are an hour old. */
function program(): void {
  for (const path of DOOR) cpSync(path, join(root, path), { recursive: true });
  write('src/bin/commands/main.ts', "export const main = (): string => 'sources';", 1);
  write('src/kernel/kernel.ts', 'export {};', 1);
  for (const path of ['src', 'src/bin', ...DOOR, 'src/bin/commands', 'src/kernel']) {
    utimesSync(join(root, path), NOW, NOW - HOUR);
  }
}

function runs(): string {
  const script = `
    const { newestCode } = await import(${JSON.stringify(pathToFileURL(join(root, 'src/bin/newest-code.js')).href)});
    const { main } = await newestCode(${JSON.stringify(join(root, 'dist/compiled'))});
    process.stdout.write(main());`;
  return execFileSync(process.execPath, ['--input-type=module', '--eval', script], { encoding: 'utf8' });
}

const BUNDLE = "exports.main = () => 'bundle';";

describe('what runs', () => {
  it('are the sources when there is no bundle', () => {
    program();
    expect(runs()).toBe('sources');
  });

  it('is the bundle when nothing was changed since', () => {
    program();
    write('dist/main.cjs', BUNDLE, 0.5);
    expect(runs()).toBe('bundle');
  });

  it('is the bundle of a package, which has no sources, whatever the times of its files are', () => {
    program();
    write('dist/main.cjs', BUNDLE, 1);
    rmSync(join(root, 'src/bin/commands'), { recursive: true });
    expect(runs()).toBe('bundle');
  });

  it('are the sources when one of them was edited since', () => {
    program();
    write('dist/main.cjs', BUNDLE, 0.5);
    utimesSync(join(root, 'src/kernel/kernel.ts'), NOW, NOW);
    expect(runs()).toBe('sources');
  });

  it('are the sources when one of them was taken away since', () => {
    program();
    write('dist/main.cjs', BUNDLE, 0.5);
    rmSync(join(root, 'src/kernel/kernel.ts'));
    expect(runs()).toBe('sources');
  });
});
