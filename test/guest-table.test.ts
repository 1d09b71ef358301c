/** The page about systemd and cgroup v2 has the rows of the guests' suites, in the same words and order. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { SUITES } from './guest/rows/index.ts';

const page = readFileSync(join(import.meta.dirname, '../docs/systemd.md'), 'utf8');

it.each(Object.entries(SUITES))('docs/systemd.md has each row of %s', (name, { rows }) => {
  const table = ['| What | Seen |', '| --- | --- |', ...rows.map(({ what, seen }) => `| ${what} | ${seen} |`)];
  expect(page.slice(page.indexOf(`\n## The guest \`${name}\`\n`))).toContain(`\n${table.join('\n')}\n`);
});
