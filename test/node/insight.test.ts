/** The verbs that explain a journal, as processes, for the journal of a daemon: while it runs, and after two starts. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { BUILT_IN_IMAGE } from '../../src/actors/embedded-runtime/store/images.ts';
import type { Blame } from '../../src/bin/insight/blame.ts';
import type { CriticalChain } from '../../src/bin/insight/critical-chain.ts';
import type { StartupTime } from '../../src/bin/insight/startup-time.ts';
import type { Why } from '../../src/bin/insight/why.ts';
import { eventually, SLEEP, STATELET, shellPod, TestNode } from '../support/daemon.ts';

let node: TestNode;
const FAILING = 'exit 3';

beforeAll(async () => {
  node = new TestNode();
  node.write('web.json', shellPod('web', BUILT_IN_IMAGE, SLEEP));
  node.write('bad.json', shellPod('bad', BUILT_IN_IMAGE, FAILING));
  await node.start();
  await eventually('web runs', () => /web-node1.*Running/.test(node.log));
  await node.stop();
  await node.start();
  await eventually('bad backs off', () =>
    node.statelet('why', node.journal, 'pod/bad').stdout.includes('CrashLoopBackOff'),
  );
});
afterAll(() => node.close());

function json(...argv: string[]): unknown {
  const { code, stdout, stderr } = node.statelet(...argv, '--format=json');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout);
}

/** The journal of a start that fails because of its configuration. */
function failedJournal(): string {
  const directory = join(node.directory, 'failed');
  const config = join(node.directory, 'failing.yaml');
  writeFileSync(config, readFileSync(join(node.directory, 'config.yaml'), 'utf8').replace('AlwaysAllow', 'Open'));
  const flags = [`--config=${config}`, `--root-dir=${directory}`, '--visualizer-port=off'];
  expect(node.statelet('run', ...flags).code).toBe(1);
  return join(directory, 'journal');
}

/** The page of a journal, as the command serves it. */
async function view(journal: string) {
  const child = spawn(process.execPath, [STATELET, 'view', journal]);
  onTestFinished(() => void child.kill());
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (text) => (stdout += text));
  child.stderr.on('data', (text) => (stderr += text));
  const url = await eventually('the page has an address', () => /^(http:\S+)\n/.exec(stdout)?.[1]);
  const token = new URL(url).searchParams.get('token');
  const ask = (path: string): Promise<Response> =>
    fetch(new URL(path, url), { headers: { authorization: `Bearer ${token}` } });
  const end = async () => {
    child.kill('SIGINT');
    const [code] = await once(child, 'exit');
    return { code, stderr };
  };
  return { url, ask, end };
}

describe('time', () => {
  it('says when each goal was reached, as the log does', () => {
    const { code, stdout } = node.statelet('time', node.journal, '--incarnation=000001');
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^Startup finished after .* to healthz, .* to synchronizing, .* to the first pod running \(default\/\w+-node1\)\n/,
    );
    expect(stdout).toMatch(/run\.runtimeService +the container runtime to answer\n/);
    const time = json('time', node.journal) as StartupTime;
    expect(time).toMatchObject({ complete: true, incarnation: '000002' });
    expect(time.healthzMs).toBeLessThanOrEqual(time.totalMs);
  });

  it('says of a start that failed where and why', () => {
    const { stdout } = node.statelet('time', failedJournal());
    expect(stdout).toMatch(
      /^Startup failed after .*\nrun\.auth: failed to run Kubelet: unknown authorization mode Open\n/,
    );
    const failed = json('why', failedJournal(), 'startup') as Why;
    expect(failed.summary).toMatch(
      /^Starting failed in run\.\w+: failed to run Kubelet: unknown authorization mode Open$/,
    );
  });
});

