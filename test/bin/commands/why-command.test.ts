/** `statelet why` on a journal of several segments. */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { whyCommand } from '../../../src/bin/commands/why.ts';
import { openJournal } from '../../../src/kernel/journal/open.ts';
import type { KernelRecord } from '../../../src/kernel/records.ts';
import { temporaryDirectory } from '../../kernel/journal/support.ts';
import { BootNode } from '../../machines/startup/boot-node.ts';

it('replays only what is behind the newest checkpoint to know the timers, and does without one that is damaged', async () => {
  const node = new BootNode();
  node.boot().run(30_000);
  const before = node.records.length;
  const checkpoint = node.kernel.checkpoint();
  node.run(30_000);
  const directory = temporaryDirectory();
  const journal = openJournal({ directory, durability: 'none' });
  const write = (records: readonly KernelRecord[]): void => {
    for (const record of records) {
      journal.append(record.k === 'header' ? { ...record, incarnation: journal.incarnation } : otherwise(record));
      if (record.k === 'end') journal.commit();
    }
  };
  // In the previous segment, the node decided differently from this build.
  const otherwise = (record: KernelRecord): KernelRecord =>
    record.k === 'log' && record.n < before ? { ...record, text: 'in other words' } : record;
  write(node.records.slice(0, before));
  journal.writeCheckpoint(checkpoint);
  write(node.records.slice(before));
  await journal.close();

  expect(why(directory)).toMatchObject({ begins: 0, timersKnown: true });

  const [damaged] = readdirSync(directory).filter((name) => name.startsWith('c-'));
  writeFileSync(join(directory, damaged!), '{');
  expect(why(directory)).toMatchObject({ begins: 0, timersKnown: false });
});

/** The answer about the start. */
function why(directory: string): unknown {
  let printed = '';
  const output = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    printed += String(text);
    return true;
  });
  onTestFinished(() => output.mockRestore());
  expect(whyCommand(directory, 'startup', { format: 'json', whole: true })).toBe(0);
  return JSON.parse(printed);
}
