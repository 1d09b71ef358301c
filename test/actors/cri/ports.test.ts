/** What the ports add to the calls: limits, deadlines, lookups. The runtime's part is in test/contract/cri.test.ts. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import * as grpc from '@grpc/grpc-js';
import { afterEach, expect, it } from 'vitest';
import type { CriOptions } from '../../../src/actors/cri/adapter.ts';
import { criPorts } from '../../../src/actors/cri/ports.ts';
import { Vault } from '../../../src/kernel/journal/secrets.ts';
import { FakeRuntime, fakePod, type Handlers, never, Refusal } from './fake-runtime.ts';

const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0)) await close();
});

async function portsOn(handlers: Handlers, options: Partial<CriOptions> = {}) {
  const fake = await FakeRuntime.start(handlers);
  const { ports, call: ask, close } = criPorts({ ...options, endpoint: fake.endpoint });
  opened.push(close, () => fake.close());
  return { fake, ports, ask };
}

const call = <Input>(input: Input) => ({
  id: 1,
  resume: false,
  signal: new AbortController().signal,
  emit: () => {},
  input,
});
const notFound = () => {
  throw new Refusal(grpc.status.NOT_FOUND, 'no such thing');
};

it('sandboxes that are stuck, as many as may start at once, hold no other up', async () => {
  const { ports } = await portsOn({
    RunPodSandbox: ({ config }) => {
      const name = config?.metadata?.name ?? '';
      return name === 'healthy' ? { pod_sandbox_id: name } : never();
    },
  });
  const run = (name: string) =>
    ports['cri.runPodSandbox'](call({ config: { metadata: { name } }, runtimeHandler: '' }));
  for (let i = 0; i < 2 * availableParallelism(); i++) run(`stuck-${i}`).catch(() => {});
  expect(await run('healthy')).toEqual({ podSandboxId: 'healthy', status: null });
});

it('the grace of a container is added to the deadline of its stop', async () => {
  const slow = () => new Promise<object>((resolve) => setTimeout(() => resolve({}), 400));
  const { ports } = await portsOn({ StopContainer: slow }, { requestTimeoutMs: 100 });
  expect(await ports['cri.stopContainer'](call({ containerId: 'c', timeoutSeconds: 60 }))).toEqual({ status: null });
  const impatient = ports['cri.stopContainer'](call({ containerId: 'c', timeoutSeconds: 0 }));
  await expect(impatient).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED', retriable: true });
});

it('handlers that the runtime names in another order are the same status', async () => {
  const orders = [
    ['runc', '', 'gvisor'],
    ['gvisor', 'runc', ''],
    ['', 'gvisor', 'runc'],
  ];
  const { ports } = await portsOn({
    Status: () => ({ status: {}, runtime_handlers: (orders.shift() ?? []).map((name) => ({ name, features: null })) }),
  });
  const answers = [];
  while (orders.length > 0) answers.push(await ports['cri.status'](call({})));
  expect(answers.map(({ handlers }) => handlers.map(({ name }) => name))).toEqual(
    Array.from({ length: 3 }, () => ['', 'gvisor', 'runc']),
  );
});

it('a pull has no deadline', async () => {
  const slow = () => new Promise<object>((resolve) => setTimeout(() => resolve({ image_ref: 'sha256:1' }), 150));
  const { ports } = await portsOn({ PullImage: slow }, { requestTimeoutMs: 50 });
  expect(await ports['cri.pullImage'](call({ image: 'a', annotations: {}, sandboxConfig: null, auth: null }))).toEqual({
    imageRef: 'sha256:1',
  });
});

it('what the runtime does not know has ended and is removed', async () => {
  const { ports } = await portsOn({
    StopPodSandbox: notFound,
    RemovePodSandbox: notFound,
    StopContainer: notFound,
    RemoveContainer: notFound,
    RemoveImage: notFound,
  });
  expect(await ports['cri.stopPodSandbox'](call({ podSandboxId: 's' }))).toEqual({ status: null });
  expect(await ports['cri.removePodSandbox'](call({ podSandboxId: 's' }))).toBeNull();
  expect(await ports['cri.stopContainer'](call({ containerId: 'c', timeoutSeconds: 1 }))).toEqual({ status: null });
  expect(await ports['cri.removeContainer'](call({ containerId: 'c' }))).toBeNull();
  expect(await ports['cri.removeImage'](call({ image: 'i' }))).toBeNull();
});

it('what was removed is not inspected again', async () => {
  const { fake, ports } = await portsOn({ RemoveContainer: () => ({}), RemovePodSandbox: () => ({}) });
  fake.pods.set('u', fakePod('u'));
  const watching = new AbortController();
  opened.unshift(() => watching.abort());
  const watch = { relistPeriodMs: 60_000, inspectDeadlineMs: 60_000, inspectParallel: 4 };
  const relisted = new Promise((resolve) => {
    const watched = ports['cri.watchPods']({ ...call(watch), signal: watching.signal, emit: resolve });
    opened.push(() => watched);
  });
  await relisted;
  await ports['cri.podStatus'](call({ uid: 'u' }));
  const before = [fake.count('ContainerStatus'), fake.count('PodSandboxStatus')];
  await ports['cri.removeContainer'](call({ containerId: 'container-u' }));
  await ports['cri.removePodSandbox'](call({ podSandboxId: 'sandbox-u' }));
  expect(await ports['cri.podStatus'](call({ uid: 'u' }))).toMatchObject({ sandboxes: [], containers: [] });
  expect([fake.count('ContainerStatus'), fake.count('PodSandboxStatus')]).toEqual(before);
});

it('a reserved name whose owner is not to be found stays an error', async () => {
  const reserved = () => {
    throw new Refusal(grpc.status.UNKNOWN, 'failed to reserve sandbox name: name "p" is reserved for "s"');
  };
  const { ports } = await portsOn({ RunPodSandbox: reserved });
  const run = ports['cri.runPodSandbox'](call({ config: { metadata: { name: 'p', uid: 'u' } }, runtimeHandler: '' }));
  await expect(run).rejects.toMatchObject({ code: 'UNKNOWN', message: expect.stringContaining('is reserved for "s"') });
});

it.each([
  ['SYSTEMD', 'systemd'],
  ['CGROUPFS', 'cgroupfs'],
] as const)('the cgroup driver %s is %s', async (cgroup_driver, cgroupDriver) => {
  const { ports } = await portsOn({ RuntimeConfig: () => ({ linux: { cgroup_driver } }) });
  expect(await ports['cri.runtimeConfig'](call({}))).toEqual({ cgroupDriver });
});

it('a cgroup driver that the contract does not have is refused', async () => {
  const { ports } = await portsOn({ RuntimeConfig: () => ({ linux: { cgroup_driver: 100 as never } }) });
  await expect(ports['cri.runtimeConfig'](call({}))).rejects.toThrow('runtime returned an unknown cgroup driver 100');
});

it('a runtime without RuntimeConfig does not tell; one that fails, fails', async () => {
  const { fake, ports } = await portsOn({});
  expect(await ports['cri.runtimeConfig'](call({}))).toEqual({ cgroupDriver: null });
  fake.handlers.RuntimeConfig = () => {
    throw new Refusal(grpc.status.INTERNAL, 'broken');
  };
  await expect(ports['cri.runtimeConfig'](call({}))).rejects.toMatchObject({ code: 'INTERNAL' });
});

/** A container of an earlier agent, without the mark that containers with values of Secrets have. */
const WITHOUT_SECRETS: Handlers = {
  ContainerStatus: () => ({ status: { id: 'c', log_path: '/nowhere/app/0.log' } }),
};

