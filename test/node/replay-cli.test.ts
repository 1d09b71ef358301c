/**
 * `statelet replay` and `statelet verify` as in a CI job: their output for a new recording, a damaged one, one from
 * before a machine was changed, and a missing one.
 */

import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FORMAT_VERSION } from '../../src/kernel/records.ts';
import { SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, runtimes } from '../support/observed-node.ts';

const ROOT = join(import.meta.dirname, '../..');
const work = mkdtempSync(join(tmpdir(), 'statelet-replay-'));
let node: ObservedNode;
let recording: string;

beforeAll(async () => {
  node = await ObservedNode.on(runtimes[0]!);
  await node.start();
  node.write('life.json', shellPod('life', node.image, SLEEP));
  await node.untilPhase('life', 'Running');
  node.remove('life.json');
  await node.gone('life');
  expect(await node.stop()).toBe(0);
  recording = node.journal;
});
afterAll(async () => {
  await node.close();
  rmSync(work, { recursive: true, force: true });
});

it.each(['verify', 'replay'])('a reader of %s that has seen enough ends it in silence', (verb) => {
  const command = `${process.execPath} src/bin/statelet.js ${verb} ${recording} | true`;
  const { stderr } = spawnSync('sh', ['-c', command], { cwd: ROOT });
  expect(String(stderr)).toBe('');
});

