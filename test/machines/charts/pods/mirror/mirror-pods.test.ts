/** Static pods in the API server. */
import { afterEach, describe, expect, it } from 'vitest';
import { mirrorPodsMachine } from '../../../../../src/machines/charts/pods/mirror/mirror-pods.ts';
import { ok, runUnder } from '../../../../support/answering-world.ts';
import { manifest } from '../../../../support/pods-node.ts';
import { type ClusterNode, clusterNode } from '../cluster/support.ts';

let cluster: ClusterNode;
const mirror = () => cluster.kube.pod('web-node');
const deletes = () => cluster.kube.of('delete').map(({ body }) => body);

function booted(): ClusterNode {
  cluster = clusterNode();
  cluster.node.world.setManifests([manifest({ uid: 'u1' })]);
  cluster.node.boot().until('a running mirror pod', () => mirror()?.status?.phase === 'Running');
  return cluster;
}

afterEach(() => {
  expect(cluster.node.crashes()).toEqual([]);
  cluster.node.assertReplays();
});

describe('a static pod', () => {
  it('has a mirror pod that belongs to the node and shows its status', () => {
    const { node, kube } = booted();
    node.run(5_000);
    const nodeUid = kube.store.get('v1', 'nodes', 'node')!.metadata.uid;
    expect(mirror()).toMatchObject({
      metadata: {
        annotations: {
          'kubernetes.io/config.hash': 'u1',
          'kubernetes.io/config.mirror': 'u1',
          'kubernetes.io/config.source': 'file',
          'kubernetes.io/config.seen': expect.any(String),
        },
        ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'node', uid: nodeUid, controller: true }],
      },
      spec: { nodeName: 'node' },
      status: { phase: 'Running', podIP: expect.any(String) },
    });
    expect(kube.of('create', /pods$/)).toHaveLength(1);
    expect(kube.of('patch', /pods/).length).toBeLessThanOrEqual(2);
    expect(kube.of('patch', /pods/).every(({ body }) => body.metadata.uid === mirror().metadata.uid)).toBe(true);
    expect(node.world.runtime.started).toEqual(['web-node/app#0']);
  });

  it('runs without an API server, and is shown when there is one', () => {
    cluster = clusterNode();
    const { node, kube } = cluster;
    kube.isAway = true;
    node.world.setManifests([manifest({ uid: 'u1' })]);
    node.boot().until('Running', () => node.phase('u1') === 'Running');
    node.run(60_000);
    kube.isAway = false;
    node.until('a mirror', () => mirror()?.status?.phase === 'Running', 120_000);
    expect(node.world.runtime.started).toHaveLength(1);
  });

  it('is shown when its node is registered, and not before', () => {
    cluster = clusterNode();
    const { node, kube } = cluster;
    kube.delete('nodes', 'node', 0);
    node.world.setManifests([manifest({ uid: 'u1' })]);
    node.boot().run(20_000);
    expect(mirror()).toBeUndefined();
    expect(node.phase('u1')).toBe('Running');
    kube.create({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'node' } });
    node.until('a mirror', () => mirror() !== undefined, 60_000);
  });

  it('gets its mirror pod back after its deletion', () => {
    const { node, kube } = booted();
    const { uid } = mirror().metadata;
    kube.delete('pods', 'web-node', 0);
    node.until('another one', () => mirror() !== undefined && mirror().metadata.uid !== uid, 10_000);
    node.until('with its status', () => mirror().status.phase === 'Running', 20_000);
    expect(node.world.runtime.started).toHaveLength(1);
    kube.delete('pods', 'web-node', 30);
    const { uid: second } = mirror().metadata;
    node.until('a third one, soon', () => mirror() !== undefined && mirror().metadata.uid !== second, 3_000);
    expect(node.world.runtime.started).toHaveLength(1);
  });

  it('whose mirror pod was replaced while no watch was open shows its status in the new one', () => {
    const { node, kube } = booted();
    node.run(30_000);
    const { uid, annotations, ownerReferences } = mirror().metadata;
    kube.isAway = true;
    kube.breakWatches();
    node.run(5_000);
    kube.delete('pods', 'web-node', 0);
    kube.createPod('web-node', {}, { annotations, ownerReferences });
    kube.store.compact();
    kube.isAway = false;
    expect(mirror().metadata.uid).not.toBe(uid);
    node.until('the status', () => mirror().status?.phase === 'Running', 60_000);
    expect(kube.of('create', /pods$/)).toHaveLength(1);
    expect(node.world.runtime.started).toHaveLength(1);
  });

  it('that changed is a new pod: the old one ends, and so does its mirror, before the new one comes', () => {
    const { node, kube } = booted();
    const { uid } = mirror().metadata;
    node.world.setManifests([manifest({ uid: 'u2' })]);
    node.until('the new mirror', () => mirror()?.metadata.annotations['kubernetes.io/config.mirror'] === 'u2');
    node.until('Running', () => mirror().status?.phase === 'Running');
    expect(deletes()).toEqual([{ gracePeriodSeconds: 0, preconditions: { uid } }]);
    expect(kube.of('patch', /pods/).filter(({ error }) => error !== undefined)).toEqual([]);
    expect(node.world.runtime.started).toEqual(['web-node/app#0', 'web-node/app#0']);
  });

  it('whose file is removed ends, shows its end, and then its mirror goes', () => {
    const { node, kube } = booted();
    node.world.setManifests([]);
    node.until('gone', () => mirror() === undefined);
    const last = kube.of('patch', /pods/).at(-1)!;
    expect(last.body.status.containerStatuses[0].state).toHaveProperty('terminated');
    expect(node.podState('u1')).toBeUndefined();
    node.run(60_000);
    expect(deletes()).toHaveLength(1);
  });

  it('that names a ConfigMap is refused at the field', () => {
    cluster = clusterNode();
    const { node } = cluster;
    node.world.setManifests([
      manifest({
        uid: 'u1',
        spec: { volumes: [{ name: 'v', configMap: { name: 'c' } }] },
        containers: [{ name: 'app', image: 'app:1', envFrom: [{ secretRef: { name: 's' } }] }],
      }),
    ]);
    node.boot().run(1_000);
    const [line] = node.logs('Could not process manifest file');
    expect(line!['error']).toContain('spec.volumes[0].configMap: Forbidden: static pods may not reference configmaps');
    expect(line!['error']).toContain(
      'spec.containers[0].envFrom[0].secretRef: Forbidden: static pods may not reference secrets',
    );
    expect(node.world.runtime.started).toEqual([]);
  });
});

