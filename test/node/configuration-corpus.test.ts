/**
 * The daemon compared with a real kubelet: a sample of the recorded command lines and configuration files with which a
 * kubelet ended by itself, each run as a process. Exit status, stderr without klog's headers, and stdout are the
 * kubelet's. `test/machines/configuration` compares all 835 cases with the pure pipeline.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseCommandLine } from '../../src/machines/configuration/flags/flags.ts';
import { ENDS_ELSEWHERE, EXCUSED } from '../golden/config-excused.ts';
import { type Case, readCases, withCase } from '../machines/configuration/corpus.ts';
import { patient } from '../support/patience.ts';

const STATELET = join(import.meta.dirname, '../../src/bin/statelet.js');
/** Of the ordinary errors, one of this many: together with the unusual ones about 40 processes of 0.4 s. */
const STRIDE = 12;
const KLOG_HEADER = /^([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [^\]]+\] /;
const PANIC_STATUS = 2;
/** A case that does not end is wrong; the slowest needs one second. */
const CASE_TIMEOUT_MS = patient(90_000);

const endsByConfiguration = ({ name, expect: { exit, stderr, unstable } }: Case): boolean =>
  exit !== 'running' &&
  unstable !== true &&
  !Object.hasOwn(EXCUSED, name) &&
  !ENDS_ELSEWHERE.some(([, pattern]) => pattern.test(stderr.join('\n')));

/** Panics, errors of several lines, several entries, and successes: each is logged in another way. */
const isUnusual = ({ expect: { exit, stderr } }: Case): boolean =>
  exit === PANIC_STATUS || exit === 0 || stderr.some((line) => line.startsWith('\t'));

const ending = readCases().filter(endsByConfiguration);
const unusual = ending.filter(isUnusual);
const sample = [...unusual, ...ending.filter((each) => !isUnusual(each)).filter((_, index) => index % STRIDE === 0)];

function runDaemon({ argv }: Case, directory: string) {
  const own = [`--journal-dir=${join(directory, 'journal')}`, '--visualizer-port=off'];
  const all = [STATELET, 'run', ...own, ...argv];
  const ended = spawnSync(process.execPath, all, { cwd: directory, encoding: 'utf8', timeout: CASE_TIMEOUT_MS });
  return { exit: ended.status, stderr: salient(ended.stderr), stdout: lines(ended.stdout), raw: ended.stderr };
}

const lines = (text: string): string[] => (text === '' ? [] : text.replace(/\n$/, '').split('\n'));

/** As in the corpus: without lines of information, without headers, consecutive equal lines once. */
function salient(stderr: string): string[] {
  const kept = lines(stderr).filter((line) => KLOG_HEADER.exec(line)?.[1] !== 'I');
  const bare = kept.map((line) => line.replace(KLOG_HEADER, ''));
  return bare.filter((line, index) => line !== bare[index - 1]);
}

/** After upstream's line, this product names the replacement of a removed flag. */
function wantedOf({ argv, expect: { exit, stderr, stdout } }: Case) {
  const line = parseCommandLine(argv, { version: 'v1.36.2', raw: '' });
  const hint = line.kind === 'error' && line.hint !== null ? [line.hint] : [];
  return { exit, stderr: [...stderr, ...hint], stdout };
}

describe('the daemon ends as the kubelet did', () => {
  it.each(sample.map((each) => [each.name, each] as const))('%s', async (_, raw) => {
    await withCase(raw, async (filled, directory) => {
      expect(runDaemon(filled, directory)).toMatchObject(wantedOf(filled));
    });
  });
});

it('panics without the header of a log line, as the kubelet does', async () => {
  const panicking = sample.find(({ expect: { exit } }) => exit === PANIC_STATUS)!;
  await withCase(panicking, async (filled, directory) => {
    expect(runDaemon(filled, directory).raw).toMatch(/^panic: failed to merge global and in-flight/m);
  });
});

it('tries each way to end', () => {
  expect(sample.length).toBeGreaterThanOrEqual(40);
  expect(new Set(sample.map(({ expect: { exit } }) => exit))).toEqual(new Set([0, 1, PANIC_STATUS]));
});
