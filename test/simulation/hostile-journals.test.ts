/**
 * Hostile journals with valid checksums and a valid chain: every command soon ends with an exit code and plain text.
 * `STATELET_MUTATIONS` is their number (a full run is 20,000).
 */
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { coverageCommand } from '../../src/bin/commands/coverage.ts';
import { diffCommand } from '../../src/bin/commands/diff.ts';
import { dotCommand } from '../../src/bin/commands/dot.ts';
import { expectCommand } from '../../src/bin/commands/expect.ts';
import { exportCommand, plotCommand } from '../../src/bin/commands/export.ts';
import { logCommand } from '../../src/bin/commands/log.ts';
import { minimizeCommand } from '../../src/bin/commands/minimize.ts';
import { redactCommand } from '../../src/bin/commands/redact.ts';
import { replayCommand } from '../../src/bin/commands/replay.ts';
import { blameCommand, criticalChainCommand, timeCommand } from '../../src/bin/commands/time.ts';
import { verifyCommand } from '../../src/bin/commands/verify.ts';
import { whyCommand } from '../../src/bin/commands/why.ts';
import { encodeLine } from '../../src/kernel/journal/line.ts';
import { SeededRandom } from '../../src/kernel/purity.ts';

const FIRST = Number(process.env['STATELET_FIRST_SEED'] ?? 1);
const MUTATIONS = Number(process.env['STATELET_MUTATIONS'] ?? 150);
const GOLDEN = join(import.meta.dirname, '../golden/journals/v5/pods-that-change/j-000001-000000000000.ndjson.zst');
/** CPU time; a command takes about ten milliseconds for this journal. */
const SOON_MS = 2_000;
const CODES: ReadonlySet<number> = new Set([0, 1, 3, 4, 5, 6, 7, 8, 9]);

const folder = mkdtempSync(join(tmpdir(), 'hostile-journals-'));
const file = join(folder, 'j-000001-000000000000.ndjson');
const TEXT = { format: 'text' };
const COMMANDS: Readonly<Record<string, (log: string) => number | Promise<number>>> = {
  verify: (log) => verifyCommand([log], TEXT),
  replay: (log) => replayCommand([log], TEXT),
  time: (log) => timeCommand(log, TEXT),
  blame: (log) => blameCommand(log, TEXT),
  'critical-chain': (log) => criticalChainCommand(log, 'healthz', TEXT),
  why: (log) => whyCommand(log, 'startup', TEXT),
  diff: (log) => diffCommand(log, GOLDEN, TEXT),
  log: (log) => logCommand(log, { output: 'text' }),
  'log --output json': (log) => logCommand(log, { output: 'json' }),
  'export --to otlp': (log) => exportCommand(log, { to: 'otlp' }),
  'export --to chrome': (log) => exportCommand(log, { to: 'chrome' }),
  'export --to cloudevents': (log) => exportCommand(log, { to: 'cloudevents' }),
  plot: (log) => plotCommand(log, {}),
  dot: (log) => dotCommand('kubelet', { format: 'dot', journal: log }),
  coverage: (log) => coverageCommand([log], { output: 'text' }),
  expect: (log) => expectCommand(EXPECTATIONS, [log], { output: 'text' }),
  redact: (log) => redactCommand(log, { output: join(folder, `redacted-${++made}`), verify: true }),
  minimize: (log) => minimizeCommand(log, { output: join(folder, `small-${++made}`), seconds: '1', format: 'text' }),
};

type Line = Record<string, unknown>;
/** The number of folders so far. */
let made = 0;
const EXPECTATIONS = join(folder, 'expectations.yaml');
writeFileSync(EXPECTATIONS, 'finished: true\nwithin: { healthz: 1s }\nnever: [{ actor: kubelet, state: failed }]\n');

let last = -1;
/** With the numbers that a compressed segment omits, and with references unresolved. */
const lines: readonly Line[] = zstdDecompressSync(readFileSync(GOLDEN))
  .toString()
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Line)
  .filter(({ k }) => k !== 'chain')
  .map((line) => {
    last = typeof line['n'] === 'number' ? line['n'] : last + 1;
    return { n: last, ...line };
  });