describe('a mirror pod without a static pod', () => {
  it('is taken away once every source has spoken', () => {
    cluster = clusterNode();
    const { node, kube } = cluster;
    kube.createPod(
      'left-node',
      {},
      { annotations: { 'kubernetes.io/config.mirror': 'x', 'kubernetes.io/config.hash': 'x' } },
    );
    node.boot().until('gone', () => kube.pod('left-node') === undefined, 30_000);
    expect(node.world.runtime.started).toEqual([]);
  });

  it('of a static pod that is still there after a restart stays', () => {
    const { node, kube } = booted();
    const { uid } = mirror().metadata;
    node.run(10_000);
    kube.requests.length = 0;
    cluster.node = node.restart();
    cluster.node.run(60_000);
    expect(mirror().metadata.uid).toBe(uid);
    expect(kube.requests.filter(({ verb }) => !['list', 'deleteCollection'].includes(verb))).toEqual([]);
  });
});

it('the mirror of a pod of which an earlier agent left only files goes with the last of them', () => {
  const world = runUnder(mirrorPodsMachine, { nodeName: 'node' }, { 'kube.get': 'stream', 'kube.delete': ok(null) }, [
    'podConfig',
  ]);
  const name = { namespace: 'default', name: 'web-node' };
  const seen = { hash: 'u1', isDeleting: false };
  world.send({ type: 'mirror.seen', pod: { uid: 'mirror', ...name }, seen });
  world.send({ type: 'mirror.wanted', pod: { metadata: { uid: 'u1', ...name } } });
  world.send({ type: 'mirror.ready', source: 'file' });
  world.send({ type: 'mirror.unwanted', pod: { uid: 'u1', ...name } });
  expect(world.asked()).not.toContain('kube.delete');
  world.send({ type: 'mirror.released', pod: { uid: 'u1', namespace: '', name: '' } });
  expect(world.asked()).toContain('kube.delete');
});
