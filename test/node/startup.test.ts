/**
 * Starts that fail, as processes: upstream's text and exit code, a complete journal, a last record with the phase and
 * the reason, and the reports of `time` and `why startup`. And a start with a large configuration.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { readJournal } from '../../src/kernel/journal/reader.ts';
import { TestNode } from '../support/daemon.ts';
import { FAILING_STARTS } from '../support/failing-starts.ts';
import { datagramReceiver } from '../support/host-datagram.ts';

let node: TestNode;
const newNode = (configuration = '') => (node = new TestNode({ configuration }));
afterEach(() => node.close());

const lastLine = (stderr: string) => stderr.trimEnd().split('\n').at(-1)!;

describe('a start that fails', () => {
  it.each(Object.entries(FAILING_STARTS))('%s', async (_, failing) => {
    const { phase, message, configuration, environment = {}, line = 'command failed' } = failing;
    newNode(configuration);
    const flags = failing.flags?.(node.directory) ?? [];
    const podLogs = failing.podLogs ?? node.logs;
    const { code, stderr } = await node.once('run', ['--visualizer-port=off', ...flags], { environment, podLogs });
    const words = JSON.stringify(message(node.directory)).slice(1, -1);
    expect(lastLine(stderr)).toContain(`"${line}" err="`);
    expect(lastLine(stderr)).toContain(words);
    expect(stderr).not.toMatch(/^\s+at .+:\d+:\d+/m);
    expect(code).toBe(1);
    expect(lastState()).toMatchObject({ value: 'failed', status: 'done' });
    expect(node.statelet('verify', node.journal).code).toBe(0);
    const time = node.statelet('time', node.journal);
    expect(time.stdout).toMatch(/^Startup failed after /);
    expect(time.stdout).toContain(phase);
    const why = node.statelet('why', node.journal, 'startup');
    expect(why.stdout).toContain(phase);
    expect(why.stdout.replaceAll('\\"', '"')).toContain(message(node.directory));
  });
});

function lastState(): unknown {
  const states = [...readJournal(node.journal, {}).records].filter(({ k }) => k === 'state');
  return states.findLast((record) => 'at' in record && record.at === 'kubelet');
}

describe('a start that cannot write anything down', () => {
  it.each([
    ['a root directory that is a file', (at: string) => ['--root-dir', `${at}/afile`, `--journal-dir=${at}/journal`]],
    ['a root directory below /proc', (at: string) => ['--root-dir=/proc/none', `--journal-dir=${at}/journal`]],
    ['a journal that is no folder', (at: string) => [`--journal-dir=${at}/afile`]],
  ])('%s', async (_, flags) => {
    newNode();
    writeFileSync(join(node.directory, 'afile'), 'x');
    const { code, stderr } = await node.once('run', ['--visualizer-port=off', ...flags(node.directory)]);
    expect(code).toBe(1);
    expect(lastLine(stderr)).toMatch(/"command failed" err="failed to run Kubelet: .+"/);
    expect(stderr).not.toMatch(/^\s+at .+:\d+:\d+/m);
  });
});

it('a service manager hears that the node is ready, that it lives, and that it stops', async () => {
  newNode();
  const address = join(node.directory, 'notify');
  const manager = datagramReceiver(address);
  const heard: string[] = [];
  await node.start([], { NOTIFY_SOCKET: address, WATCHDOG_USEC: '1200000' });
  const isFed = () => heard.filter((word) => word === 'WATCHDOG=1').length >= 5;
  while (!isFed() || !heard.includes('READY=1')) heard.push(await manager.next());
  expect(heard[0], 'before it is ready, as upstream says it').toBe('WATCHDOG=1');
  const stopped = node.stop();
  while (heard.at(-1) !== 'STOPPING=1') heard.push(await manager.next());
  expect(await stopped).toBe(0);
  expect(heard.filter((word) => word === 'READY=1')).toHaveLength(1);
  expect(node.log).toContain('"Starting systemd watchdog with interval" interval="600ms"');
  expect(node.statelet('replay', node.journal).code).toBe(0);
});

it('a watchdog of another process is not fed', async () => {
  newNode();
  const address = join(node.directory, 'notify');
  const manager = datagramReceiver(address);
  await node.start([], { NOTIFY_SOCKET: address, WATCHDOG_USEC: '1200000', WATCHDOG_PID: '1' });
  expect(await manager.next()).toBe('READY=1');
  await expect(manager.next(700)).rejects.toThrow('nothing was sent');
});

/** Linux's unit of a process's times. */
const CLOCK_TICK_MS = 10;

/** The CPU time that a process has used so far. */
function cpuMs(pid: number): number {
  const [, fields = ''] = /\) (.*)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
  const [user, system] = fields.split(' ').slice(11, 13).map(Number);
  return (user! + system!) * CLOCK_TICK_MS;
}

it('a configuration of 1 MB in 200 drop-ins costs little', async () => {
  newNode();
  const directory = join(node.directory, 'conf.d');
  mkdirSync(directory);
  let bytes = 0;
  for (let i = 0; i < 200; i++) {
    const padding = `# ${'x'.repeat(97)}\n`.repeat(48);
    const head = 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n';
    const text = `${head}maxPods: ${100 + i}\nevictionMinimumReclaim:\n  memory.available: "${i + 1}Mi"\n${padding}`;
    bytes += text.length;
    writeFileSync(join(directory, `${String(i).padStart(3, '0')}.conf`), text);
  }
  // CPU time is the cost of a start, because other processes may run beside it.
  const costOf = async (...flags: string[]) => {
    await node.start(flags);
    return cpuMs(node.pid);
  };
  const normalMs = await costOf();
  await node.stop();
  const largeMs = await costOf(`--config-dir=${directory}`);
  expect(((await node.context('kubelet'))!['config'] as { maxPods: number }).maxPods).toBe(299);
  await node.stop();
  const again = await costOf();
  const cost = largeMs - Math.min(normalMs, again);
  const mb = (bytes / 1_000_000).toFixed(2);
  process.stdout.write(
    `start with ${mb} MB in 200 drop-ins: ${largeMs} ms of CPU, without: ${Math.min(normalMs, again)} ms\n`,
  );
  expect(bytes).toBeGreaterThan(950_000);
  expect(cost / Math.max(normalMs, again), 'as a share of a start without').toBeLessThan(2);
});
