/** The metrics of a call, for each way in which it can end. */
import { expect, it } from 'vitest';
import { observedClient, type RuntimeActivity } from '../../../src/actors/cri/activity.ts';
import type { RuntimeClient } from '../../../src/actors/cri/client.ts';

const FAILED = new Error('the runtime refuses');

it.each([
  [0, false],
  [3, true],
])('a command that ends with %i is an error: %s', async (exit_code, failed) => {
  const seen: RuntimeActivity[] = [];
  const client = { call: () => Promise.resolve({ exit_code }) } as unknown as RuntimeClient;
  const observed = observedClient(client, (activity) => seen.push(activity));
  await observed.call('ExecSync', {}, { timeoutMs: null });
  expect(seen).toMatchObject([{ name: 'ExecSync', failed }]);
});

it.each([
  ['answered', false, async () => ({})],
  ['failed', true, () => Promise.reject(FAILED)],
  [
    'failed after the agent cancelled it',
    false,
    (controller: AbortController) => (controller.abort(), Promise.reject(FAILED)),
  ],
] as const)('a call that was %s is an error: %s', async (_, failed, end) => {
  const controller = new AbortController();
  const seen: RuntimeActivity[] = [];
  const client = { call: () => end(controller) } as unknown as RuntimeClient;
  const observed = observedClient(client, (activity) => seen.push(activity));
  await observed.call('StopContainer', {}, { timeoutMs: null, signal: controller.signal }).catch(() => null);
  expect(seen).toMatchObject([{ kind: 'called', name: 'StopContainer', failed }]);
});
