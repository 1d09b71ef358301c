/** The lock file with other processes: util-linux's `flock` takes the same lock as the Go kubelet. */
import { spawn, spawnSync } from 'node:child_process';
import { closeSync, openSync, renameSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { hostPorts } from '../../../src/actors/host/index.ts';
import { openStream, perform, temporaryFolder } from '../../support/host-ports.ts';

const CHILD = new URL('../../support/host-child.ts', import.meta.url).pathname;
const ROADS = ['ffi', 'programs'] as const;
const portsOf = (road: (typeof ROADS)[number]) => hostPorts(road === 'ffi' ? {} : { system: null });

const isFree = (path: string): boolean => spawnSync('flock', ['--nonblock', path, 'true']).status === 0;

/** Another process that holds the lock until it is ended. */
async function stranger(path: string) {
  const child = spawn('flock', ['--exclusive', path, 'sh', '-c', 'echo held && exec cat'], { stdio: 'pipe' });
  onTestFinished(() => void child.kill());
  await new Promise((resolve) => child.stdout.once('data', resolve));
  return { end: () => child.stdin.end() };
}

async function holder(path: string, road: string) {
  const input = JSON.stringify({ path, wait: false });
  const child = spawn(process.execPath, [CHILD, 'host.acquireLock', input, road, 'stay'], { stdio: 'pipe' });
  onTestFinished(() => void child.kill('SIGKILL'));
  let stderr = '';
  child.stderr.on('data', (chunk) => (stderr += String(chunk)));
  await new Promise((resolve, reject) => {
    child.stdout.once('data', resolve);
    child.once('exit', () => reject(new Error(stderr)));
  });
  return child;
}

it.each(ROADS)('by %s: held against strangers while the process lives, free when it is killed', async (road) => {
  const path = join(await temporaryFolder(), 'kubelet.lock');
  const child = await holder(path, road);
  expect(isFree(path)).toBe(false);
  child.kill('SIGKILL');
  await expect.poll(() => isFree(path)).toBe(true);
});

it('a lock file that cannot be opened is told in the words of Go', async () => {
  const folder = await temporaryFolder();
  const lock = (path: string) => perform(hostPorts()['host.acquireLock'], { path, wait: true });
  await expect(lock(join(folder, 'none/lock'))).rejects.toMatchObject({ message: 'no such file or directory' });
  await expect(lock(folder)).rejects.toMatchObject({ message: 'is a directory', code: 'EISDIR' });
});

it('a new lock file belongs to its owner alone', async () => {
  const path = join(await temporaryFolder(), 'kubelet.lock');
  await holder(path, 'ffi');
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

it.each(ROADS)('by %s: a lock that another holds is refused at once without wait', async (road) => {
  const path = join(await temporaryFolder(), 'kubelet.lock');
  await stranger(path);
  await expect(perform(portsOf(road)['host.acquireLock'], { path, wait: false })).rejects.toMatchObject({
    code: 'EWOULDBLOCK',
    message: `${path} is locked by another process`,
  });
});

it.each(ROADS)('by %s: with wait the lock comes when the other gives it up', async (road) => {
  const path = join(await temporaryFolder(), 'kubelet.lock');
  const other = await stranger(path);
  let acquired = false;
  const waiting = perform(portsOf(road)['host.acquireLock'], { path, wait: true }).then(() => (acquired = true));
  await delay(250);
  expect(acquired).toBe(false);
  other.end();
  await waiting;
  expect(isFree(path)).toBe(false);
});

it('a lock file that was replaced while we waited is opened anew', async () => {
  const path = join(await temporaryFolder(), 'kubelet.lock');
  const other = await stranger(path);
  const waiting = perform(hostPorts()['host.acquireLock'], { path, wait: true });
  await delay(150);
  renameSync(path, `${path}.old`);
  writeFileSync(path, '');
  other.end();
  await waiting;
  expect(isFree(path)).toBe(false);
  expect(isFree(`${path}.old`)).toBe(true);
});

it('asking twice in one process is asking once', async () => {
  const path = join(await temporaryFolder(), 'kubelet.lock');
  const ports = hostPorts();
  await perform(ports['host.acquireLock'], { path, wait: true });
  await perform(ports['host.acquireLock'], { path, wait: true });
  expect(isFree(path)).toBe(false);
});

it('contention is reported when another process opens the file, and when the file is deleted', async () => {
  const path = join(await temporaryFolder(), 'kubelet.lock');
  writeFileSync(path, '');
  const stream = openStream(hostPorts()['host.watchLock'], { path });
  await delay(150);
  expect(stream.items).toEqual([]);
  closeSync(openSync(path, 'r'));
  await stream.until(() => true);
  const second = openStream(hostPorts()['host.watchLock'], { path });
  await delay(50);
  unlinkSync(path);
  await second.until(() => true);
});

it('without FFI contention is reported when another process waits for the lock', async () => {
  const path = join(await temporaryFolder(), 'kubelet.lock');
  const ports = hostPorts({ system: null });
  await perform(ports['host.acquireLock'], { path, wait: false });
  const stream = openStream(ports['host.watchLock'], { path });
  await delay(150);
  expect(stream.items).toEqual([]);
  const waiter = spawn('flock', [path, 'true']);
  onTestFinished(() => void waiter.kill());
  await stream.until(() => true);
});

it('without FFI contention is said when the file is deleted', async () => {
  const path = join(await temporaryFolder(), 'kubelet.lock');
  writeFileSync(path, '');
  const stream = openStream(hostPorts({ system: null })['host.watchLock'], { path });
  await delay(150);
  expect(stream.items).toEqual([]);
  unlinkSync(path);
  await stream.until(() => true);
});
