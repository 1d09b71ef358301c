/** A pod of a cluster with a ResourceClaim that the test allocates, on a node with or without the claim's driver. */
import type { KernelOptions } from '../../src/kernel/kernel.ts';
import { knownKind } from '../../src/simulation/api-server/kinds.ts';
import { type ClusterNode, clusterNode } from '../machines/charts/pods/cluster/support.ts';

export const DRIVER = 'gpu.example.test';
const API = { apiVersion: 'resource.k8s.io/v1', kind: 'ResourceClaim' } as const;
const SPEC = {
  resourceClaims: [{ name: 'gpu', resourceClaimName: 'mine' }],
  containers: [{ name: 'app', image: 'app:1', resources: { claims: [{ name: 'gpu' }] } }],
};

export class ClaimingPod {
  readonly cluster: ClusterNode;
  readonly uid: string;

  constructor({ hasDriver = true, onTurn }: { hasDriver?: boolean; onTurn?: KernelOptions['onTurn'] } = {}) {
    this.cluster = clusterNode({}, onTurn);
    const { kube, node } = this.cluster;
    kube.createPod('p', SPEC);
    this.uid = kube.pod('p')!.metadata.uid;
    const metadata = { name: 'mine', namespace: 'default', ownerReferences: [] };
    kube.create({ ...API, metadata, spec: { devices: { requests: [] } } });
    const status = {
      allocation: { devices: { results: [{ driver: DRIVER, pool: 'node', device: 'gpu-0', request: 'gpu' }] } },
      reservedFor: [{ resource: 'pods', name: 'p', uid: this.uid }],
    };
    const path = { kind: knownKind(API.apiVersion, 'resourceclaims'), namespace: 'default', name: 'mine' };
    kube.registry.patch({ ...path, subresource: 'status' }, 'application/merge-patch+json', { status });
    node.boot();
    node.run(50);
    if (hasDriver) this.register();
  }

  register(): void {
    const news = { type: 'dra.registered', driver: DRIVER, endpoint: '/dra.sock', service: 'v1.DRAPlugin' };
    this.cluster.node.kernel.dispatch('kubelet/draManager', news, 'test');
  }
}
