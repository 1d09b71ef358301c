/** Logs of containers: following across rotations to the end, unusual lines, and the beginning of the last lines. */
import { createHash } from 'node:crypto';
import { appendFileSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  containerLog,
  fixedTime,
  LINE_MAX_BYTES,
  type LogOptions,
  linesOf,
  nanoseconds,
  openLog,
  parseCriLine,
  tailOffset,
} from '../../../src/actors/server/logs/log-file.ts';

let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'statelet-logs-'));
  path = join(directory, '0.log');
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const ALL: LogOptions = { since: null, tail: null, limitBytes: null, timestamps: false, streams: ['stdout', 'stderr'] };
const line = (text: string, tag = 'F', stream = 'stdout') => `2026-11-21T07:00:00.5Z ${stream} ${tag} ${text}\n`;

async function read(options: Partial<LogOptions> = {}): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of containerLog(path, { ...ALL, ...options })) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

describe('following', () => {
  it('goes on over rotation, loses nothing, and ends with the container', async () => {
    writeFileSync(path, line('one'));
    const { signal } = new AbortController();
    let isRunning = true;
    const seen: string[] = [];
    const reading = (async () => {
      for await (const chunk of containerLog(path, ALL, { signal, isRunning: () => isRunning }))
        seen.push(String(chunk));
    })();
    await expect.poll(() => seen.join('')).toBe('one\n');
    appendFileSync(path, line('two'));
    appendFileSync(path, line('three, rotated before it was read'));
    renameSync(path, `${path}.20261121-070000`);
    writeFileSync(path, line('four'));
    await expect.poll(() => seen.join('')).toBe('one\ntwo\nthree, rotated before it was read\nfour\n');
    appendFileSync(path, line('last words'));
    isRunning = false;
    await reading;
    expect(seen.at(-1)).toBe('last words\n');
  });

  it('what is written and rotated while the end is looked at is not lost', async () => {
    writeFileSync(path, line('one'));
    const handle = await openLog(path);
    const read = handle.read.bind(handle) as (...args: unknown[]) => Promise<{ bytesRead: number }>;
    let isRotated = false;
    handle.read = (async (...args: unknown[]) => {
      const answer = await read(...args);
      if (answer.bytesRead === 0 && !isRotated) {
        isRotated = true;
        appendFileSync(path, line('two'));
        renameSync(path, `${path}.20261121-070000`);
        writeFileSync(path, line('three'));
      }
      return answer;
    }) as typeof handle.read;
    const seen: string[] = [];
    const follow = { signal: new AbortController().signal, isRunning: () => !isRotated };
    for await (const bytes of linesOf(path, 0, handle, follow)) seen.push(String(bytes));
    expect(seen).toEqual(['one', 'two', 'three'].map((text) => line(text)));
  });

  it('gives a hundred MiB whole while they are written and rotated', async () => {
    writeFileSync(path, '');
    let isRunning = true;
    const got = createHash('sha256');
    let gotBytes = 0;
    const reading = (async () => {
      const log = containerLog(path, ALL, { signal: new AbortController().signal, isRunning: () => isRunning });
      for await (const chunk of log) {
        got.update(chunk);
        gotBytes += chunk.length;
      }
    })();
    const sent = createHash('sha256');
    let sentBytes = 0;
    const write = (lines: readonly string[]) => {
      for (const text of lines) sent.update(`${text}\n`);
      sentBytes += lines.join('\n').length + 1;
      appendFileSync(path, lines.map((text) => line(text)).join(''));
    };
    for (let file = 0; file < 4; file++) {
      for (let mib = 0; mib < 25; mib++) {
        write(Array.from({ length: 1_024 }, (_, nth) => `${file}/${mib}/${nth} `.padEnd(1_023, 'l')));
      }
      renameSync(path, `${path}.${file}`);
      writeFileSync(path, '');
      // The runtime rotates again after its next period: a file that was renamed twice is not found any more.
      write(['the first of the next file']);
      await expect.poll(() => gotBytes).toBe(sentBytes);
    }
    isRunning = false;
    await reading;
    expect(got.digest('hex')).toBe(sent.digest('hex'));
  });

  it('ends when its client is gone', async () => {
    writeFileSync(path, '');
    const gone = new AbortController();
    const log = containerLog(path, ALL, { signal: gone.signal, isRunning: () => true });
    const next = log.next();
    setTimeout(() => gone.abort(), 100);
    expect(await next).toMatchObject({ done: true });
  });
});

