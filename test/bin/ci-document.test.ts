/** The replay recipes of `docs/ci.md`, run as they are on the page; `npx` finds the command of this checkout. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { DOOR, inOtherWords, record } from './recorded.ts';

interface Workflow {
  readonly jobs: {
    readonly replay: {
      readonly strategy: { readonly matrix: { readonly shard: readonly number[] } };
      readonly steps: readonly { readonly run?: string }[];
    };
  };
}

const page = readFileSync(join(import.meta.dirname, '../../docs/ci.md'), 'utf8');
const blocks = (language: string): string[] =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\``, 'gm'))].map(([, text = '']) => text);
const [, replaying = '', deciding = ''] = blocks('sh');
const work = mkdtempSync(join(tmpdir(), 'statelet-ci-'));

beforeAll(async () => {
  mkdirSync(join(work, 'bin'));
  const npx = `#!/bin/sh\n[ "$1" = statelet ] && shift && exec '${process.execPath}' '${DOOR}' "$@"\n`;
  writeFileSync(join(work, 'bin/npx'), npx, { mode: 0o755 });
  await record(join(work, 'same/recorded/a'));
  await record(join(work, 'same/recorded/b'));
  await record(join(work, 'changed/recorded/a'), inOtherWords);
  await record(join(work, 'changed/recorded/b'));
});
afterAll(() => rmSync(work, { recursive: true, force: true }));

function bash(script: string, folder: string) {
  const summary = join(work, folder, 'summary.md');
  const PATH = [join(work, 'bin'), process.env['PATH']].join(delimiter);
  const env = { ...process.env, PATH, GITHUB_STEP_SUMMARY: summary };
  return spawnSync('bash', ['-e', '-c', script], { cwd: join(work, folder), env, encoding: 'utf8' });
}

it('replays a folder, as JUnit, and a shard of a glob', () => {
  expect(replaying.match(/^npx statelet replay /gm)).toHaveLength(3);
  const { status, stdout } = bash(replaying, 'same');
  expect(stdout).toMatch(/^recorded\/a: same .*\nrecorded\/b: same .*\nrecorded\/a: same .*\n$/);
  expect(readFileSync(join(work, 'same/replay.xml'), 'utf8')).toContain('tests="2" failures="0" errors="0"');
  expect(status).toBe(0);
});

it('goes on after a difference and after nothing else', () => {
  expect(bash(deciding, 'same')).toMatchObject({ status: 0, stdout: 'the machines decide the same\n' });
  const { status, stdout } = bash(deciding, 'changed');
  expect(stdout).toMatch(/^the machines decide otherwise:\n### statelet replay: 1 same, 1 divergence\n/);
  expect(status).toBe(0);
  expect(bash(deciding, '.').status).toBe(7);
});

it('the workflow fails the shard that differs, with an annotation, a summary and a report', () => {
  const { strategy, steps } = (parse(blocks('yaml').find((block) => block.includes('jobs:'))!) as Workflow).jobs.replay;
  const scripts = steps.flatMap(({ run }) => (run?.startsWith('npx statelet') ? [run] : []));
  expect(scripts).toHaveLength(2);
  const runs = strategy.matrix.shard.map((shard) =>
    scripts.map((script) => bash(script.replaceAll('${{ matrix.shard }}', String(shard)), 'changed')),
  );
  expect(runs.map((steps) => steps.map(({ status }) => status))).toEqual([
    [1, 1],
    [0, 0],
  ]);
  expect(runs[0]![0]!.stdout).toMatch(/^::error title=recorded\/a%3A divergence::/m);
  expect(readFileSync(join(work, 'changed/summary.md'), 'utf8')).toContain('| recorded/a | divergence | 1 |');
  expect(readFileSync(join(work, 'changed/replay-1.xml'), 'utf8')).toContain('failures="1"');
});
