/** The log of a node goes to a file on a full disk, or to a reader that has ended: the node continues. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { eventually, SLEEP, shellPod, TestNode } from '../support/daemon.ts';

let node: TestNode;
afterEach(() => node.close());

it.each([
  ['a full disk', '2>/dev/full'],
  ['a reader that is gone', '2> >(exec true)'],
])('%s', async (_, to) => {
  node = new TestNode({ within: ['bash', '-c', `exec "$@" ${to}`, 'bash'] });
  await node.start();
  const mark = join(node.directory, 'runs');
  node.write('web.json', shellPod('web', 'busybox', `touch ${mark}; ${SLEEP}`));
  await eventually('the pod runs', () => existsSync(mark));
  expect(node.isRunning).toBe(true);
  expect(await node.stop()).toBe(0);
});
