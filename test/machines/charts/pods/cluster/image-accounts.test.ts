/** Images whose credentials come from a plugin for the service account of the pod. */
import { afterEach, expect, it } from 'vitest';
import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { image } from '../../../../support/pods-node.ts';
import { type ClusterNode, clusterNode } from './support.ts';

const IMAGE = 'a.io/x:1';
let cluster: ClusterNode;

function booted(settings: Partial<NodeSettings> = {}): ClusterNode {
  cluster = clusterNode({ pullsByServiceAccount: true, ...settings });
  const { node, kube } = cluster;
  node.world.registry.set(IMAGE, image(IMAGE));
  for (const name of ['builder', 'other']) {
    kube.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace: 'default' } });
  }
  node.world.rights.accountLogins.set('builder', (uid) => `login-of-${uid}`);
  node.boot().run(1_000);
  return cluster;
}

const createPod = (name: string, serviceAccountName: string, imagePullPolicy = 'IfNotPresent'): string =>
  cluster.kube.createPod(name, {
    serviceAccountName,
    containers: [{ name: 'app', image: IMAGE, imagePullPolicy }],
  }).metadata.uid;
const isRunning = (name: string) => () => cluster.kube.pod(name)?.status?.phase === 'Running';
const isRefused = (name: string) => () =>
  /ErrImagePull|ImagePullBackOff/.test(JSON.stringify(cluster.kube.pod(name)?.status?.containerStatuses ?? []));
const inputs = (name: string) =>
  cluster.node.sink.records.flatMap((record) =>
    record.k === 'effect' && record.name === name ? [record.input as Record<string, unknown>] : [],
  );
const logins = () => inputs('cri.pullImage').map(({ auth }) => (auth as { $secret: string } | null)?.$secret ?? null);

afterEach(() => {
  expect(cluster.node.crashes()).toEqual([]);
  cluster.node.assertReplays();
});

it('are pulled for a pod and those of its account that wait with it, and for no other', () => {
  const { node } = booted();
  const uid = createPod('one', 'builder', 'Always');
  createPod('two', 'other', 'Always');
  createPod('three', 'builder', 'Always');
  node.world.rights.locked.set(IMAGE, `login-of-${uid}`);
  node.until('both run', () => isRunning('one')() && isRunning('three')());
  node.until('the other is refused', isRefused('two'));
  expect(logins().slice(0, 2)).toEqual([`login-of-${uid}`, null]);
  expect(inputs('images.credentials').slice(0, 2)).toMatchObject([
    { pod: { namespace: 'default', name: 'one', uid, serviceAccount: 'builder' } },
    { pod: { name: 'two', serviceAccount: 'other' } },
  ]);
});

it('that are there are for every pod of the account with which they were pulled, and for no other', () => {
  const { node } = booted({ imagePullVerification: { policy: 'NeverVerifyPreloadedImages', allowlist: [] } });
  const uid = createPod('one', 'builder');
  node.world.rights.locked.set(IMAGE, `login-of-${uid}`);
  node.until('it runs', isRunning('one'));
  const accounts = [{ namespace: 'default', name: 'builder', uid: 'sa' }];
  const record = { nodePodsAccessible: false, secrets: [], accounts };
  expect([...node.world.rights.records.values()]).toEqual([{ 'a.io/x': record }]);
  createPod('two', 'builder');
  createPod('three', 'other');
  node.until('the second runs', isRunning('two'));
  node.until('the third is refused', isRefused('three'));
  expect(logins().slice(0, 2)).toEqual([`login-of-${uid}`, null]);
});
