/** Pods that the runtime cannot report on. */
import { afterEach, expect, it } from 'vitest';
import { NEWEST_BEHAVIOR } from '../../../../../src/machines/model/settings/behaviors.ts';
import { image, manifest, PodsNode } from '../../../../support/pods-node.ts';
import { nodeBefore } from '../support.ts';

const ERROR = 'rpc error: code = Unknown desc = failed to read the sandbox';
const EVENT = `FailedSync: error determining status: ${ERROR}`;

let node: PodsNode;
let isWell: boolean;

/** A pod whose sandbox cannot be created; the node then asks the runtime about it, and gets an error. */
function booted(behavior: number, code = 'UNKNOWN'): void {
  isWell = false;
  node = new PodsNode({ settings: { behavior } });
  node.world.runtime.images.set('app:1', image('app:1'));
  node.world.setManifests([manifest({ uid: 'u1' })]);
  node.world.fault = (name) => {
    if (isWell) return undefined;
    if (name === 'cri.runPodSandbox') return { error: 'no room' };
    return name === 'cri.podStatus' ? { error: ERROR, code } : undefined;
  };
  node.boot();
}
const reports = () => node.events().filter((text) => text === EVENT).length;

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

it('are reported each ten to fifteen seconds, and start when it can', () => {
  booted(NEWEST_BEHAVIOR);
  node.run(9_000);
  expect(reports()).toBe(1);
  node.run(51_000);
  expect(reports()).toBeOneOf([4, 5, 6]);
  isWell = true;
  node.until('Running', () => node.isReady('u1'), 5_000);
});

it('are not reported while the runtime is away for all pods', () => {
  booted(NEWEST_BEHAVIOR, 'UNAVAILABLE');
  node.run(20_000);
  expect(node.world.callsOf('cri.podStatus').length).toBeGreaterThan(5);
  expect(reports()).toBe(0);
});

it('were not reported by a node of before', () => {
  booted(nodeBefore('sourcesAsKubelet'));
  node.run(20_000);
  expect(reports()).toBe(0);
});
