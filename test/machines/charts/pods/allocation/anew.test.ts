/** The manager of allocations starts again after a crash: it gets all pods, and ended pods hold nothing. */
import { expect, it } from 'vitest';
import { apiPod, bootCountingNode, removePod, sendPods } from '../../../../support/counting-node.ts';

const asking = (uid: string, cpu: string) => {
  const containers = [{ name: uid, image: 'app:1', resources: { requests: { cpu } } }];
  return apiPod(uid, { restartPolicy: 'Never', containers });
};

it.each([
  ['by itself', null],
  ['by the node', { reason: 'Evicted', message: 'The node was low on resource: memory.', published: 'always' }],
])('gives what a pod had that ended %s to the next one', (_, verdict) => {
  const node = bootCountingNode();
  node.world.runtime.programs.set('job', [{ runsMs: 3_000, exitCode: 0 }]);
  sendPods(node, 'ADD', asking('job', '1500m'));
  node.until('it runs', () => node.phase('job') === 'Running');
  if (verdict)
    node.kernel.dispatch('kubelet/pods', { type: 'pods.kill', uid: 'job', graceSeconds: 0, verdict }, 'test');
  node.run(8_000);
  const ended = node.status('job')!;
  expect(ended.phase).toBe(verdict ? 'Failed' : 'Succeeded');
  node.kernel.dispatch('kubelet/allocation', { type: 'node.known' }, 'test');
  node.run(1_000);
  expect(node.crashes()).toHaveLength(1);
  sendPods(node, 'ADD', asking('new', '1'));
  node.until('running', () => node.phase('new') === 'Running');
  expect(node.status('job')).toEqual(ended);
  node.assertReplays();
});

it('gives what a pod had that is gone to the next one, also when the soft state had to be read again', () => {
  const node = bootCountingNode();
  sendPods(node, 'ADD', asking('old', '1500m'));
  node.until('it runs', () => node.phase('old') === 'Running');
  node.run(5_000);
  node.world.fault = (name) => (name === 'host.saveSoftState' ? { error: 'disk full' } : undefined);
  removePod(node, 'old');
  node.until('gone', () => node.podState('old') === undefined);
  node.kernel.dispatch('kubelet/softState', { type: 'softState.allocated', grant: null }, 'test');
  node.run(5_000);
  expect(node.crashes()).toHaveLength(1);
  sendPods(node, 'ADD', asking('new', '1'));
  node.until('running', () => node.phase('new') === 'Running');
  node.assertReplays();
});
