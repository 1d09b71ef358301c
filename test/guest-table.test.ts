/** The page of what is seen on systemd and cgroup v2 has the rows of the guest's suite, in their words and order. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ROWS } from './guest/rows/index.ts';

const page = readFileSync(join(import.meta.dirname, '../docs/systemd.md'), 'utf8');

it('docs/systemd.md has each row', () => {
  const table = ['| What | Seen |', '| --- | --- |', ...ROWS.map(({ what, seen }) => `| ${what} | ${seen} |`)];
  expect(page).toContain(`\n${table.join('\n')}\n\n`);
});
