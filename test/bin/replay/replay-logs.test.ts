/** `statelet replay` with many logs: which ones are selected, which processes replay them, and the exit code. */
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inShard, logsOf, shardOf } from '../../../src/bin/replay/logs.ts';
import { codeForBisect, worstOf } from '../../../src/bin/replay/outcome.ts';
import { DOOR, inOtherWords, record, statelet } from '../recorded.ts';

const work = mkdtempSync(join(tmpdir(), 'statelet-replay-logs-'));
const at = (...names: string[]): string => join(work, ...names);

beforeAll(async () => {
  await record(at('logs/b/same'));
  cpSync(at('logs/b/same'), at('logs/a'), { recursive: true });
  cpSync(at('logs/b/same'), at('logs/c'), { recursive: true });
  await record(at('other/changed'), inOtherWords);
  cpSync(at('logs/a'), at('other/damaged'), { recursive: true });
  const segment = at('other/damaged/j-000001-000000000000.ndjson');
  writeFileSync(segment, readFileSync(segment, 'utf8').replace('"k":"log"', '"k":"leg"'));
  mkdirSync(at('empty'));
});
afterAll(() => rmSync(work, { recursive: true, force: true }));

describe('which logs are meant', () => {
  const all = () => [at('logs/a'), at('logs/b/same'), at('logs/c')];

  it('a folder stands for the journals below it, sorted by bytes, each once', () => {
    expect(logsOf([at('logs')])).toEqual(all());
    expect(logsOf([at('logs/c'), at('logs'), at('logs/a')])).toEqual(all());
  });

  it('a quoted glob stands for the journals that it finds, not for what lies in them', () => {
    expect(logsOf([at('logs/**')])).toEqual(all());
    expect(logsOf([at('logs/{a,c}')])).toEqual([at('logs/a'), at('logs/c')]);
    const segment = at('logs/a/j-000001-000000000000.ndjson');
    expect(logsOf([at('logs/a/j-*.ndjson')])).toEqual([segment]);
  });

  it('a journal, a start of it, and what names nothing stay as they are', () => {
    const named = [at('empty'), at('logs/a'), at('logs/a@1'), at('nothing/*'), at('nowhere')];
    expect(logsOf(named)).toEqual(named);
  });

  it('shards share the list without overlap', () => {
    const logs = ['a', 'b', 'c', 'd', 'e'];
    const shards = [1, 2, 3].map((index) => inShard(logs, { index, count: 3 }));
    expect(shards).toEqual([['a', 'd'], ['b', 'e'], ['c']]);
    expect(['1/1', '3/3', '0/2', '3/2', '1', '1/2/3', 'a/b'].map(shardOf)).toEqual([
      { index: 1, count: 1 },
      { index: 3, count: 3 },
      ...Array.from({ length: 5 }),
    ]);
  });
});

it('the worst outcome decides, whatever the order', () => {
  const fromTheBest = [0, 7, 4, 3, 125, 1, 6];
  fromTheBest.forEach((worst, i) => {
    expect(worstOf(fromTheBest.slice(0, i + 1))).toBe(worst);
    expect(worstOf(fromTheBest.slice(0, i + 1).toReversed())).toBe(worst);
  });
  expect(fromTheBest.map(codeForBisect)).toEqual([0, 125, 125, 125, 125, 1, 6]);
});

