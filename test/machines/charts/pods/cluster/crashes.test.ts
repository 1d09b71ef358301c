/** A crash of one of the actors that follow the API server is contained, reported, and repaired by a restart. */
import { afterEach, describe, expect, it } from 'vitest';
import { manifest } from '../../../../support/pods-node.ts';
import { type ClusterNode, clusterNode } from './support.ts';

let cluster: ClusterNode;

const projected = {
  volumes: [
    { name: 'c', configMap: { name: 'settings' } },
    { name: 'p', persistentVolumeClaim: { claimName: 'data', readOnly: true } },
    {
      name: 't',
      projected: {
        sources: [
          { serviceAccountToken: { path: 'token', expirationSeconds: 600 } },
          { clusterTrustBundle: { path: 'ca.pem', name: 'roots' } },
        ],
      },
    },
  ],
};
const settings = { apiServer: { changeDetection: 'Watch', trustBundles: true } } as const;
const roots = {
  apiVersion: 'certificates.k8s.io/v1beta1',
  kind: 'ClusterTrustBundle',
  metadata: { name: 'roots' },
  spec: { trustBundle: '' },
};

function createClaim({ node, kube }: ClusterNode): void {
  node.world.folders.add('/srv');
  const bound = { spec: { volumeName: 'pv' }, status: { phase: 'Bound' } };
  const claim = kube.create({ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name: 'data' }, ...bound });
  kube.create({
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: 'pv' },
    spec: { hostPath: { path: '/srv' }, claimRef: { uid: claim.metadata.uid } },
  });
}

function running(): ClusterNode {
  cluster = clusterNode({ ...settings, staticPodURL: 'http://127.0.0.1/pods' });
  const { node, kube } = cluster;
  kube.create(roots);
  kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'settings' }, data: { a: '1' } });
  createClaim(cluster);
  node.world.setManifests([manifest({ uid: 'static' })]);
  node.boot().run(500);
  kube.createPod('web', projected);
  node.until('Running', () => kube.pod('web')?.status?.phase === 'Running');
  node.until('a mirror', () => kube.pod('web-node')?.status?.phase === 'Running');
  node.run(1_000);
  return cluster;
}

afterEach(() => cluster.node.assertReplays());

const uid = () => cluster.kube.pod('web').metadata.uid as string;

/** By machine: the address of one of its actors, and an event that it cannot handle in this form. */
const cases: [machine: string, address: () => string, event: object][] = [
  ['apiSource', () => 'kubelet/podConfig/apiSource', { type: 'reflector.listed', items: null }],
  ['httpSource', () => 'kubelet/podConfig/httpSource', { type: 'manifests.fetched', manifests: 5 }],
  ['mirrorPods', () => 'kubelet/mirrorPods', { type: 'mirror.wanted', pod: null }],
  ['mirrorPod', () => 'kubelet/mirrorPods/mirror-default_web-node', { type: 'mirror.seen', pod: null, seen: null }],
  ['status', () => 'kubelet/status', { type: 'status.observed', pod: null, seen: null }],
  ['statusPublisher', () => `kubelet/status/pod-${uid()}`, { type: 'status.observed', seen: { status: null } }],
  ['objects', () => 'kubelet/objects', { type: 'objects.wanted', uid: 'x', keys: null }],
  ['object', () => 'kubelet/objects/object-ConfigMap:default:settings', { type: 'reflector.listed', items: null }],
  ['services', () => 'kubelet/objects/services', { type: 'services.wanted', keys: null }],
  ['trustBundles', () => 'kubelet/objects/trustBundles', { type: 'trustBundles.wanted', keys: null }],
  ['eventRecorder', () => 'kubelet/eventRecorder', { type: 'event.recorded', ref: null }],
];

