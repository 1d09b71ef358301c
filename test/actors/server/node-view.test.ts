/** What clients of the node see of the machines' pods. */
import { expect, it } from 'vitest';
import { KernelView } from '../../../src/actors/server/node-view.ts';
import { BootNode } from '../../machines/startup/boot-node.ts';
import { manifest } from '../../support/pods-node.ts';

it('a pod that the node does not admit is known as rejected, others are not', () => {
  const view = new KernelView();
  const node = new BootNode({ onTurn: (records, kernel) => view.onTurn(records, kernel) });
  const containers = [{ name: 'c', image: 'app:1' }];
  node.world.pods.setManifests([
    manifest({ uid: 'u1', name: 'runs', containers }),
    manifest({ uid: 'u2', name: 'rejected', containers, spec: { os: { name: 'windows' } } }),
  ]);
  node.boot().run(60_000);
  const rejected = Object.fromEntries(view.pods().map(({ name, isRejected = false }) => [name, isRejected]));
  expect(rejected).toEqual({ 'runs-node-1': false, 'rejected-node-1': true });
});
