import { writeFileSync } from 'node:fs';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type * as cri from '../../../src/machines/model/api/cri.ts';
import { Node } from './harness.ts';

let node: Node;
beforeAll(async () => {
  node = await new Node().start();
});
afterAll(() => node.destroy());

const inject = (faults: unknown): void =>
  writeFileSync(node.faultsFile, typeof faults === 'string' ? faults : JSON.stringify(faults));

it('an error is returned as often as requested, and then no more', async () => {
  inject({ Version: [{ error: { code: 'UNAVAILABLE', message: 'gone fishing' }, times: 2 }] });
  for (let i = 0; i < 2; i++) {
    await expect(node.client.call('Version')).rejects.toMatchObject({
      code: status.UNAVAILABLE,
      details: 'gone fishing',
    });
  }
  await node.client.call('Version');
});

it('an error after success loses only the reply', async () => {
  inject({ RunPodSandbox: [{ error: { code: 14, message: 'reply lost' }, times: 1, afterSuccess: true }] });
  const config = node.sandboxConfig('lost');
  await expect(node.pod(config)).rejects.toThrow('reply lost');
  const { items } = await node.client.call<cri.ListPodSandboxResponse>('ListPodSandbox');
  expect(items.map(({ metadata }) => metadata?.name)).toContain('lost');
  await expect(node.pod(config)).rejects.toThrow(`is reserved for "${items[0]?.id}"`);
});

it('a delay makes a call slow and ends with its caller', async () => {
  inject({ Status: [{ delayMs: 300, times: 1 }, { delayMs: 60_000 }] });
  const before = performance.now();
  await node.client.call('Status');
  expect(performance.now() - before).toBeGreaterThanOrEqual(295);
  await expect(node.client.call('Status', {}, 100)).rejects.toMatchObject({ code: status.DEADLINE_EXCEEDED });
});

it('a file that cannot be understood changes nothing and is reported', async () => {
  inject({ Version: [{ error: { code: 'INTERNAL', message: 'x' } }] });
  await expect(node.client.call('Version')).rejects.toMatchObject({ code: status.INTERNAL });
  const wrong = [
    ['{', 'JSON'],
    [{ Version: {} }, 'Version must be a list'],
    [{ Version: [{ delay: 1 }] }, 'Version[0] has an unknown field "delay"'],
    [{ Version: [{ error: { code: 'NOPE' } }] }, 'Version[0].error.code must be the name or number of a gRPC error'],
    [{ Version: [{ delayMs: '1' }] }, 'Version[0].delayMs must be a number'],
  ] as const;
  for (const [faults, why] of wrong) {
    inject(faults);
    await expect(node.client.call('Version')).rejects.toMatchObject({ code: status.INTERNAL });
    expect(node.logged.at(-1)?.text).toContain(why);
  }
  inject({});
  await node.client.call('Version');
});