describe('a crash of one actor', () => {
  it.each(cases)('%s: is said, touches nothing that runs, and what comes later is done', (_machine, address, event) => {
    const { node, kube } = running();
    const at = address();
    node.kernel.dispatch(at, event as never, 'test');
    node.run(5_000);
    expect(node.crashes()).toHaveLength(1);
    expect(node.crashes()[0]).toContain(at);
    expect(node.world.runtime.started).toHaveLength(2);
    kube.patch('configmaps', 'settings', { data: { a: '2' } });
    kube.createPod('later', projected);
    node.until('Running', () => kube.pod('later')?.status?.phase === 'Running', 60_000);
    kube.delete('pods', 'web');
    node.until('gone', () => kube.pod('web') === undefined, 60_000);
    node.world.setManifests([]);
    node.until('no mirror', () => kube.pod('web-node') === undefined, 60_000);
    expect(node.crashes()).toHaveLength(1);
  });

  /** The answers to their first requests arrive while the other actor does not exist. */
  const others: [address: string, event: object][] = [
    ['kubelet/pods', { type: 'config.pods', op: 'ADD', source: 'api', pods: null }],
    ['kubelet/status', { type: 'status.observed', pod: null, seen: null }],
  ];
  it.each(cases)('%s: what comes before it is back makes nobody else crash', (_machine, address, event) => {
    const { node, kube } = running();
    const at = address();
    const before = others.filter(([other]) => !at.startsWith(other));
    for (const [other, broken] of before) node.kernel.dispatch(other, broken as never, 'test');
    node.run(500);
    node.kernel.dispatch(at, event as never, 'test');
    kube.patch('configmaps', 'settings', { data: { a: '2' } });
    kube.createPod('later', projected);
    kube.delete('pods', 'web');
    node.world.setManifests([]);
    node.until('Running', () => kube.pod('later')?.status?.phase === 'Running', 60_000);
    node.until('gone', () => kube.pod('web') === undefined && kube.pod('web-node') === undefined, 60_000);
    const crashed = [...before.map(([other]) => other), at];
    expect(node.crashes()).toEqual(crashed.map((each) => expect.stringContaining(`${each}: `)));
  });

  it('pods: of a pod that is gone when it is back no status is left, and those of the others are told', () => {
    const { node, kube } = running();
    const gone = { uid: 'gone', namespace: 'default', name: 'gone' };
    const reported = { type: 'status.changed', pod: gone, status: { phase: 'Failed' }, stage: 'terminated' };
    node.kernel.dispatch('kubelet/status', reported, 'test');
    node.run(100);
    expect(node.kernel.addresses).toContain('kubelet/status/pod-gone');
    const [at, broken] = others[0]!;
    node.kernel.dispatch(at, broken as never, 'test');
    node.run(5_000);
    const known = node.kernel.snapshotOf('kubelet/status') as { context: { pods: object; publishers: object } };
    for (const pods of [known.context.pods, known.context.publishers]) {
      expect(Object.keys(pods).sort()).toEqual(['static', uid()].sort());
    }
    expect(node.kernel.addresses).not.toContain('kubelet/status/pod-gone');
    kube.delete('pods', 'web');
    node.until('gone', () => kube.pod('web') === undefined, 60_000);
  });

  it('serviceAccountToken: what is no token is none, and another one is asked for', () => {
    cluster = clusterNode(settings);
    const { node, kube } = cluster;
    kube.create(roots);
    kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'settings' }, data: { a: '1' } });
    createClaim(cluster);
    kube.brokenTokens = 1;
    node.boot().run(500);
    kube.createPod('web', projected);
    node.until('Running', () => kube.pod('web')?.status?.phase === 'Running', 20_000);
    expect(node.crashes()).toHaveLength(1);
    expect(node.crashes()[0]).toContain('/token-0');
    expect(kube.of('create', /token$/)).toHaveLength(2);
  });

  it('eventWriter: its event is lost, the next one is not', () => {
    const { node, kube } = running();
    const send = (message: string) =>
      node.kernel.dispatch(
        'kubelet/eventRecorder',
        {
          type: 'event.recorded',
          ref: { kind: 'Pod', namespace: 'default', name: 'p', uid: 'u' },
          eventType: 'Normal',
          reason: 'Test',
          message,
        },
        'test',
      );
    send('one');
    const { writing } = (node.kernel.snapshotOf('kubelet/eventRecorder') as { context: { writing: string[] } }).context;
    node.kernel.dispatch(`kubelet/eventRecorder/event-${writing.at(-1)}`, { type: 'event.counted', series: 5 }, 'test');
    node.run(1_000);
    send('two');
    node.run(1_000);
    expect(kube.of('create', /events$/).map(({ body }) => body.message)).toContain('two');
  });
});
