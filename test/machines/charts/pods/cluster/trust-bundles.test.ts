/** Trust anchors of the cluster in projected volumes. */
import { afterEach, describe, expect, it } from 'vitest';
import { certificatesPem } from '../../../../../src/machines/model/objects/trust-anchors.ts';
import { Refusal } from '../../../../../src/simulation/api-server/errors.ts';
import { knownKind } from '../../../../../src/simulation/api-server/kinds.ts';
import { type ClusterNode, clusterNode } from './support.ts';

let cluster: ClusterNode;

function booted(trustBundles = true): ClusterNode {
  cluster = clusterNode({ apiServer: { changeDetection: 'Watch', trustBundles } });
  cluster.node.boot().run(1_000);
  return cluster;
}

const pem = (...names: string[]) => certificatesPem(names.map((name) => btoa(name)));
const bundle = (name: string, trustBundle: string, spec = {}, labels = {}) =>
  cluster.kube.create({
    apiVersion: 'certificates.k8s.io/v1beta1',
    kind: 'ClusterTrustBundle',
    metadata: { name, labels },
    spec: { trustBundle, ...spec },
  });
const projected = (source: object) => ({
  volumes: [{ name: 'v', projected: { sources: [{ clusterTrustBundle: { path: 'ca.pem', ...source } }] } }],
});
const isRunning = (name: string) => () => cluster.kube.pod(name)?.status?.phase === 'Running';
const messages = () =>
  cluster.node.logs('Event occurred').map(({ reason, message }) => `${String(reason)}: ${String(message)}`);
const files = () =>
  cluster.node.sink.records
    .flatMap((record) =>
      record.k === 'effect' && record.name === 'volume.setUp'
        ? [record.input as { volumes: { files: object[] }[] }]
        : [],
    )
    .at(-1)?.volumes[0]?.files;
const FAILED = 'FailedMount: MountVolume.SetUp failed for volume "v" : ';

afterEach(() => {
  expect(cluster.node.crashes()).toEqual([]);
  cluster.node.assertReplays();
});

describe('a ClusterTrustBundle', () => {
  it('is in the volume, normalized, and so are its changes', () => {
    const { node, kube } = booted();
    bundle('roots', `ours\n${pem('b')}${pem('a')}${pem('b')}`);
    kube.createPod('web', projected({ name: 'roots' }));
    node.until('Running', isRunning('web'));
    expect(files()).toEqual([{ path: 'ca.pem', mode: 0o644, content: { text: pem('a', 'b') } }]);
    const kind = knownKind('certificates.k8s.io/v1beta1', 'clustertrustbundles');
    const place = { kind, namespace: undefined, name: 'roots' };
    kube.registry.patch(place, 'application/merge-patch+json', { spec: { trustBundle: pem('c') } });
    node.until('the change', () => JSON.stringify(files()).includes(JSON.stringify(pem('c')).slice(1, -1)), 5_000);
  });

  it('selected by signer and labels is every bundle that matches', () => {
    const { node, kube } = booted();
    const spec = { signerName: 'example.com/ca' };
    bundle('example.com:ca:one', pem('one'), spec, { live: 'yes' });
    bundle('example.com:ca:two', pem('two'), spec, { live: 'no' });
    const selector = { matchLabels: { live: 'yes' } };
    kube.createPod('web', projected({ signerName: 'example.com/ca', labelSelector: selector }));
    node.until('Running', isRunning('web'));
    expect(files()).toMatchObject([{ content: { text: pem('one') } }]);
    bundle('example.com:ca:three', pem('three'), spec, { live: 'yes' });
    const both = pem(...['one', 'three'].toSorted((a, b) => (btoa(a) < btoa(b) ? -1 : 1)));
    node.until('a third', () => JSON.stringify(files()?.[0]).includes(JSON.stringify(both)), 5_000);
  });

  it.each([
    [{ name: 'none' }, 'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "none" not found'],
    [
      { signerName: 'example.com/none', labelSelector: {} },
      'combination of signerName and labelSelector matched zero ClusterTrustBundles',
    ],
  ])('that is missing holds the pod back, unless it is optional: %j', (source, message) => {
    const { node, kube } = booted();
    kube.createPod('web', projected(source));
    node.run(3_000);
    expect(messages()).toContain(`${FAILED}${message}`);
    expect(node.world.runtime.started).toEqual([]);
    kube.createPod('easy', projected({ ...source, optional: true }));
    node.until('Running', isRunning('easy'), 5_000);
    expect(files()).toEqual([{ path: 'ca.pem', mode: 0o644, content: { text: '' } }]);
  });

  it('is readable by the group of the volumes only, if the pod has one', () => {
    const { node, kube } = booted();
    bundle('roots', pem('a'));
    kube.createPod('web', { ...projected({ name: 'roots' }), securityContext: { fsGroup: 4_242 } });
    node.until('Running', isRunning('web'));
    expect(files()).toMatchObject([{ mode: 0o600 }]);
  });

  it.each([
    ['one user', 1_000, 1_000, { mode: 0o600, userId: 1_000 }],
    ['two users', 1_000, 1_001, { mode: 0o644 }],
    ['users of whom one is not named', 1_000, undefined, { mode: 0o644 }],
  ])('is for the user of the containers where they have %s', (_, first, second, access) => {
    const { node, kube } = booted();
    bundle('roots', pem('a'));
    const container = (name: string, runAsUser?: number) => ({
      name,
      image: 'app:1',
      ...(runAsUser === undefined ? {} : { securityContext: { runAsUser } }),
    });
    const containers = [container('app', first), container('side', second)];
    kube.createPod('web', { ...projected({ name: 'roots' }), containers });
    node.until('Running', isRunning('web'));
    expect(files()).toEqual([{ path: 'ca.pem', ...access, content: { text: pem('a') } }]);
  });

  it('is not followed without a pod that wants one, nor by a node whose gate is off', () => {
    const { node, kube } = booted(false);
    bundle('roots', pem('a'));
    kube.createPod('web', projected({ name: 'roots' }));
    node.run(5_000);
    expect(messages()).toContain(
      `${FAILED}ClusterTrustBundle projection is not supported in static kubelet mode; ` +
        'turn on the feature gate ClusterTrustBundleProjection',
    );
    expect(kube.requests.filter(({ path }) => path === 'clustertrustbundles')).toEqual([]);
  });

  it('in a cluster that has none is said, and found when the cluster has learnt of them', () => {
    const { node, kube } = booted();
    kube.refuse = (verb, path) =>
      verb === 'list' && path === 'clustertrustbundles'
        ? new Refusal('the server could not find the requested resource', { code: 404, reason: 'NotFound' })
        : undefined;
    kube.createPod('web', projected({ name: 'roots' }));
    node.run(3_000);
    expect(messages()).toContain(`${FAILED}ClusterTrustBundle projection is not supported in static kubelet mode`);
    kube.createPod('late', projected({ name: 'others' }));
    node.run(3_000);
    expect(kube.of('list', /^clustertrustbundles$/)).toHaveLength(3);
    kube.refuse = () => undefined;
    bundle('roots', pem('a'));
    node.until('Running', isRunning('web'), 310_000);
  });
});
