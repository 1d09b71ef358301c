/** A node with an API server, for tests of pods. */

import type { KernelOptions } from '../../../../../src/kernel/kernel.ts';
import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { KubeWorld } from '../../../../../src/simulation/world/kube-world.ts';
import { PodsWorld } from '../../../../../src/simulation/world/pods-world.ts';
import { VirtualTime } from '../../../../../src/simulation/world/virtual-time.ts';
import { image, PodsNode } from '../../../../support/pods-node.ts';

export interface ClusterNode {
  node: PodsNode;
  readonly kube: KubeWorld;
}

export function clusterNode(settings: Partial<NodeSettings> = {}, onTurn?: KernelOptions['onTurn']): ClusterNode {
  const time = new VirtualTime();
  const world = new PodsWorld(time);
  const kube = new KubeWorld(time);
  world.kube = kube;
  world.runtime.images.set('app:1', image('app:1'));
  const node = new PodsNode({
    world,
    settings: { apiServer: { changeDetection: 'Watch' }, ...settings },
    ...(onTurn ? { onTurn } : {}),
  });
  return { node, kube };
}
