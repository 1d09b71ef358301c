/** The hash of a machine covers the functions that it calls in other files, and no other machine. */
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { sourceHashes } from '../../src/kernel/source-hashes.ts';
import { machinesOf } from '../../src/kernel/steps.ts';
import { kubeletMachine } from '../../src/machines/startup/kubelet.ts';

const ROOT = join(import.meta.dirname, '../..');
const copies: string[] = [];
afterAll(() => {
  for (const copy of copies) rmSync(copy, { recursive: true });
});

/** The ids of the machines whose hashes change when one file of `src/machines` changes. */
async function changedBy(file: string, edit: (text: string) => string): Promise<string[]> {
  const copy = mkdtempSync(join(tmpdir(), 'statelet-hashes-'));
  copies.push(copy);
  for (const folder of ['src/kernel', 'src/machines', 'package.json']) {
    cpSync(join(ROOT, folder), join(copy, folder), { recursive: true });
  }
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  const path = join(copy, 'src/machines', file);
  writeFileSync(path, edit(readFileSync(path, 'utf8')));
  const there = (await import(join(copy, 'src/kernel/source-hashes.ts'))) as { sourceHashes: typeof sourceHashes };
  const [now, before] = [there.sourceHashes(), sourceHashes()];
  return Object.keys(before)
    .filter((id) => now[id] !== before[id])
    .sort();
}

it('each machine of the program has one', () => {
  const hashes = sourceHashes();
  expect([...machinesOf(kubeletMachine).keys()].filter((id) => hashes[id] === undefined)).toEqual([]);
});

it('a change of a machine changes its own', async () => {
  expect(await changedBy('charts/pods/pod/pod.ts', (text) => `${text}// changed\n`)).toEqual(['pod']);
});

it('a change of a rule that a machine asks in another file changes it, and machines that do not ask it stay', async () => {
  const changed = await changedBy('charts/pods/prober/prober-policy.ts', (text) => text.replace('?? 10,', '?? 11,'));
  expect(changed).toContain('pod');
  expect(changed).not.toContain('image');
  expect(changed).not.toContain('lease');
});
