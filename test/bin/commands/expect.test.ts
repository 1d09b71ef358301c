/** `statelet expect`: the expectations in a file, and those that a start does not meet. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { SaxesParser } from 'saxes';
import { afterAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { statelet } from '../recorded.ts';

const JOURNAL = join(import.meta.dirname, '../../golden/journals/v4/node');
const work = mkdtempSync(join(tmpdir(), 'statelet-expect-'));
afterAll(() => rmSync(work, { recursive: true, force: true }));

const schema = JSON.parse(readFileSync(join(import.meta.dirname, '../../../schema/expectations.schema.json'), 'utf8'));
const fits = new Ajv({ strict: false }).compile(schema);

function run(text: string, output = 'json', log = JOURNAL) {
  const file = join(work, 'start.yaml');
  writeFileSync(file, text);
  return statelet(['expect', file, log, '--output', output]);
}

function verdicts(text: string) {
  expect(fits(parse(text)), JSON.stringify(fits.errors)).toBe(true);
  const { code, stdout } = run(text);
  const { findings } = JSON.parse(stdout) as { findings: readonly { expected: string; verdict: string }[] };
  return { code, verdicts: findings.map(({ expected, verdict }) => `${verdict}: ${expected}`) };
}

/** The example of the page itself, because readers copy it. */
const [, example = ''] = /```yaml\n(finished:[^]*?)```/.exec(
  readFileSync(join(import.meta.dirname, '../../../docs/ci.md'), 'utf8'),
) ?? [''];

describe('of the golden node', () => {
  it('hold: phases in order, times, and what it never was', () => {
    const { code, verdicts: all } = verdicts(`
finished: true
phases: [run.runtimeService, run.containerManager, startKubelet.kubeletRun.synchronizing]
within: {healthz: 39ms, synchronizing: 52ms, firstPod: 610ms, pod/web: 0.61s}
longest: {run.runtimeService: 8ms}
never: [{actor: kubelet, state: failed}, {operation: 'cri.*'}]
`);
    expect(all).toHaveLength(11);
    expect(all.filter((verdict) => !verdict.startsWith('holds: '))).toEqual([]);
    expect(code).toBe(0);
  });

  it.each([
    ['within: {healthz: 38ms}', 5, 'late: healthz within 38 ms'],
    ['longest: {run.runtimeService: 7ms}', 5, 'late: run.runtimeService at most 7 ms'],
    ['within: {pod/other: 1s}', 8, 'missing: pod/other within 1.00 s'],
    ['phases: [run.authentication]', 8, 'missing: run.authentication'],
    ['finished: false', 8, 'missing: not finished'],
    ['never: [{actor: pod/web/app, state: running}]', 9, 'violated: never pod/web/app in running'],
    [
      "never: [{actor: 'kubelet/images/*', state: pulling.asking}]",
      9,
      'violated: never kubelet/images/* in pulling.asking',
    ],
  ])('%s ends with %i', (text, code, verdict) => {
    const found = verdicts(text);
    expect(found.verdicts).toEqual([verdict]);
    expect(found.code).toBe(code);
  });

  it('a phase that came before the one above it is missing after it', () => {
    const { verdicts: all, code } = verdicts('phases: [run.containerManager, run.runtimeService]');
    expect(all).toEqual(['holds: run.containerManager', 'missing: run.runtimeService after run.containerManager']);
    expect(code).toBe(8);
  });

  it('the worst of several decides the exit code', () => {
    const late = 'within: {healthz: 1ms}\n';
    expect(verdicts(`${late}phases: [nowhere]`).code).toBe(8);
    expect(verdicts(`${late}phases: [nowhere]\nnever: [{actor: pod/web/app, state: running}]`).code).toBe(9);
  });

  it('is a test case an expectation in JUnit, well-formed whatever the file names', () => {
    const { code, stdout } = run('phases: ["<a b=\\"&\\">"]\nwithin: {healthz: 1s}', 'junit');
    const names: string[] = [];
    const parser = new SaxesParser();
    parser.on('opentag', ({ name, attributes }) => {
      names.push(name === 'testcase' ? `case ${String(attributes['name'])}` : name);
    });
    parser.write(stdout).close();
    expect(names).toEqual(['testsuites', 'testsuite', 'case <a b="&">', 'failure', 'case healthz within 1.00 s']);
    expect(code).toBe(8);
  });
});

describe('a file', () => {
  it('that the page shows is understood', () => {
    expect(example).toContain('runtimeService');
    expect(verdicts(example).verdicts).toHaveLength(9);
  });

  it.each([
    ['finish: true', 'the file has "finish"; known are finished, phases, within, longest, never'],
    ['finished: yes please', 'finished is true or false'],
    ['- finished', 'the file is an object with names and values'],
    ['within: {ready: 1s}', 'within has "ready"; known are healthz, synchronizing, firstPod, pod/NAME'],
    ['within: {healthz: soon}', 'within.healthz is a time like 500ms or 1.5s, not "soon"'],
    ['phases: [1]', 'phases is a list of texts, and 1 is none'],
    ['never: [{actor: kubelet}]', 'each of never has actor and state, or operation'],
    ['never: [{actor: a, state: b, verb: c}]', 'an item of never has "verb"; known are actor, state, operation'],
  ])('%s is refused', (text, why) => {
    expect(fits(parse(text))).toBe(false);
    const { code, stdout, stderr } = run(text);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toBe(`statelet expect: ${join(work, 'start.yaml')}: ${why}\n`);
  });

  it('that is not there, and a journal that is not there, are said as such', () => {
    expect(statelet(['expect', join(work, 'none.yaml'), JOURNAL])).toMatchObject({ code: 2 });
    const { code, stdout } = run('finished: true', 'text', join(work, 'nothing'));
    expect(stdout).toContain('there is nothing to read');
    expect(code).toBe(7);
  });
});
