/** Messages that are sent once, while their receiver waits for something else: none is lost. */
import { afterEach, describe, expect, it } from 'vitest';
import { type ClusterNode, clusterNode } from './support.ts';

let cluster: ClusterNode;

const configMap = (name: string) =>
  cluster.kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { a: '1' } });
const isRunning = (name: string) => () => cluster.kube.pod(name)?.status?.phase === 'Running';
const setUps = () => cluster.node.world.calls.filter(({ name }) => name === 'volume.setUp');

afterEach(() => {
  expect(cluster.node.crashes()).toEqual([]);
  cluster.node.assertReplays();
});

describe('an object of a pod that is known', () => {
  it('before the runtime has said anything of the pod sets nothing up, and is in its volume afterwards', () => {
    cluster = clusterNode();
    const { node, kube } = cluster;
    node.world.fault = (name) => (name === 'cri.watchPods' ? { extraMs: 5_000 } : undefined);
    configMap('settings');
    kube.createPod('web', { volumes: [{ name: 'v', configMap: { name: 'settings' } }] });
    node.boot().run(4_000);
    const { uid } = kube.pod('web').metadata;
    expect(node.podState(uid)).toBe('unheard');
    expect(setUps()).toEqual([]);
    node.until('Running', isRunning('web'), 10_000);
    expect(setUps()).toHaveLength(1);
  });
});

describe('another configuration of a pod', () => {
  it('that this node cannot run yet is taken with its new containers', () => {
    cluster = clusterNode();
    const { node, kube } = cluster;
    kube.createPod('web', { runtimeClassName: 'quick' });
    node.boot().run(3_000);
    expect(node.podState(kube.pod('web').metadata.uid)).toEqual({ sync: { blocked: 'waiting' } });
    const ephemeralContainers = [{ name: 'looker', image: 'app:1', targetContainerName: 'app' }];
    kube.patch('pods', 'web', { spec: { ephemeralContainers } }, 'ephemeralcontainers');
    node.run(1_000);
    kube.create({ apiVersion: 'node.k8s.io/v1', kind: 'RuntimeClass', metadata: { name: 'quick' }, handler: 'quick' });
    node.until('Running', isRunning('web'), 10_000);
    const begun = () => [...node.world.runtime.containers.values()].map(({ config }) => config.metadata?.name);
    node.until('the other one', () => begun().includes('looker'), 10_000);
  });
});
