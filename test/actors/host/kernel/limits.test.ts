import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { hostPorts } from '../../../../src/actors/host/index.ts';
import { systemCalls } from '../../../../src/actors/host/kernel/syscall.ts';
import { datagramReceiver } from '../../../support/host-datagram.ts';
import { perform, temporaryFolder } from '../../../support/host-ports.ts';

const CHILD = new URL('../../../support/host-child.ts', import.meta.url).pathname;

const inChild = (...args: readonly string[]) => execFileSync(process.execPath, [CHILD, ...args], { encoding: 'utf8' });

it('the system calls pass their rehearsal on this machine', () => {
  expect(systemCalls()).not.toBeNull();
});

it.each(['ffi', 'programs'])('by %s: both limits of open files are set', (road) => {
  const limits = inChild('host.setOpenFilesLimit', '{"limit":4321}', road, 'limits');
  expect(limits).toMatch(/^Max open files\s+4321\s+4321\s+files/m);
});

it('a limit that is none is refused', async () => {
  for (const limit of [0, -1, 1.5, Number.NaN]) {
    await expect(perform(hostPorts()['host.setOpenFilesLimit'], { limit })).rejects.toThrow(
      'not a limit of open files',
    );
  }
});

it('a limit that the kernel refuses names the call and the reason', async () => {
  const limit = Number.MAX_SAFE_INTEGER;
  await expect(perform(hostPorts()['host.setOpenFilesLimit'], { limit })).rejects.toMatchObject({
    code: 'EPERM',
    message: 'prlimit: operation not permitted',
  });
});

it('oom_score_adj is written for this process', async () => {
  const root = await temporaryFolder();
  mkdirSync(join(root, 'proc/self'), { recursive: true });
  await perform(hostPorts({ root })['host.setOomScoreAdj'], { value: -999 });
  expect(readFileSync(join(root, 'proc/self/oom_score_adj'), 'utf8')).toBe('-999');
});

it('an oom_score_adj that cannot be written names value, file and errno', async () => {
  const root = await temporaryFolder();
  await expect(perform(hostPorts({ root })['host.setOomScoreAdj'], { value: -999 })).rejects.toMatchObject({
    code: 'ENOENT',
    message: expect.stringContaining(`failed to write -999 to ${root}/proc/self/oom_score_adj`),
  });
});

it.each(['path', 'abstract'])('sd_notify reaches a socket by %s', async (kind) => {
  const folder = await temporaryFolder();
  const address = kind === 'path' ? join(folder, 'notify') : `@statelet-${process.pid}-${Date.now()}`;
  const receiver = datagramReceiver(address);
  const ports = hostPorts({ environment: { NOTIFY_SOCKET: address } });
  await perform(ports['host.notify'], { state: 'READY=1' });
  expect(await receiver.next()).toBe('READY=1');
});

it.skipIf(!existsSync('/usr/bin/systemd-notify'))('sd_notify by systemd`s program says the same', async () => {
  const address = join(await temporaryFolder(), 'notify');
  const receiver = datagramReceiver(address);
  const environment = { ...process.env, NOTIFY_SOCKET: address };
  const sent = perform(hostPorts({ environment, system: null })['host.notify'], { state: 'STOPPING=1' });
  expect(await receiver.next()).toContain('STOPPING=1');
  await receiver.next(500).catch(() => {});
  await sent;
});

it('without a service manager nothing is said', async () => {
  await expect(perform(hostPorts({ environment: {} })['host.notify'], { state: 'READY=1' })).resolves.not.toThrow();
});

it('a socket that is not there, and a name that is none, are errors', async () => {
  const notify = (address: string) =>
    perform(hostPorts({ environment: { NOTIFY_SOCKET: address } })['host.notify'], { state: 'READY=1' });
  await expect(notify('/nowhere/notify')).rejects.toMatchObject({ code: 'ENOENT' });
  await expect(notify('vsock:1:2')).rejects.toThrow('neither an absolute path nor an abstract name');
  await expect(notify(`/${'x'.repeat(200)}`)).rejects.toMatchObject({ code: 'EINVAL' });
});