/** A segment of one batch, with valid checksums and a valid link. */
function written(records: readonly Line[]): string {
  const text = records.map((record) => encodeLine(JSON.stringify(record))).join('');
  const sha256 = createHash('sha256').update(text).digest('hex');
  const upto = (records.findLast(({ n }) => typeof n === 'number')?.['n'] ?? 0) as number;
  return text + encodeLine(JSON.stringify({ k: 'chain', upto, sha256 }));
}

let output = '';
beforeAll(() => {
  for (const stream of [process.stdout, process.stderr]) {
    vi.spyOn(stream, 'write').mockImplementation((text) => {
      output += String(text);
      return true;
    });
  }
});
afterAll(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true });
});

const CRASH = /at .*\.ts:\d+|Cannot read properties|is not a function|is not iterable/;
/** A line of a report that quotes a record: a machine that crashes on a changed event logs the engine's error. */
const QUOTED_RECORD = /^ +(?:(?:extra|missing|different): record|the log has |now comes ).*$/gm;

/** Runs every command on the content of the file. */
async function answers(path = file): Promise<Readonly<Record<string, number>>> {
  const codes: Record<string, number> = {};
  for (const [name, command] of Object.entries(COMMANDS)) {
    output = '';
    const begin = process.threadCpuUsage();
    const code = await command(path);
    const { user, system } = process.threadCpuUsage(begin);
    expect((user + system) / 1_000, `milliseconds of ${name}`).toBeLessThan(SOON_MS);
    expect(CODES.has(code), `${name} ends with ${code}: ${output.slice(-300)}`).toBe(true);
    expect(output, name).not.toMatch(/(?![\n\t])[\p{Cc}\p{Cf}]|^\s*::|^##\[/mu);
    expect(output.replace(QUOTED_RECORD, ''), name).not.toMatch(CRASH);
    codes[name] = code;
  }
  return codes;
}

const HOSTILE = '\u001b]0;owned\u0007\r\n::error::forged\n##[error]forged\u202egnitser';
const deep = (levels: number): unknown => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`);

/** Each line of a turn contains the previous one twice, so thirty lines expand to a gigabyte. */
function grow(records: Line[]): void {
  const at = records.findIndex(({ k }) => k === 'end');
  const n = records[at]!['n'] as number;
  const twice = (_: unknown, more: number): Line => ({
    n: n + more,
    k: 'log',
    at: 1,
    level: 'info',
    text: 'x',
    fields: more === 0 ? { a: 'x' } : { a: '$1/fields', b: '$1/fields' },
  });
  records.splice(at, records.length, ...Array.from({ length: 40 }, twice), { ...records[at]!, n: n + 40 });
}

describe('with right checksums', () => {
  it.each<[string, (records: Line[]) => unknown]>([
    ['an address that is a list', (records) => (records[3]!['at'] = [])],
    ['a header without a build', ([header]) => delete header!['build']],
    ['an event that is null', (records) => (records.find(({ k }) => k === 'message')!['event'] = null)],
    ['a time that is text', (records) => (records.find(({ k }) => k === 'result')!['t'] = 'now')],
    ['a time that goes back', (records) => (records.findLast(({ k }) => k === 'result')!['t'] = 5)],
    ['200,000 levels', (records) => (records.find(({ k }) => k === 'result')!['output'] = deep(200_000))],
    ['a turn that is missing', (records) => records.splice(9, 4)],
    ['two lines that changed places', (records) => records.splice(8, 2, records[9]!, records[8]!)],
    [
      'a reference to what is not there',
      (records) => (records.find(({ k }) => k === 'result')!['output'] = '$1/event'),
    ],
    ['a value of itself', (records) => (records.find(({ k }) => k === 'result')!['output'] = { a: '$0/output' })],
    ['an address that has no number', (records) => (records.find(({ k }) => k === 'state')!['at'] = 9_999)],
    ['a value that grows', grow],
    ['a line of 64 MB', (records) => (records.find(({ k }) => k === 'log')!['text'] = 'x'.repeat(64e6))],
  ])('%s is damage', async (_name, change) => {
    const records = structuredClone(lines) as Line[];
    change(records);
    writeFileSync(file, written(records));
    for (const code of Object.values(await answers())) expect([3, 7]).toContain(code);
  });

  it('a header alone, of another format, says so', async () => {
    writeFileSync(file, written([{ ...lines[0]!, version: 99, build: 7 }]));
    expect(new Set(Object.values(await answers()))).toEqual(new Set([4]));
  });

  it('a file of 100 KB that becomes a gigabyte is damage', async () => {
    const bomb = `${file}.zst`;
    writeFileSync(bomb, zstdCompressSync(Buffer.alloc(2 ** 30)));
    const before = process.resourceUsage().maxRSS;
    expect(new Set(Object.values(await answers(bomb)))).toEqual(new Set([3]));
    expect(process.resourceUsage().maxRSS - before).toBeLessThan(400 * 1_024);
    rmSync(bomb);
  });

  it('names that are orders to a terminal or a CI are printed as text', async () => {
    const records = structuredClone(lines) as Line[];
    for (const record of records) {
      if (record['k'] === 'log') record['text'] = HOSTILE;
      if (record['k'] === 'state') record['value'] = { [HOSTILE]: HOSTILE };
      if (record['k'] === 'effect') record['name'] = HOSTILE;
    }
    records[0]!['node'] = HOSTILE;
    writeFileSync(file, written(records));
    await answers();
  });
});

describe('that is none', () => {
  it.each([
    ['an empty file', ''],
    ['random bytes', Buffer.from(Array.from({ length: 5_000 }, (_, at) => (at * 7919) % 256))],
    ['a file of users', 'root:x:0:0:root:/root:/bin/bash\nbin:x:2:2:bin:/bin:/usr/sbin/nologin\n'],
    ['half a header', written([lines[0]!]).slice(0, 200)],
  ])('%s is no journal', async (_name, content) => {
    writeFileSync(file, content);
    const codes = Object.entries(await answers());
    expect(codes.length).toBeGreaterThan(0);
    for (const [name, code] of codes) expect([name, code]).toEqual([name, 7]);
  });
});

const VALUES: readonly unknown[] = [
  null,
  -1,
  1e308,
  2 ** 53,
  '',
  HOSTILE,
  'x'.repeat(5_000),
  [],
  {},
  true,
  deep(300),
  { $blob: '0'.repeat(64), bytes: 5 },
  '$1/event',
  '$0/event',
  { $: '2/event', type: 'x' },
  '9=1/other',
  7,
  { $secret: 'x' },
  ['__proto__'],
];

/** Changes, removes or doubles a part of a line, or a line. */
function mutate(records: Line[], chance: SeededRandom): void {
  const below = (count: number): number => Math.floor(chance.next() * count);
  const at = below(records.length);
  const kind = below(12);
  if (kind === 0) return void records.splice(at, 1);
  if (kind === 1) return void records.splice(at, 0, structuredClone(records[at]!));
  let place: Line = records[at]!;
  for (let key: string; ; place = place[key] as Line) {
    const keys = Object.keys(place);
    key = keys[below(keys.length)] ?? 'k';
    const isInner = typeof place[key] === 'object' && place[key] !== null && chance.next() < 0.7;
    if (isInner) continue;
    if (kind < 4) delete place[key];
    else place[key] = structuredClone(VALUES[below(VALUES.length)]);
    return;
  }
}

it(`${MUTATIONS} journals that were changed somewhere`, async () => {
  for (let seed = FIRST; seed < FIRST + MUTATIONS; seed++) {
    const chance = new SeededRandom(seed);
    const records = structuredClone(lines) as Line[];
    for (let changes = 1 + Math.floor(chance.next() * 3); changes > 0; changes--) mutate(records, chance);
    writeFileSync(file, written(records));
    try {
      await answers();
    } catch (error) {
      throw new Error(`mutation ${seed}: ${(error as Error).message}`, { cause: error });
    }
  }
});
