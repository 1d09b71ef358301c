/** The daemon as users start it: by npm, and with their own settings of threads. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { eventually, TestNode } from '../support/daemon.ts';
import { freePort } from '../support/ports.ts';

const ROOT = join(import.meta.dirname, '../..');

let node: TestNode;
beforeEach(() => {
  node = new TestNode();
});
afterEach(() => node.close());

it('ends when its npm gets a signal', async () => {
  node.healthzPort = await freePort();
  const configuration = join(node.directory, 'npm.yaml');
  const standalone = readFileSync(join(ROOT, 'examples/standalone.yaml'), 'utf8');
  writeFileSync(configuration, standalone.replace('staticPodPath: pods', `staticPodPath: ${node.manifests}`));
  const argv = [
    '--config',
    configuration,
    '--healthz-port',
    String(node.healthzPort),
    '--port',
    String(await freePort()),
  ];
  const npm = spawn('npm', ['exec', '--', 'statelet', 'run', ...argv, '--data-dir', join(node.directory, 'npm')], {
    cwd: ROOT,
    stdio: 'ignore',
  });
  await eventually('healthz', () => node.healthz());
  npm.kill('SIGTERM');
  await once(npm, 'exit');
  await eventually('the daemon has ended, too', async () => !(await node.healthz().catch(() => false)));
});

it.each(['0', '1', '2', 'many'])('starts with UV_THREADPOOL_SIZE=%s', async (size) => {
  await node.start([], { UV_THREADPOOL_SIZE: size });
  expect(await node.healthz()).toBe(true);
  expect(await node.stop('SIGTERM')).toBe(0);
});
