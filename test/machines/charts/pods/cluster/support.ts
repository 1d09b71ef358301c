/** A node that has an API server, for tests of the pods' room. */

import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { KubeWorld } from '../../../../support/kube-world.ts';
import { image, PodsNode } from '../../../../support/pods-node.ts';
import { VirtualTime } from '../../../../support/pods-time.ts';
import { PodsWorld } from '../../../../support/pods-world.ts';

export interface ClusterNode {
  node: PodsNode;
  readonly kube: KubeWorld;
}

export function clusterNode(settings: Partial<NodeSettings> = {}): ClusterNode {
  const time = new VirtualTime();
  const world = new PodsWorld(time);
  const kube = new KubeWorld(time);
  world.kube = kube;
  world.runtime.images.set('app:1', image('app:1'));
  const node = new PodsNode({ world, settings: { apiServer: { changeDetection: 'Watch' }, ...settings } });
  return { node, kube };
}
