/** The folder of compiled code is never one that another user could have created. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';

it('leaves nothing in the folder of temporary files, from which Node would run it the next time', () => {
  const temporary = mkdtempSync(join(tmpdir(), 'door-'));
  try {
    const env = { ...process.env, TMPDIR: temporary, NODE_COMPILE_CACHE: undefined };
    expect(execFileSync(process.execPath, ['src/bin/statelet.js', '--help'], { env, encoding: 'utf8' })).toContain(
      'run',
    );
    expect(readdirSync(temporary)).toEqual([]);
  } finally {
    rmSync(temporary, { recursive: true });
  }
});