describe('a fresh recording', () => {
  it('verifies with 0', () => {
    const { code, stdout } = node.statelet('verify', recording);
    expect(stdout).toContain('whole');
    expect(code).toBe(0);
  });

  it('replays with 0, and says how much it replayed', () => {
    const { code, stdout } = node.statelet('replay', recording);
    expect(stdout).toMatch(/same \(incarnation 000001; \d+ records, \d+ turns, \d+ inputs/);
    expect(code).toBe(0);
  });

  it('replays with 0 as JSON', () => {
    const { code, stdout } = node.statelet('replay', recording, '--format', 'json');
    const log = { verdict: 'same', code: 0, incarnation: '000001' };
    expect(JSON.parse(stdout)).toMatchObject({ code: 0, logs: [log] });
    expect(code).toBe(0);
  });
});

describe('a damaged recording', () => {
  it.each(['verify', 'replay'])('%s ends with 3 and names the file when a byte in the middle is flipped', (verb) => {
    const { directory, segment } = copyOf('flipped');
    const bytes = readFileSync(segment);
    const middle = Math.floor(bytes.length / 2);
    bytes[middle] = bytes[middle]! ^ 0x01;
    writeFileSync(segment, bytes);
    const { code, stdout } = node.statelet(verb, directory);
    expect(stdout).toContain(segment);
    expect(code).toBe(3);
  });

  it.each(['verify', 'replay'])('%s ends with 3 when a line in the middle is missing', (verb) => {
    const { directory, segment } = copyOf('missing');
    const lines = readFileSync(segment, 'utf8').split('\n');
    lines.splice(Math.floor(lines.length / 2), 1);
    writeFileSync(segment, lines.join('\n'));
    expect(node.statelet(verb, directory).code).toBe(3);
  });

  it('a torn tail costs its turn only: both end with 0 and say so', () => {
    const { directory, segment } = copyOf('torn');
    const bytes = readFileSync(segment);
    writeFileSync(segment, bytes.subarray(0, bytes.length - 40));
    for (const verb of ['verify', 'replay']) {
      const { code, stdout } = node.statelet(verb, directory);
      expect(stdout).toMatch(/the last \d+ bytes are not a whole turn/);
      expect(code).toBe(0);
    }
  });
});

it('a recording of a format to come ends with 4', () => {
  const { directory, segment } = copyOf('later');
  const [header = '', ...rest] = readFileSync(segment, 'utf8').split('\n');
  const json = header.slice(header.indexOf(' ') + 1).replace(`"version":${FORMAT_VERSION}`, '"version":9');
  expect(json).toContain('"version":9');
  writeFileSync(segment, [`${crc32(json).toString(16).padStart(8, '0')} ${json}`, ...rest].join('\n'));
  const { code, stdout } = node.statelet('replay', directory);
  expect(stdout).toContain('format 9');
  expect(code).toBe(4);
});

describe('changed code', () => {
  it('ends with 1 and shows the first decision that differs', () => {
    const copy = changedCopy(
      'src/machines/charts/pods/pod/pod-policy.ts',
      'MIN_GRACE_SECONDS = 1;',
      'MIN_GRACE_SECONDS = 3;',
    );
    const { code, stdout } = replayWith(copy);
    expect(stdout).toContain('divergence');
    expect(stdout).toMatch(/first difference at record \d+ of turn \d+/);
    expect(stdout).toMatch(
      /the turn began with record \d+, .*\n {2}the log has {2}record \d+, \w+ kubelet\/pods\/pod-/,
    );
    expect(stdout).toMatch(/\.graceSeconds\n +log +1\n +now +3\n/);
    expect(stdout).toMatch(/recorded by Statelet \S+ \(.*\); this is Statelet /);
    expect(code).toBe(1);
  });

  it('that the world does not see ends with 0 and notes, or with --strict with 1; both name the machine', () => {
    const copy = changedCopy(
      'src/machines/charts/pods/pod/pod.ts',
      '=> initialPod(input)',
      '=> ({ ...initialPod(input), spare: 0 })',
    );
    const { code, stdout } = replayWith(copy);
    expect(stdout).toMatch(/: same .*\n +\d+ notes? of .*\n +machines that are not the recorded ones: /);
    expect(code).toBe(0);
    const strict = replayWith(copy, '--strict');
    expect(strict.stdout).toMatch(/machines whose definition or functions changed since the log: /);
    expect(strict.stdout).toMatch(/again: .* --strict\n/);
    expect(strict.code).toBe(1);
    // Also for a log that the bundle recorded, because its machines have the hashes of their sources.
    const { logs } = JSON.parse(replayWith(copy, '--output', 'json').stdout) as {
      logs: { machinesChanged: string[] }[];
    };
    expect(logs[0]!.machinesChanged).toEqual(['pod']);
  });

  it('that is not deterministic ends with 6', () => {
    const copy = changedCopy(
      'src/machines/charts/pods/status/status.ts',
      "'Pod status'",
      '`Pod status ${process.hrtime.bigint()}`',
    );
    const { code, stdout } = replayWith(copy);
    expect(stdout).toContain('the code is not deterministic');
    expect(code).toBe(6);
  });

  it('that decides the same ends with 0', () => {
    const copy = changedCopy(
      'src/machines/charts/pods/status/status.ts',
      'const handleRemoved =',
      '// another comment\nconst handleRemoved =',
    );
    expect(replayWith(copy).code).toBe(0);
  });
});

describe('no recording', () => {
  it.each(['verify', 'replay'])('%s ends with 7 where nothing is', (verb) => {
    expect(node.statelet(verb, join(work, 'absent')).code).toBe(7);
  });

  it.each(['verify', 'replay'])('%s ends with 2 without an argument, and shows its usage', (verb) => {
    const { code, stderr } = node.statelet(verb);
    expect(stderr).toContain('Usage: statelet');
    expect(code).toBe(2);
  });

  it('an unknown format or verb ends with 2', () => {
    expect(node.statelet('replay', recording, '--format', 'xml').code).toBe(2);
    expect(node.statelet('replai', recording).code).toBe(2);
  });
});

function copyOf(name: string): { directory: string; segment: string } {
  const directory = mkdtempSync(join(work, `${name}-`));
  cpSync(recording, directory, { recursive: true });
  const segment = readdirSync(directory).find((file) => file.endsWith('.ndjson'));
  return { directory, segment: join(directory, segment!) };
}

/** The project with one text of one file replaced. */
function changedCopy(path: string, text: string, by: string): string {
  const copy = mkdtempSync(join(work, 'changed-'));
  for (const part of ['src', 'proto', 'package.json']) cpSync(join(ROOT, part), join(copy, part), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  const source = readFileSync(join(copy, path), 'utf8');
  expect(source, `${path} has the text that this test replaces`).toContain(text);
  writeFileSync(join(copy, path), source.replace(text, by));
  return copy;
}

function replayWith(copy: string, ...flags: readonly string[]): { code: number | null; stdout: string } {
  const argv = [join(copy, 'src/bin/statelet.js'), 'replay', recording, ...flags];
  const { status, stdout } = spawnSync(process.execPath, argv, { encoding: 'utf8' });
  return { code: status, stdout };
}
