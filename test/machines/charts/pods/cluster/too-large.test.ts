/** Pods of the API server that exceed this node's limits of size, at once or after a change. */
import { afterEach, expect, it } from 'vitest';
import { NEWEST_BEHAVIOR } from '../../../../../src/machines/model/settings/behaviors.ts';
import { nodeBefore } from '../support.ts';
import { type ClusterNode, clusterNode } from './support.ts';

let cluster: ClusterNode;

const annotations = Object.fromEntries(Array.from({ length: 50_001 }, (_, at) => [`a${at}`, '']));
const grow = () => cluster.kube.patch('pods', 'web', { metadata: { annotations } });
const isRunning = () => cluster.kube.pod('web')?.status?.phase === 'Running';
const running = () => [...cluster.node.world.runtime.containers.values()].filter(({ state }) => /RUNNING/.test(state));

function booted(behavior = NEWEST_BEHAVIOR): void {
  cluster = clusterNode({ behavior });
  cluster.kube.createPod('web', { terminationGracePeriodSeconds: 1 });
  cluster.node.boot().until('Running', isRunning);
  grow();
  cluster.node.run(1_000);
}

afterEach(() => {
  expect(cluster.node.crashes()).toEqual([]);
  cluster.node.assertReplays();
});

const list = (...items: object[]) =>
  void cluster.node.kernel.dispatch('kubelet/podConfig/apiSource', { type: 'reflector.listed', items }, 'test');

it('one that has grown runs on, also after another list, and ends when it is deleted', () => {
  booted();
  list(cluster.kube.pod('web'));
  cluster.node.run(5_000);
  expect(running()).toHaveLength(1);
  cluster.kube.delete('pods', 'web', 1);
  cluster.node.until('gone', () => cluster.kube.pod('web') === undefined, 10_000);
  expect(running()).toEqual([]);
});

it('one that has grown ends when it is gone without notice', () => {
  booted();
  cluster.kube.delete('pods', 'web', 0);
  cluster.node.until('ended', () => running().length === 0, 10_000);
});

it('one that has grown ends when it is in no list any more', () => {
  booted();
  list();
  cluster.node.until('ended', () => running().length === 0, 10_000);
});

it('one that was never accepted can be deleted', () => {
  cluster = clusterNode({ behavior: NEWEST_BEHAVIOR });
  const volumes = Array.from({ length: 501 }, (_, at) => ({ name: `v${at}`, configMap: { name: `c${at}` } }));
  cluster.kube.createPod('web', { volumes });
  cluster.node.boot().run(3_000);
  expect(cluster.node.events()).toEqual([expect.stringContaining('FailedValidation')]);
  cluster.kube.delete('pods', 'web', 30);
  cluster.node.until('gone', () => cluster.kube.pod('web') === undefined, 10_000);
  expect(cluster.node.world.callsOf('cri.runPodSandbox')).toEqual([]);
});

it('one that has grown did not end on an earlier node', () => {
  booted(nodeBefore('sourcesAsKubelet'));
  cluster.kube.delete('pods', 'web', 1);
  cluster.node.run(20_000);
  expect(running()).toHaveLength(1);
});
