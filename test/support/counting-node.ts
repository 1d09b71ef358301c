/** A node that counts the resources of its pods, and the pods that an API server assigns to it. */

import type { Container, Pod, PodSpec } from '../../src/machines/model/api/pod.ts';
import { withDefaults } from '../../src/machines/model/pods/defaults.ts';
import type { NodeSettings } from '../../src/machines/model/settings/node-settings.ts';
import { image, PodsNode } from './pods-node.ts';

export const ADMISSION: NonNullable<NodeSettings['admission']> = {
  allocatable: { cpu: '2000', memory: '1000000000', pods: '110' },
  wholeNode: { cpu: '2000', memory: '1100000000' },
  labels: { zone: 'a' },
  taints: [],
  sysctls: { kernelVersion: '6.1.0', allowedUnsafe: [] },
  appArmor: false,
};

/** The booted node, with the image `app:1`. */
export function bootCountingNode(change: Partial<NodeSettings> = {}): PodsNode {
  const node = new PodsNode({ settings: { admission: ADMISSION, makesPodCgroups: true, ...change } });
  node.world.runtime.images.set('app:1', image('app:1'));
  node.boot().run(100);
  return node;
}

type Spec = Partial<PodSpec> & { readonly containers: readonly Container[] };

/** A pod in the form of the API server, with its name as uid. */
export const apiPod = (uid: string, spec: Spec, generation = 1): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    name: uid,
    namespace: 'default',
    uid,
    generation,
    annotations: { 'kubernetes.io/config.source': 'api' },
  },
  spec: withDefaults(spec),
  status: { phase: 'Pending' },
});

export const sendPods = (node: PodsNode, op: 'ADD' | 'UPDATE', ...pods: readonly Pod[]): void =>
  void node.kernel.dispatch('kubelet/pods', { type: 'config.pods', op, source: 'api', pods }, 'test');

export function removePod(node: PodsNode, uid: string): void {
  const pods = [{ uid, namespace: 'default', name: uid }];
  node.kernel.dispatch('kubelet/pods', { type: 'config.pods', op: 'REMOVE', source: 'api', pods }, 'test');
}
