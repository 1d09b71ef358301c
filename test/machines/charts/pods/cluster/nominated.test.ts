/** A pod for which other pods were preempted before it was bound to this node. */
import { expect, it } from 'vitest';
import { NEWEST_BEHAVIOR } from '../../../../../src/machines/model/settings/behaviors.ts';
import { nodeBefore } from '../support.ts';
import { clusterNode } from './support.ts';

it.each([
  ['is nominated for no node any more when it runs', NEWEST_BEHAVIOR, undefined],
  ['stayed nominated on an earlier node', nodeBefore('sourcesAsKubelet'), 'node'],
])('%s', (_what, behavior, nominated) => {
  const { node, kube } = clusterNode({ behavior });
  kube.createPod('web');
  kube.patch('pods', 'web', { status: { nominatedNodeName: 'node' } }, 'status');
  node.boot().until('Running', () => kube.pod('web').status.phase === 'Running');
  expect(kube.pod('web').status.nominatedNodeName).toBe(nominated);
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});
