/** Journals of a scripted node in the form of a daemon's, and `statelet` commands on them in a separate process. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { openJournal } from '../../src/kernel/journal/open.ts';
import type { KernelRecord } from '../../src/kernel/records.ts';
import { BootNode } from '../machines/startup/boot-node.ts';

const ROOT = join(import.meta.dirname, '../..');
export const DOOR = join(ROOT, 'src/bin/statelet.js');

/** The records of a node's start, each changed by `change`. */
export async function record(directory: string, change = (kept: KernelRecord): KernelRecord => kept): Promise<string> {
  const journal = openJournal({ directory, durability: 'none' });
  const { records } = new BootNode().boot().run(1_000);
  for (const kept of records.map(change)) {
    journal.append(kept.k === 'header' ? { ...kept, incarnation: journal.incarnation } : kept);
    if (kept.k === 'end') journal.commit();
  }
  await journal.close();
  return directory;
}

/** As recorded by code with another text at one place. */
export const inOtherWords = (kept: KernelRecord): KernelRecord =>
  kept.k === 'log' ? { ...kept, text: `${kept.text}, in other words` } : kept;

export function statelet(
  argv: readonly string[],
  options: { readonly cwd?: string; readonly stdout?: number } = {},
): { code: number | null; stdout: string; stderr: string } {
  const stdio = ['ignore', options.stdout ?? 'pipe', 'pipe'] as const;
  const { cwd = ROOT } = options;
  const { status, stdout, stderr } = spawnSync(process.execPath, [DOOR, ...argv], {
    cwd,
    encoding: 'utf8',
    stdio: [...stdio],
    maxBuffer: 2 ** 26,
  });
  return { code: status, stdout, stderr };
}
