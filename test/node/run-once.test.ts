/** `statelet run-once` as a process, with real containers: its output, its end, and its leftovers. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readJournal } from '../../src/kernel/journal/reader.ts';
import type { PodResult } from '../../src/machines/startup/context/types.ts';
import { checkOrder, DOCUMENTS } from '../machines/startup/order/index.ts';
import { SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, type RuntimeChoice, runtimes } from '../support/observed-node.ts';
import { requirement } from '../support/require.ts';

for (const runtime of runtimes) {
  const { skip } = requirement('containerd', runtime.unavailable);
  describe.skipIf(skip)(`run-once on ${runtime.name}`, () => cases(runtime));
}

function cases(choice: RuntimeChoice): void {
  let node: ObservedNode;
  beforeAll(async () => {
    node = await ObservedNode.on(choice);
  });
  afterAll(() => node.close());

  it('runs pods to readiness or to their end, says so, and leaves them', async () => {
    node.write('web.json', shellPod('web', node.image, SLEEP));
    node.write('job.json', shellPod('job', node.image, 'echo done', { restartPolicy: 'Never' }));
    const { code, stdout, stderr } = await node.once('run-once', ['--format=json']);
    expect(stderr).not.toMatch(/command failed/);
    expect(code).toBe(0);
    const results = JSON.parse(stdout) as PodResult[];
    expect(results.map(({ name, result }) => `${name} ${result}`).sort()).toEqual([
      'job-node1 Succeeded',
      'web-node1 Ready',
    ]);
    expect(results.find(({ name }) => name === 'job-node1')!.containers).toMatchObject([{ name: 'c', exitCode: 0 }]);
    expect(stderr).toContain('"Started kubelet as runonce"');
    expect(node.containerLog('job', 'c')).toContain('done');
  });

  it('finds them again in a second run', async () => {
    const { code, stdout } = await node.once('run-once');
    expect(stdout).toMatch(/^POD +RESULT +RESTARTS +TOOK +MESSAGE\n/);
    expect(stdout).toMatch(/default\/web-node1 +Ready +0 /);
    expect(code).toBe(0);
  });

  it('ends with 1 and the kubelet’s sentence when a container fails', async () => {
    node.write('bad.json', shellPod('bad', node.image, 'exit 3', { restartPolicy: 'Never' }));
    const { code, stdout, stderr } = await node.once('run-once');
    expect(code).toBe(1);
    expect(stdout).toMatch(/default\/bad-node1 +Failed .*container c: Error, exit code 3/);
    expect(stdout).toMatch(/default\/web-node1 +Ready/);
    expect(stderr.trim().split('\n').at(-1)).toMatch(
      /"command failed" err="failed to run Kubelet: runonce failed: error running pods: \[.*bad-node1_default\(\w+\).*\]"$/,
    );
  });

  it('waits no longer than it may for one that never runs', async () => {
    node.write('lost.json', shellPod('lost', 'registry.invalid/none:1', 'true'));
    const { code, stdout, stderr } = await node.once('run-once', ['--retries', '2']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/default\/lost-node1 +TimedOut .*containers not running after 2 retries/);
    expect(stderr.trim().split('\n').at(-1)).toMatch(
      /runonce failed: error running pods: \[.*lost-node1_default\(\w+\).*\]"$/,
    );
  });

  it('leaves journals that verify, replay, and keep the order of the documents', () => {
    expect(node.journalFaults()).toEqual([]);
    for (const incarnation of node.incarnations()) {
      const records = [...readJournal(node.journal, { incarnation }).records] as never;
      for (const { key, promises } of DOCUMENTS) {
        expect(checkOrder(records, promises), `document ${key}`).toEqual([]);
      }
    }
  });

  it('explains its time', () => {
    const [first] = node.incarnations();
    const { code, stdout } = node.statelet('time', node.journal, '--incarnation', first!);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Startup finished after /);
    expect(stdout).toContain('runOnce.pods');
  });
}

it('what cannot be is refused before anything starts', async () => {
  const node = new ObservedNode({ image: '', close: () => Promise.resolve() });
  const refused = await node.once('run-once', ['--retries=many']);
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('invalid argument \\"many\\" for \\"--retries\\"');
  const old = await node.once('run', ['--runonce']);
  expect(old.code).toBe(1);
  expect(old.stderr).toContain('Runonce mode has been deprecated and should not be set');
  expect(old.stderr).toContain('statelet run-once');
  await node.close();
});
