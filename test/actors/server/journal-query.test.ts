/** Queries of systemd's journal, with a `journalctl` of the test. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { ApiRequest } from '../../../src/actors/server/http/endpoint.ts';
import { serviceLogs } from '../../../src/actors/server/logs/node-log-query.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'statelet-journal-'));
  vi.stubEnv('PATH', `${folder}${delimiter}${process.env['PATH'] ?? ''}`);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

/** The answer for a service: `journalctl` has one line for it, and otherwise does what `script` says. */
async function logs(script: string, options: object = {}): Promise<string> {
  const path = join(folder, 'journalctl');
  writeFileSync(
    path,
    `#!/bin/sh\ncase "$*" in *--lines=1*) echo a line; ${script === '' ? 'rm "$0";' : ''} exit;; esac\n${script}\n`,
  );
  chmodSync(path, 0o755);
  const request = { signal: new AbortController().signal, raw: { rawHeaders: [], headers: {} } };
  const { body } = await serviceLogs(request as unknown as ApiRequest, { services: ['s'], options } as never, folder);
  return Buffer.isBuffer(body) ? body.toString() : await text(body as Readable);
}

it('its errors are told among its output', async () => {
  expect(await logs('echo out; echo Failed to parse timestamp >&2; exit 1')).toMatch(
    /^(out\n|Failed to parse timestamp\n){2}$/,
  );
});

it('that it cannot be started is told, unless an earlier boot is meant', async () => {
  vi.stubEnv('PATH', `${folder}${delimiter}/bin-without-it`);
  writeFileSync(join(folder, 'rm'), '#!/bin/sh\nexec /bin/rm "$@"\n', { mode: 0o755 });
  expect(await logs('')).toBe('\nerror: journal output not available\n');
  expect(await logs('', { boot: -1 })).toBe('');
});

it('what is longer than the first buffer comes whole, too', async () => {
  const lines = await logs('for i in $(seq 2000); do echo line $i; done');
  expect(lines).toBe(Array.from({ length: 2_000 }, (_, at) => `line ${at + 1}\n`).join(''));
});