it('exec without a limit waits, and its outputs become text', async () => {
  const base64 = (bytes: readonly number[]) => Buffer.from(bytes).toString('base64');
  const { ports } = await portsOn({
    ...WITHOUT_SECRETS,
    ExecSync: () => ({ exit_code: -1, stdout: base64([0x68, 0x69]), stderr: base64([0xff]) }),
  });
  const result = await ports['cri.execSync'](call({ containerId: 'c', command: ['x'], timeoutSeconds: 0 }));
  expect(result).toEqual({ exitCode: -1, stdout: 'hi', stderr: '\uFFFD' });
});

it('of a command that prints a lot the beginning is told', async () => {
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const { ports } = await portsOn({
    ...WITHOUT_SECRETS,
    ExecSync: () => ({ exit_code: 0, stdout: base64(`a${'é'.repeat(1_000_000)}`), stderr: base64('e'.repeat(20_000)) }),
  });
  const result = await ports['cri.execSync'](call({ containerId: 'c', command: ['x'], timeoutSeconds: 0 }));
  expect(result).toEqual({ exitCode: 0, stdout: `a${'é'.repeat(5_119)}`, stderr: 'e'.repeat(10_240) });
});

it('of the user of an image no more is kept than a name can be', async () => {
  const image = { id: 'i', size: '1', username: 'u'.repeat(100_000) };
  const { ports } = await portsOn({ ListImages: () => ({ images: [image] }), ImageStatus: () => ({ image }) });
  const kept = { id: 'i', username: 'u'.repeat(1_024) };
  expect(await ports['cri.listImages'](call({}))).toMatchObject({ images: [kept] });
  expect(await ports['cri.imageStatus'](call({ image: 'i' }))).toMatchObject({ image: kept });
});

