/** Pods on a node without a network. */
import { afterEach, expect, it } from 'vitest';
import { NEWEST_BEHAVIOR } from '../../../../../src/machines/model/settings/behaviors.ts';
import { image, manifest, type PodOptions, PodsNode } from '../../../../support/pods-node.ts';
import { nodeBefore } from '../support.ts';

const ERROR = 'container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:no CNI';
const EVENT = `NetworkNotReady: network is not ready: ${ERROR}`;

let node: PodsNode;

function booted(behavior: number, ...pods: PodOptions[]): PodsNode {
  node = new PodsNode({ settings: { behavior } });
  node.world.runtime.images.set('app:1', image('app:1'));
  node.boot().run(1_000);
  node.kernel.dispatch('kubelet/pods', { type: 'network.changed', error: ERROR }, 'test');
  node.world.setManifests(pods.map(manifest));
  return node;
}
const networkIs = (error: string) => node.kernel.dispatch('kubelet/pods', { type: 'network.changed', error }, 'test');
const isReady = (uid: string) => () => node.isReady(uid);
const sandboxes = () => node.world.runtime.sandboxes.size;
const reports = () => node.events().filter((text) => text === EVENT).length;

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

it('wait for it, are reported each ten to fifteen seconds, and start when it is there', () => {
  booted(NEWEST_BEHAVIOR, { uid: 'u1' }).run(9_000);
  expect([reports(), sandboxes()]).toEqual([1, 0]);
  node.run(51_000);
  expect(reports()).toBeOneOf([4, 5, 6]);
  expect(node.status('u1')).toMatchObject({
    phase: 'Pending',
    containerStatuses: [{ state: { waiting: { reason: 'ContainerCreating' } } }],
  });
  networkIs('');
  node.until('Running', isReady('u1'), 5_000);
});

it('start at once on the network of the node', () => {
  booted(NEWEST_BEHAVIOR, { uid: 'u1', spec: { hostNetwork: true } });
  node.until('Running', isReady('u1'), 5_000);
  expect(reports()).toBe(0);
});

it('go on where they run already, and wait when their sandbox is gone', () => {
  booted(NEWEST_BEHAVIOR, { uid: 'u1' });
  networkIs('');
  node.until('Running', isReady('u1'), 30_000);
  networkIs(ERROR);
  node.run(60_000);
  expect([node.isReady('u1'), reports()]).toEqual([true, 1]);
  node.world.runtime.stopSandbox([...node.world.runtime.sandboxes.keys()][0]!);
  node.run(30_000);
  expect(node.isReady('u1')).toBe(false);
  expect(sandboxes()).toBe(1);
  networkIs('');
  node.until('Running', isReady('u1'), 5_000);
});

it('end while they wait', () => {
  booted(NEWEST_BEHAVIOR, { uid: 'u1' }).run(5_000);
  node.world.setManifests([]);
  node.until('gone', () => node.podState('u1') === undefined, 5_000);
});

it('had a sandbox requested on an earlier node', () => {
  booted(nodeBefore('networkAwaited'), { uid: 'u1' }).run(5_000);
  expect([reports(), sandboxes()]).toEqual([0, 1]);
});
