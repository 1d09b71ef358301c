/** `statelet simulate`: seeds that pass, and seeds that find a bug that the test puts into a machine. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { replayCommand } from '../../src/bin/commands/replay.ts';
import { simulateCommand } from '../../src/bin/commands/simulate.ts';
import { verifyCommand } from '../../src/bin/commands/verify.ts';
import { withNodeChange } from '../kernel/seeded-changes.ts';
import { statelet } from './recorded.ts';

const work = mkdtempSync(join(tmpdir(), 'statelet-simulate-'));
const journals = join(work, 'simulated');
const DEFAULTS = { journals, output: 'text' };
/** A container starts again although its pod never restarts; all others do not. */
const RESTARTS = { machine: 'container', guard: 'mayRestart' };
/** The soft state is written again and again. */
const ALWAYS_DIRTY = { machine: 'softState', guard: 'isDirty' };

let output = '';
beforeEach(() => {
  output = '';
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    output += String(text);
    return true;
  });
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(journals, { recursive: true, force: true });
});
afterAll(() => rmSync(work, { recursive: true, force: true }));

const schema = JSON.parse(
  readFileSync(join(import.meta.dirname, '../../schema/simulation-report.schema.json'), 'utf8'),
);
const fits = new Ajv({ strict: false }).compile(schema);

describe('a seed that breaks no rule', () => {
  it('is said in a line, and leaves nothing', async () => {
    expect(await simulateCommand({ ...DEFAULTS, seed: '4' })).toBe(0);
    expect(output).toMatch(
      /^seed 4: passed \(\d+ turns of \d+ starts in [\d.]+ s of virtual time, [\d.]+ s of CPU\)\n$/,
    );
    expect(existsSync(journals)).toBe(false);
  });

  it('leaves its journal where that is wanted, which replays', async () => {
    expect(await simulateCommand({ ...DEFAULTS, seed: '4', steps: '1,2', keep: true })).toBe(0);
    expect(verifyCommand([journals], { format: 'text' })).toBe(0);
    expect(await replayCommand([`${journals}/seed-4@1`], {})).toBe(0);
  });
});

describe('a bug', () => {
  it('that breaks a rule of safety is found, with a journal that shows it and the line that does it again', async () => {
    await withNodeChange(RESTARTS, async () => {
      expect(await simulateCommand({ ...DEFAULTS, seed: '1' })).toBe(9);
      expect(output).toContain('seed 1: safety violated');
      expect(output).toContain('ran again although it never restarts');
      expect(output).toContain(`  journal: ${journals}/seed-1\n  again: statelet simulate --seed 1\n`);
      const first = output;
      expect(verifyCommand([journals], { format: 'text' })).toBe(0);
      expect(await replayCommand([journals], {})).toBe(0);
      output = '';
      await simulateCommand({ ...DEFAULTS, seed: '1' });
      expect(output.replace(/[\d.]+ s of CPU/, '')).toBe(first.replace(/[\d.]+ s of CPU/, ''));
    });
  });

  it('that keeps a node from its peace is found, also without steps and faults', async () => {
    await withNodeChange(ALWAYS_DIRTY, async () => {
      const options = { ...DEFAULTS, seed: '1', steps: 'none', faults: false, output: 'json' };
      expect(await simulateCommand(options)).toBe(10);
    });
    const report = JSON.parse(output);
    expect(fits(report), JSON.stringify(fits.errors)).toBe(true);
    expect(report).toMatchObject({ code: 10, totals: { liveness: 1 } });
    expect(report.seeds[0].problems[0].text).toContain('host.saveSoftState');
    expect(report.seeds[0].reproduce).toBe('statelet simulate --seed 1 --steps none --no-faults');
  });
});

it('several seeds run in processes of their own, and JUnit has a test case each', () => {
  const { code, stdout } = statelet(['simulate', '--seeds', '1-2', '--steps', 'none', '--output', 'junit'], {
    cwd: work,
  });
  expect(code).toBe(0);
  expect(stdout).toContain('tests="2" failures="0" errors="0"');
  expect(stdout.match(/<testcase /g)).toHaveLength(2);
});

it.each([
  [{}],
  [{ seed: '1', seeds: '1-2' }],
  [{ seed: 'x' }],
  [{ seeds: '5-1' }],
  [{ seeds: '1-999999999' }],
  [{ seed: '1', steps: '40' }],
  [{ seed: '1', jobs: '0' }],
  [{ seed: '1', output: 'xml' }],
])('%j is refused', async (options) => {
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  expect(await simulateCommand({ ...DEFAULTS, ...options })).toBe(2);
});
