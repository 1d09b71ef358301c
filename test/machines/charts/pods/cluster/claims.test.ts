/** Devices that a scheduler allocated: nothing runs without those that it asks for. */
import { afterEach, describe, expect, it } from 'vitest';
import { type ClusterNode, clusterNode } from './support.ts';

let cluster: ClusterNode;

/** The scheduler has done its part before the node hears of the pod. */
function bootedWith(spec: object, status: object = {}): ClusterNode {
  cluster = clusterNode();
  cluster.kube.createPod('p', spec);
  cluster.kube.patch('pods', 'p', { status }, 'status');
  cluster.node.boot();
  return cluster;
}

const phase = (name: string): string | undefined => cluster.kube.pod(name).status?.phase;
const reasonsOf = (name: string) =>
  cluster.kube
    .of('create', /events$/)
    .filter(({ body }) => body.involvedObject.name === name)
    .map(({ body }) => [body.reason, body.message]);
const template = (claims: object = {}) => ({
  resourceClaims: [{ name: 'gpu', resourceClaimTemplateName: 'gpus' }],
  containers: [{ name: 'app', image: 'app:1', resources: { claims: [{ name: 'gpu' }] } }],
  ...claims,
});

afterEach(() => {
  expect(cluster.node.crashes()).toEqual([]);
  cluster.node.assertReplays();
});

describe('a pod with resource claims', () => {
  it.each([
    ['a claim by its name', template({ resourceClaims: [{ name: 'gpu', resourceClaimName: 'mine' }] }), {}, 'gpu'],
    ['a template whose claim is not made yet', template(), {}, 'gpu'],
    [
      'a claim that was made for it',
      template(),
      { resourceClaimStatuses: [{ name: 'gpu', resourceClaimName: 'p-gpu-x' }] },
      'gpu',
    ],
    [
      'an extended resource that a driver backs',
      {},
      { extendedResourceClaimStatus: { requestMappings: [], resourceClaimName: 'p-extended' } },
      'p-extended',
    ],
  ])('waits: %s', (_, spec, status, claim) => {
    const { node, kube } = bootedWith(spec, status);
    node.run(30_000);
    expect(phase('p')).toBe('Pending');
    expect(reasonsOf('p')).toContainEqual([
      'FailedPrepareDynamicResources',
      `Failed to prepare dynamic resources: no resource driver is registered for the claims [${claim}]`,
    ]);
    expect(reasonsOf('p').map(([reason]) => reason)).not.toContain('FailedCreatePodSandBox');
    kube.delete('pods', 'p');
    node.until('gone', () => kube.of('delete').length === 1, 60_000);
  });

  it('begins when there turns out to be nothing to allocate', () => {
    const { node, kube } = bootedWith(template());
    node.run(5_000);
    expect(phase('p')).toBe('Pending');
    kube.patch('pods', 'p', { status: { resourceClaimStatuses: [{ name: 'gpu' }] } }, 'status');
    node.until('Running', () => phase('p') === 'Running', 60_000);
  });

  it('that runs already, with what another agent prepared, runs on and ends as others', () => {
    const { node, kube } = bootedWith(template(), { resourceClaimStatuses: [{ name: 'gpu' }] });
    node.until('Running', () => phase('p') === 'Running', 60_000);
    kube.patch('pods', 'p', { status: { resourceClaimStatuses: [{ name: 'gpu', resourceClaimName: 'x' }] } }, 'status');
    cluster = { ...cluster, node: node.restart() };
    cluster.node.run(30_000);
    expect([phase('p'), node.world.runtime.started.length]).toEqual(['Running', 1]);
    kube.delete('pods', 'p');
    cluster.node.until('gone', () => kube.of('delete').length === 1, 60_000);
    expect(node.world.runtime.started).toHaveLength(1);
  });
});
