/** The life of one pod over a model runtime: proves P1 to P5 of `pod.ts` and T1 to T4 of `container.ts`. */
import { afterEach, describe, expect, it } from 'vitest';
import { image, manifest, PodsNode } from '../../support/pods-node.ts';

let node: PodsNode;
const boot = (...manifests: Parameters<typeof manifest>[0][]): PodsNode => {
  node = new PodsNode();
  node.world.runtime.images.set('app:1', image('app:1'));
  node.world.setManifests(manifests.map(manifest));
  return node.boot();
};
const isRunning = (uid: string) => () => node.phase(uid) === 'Running';

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

describe('a pod with one container', () => {
  it('comes to Running with nothing but what is needed between the three calls', () => {
    boot({ uid: 'u1' }).until('Running', isRunning('u1'));
    expect(node.world.runtime.started).toEqual(['web-node/app#0']);
    const sequence = node.world.calls.map(({ name }) => name).filter((name) => /cri\.(run|create|start)/.test(name));
    expect(sequence).toEqual(['cri.runPodSandbox', 'cri.createContainer', 'cri.startContainer']);
  });

  it('leaves nothing behind when its file is removed', () => {
    boot({ uid: 'u1' }).until('Running', isRunning('u1'));
    node.world.setManifests([]);
    node.until('gone', () => node.podState('u1') === undefined);
    expect(node.world.runtime.sandboxes.size).toBe(0);
    expect([...node.world.folders, ...node.world.files.keys()]).toEqual([]);
  });
});