describe('the command', () => {
  it.each(['1', '2'])('replays in %s processes and prints in the order of the list', (jobs) => {
    const { code, stdout } = statelet(['replay', 'logs', 'other/changed', '--jobs', jobs], { cwd: work });
    expect(stdout.match(/^\S.*?(?= \()/gm)).toEqual([
      'logs/a: same',
      'logs/b/same: same',
      'logs/c: same',
      'other/changed: divergence',
    ]);
    expect(code).toBe(1);
  });

  it('a difference outweighs a damaged log and one that is missing', () => {
    expect(statelet(['replay', 'nowhere', 'other'], { cwd: work }).code).toBe(1);
    expect(statelet(['replay', 'nowhere', 'other/damaged', 'logs'], { cwd: work }).code).toBe(3);
  });

  it('verify takes the same logs, and the worst decides', () => {
    const { code, stdout } = statelet(['verify', 'logs', 'nowhere', 'other'], { cwd: work });
    expect(stdout.match(/^\S+(?=: (not )?whole)/gm)).toEqual([
      'logs/a',
      'logs/b/same',
      'logs/c',
      'other/changed',
      'other/damaged',
    ]);
    expect(code).toBe(3);
  });

  it('with --bisect, what cannot be tested skips the commit', () => {
    expect(statelet(['replay', '--bisect', 'other/damaged'], { cwd: work }).code).toBe(125);
    expect(statelet(['replay', '--bisect', 'nowhere'], { cwd: work }).code).toBe(125);
    expect(statelet(['replay', '--bisect', 'other/changed'], { cwd: work }).code).toBe(1);
    expect(statelet(['replay', '--bisect', 'logs/a'], { cwd: work }).code).toBe(0);
  });

  it('a shard without logs is no failure and says so', () => {
    const { code, stderr } = statelet(['replay', 'logs', '--shard', '4/4'], { cwd: work });
    expect(stderr).toContain('none of 3 logs is in shard 4/4');
    expect(code).toBe(0);
  });

  it.each([[['--shard', '0/4']], [['--shard', '4']], [['--jobs', '0']], [['--jobs', 'many']]])('refuses %j', (argv) => {
    const { code, stderr } = statelet(['replay', 'logs', ...argv], { cwd: work });
    expect(stderr).toContain(`statelet replay: ${argv[0]} is `);
    expect(code).toBe(2);
  });
});

describe('never "a difference"', () => {
  it('a full disk', () => {
    const { code, stderr } = statelet(['replay', 'other/changed'], { cwd: work, stdout: openSync('/dev/full', 'w') });
    expect(stderr).toContain('the output could not be written: ENOSPC');
    expect(code).toBe(125);
  });

  it.each(['other/changed', 'other/changed logs'])('a reader that closes the pipe while %s is replayed', (named) => {
    const logs = named
      .split(' ')
      .map((name) => at(name))
      .join(' ');
    const script = `{ ${process.execPath} ${DOOR} replay ${logs}; echo $? >${at('code')}; } | true`;
    const { stderr } = spawnSync('sh', ['-c', script], { encoding: 'utf8' });
    expect(stderr).toBe('');
    expect(readFileSync(at('code'), 'utf8')).toBe('125\n');
  });

  it('code that cannot be loaded', () => {
    const broken = at('broken');
    const root = join(import.meta.dirname, '../../..');
    mkdirSync(join(broken, 'src/bin'), { recursive: true });
    cpSync(join(root, 'package.json'), join(broken, 'package.json'));
    cpSync(join(root, 'src/bin'), join(broken, 'src/bin'), { recursive: true });
    writeFileSync(join(broken, 'src/bin/commands/main.ts'), 'this is no program');
    const { status } = spawnSync(process.execPath, [join(broken, 'src/bin/statelet.js'), 'replay', 'logs']);
    expect(status).toBe(125);
  });

  it('a process that is killed costs only the log that it had', async () => {
    cpSync(at('logs/a'), at('a-killed'), { recursive: true });
    const command = spawn(process.execPath, [DOOR, 'replay', 'a-killed', 'logs', '--jobs', '1'], { cwd: work });
    let output = '';
    command.stdout.on('data', (text) => (output += String(text)));
    const code = new Promise((resolve) => command.once('exit', resolve));
    const child = () => Number(readFileSync(`/proc/${command.pid}/task/${command.pid}/children`, 'utf8'));
    await expect.poll(child, { timeout: 15_000 }).toBeGreaterThan(0);
    process.kill(child(), 'SIGKILL');
    expect(await code).toBe(125);
    expect(output).toMatch(/^a-killed: not tested: the process that replayed it was ended by SIGKILL\n/);
    expect(output.match(/^logs\/.*: same/gm)).toHaveLength(3);
  });
});
