/** `pods` starts again after a crash: running pods continue, whichever answer comes first. */
import { expect, it } from 'vitest';
import { clusterNode } from './support.ts';

/** A node with two pods of the API server; from now on each list of pods takes `extraMs` longer. */
function crashed(extraMs: number, staticPodPath = '/etc/kubernetes/manifests') {
  const { node, kube } = clusterNode({ staticPodPath });
  node.boot().run(500);
  for (const name of ['web', 'db']) kube.createPod(name);
  node.until('both run', () => ['web', 'db'].every((name) => kube.pod(name)?.status?.phase === 'Running'));
  node.run(5_000);
  node.world.fault = (name, input) =>
    name === 'kube.list' && (input as { resource: string }).resource === 'pods' ? { extraMs } : undefined;
  const before = node.world.calls.length;
  node.kernel.dispatch('kubelet/pods', { type: 'config.pods', op: 'ADD', source: 'api', pods: null }, 'test');
  node.run(60_000);
  expect(node.crashes()).toHaveLength(1);
  const changes = node.world.calls
    .slice(before)
    .filter(({ name }) => /^cri\.(stop|remove|create|start|run)/.test(name));
  return { node, kube, changes };
}

it.each([
  ['as fast as ever', 0],
  ['a little slower than the files', 30],
  ['three seconds slower', 3_000],
])('when the API server answers %s', (_, extraMs) => {
  const { kube, changes } = crashed(extraMs);
  expect(changes).toEqual([]);
  expect(kube.pod('web')?.status?.containerStatuses).toMatchObject([{ restartCount: 0, ready: true }]);
});

it('when there is no folder of manifests', () => expect(crashed(20, '').changes).toEqual([]));

it('when the API server does not answer for a long time', () => {
  const { node, changes } = crashed(3_600_000);
  expect(changes).toEqual([]);
  expect(node.logs('Ending a pod that is not wanted any more')).toEqual([]);
});

it.each([
  ['all are', null],
  ['one is', ['u-web']],
])('what is remembered for a start without the API server stays when %s asked for again', (_, uids) => {
  const { node, kube } = clusterNode({ rememberedPodsDir: '/journal/pods' });
  node.boot().run(500);
  for (const name of ['web', 'db']) kube.createPod(name, { automountServiceAccountToken: false });
  node.run(10_000);
  const before = [...node.world.remembered.keys()];
  expect(before).toHaveLength(2);
  node.world.fault = (name) => (name === 'kube.list' ? { extraMs: 20 } : undefined);
  node.kernel.dispatch('kubelet/podConfig', { type: 'config.wanted', uids }, 'test');
  node.run(60_000);
  expect([...node.world.remembered.keys()]).toEqual(before);
});