describe('a log', () => {
  it('that is a link, or no file, is not read', async () => {
    writeFileSync(join(directory, 'secret'), line('secret'));
    symlinkSync(join(directory, 'secret'), path);
    await expect(read()).rejects.toThrow(/ELOOP/);
    await expect(openLog(directory)).rejects.toThrow('is not a file');
  });

  it('with lines that are none goes on after them', async () => {
    const odd = [
      '',
      'no time stdout F x',
      '2026-13-99T00:00:00Z stdout F bad time',
      '2026-11-21T07:00:00Z other F x',
      'short',
    ];
    writeFileSync(
      path,
      `${odd.join('\n')}\n${line('good')}${line('half ', 'P')}${line('line')}${line('no end').trimEnd()}`,
    );
    expect(await read()).toBe('good\nhalf line\nno end');
    expect(await read({ timestamps: true })).toBe(
      [
        '2026-11-21T07:00:00.500000000Z good',
        '2026-11-21T07:00:00.500000000Z half line',
        '2026-11-21T07:00:00.500000000Z no end',
      ].join('\n'),
    );
  });

  it('without a single line break is given in pieces', async () => {
    writeFileSync(path, `2026-11-21T07:00:00Z stdout F ${'x'.repeat(3 * LINE_MAX_BYTES)}`);
    expect((await read({ limitBytes: 10 })).length).toBe(10);
    expect((await read()).length).toBeGreaterThan(LINE_MAX_BYTES);
  });
});

it('the last lines are those that a split would give, whatever the log', async () => {
  const text = fc.array(
    fc.string({ maxLength: 40 }).map((part) => part.replaceAll('\n', ' ')),
    { maxLength: 30 },
  );
  await fc.assert(
    fc.asyncProperty(text, fc.nat(35), fc.boolean(), async (lines, wanted, isEnded) => {
      const content = lines.join('\n') + (isEnded && lines.length > 0 ? '\n' : '');
      writeFileSync(path, content);
      const handle = await openLog(path);
      const offset = await tailOffset(handle, wanted);
      await handle.close();
      const whole = content.match(/[^\n]*\n|[^\n]+$/g) ?? [];
      const expected = wanted === 0 ? '' : whole.slice(-wanted).join('');
      expect(Buffer.from(content).subarray(offset).toString()).toBe(expected);
    }),
    { numRuns: 300 },
  );
});

it('times are read and written to the nanosecond, in any zone', () => {
  expect(nanoseconds('1970-01-01T00:00:01.000000002Z')).toBe(1_000_000_002n);
  expect(nanoseconds('1970-01-01T01:00:01+01:00')).toBe(1_000_000_000n);
  expect(nanoseconds('1970-01-01T1:00:00Z')).toBe(3_600_000_000_000n);
  expect(nanoseconds('1970-01-02T00:00:00+24:00')).toBe(0n);
  for (const bad of ['', 'x', '2026-02-30T00:00:00Z', '2026-01-01', '2026-01-01T00:00:00', '2026-01-01T25:00:00Z']) {
    expect(nanoseconds(bad), bad).toBeNull();
  }
  for (const bad of ['24:00:00Z', '00:00:60Z', '00:00:00+25:00', '00:00:00+00:61', '00:00:00z']) {
    expect(nanoseconds(`2026-01-01T${bad}`), bad).toBeNull();
  }
  expect(fixedTime('2026-01-01T00:00:00.12+02:00')).toBe('2026-01-01T00:00:00.120000000+02:00');
  expect(parseCriLine(Buffer.from('2026-01-01T00:00:00Z stderr P:x a b\n'))?.content.toString()).toBe('a b');
});
