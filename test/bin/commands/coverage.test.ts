/** `statelet coverage`: the states and transitions that the golden node covered. */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CoveredChart } from '../../../src/bin/insight/coverage.ts';
import { inOtherWords, record, statelet } from '../recorded.ts';

const ROOT = join(import.meta.dirname, '../../..');
const JOURNAL = join(ROOT, 'test/golden/journals/v4/node');
const work = mkdtempSync(join(tmpdir(), 'statelet-coverage-'));

beforeAll(async () => {
  await record(join(work, 'start'));
  await record(join(work, 'changed'), (kept) => (kept.n > 40 ? inOtherWords(kept) : kept));
});
afterAll(() => rmSync(work, { recursive: true, force: true }));

interface Report {
  readonly states: { readonly reached: number; readonly known: number };
  readonly machines: readonly CoveredChart[];
}

function report(...logs: string[]): Report {
  return JSON.parse(statelet(['coverage', ...logs, '--output', 'json']).stdout) as Report;
}

const timesOf = ({ machines }: Report, id: string, text: string): number | undefined =>
  machines.find(({ machine }) => machine === id)?.lines.find((line) => line.text === text)?.times;

describe('of the golden node', () => {
  const golden = report(JOURNAL);

  it('has states that an actor was in and transitions that it took, and those that it did not', () => {
    expect(timesOf(golden, 'container', 'running')).toBeGreaterThan(0);
    expect(timesOf(golden, 'container', 'waiting.starting')).toBeGreaterThan(0);
    expect(timesOf(golden, 'container', 'waiting.backOff')).toBe(0);
    expect(timesOf(golden, 'syncLoop', 'waiting: runtime.up → starting')).toBe(1);
    expect(timesOf(golden, 'syncLoop', 'syncing: runtime.down → starting')).toBe(0);
  });

  it('has states that a chart only passes', () => {
    expect(timesOf(golden, 'runtimeService', 'choosing')).toBeGreaterThan(0);
  });

  it('is as the schema says', () => {
    const schema = JSON.parse(readFileSync(join(ROOT, 'schema/coverage-report.schema.json'), 'utf8'));
    const fits = new Ajv({ strict: false }).compile(schema);
    expect(fits(golden), JSON.stringify(fits.errors)).toBe(true);
  });

  it('lists what is missing, and no more', () => {
    const { stdout } = statelet(['coverage', JOURNAL, '--missing']);
    expect(stdout).toContain('\ncontainer: state waiting.backOff\n');
    expect(stdout).not.toContain('\ncontainer: state running\n');
  });

  it('is LCOV whose lines are those of the listings', () => {
    const charts = join(work, 'charts');
    const { stdout, code } = statelet(['coverage', JOURNAL, '--output', 'lcov', '--charts', charts]);
    const records = stdout.split('end_of_record\n').filter((text) => text !== '');
    expect(records).toHaveLength(readdirSync(charts).length);
    for (const text of records) {
      const listed = readFileSync(/^SF:(.*)$/m.exec(text)![1]!, 'utf8')
        .trimEnd()
        .split('\n');
      const functions = [...text.matchAll(/^FN:(\d+),(.*)$/gm)].map(([, line, name]) => [
        listed[Number(line) - 1],
        name,
      ]);
      expect(text.match(/^DA:/gm)).toHaveLength(listed.length);
      expect(functions.every(([line, name]) => line === name)).toBe(true);
    }
    expect(code).toBe(0);
  });
});

it('of several journals is of all of them together', () => {
  cpSync(JOURNAL, join(work, 'both/node'), { recursive: true });
  cpSync(join(work, 'start'), join(work, 'both/start'), { recursive: true });
  const [both, one] = [report(join(work, 'both')), report(JOURNAL)];
  expect(timesOf(both, 'kubelet', 'kubelet')).toBe(
    timesOf(one, 'kubelet', 'kubelet')! + timesOf(report(join(work, 'start')), 'kubelet', 'kubelet')!,
  );
  expect(both.states.reached).toBeGreaterThanOrEqual(one.states.reached);
});

it('below what is demanded ends with 5', () => {
  expect(statelet(['coverage', JOURNAL, '--at-least', '10']).code).toBe(0);
  const { code, stderr } = statelet(['coverage', JOURNAL, '--at-least', '90']);
  expect(stderr).toMatch(/^statelet coverage: \d+\.\d% of states and transitions were reached, not 90%\n$/);
  expect(code).toBe(5);
});

it('of a journal that this build does not replay counts up to the difference', () => {
  const { code, stdout, stderr } = statelet(['coverage', join(work, 'changed'), '--output', 'json']);
  expect(timesOf(JSON.parse(stdout) as Report, 'kubelet', 'kubelet')).toBeGreaterThan(0);
  expect(stderr).toContain('changed: replay differs from record ');
  expect(code).toBe(1);
});
