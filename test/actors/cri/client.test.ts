import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as grpc from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import { connectRuntime, type RuntimeClient, socketTarget, toOperationError } from '../../../src/actors/cri/client.ts';
import { carrying } from '../../../src/actors/tracing/propagation.ts';
import { FakeRuntime, never, Refusal } from './fake-runtime.ts';

const opened: { close(): unknown }[] = [];
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

async function connected(...args: Parameters<typeof FakeRuntime.start>): Promise<[FakeRuntime, RuntimeClient]> {
  const fake = await FakeRuntime.start(...args);
  const client = connectRuntime(fake);
  opened.push(client, fake);
  return [fake, client];
}

describe('endpoints', () => {
  it.each([
    ['unix:///run/containerd/containerd.sock', 'unix:///run/containerd/containerd.sock'],
    ['/run/crio/crio.sock', 'unix:///run/crio/crio.sock'],
  ])('%s', (endpoint, target) => {
    expect(socketTarget(endpoint)).toBe(target);
  });

  it.each(['tcp://localhost:1234', 'localhost:1234', 'unix://', 'unix://relative.sock', '', 'npipe:////./pipe/x'])(
    'refuses %j by name',
    (endpoint) => {
      expect(() => socketTarget(endpoint)).toThrow(
        `runtime endpoint ${JSON.stringify(endpoint)}: only support unix socket endpoint`,
      );
    },
  );
});

it('a call carries the span of the work that makes it, and none without tracing', async () => {
  const [fake, client] = await connected({ Version: () => ({}) });
  const ask = () => client.call('Version', {}, { timeoutMs: 60_000 });
  await carrying('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', ask);
  await ask();
  expect(fake.traceparents).toEqual(['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', null]);
});

describe('errors', () => {
  it.each([
    [grpc.status.NOT_FOUND, 'NOT_FOUND', 'NotFound', false],
    [grpc.status.UNKNOWN, 'UNKNOWN', 'Unknown', false],
    [grpc.status.UNIMPLEMENTED, 'UNIMPLEMENTED', 'Unimplemented', false],
    [grpc.status.CANCELLED, 'CANCELLED', 'Canceled', false],
    [grpc.status.UNAVAILABLE, 'UNAVAILABLE', 'Unavailable', true],
    [grpc.status.DEADLINE_EXCEEDED, 'DEADLINE_EXCEEDED', 'DeadlineExceeded', true],
    [grpc.status.RESOURCE_EXHAUSTED, 'RESOURCE_EXHAUSTED', 'ResourceExhausted', true],
  ])('%i is %s, and %s in words', async (code, name, goName, retriable) => {
    const refuse = () => {
      throw new Refusal(code, 'the "reason", as it came');
    };
    const [, client] = await connected({ Version: refuse });
    await expect(client.call('Version', {}, { timeoutMs: 60_000 })).rejects.toMatchObject({
      name: 'RuntimeError',
      code: name,
      message: `rpc error: code = ${goName} desc = the "reason", as it came`,
      retriable,
    });
  });

  it('no socket: unavailable at once, and retriable', async () => {
    const client = connectRuntime({ endpoint: 'unix:///tmp/statelet-no-such.sock' });
    opened.push(client);
    const call = client.call('Version', {}, { timeoutMs: 60_000 });
    const dial =
      'transport: Error while dialing: dial unix /tmp/statelet-no-such.sock: connect: no such file or directory';
    const message = `rpc error: code = Unavailable desc = connection error: desc = "${dial}"`;
    await expect(call).rejects.toMatchObject({ code: 'UNAVAILABLE', message, retriable: true });
  });

  it('a runtime that goes during a call: unavailable, as Go says it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'statelet-gone-'));
    const endpoint = `unix://${folder}/cri.sock`;
    const emptySettings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    const server = createServer((socket) => {
      socket.on('error', () => {}).write(emptySettings);
      socket.on('data', () => setTimeout(() => socket.destroy(), 50));
    }).listen(`${folder}/cri.sock`);
    await once(server, 'listening');
    const client = connectRuntime({ endpoint });
    opened.push(client, server, { close: () => rmSync(folder, { recursive: true }) });
    await expect(client.call('Version', {}, { timeoutMs: 60_000 })).rejects.toMatchObject({
      message: 'rpc error: code = Unavailable desc = error reading from server: EOF',
      retriable: true,
    });
  });

  it.each([
    ['Connection dropped', 'error reading from server: EOF'],
    [
      'No connection established. Last error: Error: connect ECONNREFUSED /run/x.sock. Resolution note: ',
      'connection error: desc = "transport: Error while dialing: dial unix /run/x.sock: connect: connection refused"',
    ],
    [
      'No connection established. Last error: Error: connect ECONNREFUSED 127.0.0.1:99. Resolution note: ',
      'connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:99: connect: connection refused"',
    ],
    ['No connection established. Last error: null', 'No connection established. Last error: null'],
  ])('%j of the library is %j of Go', (details, expected) => {
    const error = Object.assign(new Error(details), { code: grpc.status.UNAVAILABLE, details });
    expect(toOperationError(error).message).toBe(`rpc error: code = Unavailable desc = ${expected}`);
    const other = Object.assign(new Error(details), { code: grpc.status.UNKNOWN, details });
    expect(toOperationError(other).message).toBe(`rpc error: code = Unknown desc = ${details}`);
  });

  it('a call that this side ends has the text of Go', async () => {
    const [, client] = await connected({ Version: never });
    await expect(client.call('Version', {}, { timeoutMs: 50 })).rejects.toThrow(
      /^rpc error: code = DeadlineExceeded desc = context deadline exceeded$/,
    );
    const signal = AbortSignal.timeout(50);
    await expect(client.call('Version', {}, { timeoutMs: null, signal })).rejects.toThrow(
      /^rpc error: code = Canceled desc = context canceled$/,
    );
  });

  it('a runtime that never answers meets the deadline', async () => {
    const [, client] = await connected({ Version: never });
    const call = client.call('Version', {}, { timeoutMs: 50 });
    const message = 'rpc error: code = DeadlineExceeded desc = context deadline exceeded';
    await expect(call).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED', message, retriable: true });
  });

  it('an abort ends a call without a deadline, and one that has not begun', async () => {
    const [fake, client] = await connected({ PullImage: never });
    const aborter = new AbortController();
    const call = client.call('PullImage', {}, { timeoutMs: null, signal: aborter.signal });
    await expect.poll(() => fake.count('PullImage')).toBe(1);
    aborter.abort();
    await expect(call).rejects.toMatchObject({ code: 'CANCELLED' });
    const late = client.call('PullImage', {}, { timeoutMs: null, signal: aborter.signal });
    await expect(late).rejects.toMatchObject({ code: 'CANCELLED' });
    expect(fake.count('PullImage')).toBe(1);
  });

  it('a reply over 16 MiB is refused and not held', async () => {
    const [, client] = await connected({ Version: () => ({ version: 'v'.repeat(17 * 1024 * 1024) }) });
    const call = client.call('Version', {}, { timeoutMs: 60_000 });
    await expect(call).rejects.toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
  });
});

