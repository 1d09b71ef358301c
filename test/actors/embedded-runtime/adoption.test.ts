import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import type * as cri from '../../../src/machines/model/api/cri.ts';
import { eventually, isProcess, Node } from './harness.ts';

let node: Node;
let daemon: ChildProcess | undefined;
beforeEach(() => {
  node = new Node();
});
afterEach(async () => {
  daemon?.kill('SIGKILL');
  await node.destroy();
});

/** Starts a separate process that hosts the runtime of this node until it is killed. */
async function startDaemon(): Promise<void> {
  const module = new URL('../../../src/actors/embedded-runtime/embedded-runtime.ts', import.meta.url).href;
  const script = `
    const { startEmbeddedRuntime } = await import(${JSON.stringify(module)});
    await startEmbeddedRuntime(${JSON.stringify({ socket: node.socket, rootDir: node.root })});
    console.log('serving');
  `;
  daemon = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(daemon.stdout!, 'data');
}

async function killDaemon(): Promise<void> {
  const gone = once(daemon!, 'exit');
  daemon!.kill('SIGKILL');
  await gone;
}

/** Reads one of the files of a container, and writes it back with these changes. */
function rewrite(id: string, file: string, changes: object = {}): { pid: number } {
  const path = join(node.root, 'containers', id, file);
  const record: { pid: number } = JSON.parse(readFileSync(path, 'utf8'));
  writeFileSync(path, JSON.stringify({ ...record, ...changes }));
  return record;
}

async function killShim(id: string): Promise<void> {
  const { pid } = rewrite(id, 'shim.json');
  process.kill(pid, 'SIGKILL');
  await eventually('the shim is gone', () => !isProcess(pid));
}

it('kill -9 of the daemon: the container goes on, is adopted, and its log and exit code are whole', async () => {
  await startDaemon();
  const go = join(node.directory, 'go');
  const id = await node.run(`echo before; while [ ! -e ${go} ]; do sleep 0.02; done; echo after; exit 9`);
  const pid = await node.pid(id);
  const born = await node.status(id);
  await killDaemon();
  expect(isProcess(pid)).toBe(true);

  await node.start();
  expect(await node.status(id)).toEqual(born);
  expect(await node.pid(id)).toBe(pid);
  const stopped: string[] = [];
  await node.client.events((event) => void stopped.push(`${event.container_event_type} ${event.container_id}`));
  writeFileSync(go, '');
  expect(await node.exited(id)).toMatchObject({ exit_code: 9, started_at: born.started_at });
  expect((await node.logLines(id)).map(({ text }) => text)).toEqual(['before', 'after']);
  await eventually('the exit is an event', () => stopped.length > 0);
  expect(stopped).toEqual([`CONTAINER_STOPPED_EVENT ${id}`]);
});

it('an exit while no daemon ran is known afterwards', async () => {
  await startDaemon();
  const id = await node.run('sleep 0.3; echo late; exit 6');
  const pid = await node.pid(id);
  await killDaemon();
  await eventually('the container ends', () => !isProcess(pid));
  await node.start();
  expect(await node.exited(id)).toMatchObject({ exit_code: 6, reason: 'Error' });
  expect((await node.logLines(id)).map(({ text }) => text)).toEqual(['late']);
});

it('an adopted container stops with grace, is killed after it, and its log reopens', async () => {
  await node.start();
  const id = await node.run('trap "echo asked" TERM; echo ready; while :; do sleep 0.02; done');
  await eventually('it is ready', async () => (await node.logLines(id)).length > 0);
  await node.stop();
  await node.start();
  rmSync((await node.status(id)).log_path);
  await node.client.call('ReopenContainerLog', { container_id: id });
  await node.client.call('StopContainer', { container_id: id, timeout: '1' });
  expect(await node.status(id)).toMatchObject({ exit_code: 137 });
  const lines = (await node.logLines(id)).filter(({ stream }) => stream === 'stdout');
  expect(lines.map(({ text }) => text)).toEqual(['asked']);
});

