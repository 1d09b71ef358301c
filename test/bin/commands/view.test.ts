/** `statelet view` of a journal from an untrusted source. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { viewCommand } from '../../../src/bin/commands/view.ts';
import { exitCodes } from '../../../src/bin/exit-codes.ts';
import { hostileJournal } from '../../support/starts-journal.ts';

const folder = mkdtempSync(join(tmpdir(), 'statelet-view-'));
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true, force: true });
});

it('prints no escape of a terminal that the name of its node has', async () => {
  await hostileJournal(join(folder, 'journal'), 'node\u001b]0;title\u0007\u202e');
  const written = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  const output = join(folder, 'report.html');
  expect(await viewCommand(join(folder, 'journal'), { port: '0', output })).toBe(exitCodes.same);
  const text = written.mock.calls.map(([chunk]) => String(chunk)).join('');
  expect(text).toContain('of node node\\x1b]0;title\\x07\\u202e');
  expect(['\u001b', '\u0007', '\u202e'].filter((control) => text.includes(control))).toEqual([]);
});