it('a message that cannot be handled ends its stream alone', async () => {
  const [fake, client] = await connected();
  const { signal } = new AbortController();
  const refuse = () => {
    throw new Error('unreadable');
  };
  const ended = client.stream('GetContainerEvents', {}, refuse, signal);
  await expect.poll(() => fake.listeners).toBe(1);
  fake.emit({ container_id: 'c1' });
  await expect(ended).rejects.toThrow('unreadable');
  await expect.poll(() => fake.listeners).toBe(0);
});

describe('values', () => {
  it('64-bit integers keep every digit, zero fields are filled in, absent messages are absent', async () => {
    const image = { id: 'i', size: '18446744073709551615', uid: { value: '-9223372036854775808' } };
    const [, client] = await connected({ ListImages: () => ({ images: [image] }) });
    const { images } = await client.call('ListImages', {}, { timeoutMs: 60_000 });
    expect(images[0]).toMatchObject({ ...image, username: '', repo_tags: [], pinned: false });
    expect(images[0]?.spec ?? undefined).toBeUndefined();
  });

  it('the output of a command is bytes', async () => {
    const bytes = Buffer.from([0, 255, 10]);
    const [, client] = await connected({ ExecSync: () => ({ stdout: bytes.toString('base64'), exit_code: -1 }) });
    const { stdout, stderr, exit_code } = await client.call('ExecSync', {}, { timeoutMs: 60_000 });
    expect([Buffer.from(stdout), stderr.length, exit_code]).toEqual([bytes, 0, -1]);
  });

  it('images may be behind another socket', async () => {
    const runtime = await FakeRuntime.start({ Version: () => ({ runtime_name: 'one' }) });
    const images = await FakeRuntime.start({ ListImages: () => ({}) });
    const client = connectRuntime({ endpoint: runtime.endpoint, imageEndpoint: images.endpoint });
    opened.push(client, runtime, images);
    await client.call('Version', {}, { timeoutMs: 60_000 });
    await client.call('ListImages', {}, { timeoutMs: 60_000 });
    expect([runtime.calls, images.calls]).toEqual([['Version'], ['ListImages']]);
  });
});
