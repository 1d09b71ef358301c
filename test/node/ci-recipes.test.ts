/**
 * The recipes of `docs/ci.md` that record a start, compare it with expectations, and simulate, run as they are on the
 * page.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const page = readFileSync(join(ROOT, 'docs/ci.md'), 'utf8');
const blocks = (language: string): string[] =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\``, 'gm'))].map(([, text = '']) => text);
const blockWith = (language: string, text: string): string => blocks(language).find((block) => block.includes(text))!;

const work = mkdtempSync(join(tmpdir(), 'statelet-recipes-'));
afterAll(() => rmSync(work, { recursive: true, force: true }));
mkdirSync(join(work, 'bin'));
const npx = `#!/bin/sh\n[ "$1" = statelet ] && shift && exec '${process.execPath}' '${ROOT}/src/bin/statelet.js' "$@"\n`;
writeFileSync(join(work, 'bin/npx'), npx, { mode: 0o755 });
symlinkSync(join(ROOT, 'examples'), join(work, 'examples'));

function bash(script: string) {
  const PATH = [join(work, 'bin'), process.env['PATH']].join(delimiter);
  const { status, stdout, stderr } = spawnSync('bash', ['-e', '-c', script], {
    cwd: work,
    env: { ...process.env, PATH },
    encoding: 'utf8',
  });
  return { status, output: stdout + stderr };
}

it('records a start of two pods, which replays and is what the expectations say', () => {
  spawnSync('git', ['init', '--quiet'], { cwd: work });
  const recorded = bash(blockWith('sh', 'run-once'));
  expect(recorded, recorded.output).toMatchObject({ status: 0 });
  expect(recorded.output).toContain('recorded/two-pods: whole');
  expect(existsSync(join(work, 'recorded/two-pods/owner.json'))).toBe(false);
  expect(bash('npx statelet replay recorded --strict').status).toBe(0);

  // The duration of a start depends on the machine.
  writeFileSync(join(work, 'start.yaml'), blockWith('yaml', 'never:').replaceAll(/: \d+(?:ms|s)\b/g, ': 200s'));
  const expected = bash(blockWith('sh', 'statelet expect'));
  expect(expected, expected.output).toMatchObject({ status: 0 });
  expect(readFileSync(join(work, 'expect.xml'), 'utf8')).toContain('failures="0"');
});

it('simulates ten seeds of the day', () => {
  const simulated = bash(blockWith('sh', 'statelet simulate').replace('$(date +%j)000', '1'));
  expect(simulated, simulated.output).toMatchObject({ status: 0 });
  expect(readFileSync(join(work, 'simulate.xml'), 'utf8')).toContain('tests="10" failures="0" errors="0"');
});
