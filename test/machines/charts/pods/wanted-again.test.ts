/** A static pod whose file was removed and came back while the pod ended. */
import { afterEach, expect, it } from 'vitest';
import { image, manifest, PodsNode } from '../../../support/pods-node.ts';

let node: PodsNode;
const runtime = () => node.world.runtime;
const hasStarted = (name: string) => () => runtime().started.includes(`web-node/${name}`);

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

it('starts again when it is gone, and continues to count', () => {
  node = new PodsNode();
  runtime().images.set('app:1', image('app:1'));
  runtime().programs.set('first', [{ runsMs: 100 }]);
  const web = manifest({ uid: 'u1', spec: { initContainers: [{ name: 'first', image: 'app:1' }] } });
  node.world.setManifests([web]);
  node.boot().until('Running', () => node.phase('u1') === 'Running');
  node.world.setManifests([]);
  node.world.setManifests([web]);
  node.until('the next instance', hasStarted('app#1')).run(5_000);
  expect(runtime().started).toEqual(['web-node/first#0', 'web-node/app#0', 'web-node/first#1', 'web-node/app#1']);
  expect(node.status('u1')).toMatchObject({
    phase: 'Running',
    containerStatuses: [{ restartCount: 1, state: { running: {} } }],
  });
  node.world.setManifests([]);
  node.until('it is gone', () => runtime().sandboxes.size === 0).run(60_000);
  node.world.setManifests([web]);
  node.until('another life', hasStarted('app#0'));
  node.until('the first of it', () => runtime().started.filter((each) => each === 'web-node/app#0').length === 2);
});
