/** ExecSync: the leftovers of a call. */
import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { execSync } from '../../../src/actors/embedded-runtime/exec.ts';
import type { Container } from '../../../src/actors/embedded-runtime/store/store.ts';

const container = {
  running: true,
  record: { process: { env: { PATH: '/usr/bin:/bin' }, cwd: '/', command: ['app'] } },
} as unknown as Container;

it.each([
  ['that ends', ['true'], 0],
  ['with a deadline', ['sh', '-c', 'exit 3'], 5],
  ['that is too late', ['sleep', '60'], 0.05],
  ['that cannot be executed', ['no-such-program'], 0],
])('nothing of a command %s stays with the runtime', async (_, command, timeoutSeconds) => {
  const { signal } = new AbortController();
  await execSync({ container, command, timeoutSeconds, signal }).catch((error: Error) => error);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});

it('a command that is given up is told as cancelled', async () => {
  const given = new AbortController();
  const result = execSync({ container, command: ['sleep', '60'], timeoutSeconds: 0, signal: given.signal });
  given.abort();
  await expect(result).rejects.toThrow('failed to exec in container: context canceled');
});