it('a container whose shim was killed is ended, and its end is called unknown', async () => {
  await node.start();
  const id = await node.run('sleep 80 & setsid sleep 81 & sleep 82');
  const pid = await node.pid(id);
  await killShim(id);
  expect(await node.exited(id)).toMatchObject({ exit_code: 255, reason: 'Unknown' });
  expect(isProcess(pid)).toBe(false);
});

it('a shim that was killed while no daemon ran is found at the next start', async () => {
  await startDaemon();
  const id = await node.run('sleep 83');
  const pid = await node.pid(id);
  await killDaemon();
  await killShim(id);
  await node.start();
  expect(await node.status(id)).toMatchObject({ state: 'CONTAINER_EXITED', exit_code: 255, reason: 'Unknown' });
  expect(isProcess(pid)).toBe(false);
});

it('a process number that was used again is not taken for the container', async () => {
  await node.start();
  const id = await node.run('sleep 84');
  const pid = await node.pid(id);
  await node.stop();
  await killShim(id);
  // Start times count in ticks of 10 ms: the other process must not start in the same one.
  await sleep(30);
  const stranger = spawn('sleep', ['85'], { stdio: 'ignore', detached: true });
  onTestFinished(() => void stranger.kill('SIGKILL'));
  const strangerPid = stranger.pid ?? 0;
  for (const file of ['process.json', 'shim.json']) rewrite(id, file, { pid: strangerPid });
  await node.start();
  expect(await node.status(id)).toMatchObject({ exit_code: 255, reason: 'Unknown' });
  expect([pid, strangerPid].map(isProcess)).toEqual([false, true]);
});

it('a start that the daemon did not live to make is a failed start, not a second process later', async () => {
  await node.start();
  const id = await node.create(await node.pod(), { command: ['sleep', '86'] });
  await node.stop();
  rewrite(id, 'container.json', { startRequested: true });
  await node.start();
  expect(await node.status(id)).toMatchObject({ state: 'CONTAINER_EXITED', exit_code: 128, reason: 'StartError' });
});

it('what cannot be read is killed and forgotten, and names stay reserved over a restart', async () => {
  await node.start();
  const config = node.sandboxConfig('kept');
  const sandbox = await node.pod(config);
  const name = 'kept_default_uid-kept_0';
  const id = await node.run('sleep 87');
  const pid = await node.pid(id);
  await node.stop();
  writeFileSync(join(node.root, 'containers', id, 'container.json'), '{"version":');
  await node.start();
  const { containers } = await node.client.call<cri.ListContainersResponse>('ListContainers');
  expect(containers).toEqual([]);
  expect(isProcess(pid)).toBe(false);
  await expect(node.pod(config)).rejects.toThrow(
    `failed to reserve sandbox name "${name}": name "${name}" is reserved for "${sandbox}"`,
  );
});

it('a root and a socket have one runtime at a time', async () => {
  await node.start();
  const other = new Node();
  const { startEmbeddedRuntime } = await import('../../../src/actors/embedded-runtime/embedded-runtime.ts');
  await expect(startEmbeddedRuntime({ socket: other.socket, rootDir: node.root })).rejects.toThrow(
    `process ${process.pid} already serves the runtime folder ${node.root}`,
  );
  await expect(startEmbeddedRuntime({ socket: node.socket, rootDir: other.root })).rejects.toThrow(
    `another runtime already serves ${node.socket}`,
  );
  await other.destroy();
});

it('a runtime may close together with its containers', async () => {
  await node.start();
  const id = await node.run('trap "exit 3" TERM; echo ready; while :; do sleep 0.02; done');
  await eventually('it is ready', async () => (await node.logLines(id)).length > 0);
  const pid = await node.pid(id);
  await node.stop({ stopContainers: true });
  expect(isProcess(pid)).toBe(false);
  await node.start();
  expect(await node.status(id)).toMatchObject({ state: 'CONTAINER_EXITED', exit_code: 3 });
});
