import { cpSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

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

/** A program of two files, all of it an hour old. */
function program(): void {
  cpSync('src/bin/newest-code.js', join(root, 'src/bin/newest-code.js'), { recursive: true });
  write('src/bin/commands/main.ts', "export const main = (): string => 'sources';", 1);
  write('src/kernel/kernel.ts', 'export {};', 1);
  for (const path of ['src', 'src/bin', 'src/bin/newest-code.js', 'src/bin/commands', 'src/kernel']) {
    utimesSync(join(root, path), NOW, NOW - HOUR);
  }
}

async function runs(): Promise<unknown> {
  const door = (await import(pathToFileURL(join(root, 'src/bin/newest-code.js')).href)) as {
    newestCode: () => Promise<{ main: () => string }>;
  };
  return (await door.newestCode()).main();
}

const BUNDLE = "exports.main = () => 'bundle';";

describe('what runs', () => {
  it('are the sources when there is no bundle', async () => {
    program();
    expect(await runs()).toBe('sources');
  });

  it('is the bundle when nothing was changed since', async () => {
    program();
    write('dist/main.cjs', BUNDLE, 0.5);
    expect(await runs()).toBe('bundle');
  });

  it('are the sources when one of them was edited since', async () => {
    program();
    write('dist/main.cjs', BUNDLE, 0.5);
    utimesSync(join(root, 'src/kernel/kernel.ts'), NOW, NOW);
    expect(await runs()).toBe('sources');
  });

  it('are the sources when one of them was taken away since', async () => {
    program();
    write('dist/main.cjs', BUNDLE, 0.5);
    rmSync(join(root, 'src/kernel/kernel.ts'));
    expect(await runs()).toBe('sources');
  });
});
