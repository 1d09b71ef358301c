/** An uncaught fault ends the main thread: the journal has it before, and `why` reports it. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { cgroupV1Available, makeCgroupRoot, removeCgroupRoot } from '../support/cgroups.ts';
import { eventually, SLEEP, shellPod, TestNode } from '../support/daemon.ts';
import { InspectedWorker } from '../support/inspected-worker.ts';
import { requirement } from '../support/require.ts';

/** How much more memory the daemon may use than at the beginning. */
const MEMORY_MAX_BYTES = 256 * 2 ** 20;

let node: TestNode;
beforeEach(async () => {
  node = new TestNode();
  await node.start([], { NODE_OPTIONS: '--inspect-port=0' });
});
afterEach(() => node.close());

const why = (journal: string): string => {
  const { code, stdout, stderr } = node.statelet('why', journal, 'startup');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
};
const isRunning = (pod: string) => new RegExp(`pod="default/${pod}-node1".*phase="Running"`).test(node.log);

it.each([
  ['an exception', 'setImmediate(() => { throw new TypeError("an injected fault") })', 'TypeError'],
  ['a rejection', 'void Promise.reject(new RangeError("an injected fault"))', 'RangeError'],
])('%s is journaled, ends the node with 2, and is told by the next start', async (_name, fault, error) => {
  node.write('web.json', shellPod('web', 'busybox', SLEEP));
  await eventually('the pod runs', () => isRunning('web'));
  const main = await InspectedWorker.of(node.pid, () => node.log);
  main.evaluateInMain(fault);
  await eventually('the end', () => node.log.includes('Waiting for the debugger to disconnect') || !node.isRunning);
  await main.close();
  await eventually('the process is gone', () => !node.isRunning);
  expect(await node.stop()).toBe(2);
  expect(node.log).toContain(`The agent ends by an uncaught fault`);

  const reason = `uncaught fault: ${error}: an injected fault`;
  expect(why(`${node.journal}@1`)).toContain(`The agent ended by a fault of its own: ${reason}`);
  expect(node.statelet('verify', node.journal).code).toBe(0);
  expect(node.statelet('replay', node.journal).stdout).toContain(': same (');
  await node.start();
  await eventually('the pod is known', () => isRunning('web'));
  expect(why(node.journal)).toMatch(
    new RegExp(`^The start before, 000001, ended at \\S+ by a failure: ${reason}$`, 'm'),
  );
});

const needsGroups = requirement('cgroup-v1', cgroupV1Available());

it.skipIf(needsGroups.skip)('the kernel kills it for memory: the next start reports a silent end', async () => {
  node.write('web.json', shellPod('web', 'busybox', SLEEP));
  await eventually('the pod runs', () => isRunning('web'));
  const root = makeCgroupRoot();
  const file = (name: string) => join('/sys/fs/cgroup/memory', root, name);
  writeFileSync(file('memory.limit_in_bytes'), String(MEMORY_MAX_BYTES));
  writeFileSync(file('cgroup.procs'), String(node.pid));
  const main = await InspectedWorker.of(node.pid, () => node.log);
  const ended = node.stop('SIGCONT');
  main.evaluateInMain('globalThis.held = []; setInterval(() => held.push(Buffer.alloc(2 ** 25, 1)), 10)');
  expect(await ended).toBe('SIGKILL');
  removeCgroupRoot(root);
  await node.start();
  await eventually('the pod is known', () => isRunning('web'));
  expect(why(node.journal)).toMatch(
    /^The start before, 000001, did not end in order: it was killed, ran out of memory/m,
  );
  expect(node.statelet('verify', node.journal).code).toBe(0);
});

it('the next start distinguishes a regular end from a silent one', async () => {
  expect(await node.stop('SIGTERM')).toBe(0);
  await node.start();
  expect(why(node.journal)).toMatch(/^The start before, 000001, ended in order at \S+\.$/m);
  expect(await node.stop('SIGKILL')).toBe('SIGKILL');
  await node.start();
  expect(why(node.journal)).toMatch(/^The start before, 000002, did not end in order: it was killed, /m);
});
