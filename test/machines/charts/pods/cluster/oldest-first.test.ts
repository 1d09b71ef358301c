/** Which pods of a list of the API server get the resources of the node. */
import { afterEach, expect, it } from 'vitest';
import { NEWEST_BEHAVIOR } from '../../../../../src/machines/model/settings/behaviors.ts';
import { ADMISSION } from '../../../../support/counting-node.ts';
import { nodeBefore } from '../support.ts';
import { type ClusterNode, clusterNode } from './support.ts';

let cluster: ClusterNode;

/** A list of two pods on a node with room for one: `a` is younger than `b`. */
function listed(behavior: number): void {
  cluster = clusterNode({ admission: ADMISSION, behavior });
  const { node, kube } = cluster;
  node.boot().run(1_000);
  const age = { a: '2026-11-21T07:00:10Z', b: '2026-11-21T07:00:09Z' };
  const items = Object.entries(age).map(([name, creationTimestamp]) => {
    const containers = [{ name: 'app', image: 'app:1', resources: { requests: { cpu: '1500m' } } }];
    const { metadata, ...pod } = kube.createPod(name, { containers }) as Record<string, object>;
    return { ...pod, metadata: { ...metadata, creationTimestamp } };
  });
  node.kernel.dispatch('kubelet/podConfig/apiSource', { type: 'reflector.listed', items }, 'test');
  node.run(5_000);
}
const outcomes = () => ['a', 'b'].map((name) => cluster.kube.pod(name).status?.reason ?? '');

afterEach(() => {
  expect(cluster.node.crashes()).toEqual([]);
  cluster.node.assertReplays();
});

it('the oldest, whatever their names', () => {
  listed(NEWEST_BEHAVIOR);
  expect(outcomes()).toEqual(['OutOfcpu', '']);
});

it('the first by name on an earlier node', () => {
  listed(nodeBefore('sourcesAsKubelet'));
  expect(outcomes()).toEqual(['', 'OutOfcpu']);
});