it('blame lists what starting asked of the world', () => {
  const { operations, slowest } = json('blame', node.journal) as Blame;
  expect(operations.find(({ name }) => name === 'runtime.connect')).toMatchObject({ count: 1, failures: 0 });
  expect(slowest[0]!.at).toMatch(/^kubelet\//);
  expect(node.statelet('blame', node.journal).stdout).toMatch(/OPERATION\n[^]*runtime\.connect/);
});

it.each([[], ['pod/web']])('critical-chain %j ends where it was asked for, with no time unaccounted for', (...goal) => {
  const journal = `${node.journal}@000001`;
  const chain = json('critical-chain', journal, ...goal) as CriticalChain;
  expect(chain).toMatchObject({ whole: true });
  expect(chain.workingMs + chain.waitingMs).toBe(chain.totalMs);
  expect(node.statelet('critical-chain', journal, ...goal).stdout).toMatch(
    / after .*waited .* for answers, .* for timers and events/,
  );
});

describe('why', () => {
  it('knows the deadline of a back-off', async () => {
    // Between two attempts it is starting.
    const timer = await eventually('it waits', () => {
      const { waits, timersKnown } = json('why', node.journal, 'pod/bad/c') as Why;
      expect(timersKnown).toBe(true);
      return waits.find(({ kind }) => kind === 'timer');
    });
    expect(timer).toMatchObject({ dueMs: expect.any(Number) });
  });

  it('counts on while the daemon runs', async () => {
    const age = () => (json('why', node.journal, 'pod/web/c') as Why).states[0]!.forMs;
    const before = age();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(age()).toBeGreaterThan(before + 50);
  });

  it.each([
    [['why', 'pod/nope'], 8, /there is no pod nope in start \d{6}; it has /],
    [['why', 'nonsense'], 2, /is not startup, pod\/NAME, pod\/NAME\/CONTAINER, image\/REFERENCE or actor\/NAME/],
    [['critical-chain', 'pod/nope'], 8, /there is no pod nope/],
    [['time', '--format=xml'], 2, /--format is text or json/],
    [['time', '--incarnation=9'], 7, /it holds no incarnation 000009/],
  ])('%j ends with %i', ([verb, ...rest], code, message) => {
    const ended = node.statelet(verb!, node.journal, ...rest);
    expect(ended).toMatchObject({ code, stdout: '' });
    expect(ended.stderr).toMatch(message);
  });
});

it.each([
  [['get', 'nodes'], 'error: a node knows pods only, not "nodes"\n'],
  [['get', 'pods', '--output=xml'], 'error: there is no output format "xml"; there are wide, json, yaml, name\n'],
  [['describe', 'node', 'node1'], 'error: a node knows pods only, not "node"\n'],
])('%j is refused, on stderr and with 1', (argv, stderr) => {
  expect(node.statelet(...argv)).toEqual({ code: 1, stdout: '', stderr });
});

describe('view', () => {
  it('serves the page, the charts and the files of the journal, until a signal', async () => {
    const journal = failedJournal();
    const { url, ask, end } = await view(journal);
    const opened = await fetch(url, { redirect: 'manual' });
    const [page = '', cookie = ''] = ['location', 'set-cookie'].map((name) => opened.headers.get(name) ?? '');
    expect([opened.status, page]).toEqual([303, expect.not.stringContaining('token')]);
    expect((await fetch(new URL(page, url), { headers: { cookie } })).status).toBe(200);
    expect((await ask('diagrams/kubelet.svg')).status).toBe(200);
    expect(await (await ask('api/use')).json()).toEqual({ use: 'server' });
    const { files } = (await (await ask('api/journal')).json()) as { files: string[] };
    const segments = files.filter((name) => name.endsWith('.ndjson'));
    expect(segments).toEqual(readdirSync(journal).filter((name) => name.endsWith('.ndjson')));
    const served = await (await ask(`journal/${segments[0]}`)).text();
    expect(served).toBe(readFileSync(join(journal, segments[0]!), 'utf8'));
    expect(await end()).toEqual({ code: 0, stderr: '' });
  });

  it.each([
    [['/nowhere'], 7, /there is nothing to read/],
    [['--port=x'], 2, /--port is a number up to 65535/],
  ])('%j ends with %i', (more, code, message) => {
    const ended = node.statelet('view', ...(more[0]!.startsWith('-') ? [node.journal] : []), ...more);
    expect(ended).toMatchObject({ code, stdout: '' });
    expect(ended.stderr).toMatch(message);
  });
});

describe('diff', () => {
  it('compares two starts of one node', () => {
    const [first, second] = [`${node.journal}@000001`, `${node.journal}@000002`];
    const same = node.statelet('diff', first, first);
    expect(same.code).toBe(0);
    expect(same.stdout).toMatch(/^a: incarnation 000001, b: incarnation 000001\n[^]*Every actor decided the same\.\n$/);
    expect(node.statelet('diff', first, second).stdout).toMatch(
      /A +B +CHANGE +PHASE\n[^]*run\.runtimeService[^]*total\n/,
    );
  });

  it('ends with 1 when one start did not come as far', () => {
    const failed = failedJournal();
    const { code, stdout } = node.statelet('diff', `${node.journal}@000001`, failed);
    expect(code).toBe(1);
    expect(stdout).toMatch(/ - +\S+ +\S*s +startKubelet\.kubeletRun\.waitingForRuntime +only in a\n/);
  });
});
