/** A log file is served from the file that was opened and checked, even if its name changes meanwhile. */
import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openBelow } from '../../../../src/actors/server/logs/log-file.ts';

let folder: string;
let logs: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'statelet-open-below-'));
  logs = join(folder, 'log');
  mkdirSync(logs);
  writeFileSync(join(folder, 'secret'), 'secret');
  writeFileSync(join(logs, 'kept'), 'kept');
});
afterEach(() => rmSync(folder, { recursive: true }));

/** The content that can be read through the opened file, or `null`. */
async function contentOf(path: string, between: () => void = () => {}): Promise<string | null> {
  const place = await openBelow(path, [logs]);
  if (place === null) return null;
  between();
  try {
    return readFileSync(place.path, 'utf8');
  } finally {
    await place.handle.close();
  }
}

it('a file and a link to one are read', async () => {
  symlinkSync('kept', join(logs, 'link'));
  expect([await contentOf(join(logs, 'kept')), await contentOf(join(logs, 'link'))]).toEqual(['kept', 'kept']);
});

it('a link that leads out, and a link among the folders, is nothing', async () => {
  symlinkSync('../secret', join(logs, 'out'));
  symlinkSync('..', join(logs, 'up'));
  expect(await contentOf(join(logs, 'out'))).toBeNull();
  expect(await contentOf(join(logs, 'up', 'secret'))).toBeNull();
});

it('a name that becomes a link after it was opened is read as what it was', async () => {
  const path = join(logs, 'swapped');
  writeFileSync(path, 'before');
  const swap = () => {
    unlinkSync(path);
    symlinkSync('../secret', path);
  };
  expect(await contentOf(path, swap)).toBe('before');
});

it('no moment of a race between a file and a link out of the folder shows what is outside', async () => {
  const path = join(logs, 'raced');
  const [file, link] = [join(logs, 'file'), join(logs, 'way-out')];
  const seen = new Set<string | null>();
  for (let go = 0; go < 300; go++) {
    writeFileSync(file, 'inside');
    symlinkSync('../secret', link);
    renameSync(file, path);
    const reading = contentOf(path);
    renameSync(link, path);
    seen.add(await reading);
  }
  expect([...seen].filter((text) => text !== null && text !== 'inside')).toEqual([]);
});

it('a FIFO, a device and a file that is gone are nothing, at once', async () => {
  execFileSync('mkfifo', [join(logs, 'fifo')]);
  execFileSync('mknod', [join(logs, 'zero'), 'c', '1', '5']);
  for (const name of ['fifo', 'zero', 'gone', 'kept/more', 'nul\0']) {
    expect(await contentOf(join(logs, name))).toBeNull();
  }
});