it('an operation whose state was left is cancelled in the runtime too', async () => {
  const { ports } = await portsOn({ RunPodSandbox: never });
  const aborter = new AbortController();
  const run = ports['cri.runPodSandbox']({ ...call({ config: {}, runtimeHandler: '' }), signal: aborter.signal });
  setTimeout(() => aborter.abort(), 20);
  await expect(run).rejects.toMatchObject({ code: 'CANCELLED' });
});

it('a command does not tell the secrets of its container, by its output or an error', async () => {
  const vault = new Vault(Buffer.alloc(32, 1));
  const password = vault.seal('password');
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const { ports, fake } = await portsOn(
    {
      CreateContainer: () => ({ container_id: 'c' }),
      ExecSync: () => ({
        exit_code: 3,
        stdout: base64(`${'a'.repeat(10_236)}password`),
        stderr: base64('no password'),
      }),
    },
    { vault },
  );
  const config = { metadata: { name: 'n', attempt: 0 }, args: [password.$secret] };
  await ports['cri.createContainer'](
    call({ podSandboxId: 's', config, sandboxConfig: {}, secrets: [password], written: [] }),
  );
  const run = () => ports['cri.execSync'](call({ containerId: 'c', command: ['x'], timeoutSeconds: 0 }));
  const kept = `${'a'.repeat(10_236)}${password.$secret}`;
  expect(await run()).toEqual({
    exitCode: 3,
    stdout: Buffer.from(kept).subarray(0, 10_240).toString(),
    stderr: `no ${password.$secret}`,
  });
  fake.handlers.ExecSync = () => {
    throw new Refusal(grpc.status.UNKNOWN, 'cannot run "password"');
  };
  await expect(run()).rejects.toThrow(`cannot run "${password.$secret}"`);
});

it('the output of a command is withheld in a container that an earlier agent gave Secrets', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'marked-'));
  writeFileSync(join(folder, '.holds-secrets'), '');
  let asked = 0;
  const status = () => ({ status: { id: 'c', log_path: join(folder, '0.log') } });
  const { ports, fake } = await portsOn({
    ContainerStatus: () => {
      asked++;
      return status();
    },
    ExecSync: () => ({ exit_code: 3, stdout: Buffer.from('password').toString('base64') }),
  });
  const run = () => ports['cri.execSync'](call({ containerId: 'c', command: ['x'], timeoutSeconds: 0 }));
  const withheld = { exitCode: 3, stdout: expect.stringContaining('output withheld'), stderr: '' };
  expect([await run(), await run()]).toEqual([withheld, withheld]);
  expect(asked).toBe(1);
  fake.handlers.ExecSync = () => ({ exit_code: 0 });
  expect(await run()).toEqual({ exitCode: 0, stdout: '', stderr: '' });
  rmSync(folder, { recursive: true });
});

it('an output too long to be searched for thousands of values is not shown', async () => {
  const vault = new Vault(Buffer.alloc(32, 1));
  const secrets = Array.from({ length: 5_000 }, (_, i) => vault.seal(`password-${i}`));
  let stdout = 'x'.repeat(10_000);
  const { ports } = await portsOn(
    {
      CreateContainer: () => ({ container_id: 'c' }),
      ExecSync: () => ({ exit_code: 0, stdout: Buffer.from(stdout).toString('base64') }),
    },
    { vault },
  );
  const config = { metadata: { name: 'n', attempt: 0 } };
  await ports['cri.createContainer'](call({ podSandboxId: 's', config, sandboxConfig: {}, secrets, written: [] }));
  const run = () => ports['cri.execSync'](call({ containerId: 'c', command: ['x'], timeoutSeconds: 0 }));
  expect(await run()).toMatchObject({ stdout: expect.stringMatching(/^\(10000 bytes of output, too many /) });
  stdout = 'it is password-7';
  expect(await run()).toMatchObject({ stdout: `it is ${secrets[7]!.$secret}` });
});

it('the secrets of a container are forgotten with its sandbox', async () => {
  const vault = new Vault(Buffer.alloc(32, 1));
  const password = vault.seal('password');
  const handlers: Handlers = {
    CreateContainer: () => ({ container_id: 'c' }),
    ContainerStatus: () => ({ status: { id: 'c', message: 'no "password"' } }),
    RemovePodSandbox: () => ({}),
  };
  const { ports, ask } = await portsOn(handlers, { vault });
  const config = { metadata: { name: 'n', attempt: 0 }, args: [password.$secret] };
  const input = { podSandboxId: 's', config, sandboxConfig: {}, secrets: [password] };
  await ports['cri.createContainer'](call(input));
  const message = async () =>
    (await ask('ContainerStatus', { container_id: 'c', verbose: false }, { timeoutMs: 1_000 })).status?.message;
  expect(await message()).toBe(`no "${password.$secret}"`);
  await ports['cri.removePodSandbox'](call({ podSandboxId: 's' }));
  expect(await message()).toMatch(/may quote a Secret/);
});
