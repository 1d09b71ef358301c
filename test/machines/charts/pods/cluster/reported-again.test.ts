/** What the API server receives and keeps when an agent or one of its actors restarts. */
import { afterEach, expect, it } from 'vitest';
import { ADMISSION } from '../../../../support/counting-node.ts';
import { manifest, type PodsNode } from '../../../../support/pods-node.ts';
import { type ClusterNode, clusterNode } from './support.ts';

let cluster: ClusterNode;
let node: PodsNode;

function boot(): void {
  cluster = clusterNode({ admission: ADMISSION });
  node = cluster.node.boot().run(1_000);
}

const statusOf = (name: string) => cluster.kube.pod(name)?.status;
const reported = (from: number) => cluster.kube.of('patch', /web\/status$/).slice(from);

function runWeb(spec: object = {}): void {
  cluster.kube.createPod('web', spec);
  node.until('Running', () => statusOf('web')?.phase === 'Running');
  node.run(2_000);
}

afterEach(() => node.assertReplays());

it('a pod that its deadline ended has failed for good, also when its processes ended well', () => {
  boot();
  node.world.runtime.programs.set('app', [{ stopExitCode: 0 }]);
  runWeb({ activeDeadlineSeconds: 5 });
  node.until('over', () => statusOf('web').phase === 'Failed');
  node.run(5_000);
  node = node.restart().run(20_000);
  expect(statusOf('web')).toMatchObject({ phase: 'Failed', reason: 'DeadlineExceeded' });
});

it('nothing is reported about a pod before its containers are known, whatever is granted to it', () => {
  boot();
  runWeb();
  const before = reported(0).length;
  node.world.isDown = true;
  node = node.restart().run(5_000);
  node.kernel.dispatch('kubelet/allocation', { type: 'allocation.wanted', request: null }, 'test');
  node.run(5_000);
  expect(node.crashes()).toHaveLength(1);
  expect(reported(before)).toEqual([]);
  expect(statusOf('web').phase).toBe('Running');
});

const crashSource = () =>
  void node.kernel.dispatch('kubelet/podConfig/apiSource', { type: 'reflector.listed', items: null }, 'test');

it('a pod that was removed while its source was crashed is not waited for', () => {
  boot();
  runWeb();
  const { uid } = cluster.kube.pod('web').metadata;
  crashSource();
  cluster.kube.delete('pods', 'web', 0);
  node.run(120_000);
  expect(node.crashes()).toHaveLength(1);
  expect(node.kernel.addresses.filter((each) => each.includes(uid))).toEqual([]);
});

it('a mirror pod that went while the source of pods was crashed is made again', () => {
  boot();
  node.world.setManifests([manifest({ uid: 'static' })]);
  node.until('a mirror', () => statusOf('web-node')?.phase === 'Running');
  crashSource();
  cluster.kube.delete('pods', 'web-node', 0);
  node.until('another mirror', () => statusOf('web-node')?.phase === 'Running', 30_000);
  expect(node.world.runtime.started).toHaveLength(1);
});
